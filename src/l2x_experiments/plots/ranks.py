"""Methods side by side, as the paper's figures have them: median ranks, and clock time in log scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from l2x.display import ACCENT, GRID, INK, MUTED, SOFT
from l2x_experiments.plots.panels import panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEARNED = ("l2x", "L2X, paper")
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
    """Box plots of median ranks: {panel: {method: ((5, 25, 50, 75, 95 %), mean)}}; lower is better."""
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
    """Seconds in log scale: {panel: {method: (explaining, training)}}; training as translucent bars."""
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
