"""Texts with their key words or sentences highlighted: in notebooks, in reports, as figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from l2x.explanation import Explanation
from l2x.features.texts import TextView
from l2x.plots.bars import MOST, label_rows, percent, plot_explanation
from l2x.plots.highlights import Piece, pieces, with_texts
from l2x.plots.style import ACCENT, INK, new_figure, note, save_figure, shortened, style
from l2x.plots.tables import FRAME, HEAD, NOTE, ROW, TABLE, shade

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Characters around each mark that are shown, where many texts are, and where a few are.
CONTEXT = 60
WIDE_CONTEXT = 160
# Long words break; an overriding direction (U+202E) ends with its cell.
_TEXT = "border:none;background:none;text-align:start;padding:4px 9px;line-height:1.6;overflow-wrap:anywhere"
# Underlined, because the shade of the last ones is faint; colours are see-through, as in tables.py.
_MARK = (
    "color:inherit;padding:0 .15em;border-radius:3px 3px 0 0;border-bottom:2px solid rgba(47,109,181,.7);"
    "box-decoration-break:clone;-webkit-box-decoration-break:clone"
)


def texts_html(explanation: Explanation, rows: int = 20, *, context: int | None = CONTEXT) -> str:
    """An HTML fragment of the first texts with what was selected in each, shaded by rank; no script.

    `context` leaves out what is further than so many characters from every mark; None shows whole texts.
    """
    view, texts = with_texts(explanation)
    shown = max(0, min(rows, len(texts)))
    body = "".join(
        f'<tr style="background:none"><td style="{ROW}">{row}</td>'
        f"{_text_cell(explanation, row, context)}</tr>"
        for row in range(shown)
    )
    n = len(texts)
    count = f"showing {shown:,} of {n:,} texts" if shown < n else f"{n:,} text{'s' * (n != 1)}"
    return (
        f'<div class="l2x-explanation" style="{FRAME}"><table style="{TABLE}"><tbody>{body}</tbody></table>'
        f'<div style="{NOTE}">{count} · {_legend(view, explanation.k)}</div></div>'
    )


def verdict_table(
    explanation: Explanation,
    truth: Sequence[Any],
    predicted: Sequence[Any],
    rows: Sequence[int] | None = None,
    *,
    classes: Sequence[str] | None = None,
    context: int | None = WIDE_CONTEXT,
) -> str:
    """The paper's tables of texts as an HTML fragment: truth, the model's answer, what was selected.

    `truth` and `predicted` are labels of all explained texts, places in `classes` if that is given. `rows`
    are the texts to show, by default the first of each kind: see `first_of_each_kind`.
    """
    view, _ = with_texts(explanation)
    rows = first_of_each_kind(truth, predicted) if rows is None else rows
    selected = f"key {view.unit}{'s' * (explanation.k != 1)}"
    heads = "".join(f'<th style="{HEAD}">{name}</th>' for name in ("truth", "model", selected))
    body = ""
    for row in rows:
        labels = (label if classes is None else classes[int(label)] for label in (truth[row], predicted[row]))
        cells = "".join(f'<td style="{ROW};text-align:left">{escape(str(label))}</td>' for label in labels)
        body += f'<tr style="background:none">{cells}{_text_cell(explanation, row, context)}</tr>'
    return (
        f'<div class="l2x-explanation" style="{FRAME}"><table style="{TABLE}">'
        f'<thead><tr style="background:none">{heads}</tr></thead><tbody>{body}</tbody></table>'
        f'<div style="{NOTE}">{_legend(view, explanation.k)}</div></div>'
    )


def first_of_each_kind(truth: Sequence[Any], predicted: Sequence[Any]) -> list[int]:
    """The first rightly classified row of each class, then the first wrongly classified of each."""
    labels, right = np.asarray(truth), np.asarray(truth) == np.asarray(predicted)
    kinds = [
        right_or_wrong & (labels == label)
        for right_or_wrong in (right, ~right)
        for label in np.unique(labels)
    ]
    return [int(kind.argmax()) for kind in kinds if kind.any()]


def plot_texts(explanation: Explanation, path: str | Path | None = None) -> Figure:
    """One text: the scores of its words or sentences. Many: the words that were selected most often, or the
    places of the selected sentences. Saved if a path is given."""
    view, _ = with_texts(explanation)
    if len(explanation) == 1:
        return _one_text(explanation, view, path)
    if view.unit == "word":
        return _frequent_words(explanation, path)
    return _places(explanation, view, path)


def _text_cell(explanation: Explanation, row: int, context: int | None) -> str:
    content = "".join(_marked(piece, explanation.k) for piece in pieces(explanation, row, context=context))
    return f'<td dir="auto" style="{_TEXT}">{content}</td>'


def _marked(piece: Piece, k: int) -> str:
    if piece.rank is None:
        return escape(piece.text)
    look = f"background:{shade(piece.rank, k)};{_MARK}"
    return f'<mark style="{look}" title="{escape(piece.about)}">{escape(piece.text)}</mark>'


def _legend(view: TextView, k: int) -> str:
    if k == 1:
        return f"the {view.unit} that decided; its score is in the tooltip"
    return (
        f"up to {k} {view.unit}s each, the most important in the strongest shade; scores are in the tooltips"
    )


def _one_text(explanation: Explanation, view: TextView, path: str | Path | None) -> Figure:
    """The usual figure of one row, whose features are the pieces of this text that could be selected."""
    there = np.flatnonzero(explanation.scores[0] > -np.inf)
    if not len(there):
        remark = "It is empty, or the explainer knows none of its words."
        return _bars([], [], [], path, title=f"This text has no {view.unit} to select", remark=remark)
    names = view.names_in(explanation.inputs, there[None])[0].tolist()
    k = min(explanation.k, len(there))
    what = f"The {view.unit}" if k == 1 else f"The {k} {view.unit}s"
    one = Explanation(explanation.scores[:, there], k, names)
    return plot_explanation(one, path, title=f"{what} that decided this text")


def _frequent_words(explanation: Explanation, path: str | Path | None) -> Figure:
    counts = Counter(word.lower() for words in explanation.names for word in words)
    common = counts.most_common(MOST)
    hidden = len(counts) - len(common)
    more = f"; {hidden:,} other words: {common[-1][1]:,} times at most" if hidden else ""
    return _bars(
        [shortened(word) for word, _ in common],
        [float(count) for _, count in common],
        [f"{count:,}" for _, count in common],
        path,
        title=f"The words selected most often (k = {explanation.k})",
        remark=f"How often, in {len(explanation):,} texts{more}.",
    )


def _places(explanation: Explanation, view: TextView, path: str | Path | None) -> Figure:
    share = explanation.mask.mean(axis=0)
    last = min(MOST, int(np.flatnonzero(share).max(initial=0)) + 1)
    return _bars(
        view.names_[:last],
        share[:last].tolist(),
        [percent(part) for part in share[:last]],
        path,
        title=f"Where the selected {view.unit}s stand (k = {explanation.k})",
        remark=f"Share of {len(explanation):,} texts; texts have up to {view.d} {view.unit}s that are read.",
    )


def _bars(
    labels: list[str],
    values: list[float],
    ends: list[str],
    path: str | Path | None,
    *,
    title: str,
    remark: str,
) -> Figure:
    with style():
        figure, (axes,) = new_figure(0.9 + 0.27 * len(labels), title=title)
        axes.barh(range(len(labels)), values, height=0.72, color=ACCENT)
        longest = max(values, default=1.0) or 1.0
        for place, (value, end) in enumerate(zip(values, ends, strict=True)):
            axes.text(value + 0.01 * longest, place, end, va="center", color=INK)
        label_rows(axes, labels)
        axes.set_xlim(0, 1.1 * longest)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        note(figure, remark)
    if path is not None:
        save_figure(figure, path)
    return figure
