"""Many rows at a glance: how far above or below selection each feature stands, and at which of its values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from l2x._base.arrays import Array
from l2x._base.ranking import above_rest
from l2x.display._bars import MOST
from l2x.display._interop import numbers_of
from l2x.display._labels import count, label, percent, size_text
from l2x.display._style import DOTTED, INK, MUTED, label_rows, new_figure, note, saved, style
from l2x.errors import require
from l2x.explanation import Explanation
from l2x.features import TextView

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# More dots than this cover each other.
DOTS = 1000
COLOURS = "viridis"


def plot_summary(explanation: Explanation, path: str | Path | None = None) -> Figure:
    """A line of dots for each feature, one dot per row: right of the dotted line it was selected.

    For texts, where feature 10 is another word in each, how often which words are selected.
    """
    if isinstance(explanation.view, TextView):
        return explanation.plot(path)
    n = len(explanation)
    share = explanation.mask.mean(axis=0)
    order = np.argsort(-share, kind="stable")[:MOST]
    drawn = explanation[np.sort(np.random.default_rng(0).choice(n, min(n, DOTS), replace=False))]
    above, colours = above_selection(drawn), _value_ranks(drawn)
    with style():
        title = f"When each feature is selected ({size_text(explanation)})"
        figure, (axes,) = new_figure(1.3 + 0.33 * len(order), title=title)
        colour_map = require("matplotlib", extra="plots").colormaps[COLOURS].with_extremes(bad=MUTED)
        for line, i in enumerate(order):
            axes.scatter(
                above[:, i], line + _swarm(above[:, i]), s=7, c=colours[:, i], cmap=colour_map,
                plotnonfinite=True, vmin=0, vmax=1, linewidths=0, rasterized=True,
            )  # fmt: skip
            end = axes.get_yaxis_transform()
            axes.text(1.0, line, percent(share[i]), transform=end, va="center", color=INK)
        axes.axvline(0, **DOTTED)
        label_rows(axes, [label(explanation.feature_names[i]) for i in order])
        axes.set_xlabel("score, above what it takes to be selected", color=MUTED)
        note(figure, _remark(len(drawn), n, with_values=explanation.inputs is not None))
    return saved(figure, path)


def above_selection(explanation: Explanation) -> Array:
    """(n, d) scores, less what it takes to be selected in that row: half-way between the k-th best and the
    next; where all are selected, the lowest."""
    above = above_rest(explanation.scores, explanation.mask)
    gap = np.where(explanation.mask, above, np.inf).min(axis=1, keepdims=True)
    return np.asarray(above - gap / 2)


def _remark(drawn: int, n: int, *, with_values: bool) -> str:
    rows = f"{drawn:,} of {n:,} rows" if drawn < n else count(n, "row")
    values = ". Dark: a low value, bright: a high one, grey: a category or missing" if with_values else ""
    share = "at the right the share of all rows in which it was selected"
    return f"A dot for each of {rows}; {share}{values}."


def _value_ranks(explanation: Explanation) -> Array:
    """(n, d) in 0 .. 1: the rank of a row's value among the others; NaN for what is not a number."""
    numbers = numbers_of(explanation)
    if numbers is None:
        return np.full(explanation.scores.shape, np.nan)
    known = np.isfinite(numbers)
    known[:, list(getattr(explanation.view, "levels_", {}))] = False  # codes of categories have no order
    frame = pd.DataFrame(np.where(known, numbers, np.nan))
    return ((frame.rank() - 0.5) / frame.count()).to_numpy()


def _swarm(x: Array) -> Array:
    """Heights within ±0.38 that keep dots of about the same x apart: wide where there are many."""
    bins = pd.Series(np.clip(((x - x.min()) / ((np.ptp(x) or 1.0) / 60)).astype(int), 0, 59))
    rank = bins.groupby(bins).cumcount().to_numpy()
    # 0, 1, -1, 2, -2, ... steps from the middle.
    steps = np.where(rank % 2 == 1, (rank + 1) / 2, -rank / 2)
    return np.asarray(0.38 * steps / max(1.0, (rank.max() + 1) / 2))
