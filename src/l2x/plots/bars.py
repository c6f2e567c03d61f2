"""An explanation as a figure: how often each feature is selected, or one row's scores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from l2x.explanation import Explanation, values_of
from l2x.foundations.arrays import Array
from l2x.plots.style import ACCENT, INK, MUTED, SOFT, new_figure, note, save_figure, shortened, style
from l2x.ranking import ranked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# More bars than this are not read, only counted.
MOST = 15
LABEL_WIDTH = 0.07  # of a percentage, in units of the axis


def plot_explanation(explanation: Explanation, path: str | Path | None = None, *, title: str = "") -> Figure:
    """How often each feature was selected; for a single row, its scores. Saved if a path is given."""
    with style():
        figure = _one_row(explanation) if len(explanation) == 1 else _frequencies(explanation)
        if title:
            figure.suptitle(title, x=0.012, horizontalalignment="left")
    if path is not None:
        save_figure(figure, path)
    return figure


def _frequencies(explanation: Explanation) -> Figure:
    n, d = explanation.scores.shape
    share = explanation.mask.mean(axis=0) if n else np.zeros(d)
    order = np.argsort(-share, kind="stable")
    shown = order[: min(MOST, max(1, int((share > 0).sum())))]
    figure, (axes,) = new_figure(
        0.9 + 0.27 * len(shown), title=f"How often each feature is selected (k = {explanation.k})"
    )
    axes.barh(range(len(shown)), share[shown], height=0.72, color=ACCENT)
    chance = explanation.k / d
    for place, i in enumerate(shown):
        # Beyond the dotted line where it would cut through the number.
        end = chance if 0 <= chance - share[i] < LABEL_WIDTH else share[i]
        axes.text(end + 0.01, place, percent(share[i]), va="center", color=INK)
    axes.axvline(chance, color=MUTED, linewidth=1, linestyle=(0, (2, 2)))
    label_rows(axes, [shortened(explanation.feature_names[i]) for i in shown])
    axes.set_xlim(0, 1.08)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    rest = _rest(share, order[len(shown) :])
    note(figure, f"{n:,} rows{rest}. Dotted: a random choice ({percent(chance)}).")
    return figure


def _rest(share: Array, others: Array) -> str:
    """What the figure leaves out, in words."""
    if len(others) == 0:
        return ""
    most = float(share[others].max())
    noun = "feature" if len(others) == 1 else "features"
    return f"; {len(others)} more {noun}: " + ("never" if most == 0 else f"{percent(most)} at most")


def _one_row(explanation: Explanation) -> Figure:
    scores, k = explanation.scores[0], explanation.k
    order = ranked(explanation.scores)[0]
    shown = order[: max(MOST, min(k, 2 * MOST))]
    values = values_of(explanation, 0)
    title = "The feature that decided this row" if k == 1 else f"The {k} features that decided this row"
    figure, (axes,) = new_figure(0.9 + 0.27 * len(shown), title=title)
    colours = [ACCENT if place < k else SOFT for place in range(len(shown))]
    # Dots, not bars: only differences between scores mean something, their zero does not.
    left = scores[shown].min() - 0.06 * (np.ptp(scores[shown]) or 1.0)
    axes.hlines(range(len(shown)), left, scores[shown], color=colours, linewidth=1.6)
    axes.scatter(scores[shown], range(len(shown)), color=colours, s=42, zorder=3)
    labels = [_with_value(explanation.feature_names[i], values[i]) for i in shown]
    label_rows(axes, labels)
    for place, label in enumerate(axes.get_yticklabels()):
        label.set_color(INK if place < k else MUTED)
    if k < len(shown):
        axes.axhline(k - 0.5, color=MUTED, linewidth=1, linestyle=(0, (2, 2)))
    axes.set_xlim(left=left)
    hidden = len(scores) - len(shown)
    note(figure, "The selector's scores" + (f"; {hidden} lower ones not shown." if hidden else "."))
    return figure


def label_rows(axes: Axes, labels: list[str]) -> None:
    """One label per bar, the first on top, nothing else on the axis."""
    axes.set_yticks(range(len(labels)), labels)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)


def _with_value(name: str, value: str) -> str:
    return shortened(name) if not value else f"{shortened(name)} = {shortened(value, 16)}"


def percent(share: float) -> str:
    """Whole per cents, but never 0% or 100% for what is not quite that."""
    if 0 < share < 0.005:
        return "<1%"
    if 0.995 <= share < 1:
        return ">99%"
    return f"{share:.0%}"
