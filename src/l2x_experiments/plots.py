"""The figures that several methods share: ranks, times, accuracies and leakage, a panel for each set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from l2x.display import ACCENT, GRID, INK, MUTED, SECOND, SOFT, new_figure, note, style
from l2x.evaluation import TOLERANCE
from l2x_experiments.methods import LABELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

T = TypeVar("T")


@contextmanager
def panels(
    content: Mapping[str, T], *, height: float, title: str, caption: str
) -> Iterator[tuple[Figure, list[tuple[Axes, str, T]]]]:
    """Make a figure of small panels, two in a row; yield it with the axes, name and content of each panel."""
    with style():
        rows = max(1, (len(content) + 1) // 2)
        figure, grid = new_figure(height, rows=rows, columns=2, title=title)
        for axes in grid[len(content) :]:
            axes.remove()
        named = [(axes, name, part) for axes, (name, part) in zip(grid, content.items(), strict=False)]
        for axes, name, _ in named:
            axes.set_title(name)
        yield figure, named
        note(figure, caption)


LEARNED = (LABELS["l2x"], LABELS["paper"])
# The paper's own colours: median red, mean dotted blue, optimum dotted green.
MEDIAN, MEAN, OPTIMUM = "#c0392b", "#2f6db5", "#3f8f6b"
THIN = {"color": MUTED, "linewidth": 0.8}


def plot_ranks(
    content: Mapping[str, Mapping[str, tuple[Sequence[float], float]]],
    optimum: Mapping[str, float],
    *,
    title: str,
    caption: str = "",
) -> Figure:
    """Draw box plots of median ranks: {panel: {method: ((5, 25, 50, 75, 95 %), mean)}}; lower is better."""
    ends = ("whislo", "q1", "med", "q3", "whishi")
    with panels(content, height=2.6, title=title, caption=caption) as (figure, drawn):
        for axes, name, methods in drawn:
            boxes = [
                dict(zip(ends, quantiles, strict=True)) | {"mean": mean, "label": label}
                for label, (quantiles, mean) in methods.items()
            ]
            artists = axes.bxp(
                boxes,
                showfliers=False,
                showmeans=True,
                meanline=True,
                widths=0.62,
                patch_artist=True,
                boxprops={"facecolor": GRID, "edgecolor": MUTED, "linewidth": 0.8},
                whiskerprops=THIN,
                capprops=THIN,
                medianprops={"color": MEDIAN, "linewidth": 1.6},
                meanprops={"color": MEAN, "linewidth": 1.4, "linestyle": (0, (1, 1))},
            )
            for box, method in zip(artists["boxes"], methods, strict=True):
                box.set(edgecolor=ACCENT if method == "l2x" else MUTED)
            axes.axhline(optimum[name], color=OPTIMUM, linewidth=1.2, linestyle=(0, (1, 1.5)), zorder=0)
            axes.set_ylabel("median rank")
            axes.tick_params(axis="x", rotation=55, labelcolor=INK)
            for label in axes.get_xticklabels():
                label.set(horizontalalignment="right", rotation_mode="anchor")
    return figure


def plot_times(
    content: Mapping[str, Mapping[str, tuple[float, float]]], *, title: str, caption: str = ""
) -> Figure:
    """Draw seconds in log scale: {panel: {method: (explaining, training)}}; training is translucent."""
    with panels(content, height=2.5, title=title, caption=caption) as (figure, drawn):
        for axes, _, methods in drawn:
            positions = range(len(methods))
            explaining = [seconds for seconds, _ in methods.values()]
            both = [explain + train for explain, train in methods.values()]
            training = [b if b > e else 0 for b, e in zip(both, explaining, strict=True)]
            colours = [ACCENT if label in LEARNED else SOFT for label in methods]
            axes.bar(positions, training, width=0.62, color=colours, alpha=0.35)
            axes.bar(positions, explaining, width=0.62, color=colours)
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
            axes.set_ylim(bottom=min(explaining) / 3)
            axes.set_ylabel("seconds")
            axes.grid(visible=True, axis="y", linewidth=0.6)
            axes.set_xticks(list(positions), list(methods), rotation=55, ha="right", rotation_mode="anchor")
            axes.tick_params(axis="x", labelcolor=INK)
    return figure


# In the order of drawing: accuracy of the model, the evaluator, and a predictor that sees only the mask.
LOOK = {"post-hoc": (ACCENT, "o", 62), "evaluator": (SECOND, "D", 34), "mask alone": (SOFT, "s", 30)}


def plot_accuracies(
    methods: Mapping[str, Sequence[float]], *, title: str, caption: str, chance: float, inputs: str
) -> Figure:
    """Draw {method: its accuracies, in the order of LOOK}, the first on top; `inputs` is a plural noun."""
    with style():
        figure, (axes,) = new_figure(1.3 + 0.27 * len(methods), title=title)
        positions = range(len(methods))
        for position, values in enumerate(methods.values()):
            axes.hlines(position, min(values), max(values), color=GRID, linewidth=2, zorder=1)
        for i, (name, (colour, marker, size)) in enumerate(LOOK.items()):
            values = [accuracies[i] for accuracies in methods.values()]
            axes.scatter(values, positions, color=colour, marker=marker, s=size, zorder=3, label=name)
        axes.axvline(chance, color=MUTED, linewidth=1, linestyle=(0, (2, 2)), zorder=0)
        axes.set_yticks(positions, list(methods))
        axes.set_ylim(len(methods) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.spines["left"].set_visible(False)
        axes.grid(visible=True, axis="x", linewidth=0.8)
        axes.set_xlim(right=1.02)
        axes.set_xlabel(f"share of {inputs} with the same predicted class", loc="left")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=3, borderaxespad=0, handletextpad=0.1)
        note(figure, caption)
    return figure


COLOURS = {LABELS["l2x"]: ACCENT, LABELS["paper"]: SECOND}
TITLE = "Leakage: what a selection reveals beyond its values"
CAPTION = "Share of the information about the prediction; one dot per seed, with its 95 % interval."


def plot_leakage(content: Mapping[str, Mapping[str, Sequence[Mapping[str, float]]]]) -> Figure:
    """Draw {set: {method: [{"value", "low", "high"} of each seed]}}; the report's limit is dashed."""
    with panels(content, height=1.9, title=TITLE, caption=CAPTION) as (figure, drawn):
        for axes, _, methods in drawn:
            for position, (method, seeds) in enumerate(methods.items()):
                colour = COLOURS.get(method, MUTED)
                for shift, seed in enumerate(seeds):
                    y = position + 0.5 * ((shift + 0.5) / len(seeds) - 0.5)
                    axes.hlines(y, seed["low"], seed["high"], color=colour, linewidth=1.5, alpha=0.5)
                    axes.plot(seed["value"], y, color=colour, marker="o", markersize=4)
            axes.axvline(TOLERANCE, color=SECOND, linewidth=1, linestyle=(0, (2, 2)))
            axes.axvline(0, color=SOFT, linewidth=1)
            axes.set_yticks(range(len(methods)), list(methods))
            axes.set_ylim(len(methods) - 0.5, -0.5)
            axes.tick_params(axis="y", length=0, labelcolor=INK)
            axes.spines["left"].set_visible(False)
            axes.grid(axis="x", linewidth=0.8)
    return figure
