"""How much the places tell beyond the values, for every method and set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from l2x.evaluation.verdict import TOLERANCE
from l2x.plots.style import ACCENT, INK, MUTED, SECOND, SOFT, new_grid, note, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {"l2x": ACCENT, "L2X, paper": SECOND}


def plot_encoding(panels: Mapping[str, Mapping[str, Sequence[Mapping[str, float]]]]) -> Figure:
    """{set: {method: [{"value", "low", "high"} of each seed]}}; the dashed line is the card's limit."""
    with style():
        rows = max(1, (len(panels) + 1) // 2)
        figure, grid = new_grid(
            rows=rows, columns=2, height=1.9, title="What the places tell beyond the values"
        )
        for axes, (name, methods) in zip(grid, panels.items(), strict=False):
            for place, (method, seeds) in enumerate(methods.items()):
                colour = COLOURS.get(method, MUTED)
                for shift, seed in enumerate(seeds):
                    y = place + 0.5 * ((shift + 0.5) / len(seeds) - 0.5)
                    axes.hlines(y, seed["low"], seed["high"], color=colour, linewidth=1.5, alpha=0.5)
                    axes.plot(seed["value"], y, color=colour, marker="o", markersize=4)
            axes.axvline(TOLERANCE, color=SECOND, linewidth=1, linestyle=(0, (2, 2)))
            axes.axvline(0, color=SOFT, linewidth=1)
            axes.set_yticks(range(len(methods)), list(methods))
            axes.set_ylim(len(methods) - 0.5, -0.5)
            axes.tick_params(axis="y", length=0, labelcolor=INK)
            axes.spines["left"].set_visible(False)
            axes.grid(axis="x", linewidth=0.8)
            axes.set_title(name)
        for axes in grid[len(panels) :]:
            axes.remove()
        note(
            figure, "Share of all there is to know about the answer, one dot per seed with its 95 % interval."
        )
    return figure
