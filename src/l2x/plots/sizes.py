"""Information over k, with the choice marked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from l2x.plots.style import ACCENT, MUTED, SECOND, new_figure, save_figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from l2x.evaluation.choose_k import SizeChoice


def plot_sizes(choice: SizeChoice, path: str | Path | None = None) -> Figure:
    """The share of information that k features keep; the smallest k that keeps enough is marked."""
    with style():
        figure, (axes,) = new_figure(
            3.0, title=f"{choice.k} features keep {choice.keep:.0%} of the information"
        )
        axes.axhline(choice.keep, color=MUTED, linewidth=1, linestyle=(0, (2, 2)))
        axes.plot(choice.sizes, choice.shares, color=ACCENT, linewidth=2, marker="o", markersize=4)
        at = choice.shares[choice.sizes.index(choice.k)]
        axes.plot(choice.k, at, color=SECOND, marker="o", markersize=9)
        axes.annotate(f"k = {choice.k}", (choice.k, at), (8, -14), textcoords="offset points", color=SECOND)
        axes.grid(axis="y", linewidth=0.8)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0, labelcolor=MUTED)
        if len(choice.sizes) <= 16 and choice.sizes[-1] <= 16:
            axes.set_xticks(choice.sizes)
        axes.set_xlabel("features selected, k", loc="left")
        axes.set_ylabel("share of the information")
    if path is not None:
        save_figure(figure, path)
    return figure
