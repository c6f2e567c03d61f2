"""Information over k, with the choice marked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from l2x.display._style import ACCENT, DOTTED, SECOND, grid_lines, new_figure, saved, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from l2x.evaluation import SizeChoice


def plot_sizes(choice: SizeChoice, path: str | Path | None = None) -> Figure:
    """The share of information that k features keep; the smallest k that keeps enough is marked."""
    with style():
        figure, (axes,) = new_figure(
            3.0, title=f"{choice.k} features keep {choice.keep:.0%} of the information"
        )
        draw_curve(axes, choice.sizes, choice.shares, limit=choice.keep)
        at = choice.shares[choice.sizes.index(choice.k)]
        axes.plot(choice.k, at, color=SECOND, marker="o", markersize=9)
        axes.annotate(f"k = {choice.k}", (choice.k, at), (8, -14), textcoords="offset points", color=SECOND)
        axes.set_ylabel("share of the information")
    return saved(figure, path)


def draw_curve(axes: Axes, sizes: Sequence[int], values: Sequence[float], *, limit: float) -> None:
    """What k features carry, for each size k; dotted: what it is compared with."""
    axes.axhline(limit, **DOTTED)
    axes.plot(sizes, values, color=ACCENT, linewidth=2, marker="o", markersize=4)
    grid_lines(axes)
    if max(sizes, default=0) <= 16:
        axes.set_xticks(sizes)  # matplotlib would also mark halves
    axes.set_xlabel("features selected, k", loc="left")
