"""Texts with their key words or sentences highlighted: in notebooks, in reports, as figures."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from l2x.display._bars import MOST, plot_bars, plot_scores
from l2x.display._highlights import Piece, pieces, with_texts
from l2x.display._labels import percent, shortened, size_text
from l2x.display._style import saved
from l2x.display._tables import ROW, html_table, shade, shown_of
from l2x.evaluation import selected_words
from l2x.explanation import Explanation
from l2x.features import TextView

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Characters shown around each mark, in a list of many texts and in a table of a few.
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

    `context` leaves out what is further than this many characters from every mark; None shows whole texts.
    """
    view, texts = with_texts(explanation)
    shown = max(0, min(rows, len(texts)))
    lines = (f'<td style="{ROW}">{row}</td>{_text_cell(explanation, row, context)}' for row in range(shown))
    return html_table((), lines, f"{shown_of(shown, len(texts), 'text')} · {_legend(view, explanation.k)}")


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

    `truth` and `predicted` are labels of all explained texts, indices into `classes` if that is given. `rows`
    are the texts to show, by default the first of each kind: see `first_of_each_kind`.
    """
    view, _ = with_texts(explanation)
    rows = first_of_each_kind(truth, predicted) if rows is None else rows

    def line(row: int) -> str:
        labels = (label if classes is None else classes[int(label)] for label in (truth[row], predicted[row]))
        cells = "".join(f'<td style="{ROW};text-align:left">{escape(str(label))}</td>' for label in labels)
        return cells + _text_cell(explanation, row, context)

    selected = f"key {view.unit}{'s' * (explanation.k != 1)}"
    return html_table(("truth", "model", selected), map(line, rows), _legend(view, explanation.k))


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
    positions of the selected sentences. Saved if a path is given."""
    view, _ = with_texts(explanation)
    if len(explanation) == 1:
        figure = _plot_one(explanation, view)
    else:
        figure = _plot_words(explanation) if view.unit == "word" else _plot_positions(explanation, view)
    return saved(figure, path)


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


def _plot_one(explanation: Explanation, view: TextView) -> Figure:
    """The usual figure of one row, whose features are the pieces of this text that could be selected."""
    selectable = np.flatnonzero(explanation.scores[0] > -np.inf)
    if not len(selectable):
        remark = "It is empty, or the explainer knows none of its words."
        return plot_bars([], [], [], title=f"This text has no {view.unit} to select", remark=remark)
    names = view.names_in(explanation.inputs, selectable[None])[0].tolist()
    k, sizes = min(explanation.k, len(selectable)), explanation.sizes
    one = Explanation(explanation.scores[:, selectable], k, names, sizes=sizes)
    return plot_scores(one, unit=view.unit, of="text")


def _plot_words(explanation: Explanation) -> Figure:
    counts = selected_words(explanation)
    common = counts.most_common(MOST)
    hidden = len(counts) - len(common)
    more = f"; {hidden:,} other words: {common[-1][1]:,} times at most" if hidden else ""
    return plot_bars(
        [shortened(word) for word, _ in common],
        [float(times) for _, times in common],
        [f"{times:,}" for _, times in common],
        title=f"The words selected most often ({size_text(explanation)})",
        remark=f"How often, in {len(explanation):,} texts{more}.",
    )


def _plot_positions(explanation: Explanation, view: TextView) -> Figure:
    share = explanation.mask.mean(axis=0)
    last = min(MOST, int(np.flatnonzero(share).max(initial=0)) + 1)
    return plot_bars(
        view.names_[:last],
        share[:last].tolist(),
        [percent(part) for part in share[:last]],
        title=f"Where the selected {view.unit}s stand ({size_text(explanation)})",
        remark=f"Share of {len(explanation):,} texts; texts have up to {view.d} {view.unit}s that are read.",
    )
