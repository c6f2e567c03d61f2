"""An explanation as a figure: how often each feature is selected, or one row's scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from l2x._base.arrays import Array
from l2x._base.ranking import ranked
from l2x.display._labels import count, label, percent, size_text, values_of
from l2x.display._style import ACCENT, DOTTED, INK, MUTED, SOFT, label_rows, new_figure, note, saved, style
from l2x.explanation import Explanation

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# More bars than this are not read, only counted.
MOST = 15
END_WIDTH = 0.07  # of the text at a bar's end, as a share of the longest bar


def plot_explanation(explanation: Explanation, path: str | Path | None = None) -> Figure:
    """How often each feature was selected; for a single row, its scores. Saved if a path is given."""
    draw = plot_scores if len(explanation) == 1 else plot_frequencies
    return saved(draw(explanation), path)


def plot_frequencies(explanation: Explanation) -> Figure:
    """In which share of the rows each feature is selected, compared with a random choice."""
    n, d = explanation.scores.shape
    share = explanation.mask.mean(axis=0) if n else np.zeros(d)
    order = np.argsort(-share, kind="stable")
    shown = order[: min(MOST, max(1, int((share > 0).sum())))]
    chance = float(explanation.mask.mean()) if n else explanation.k / d
    others = _others(share[order[len(shown) :]])
    return plot_bars(
        [label(explanation.feature_names[i]) for i in shown],
        share[shown].tolist(),
        [percent(share[i]) for i in shown],
        full=1.0,
        dotted=chance,
        title=f"How often each feature is selected ({size_text(explanation)})",
        remark=f"{count(n, 'row')}{others}. Dotted: a random choice ({percent(chance)}).",
    )


def plot_scores(explanation: Explanation, *, unit: str = "feature", of: str = "row") -> Figure:
    """The scores of the first row, best first, with its values beside the names. The title says that these
    `unit`s, such as words, decided this `of`, such as a text."""
    scores, k = explanation.scores[0], int(explanation.selected[0].sum())
    shown = ranked(explanation.scores)[0][: max(MOST, min(k, 2 * MOST))]
    shown = shown[np.isfinite(scores[shown])]  # padding may not be selected
    values = values_of(explanation, 0)
    decided = f"The {unit}" if k == 1 else f"The {k} {unit}s"
    with style():
        figure, (axes,) = new_figure(0.9 + 0.27 * len(shown), title=f"{decided} that decided this {of}")
        colours = [ACCENT if rank < k else SOFT for rank in range(len(shown))]
        # Dots, not bars: only differences between scores mean something, their zero does not.
        left = scores[shown].min() - 0.06 * (np.ptp(scores[shown]) or 1.0)
        axes.hlines(range(len(shown)), left, scores[shown], color=colours, linewidth=1.6)
        axes.scatter(scores[shown], range(len(shown)), color=colours, s=42, zorder=3)
        label_rows(axes, [label(explanation.feature_names[i], values[i]) for i in shown])
        for rank, text in enumerate(axes.get_yticklabels()):
            text.set_color(INK if rank < k else MUTED)
        if k < len(shown):
            axes.axhline(k - 0.5, **DOTTED)
        axes.set_xlim(left=left)
        hidden = len(scores) - len(shown)
        note(figure, "The selector's scores" + (f"; {hidden} lower ones not shown." if hidden else "."))
    return figure


def plot_bars(
    labels: Sequence[str],
    values: Sequence[float],
    ends: Sequence[str],
    *,
    title: str,
    remark: str,
    full: float | None = None,
    dotted: float | None = None,
) -> Figure:
    """Horizontal bars, the first on top, with the texts `ends` at their ends and a remark below.

    `full` is the value of a bar across the whole figure, the largest value if None; `dotted` is a value that
    a vertical line marks.
    """
    full = full or max(values, default=0.0) or 1.0
    with style():
        figure, (axes,) = new_figure(0.9 + 0.27 * len(labels), title=title)
        axes.barh(range(len(labels)), values, height=0.72, color=ACCENT)
        if dotted is not None:
            axes.axvline(dotted, **DOTTED)
        for line, (value, end) in enumerate(zip(values, ends, strict=True)):
            # Beyond the dotted line where that would cut through the text.
            if dotted is not None and 0 <= dotted - value < END_WIDTH * full:
                value = dotted
            axes.text(value + 0.01 * full, line, end, va="center", color=INK)
        label_rows(axes, labels)
        axes.set_xlim(0, 1.1 * full)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        note(figure, remark)
    return figure


def _others(shares: Array) -> str:
    """What the figure leaves out, in words."""
    if len(shares) == 0:
        return ""
    most = float(shares.max())
    return f"; {count(len(shares), 'more feature')}: " + (
        "never" if most == 0 else f"{percent(most)} at most"
    )
