"""Methods side by side, as the paper's figures have them: median ranks, and clock time in log scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from l2x.plots.style import ACCENT, GRID, INK, MUTED, SOFT, new_grid, note, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The paper's own colours: median red, mean dotted blue, optimum dotted green.
LEARNED = ("l2x", "L2X, paper")
MEDIAN, MEAN, OPTIMUM = "#c0392b", "#2f6db5", "#3f8f6b"


def plot_ranks(
    panels: Mapping[str, Mapping[str, tuple[Sequence[float], float]]],
    optimum: Mapping[str, float],
    *,
    title: str,
    caption: str = "",
) -> Figure:
    """Box plots of median ranks: {panel: {method: ((5, 25, 50, 75, 95 %), mean)}}; lower is better."""
    with style():
        figure, grid = new_grid(rows=(len(panels) + 1) // 2, columns=2, height=2.6, title=title)
        for axes, (name, methods) in zip(grid, panels.items(), strict=False):
            boxes = [
                {
                    "whislo": q[0],
                    "q1": q[1],
                    "med": q[2],
                    "q3": q[3],
                    "whishi": q[4],
                    "mean": mean,
                    "label": label,
                }
                for label, (q, mean) in methods.items()
            ]
            drawn = axes.bxp(
                boxes,
                showfliers=False,
                showmeans=True,
                meanline=True,
                widths=0.62,
                patch_artist=True,
                boxprops={"facecolor": GRID, "edgecolor": MUTED, "linewidth": 0.8},
                whiskerprops={"color": MUTED, "linewidth": 0.8},
                capprops={"color": MUTED, "linewidth": 0.8},
                medianprops={"color": MEDIAN, "linewidth": 1.6},
                meanprops={"color": MEAN, "linewidth": 1.4, "linestyle": (0, (1, 1))},
            )
            for box, method in zip(drawn["boxes"], methods, strict=True):
                box.set(edgecolor=ACCENT if method == "l2x" else MUTED)
            axes.axhline(optimum[name], color=OPTIMUM, linewidth=1.2, linestyle=(0, (1, 1.5)), zorder=0)
            axes.set_title(name)
            axes.set_ylabel("median rank")
            axes.tick_params(axis="x", rotation=55, labelcolor=INK)
            for label in axes.get_xticklabels():
                label.set_horizontalalignment("right")
                label.set_rotation_mode("anchor")
        for axes in grid[len(panels) :]:
            axes.remove()
        note(figure, caption)
    return figure


def plot_times(
    panels: Mapping[str, Mapping[str, tuple[float, float]]], *, title: str, caption: str = ""
) -> Figure:
    """Seconds in log scale: {panel: {method: (explaining, training)}}; training as translucent bars."""
    with style():
        figure, grid = new_grid(rows=(len(panels) + 1) // 2, columns=2, height=2.5, title=title)
        for axes, (name, methods) in zip(grid, panels.items(), strict=False):
            places = range(len(methods))
            explaining = [seconds for seconds, _ in methods.values()]
            both = [explain + train for explain, train in methods.values()]
            ours = [ACCENT if label in LEARNED else SOFT for label in methods]
            lowest = min(explaining) / 3
            axes.bar(places, [t if t > e else 0 for t, e in zip(both, explaining, strict=True)],
                     width=0.62, color=ours, alpha=0.35)  # fmt: skip
            axes.bar(places, explaining, width=0.62, color=ours)
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
            axes.set_ylim(bottom=lowest)
            axes.set_title(name)
            axes.set_ylabel("seconds")
            axes.grid(visible=True, axis="y", linewidth=0.6)
            axes.set_xticks(list(places), list(methods), rotation=55, ha="right", rotation_mode="anchor")
            axes.tick_params(axis="x", labelcolor=INK)
        for axes in grid[len(panels) :]:
            axes.remove()
        note(figure, caption)
    return figure
