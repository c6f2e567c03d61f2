"""Many rows at a glance: how far above or below selection each feature stands, and at which of its values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from l2x.explanation import Explanation
from l2x.features.columns import Columns
from l2x.features.texts import TextView
from l2x.foundations.arrays import Array
from l2x.plots.bars import MOST, label_rows, percent
from l2x.plots.style import INK, MUTED, new_figure, note, save_figure, shortened, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# More dots than this cover each other.
DOTS = 1000
COLOURS = "viridis"


def plot_summary(explanation: Explanation, path: str | Path | None = None) -> Figure:
    """A line of dots for each feature, one dot per row: right of the dotted line it was selected.

    In texts the tenth word is another one each time: there, how often which words are selected.
    """
    if isinstance(explanation.view, TextView):
        return explanation.plot(path)
    with style():
        figure = _summary(explanation)
    if path is not None:
        save_figure(figure, path)
    return figure


def above_selection(explanation: Explanation) -> Array:
    """(n, d) scores less what it takes to be selected in that row, half-way between the k-th best and the
    next; where all are selected, less the lowest."""
    scores, mask = explanation.scores, explanation.mask
    if mask.all():
        return np.asarray(scores - scores.min(axis=1, keepdims=True))
    last = np.where(mask, scores, np.inf).min(axis=1, keepdims=True)
    return np.asarray(scores - (last + np.where(mask, -np.inf, scores).max(axis=1, keepdims=True)) / 2)


def _summary(explanation: Explanation) -> Figure:
    n = len(explanation)
    share = explanation.mask.mean(axis=0)
    order = np.argsort(-share, kind="stable")[:MOST]
    rng = np.random.default_rng(0)
    some = explanation[np.sort(rng.choice(n, min(n, DOTS), replace=False))]
    places, colours = above_selection(some), _value_ranks(some)
    figure, (axes,) = new_figure(
        1.3 + 0.33 * len(order), title=f"When each feature is selected (k = {explanation.k})"
    )
    for line, i in enumerate(order):
        heights, known = line + _swarm(places[:, i]), np.isfinite(colours[:, i])
        look: dict[str, Any] = {"s": 7, "linewidths": 0, "rasterized": True}
        axes.scatter(places[~known, i], heights[~known], color=MUTED, **look)
        shade: dict[str, Any] = {"c": colours[known, i], "cmap": COLOURS, "vmin": 0, "vmax": 1}
        axes.scatter(places[known, i], heights[known], **look, **(shade if known.any() else {}))
        axes.annotate(
            percent(share[i]), (1.0, line), xycoords=("axes fraction", "data"), va="center", color=INK
        )
    axes.axvline(0, color=MUTED, linewidth=1, linestyle=(0, (2, 2)))
    label_rows(axes, [shortened(explanation.feature_names[i]) for i in order])
    axes.set_xlabel("score, above what it takes to be selected", color=MUTED)
    shown = f"{len(some):,} of {n:,} rows" if len(some) < n else f"{n:,} rows"
    words = "; at the right the share of all rows in which it was selected"
    values = (
        ". Dark: a low value, bright: a high one, grey: a category or missing"
        if explanation.inputs is not None
        else ""
    )
    note(figure, f"A dot for each of {shown}{words}{values}.")
    return figure


def _value_ranks(explanation: Explanation) -> Array:
    """(n, d) in 0 .. 1: where a row's value stands among the others; NaN for what is not a number."""
    view, inputs = explanation.view, explanation.inputs
    ranks = np.full(explanation.scores.shape, np.nan)
    if not isinstance(view, Columns) or inputs is None:
        return ranks
    numbers = view.numbers(inputs)
    for i in range(view.d):
        if i not in view.levels_:
            held = np.isfinite(numbers[:, i])
            known = np.sort(numbers[held, i])
            low = np.searchsorted(known, numbers[held, i], "left")
            high = np.searchsorted(known, numbers[held, i], "right")
            ranks[held, i] = (low + high) / (2 * max(1, len(known)))
    return ranks


def _swarm(x: Array) -> Array:
    """Heights within ±0.38 that keep dots of about the same x apart: wide where there are many."""
    bins = np.clip(((x - x.min()) / ((np.ptp(x) or 1.0) / 60)).astype(int), 0, 59)
    order = np.argsort(bins, kind="stable")
    counts = np.bincount(bins, minlength=60)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    rank = np.empty(len(x))
    rank[order] = np.arange(len(x)) - first[bins[order]]
    # 0, 1, -1, 2, -2, ... steps from the middle.
    steps = np.where(rank % 2 == 1, (rank + 1) / 2, -rank / 2)
    return np.asarray(0.38 * steps / max(1.0, counts.max() / 2))
