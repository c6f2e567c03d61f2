"""How much the index set of a selection tells beyond the selected values, for every method and set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from l2x.display import ACCENT, INK, MUTED, SECOND, SOFT
from l2x.evaluation._verdict import TOLERANCE
from l2x_experiments.plots.panels import panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {"l2x": ACCENT, "L2X, paper": SECOND}
TITLE = "What the index set tells beyond the values"
CAPTION = "Share of all there is to know about the answer, one dot per seed with its 95 % interval."


def plot_encoding(content: Mapping[str, Mapping[str, Sequence[Mapping[str, float]]]]) -> Figure:
    """{set: {method: [{"value", "low", "high"} of each seed]}}; the dashed line is the card's limit."""
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
