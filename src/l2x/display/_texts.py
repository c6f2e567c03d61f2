"""Texts: cut into selected pieces and the text around them, reduced to phrases, and drawn as figures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from l2x._base.arrays import Array
from l2x.display._figures import MOST, plot_bars, plot_scores
from l2x.display._style import percent, shortened, size_text
from l2x.errors import InputError
from l2x.evaluation import selected_words
from l2x.explanation import Explanation
from l2x.features import Texts, TextView

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ELLIPSIS = "…"
# White space, control characters (a terminal would obey them) and HTML line breaks are shown as one blank.
_BLANKS = re.compile(r"(?:[\s\x00-\x1f\x7f-\x9f]|<br\s*/?>)+", re.IGNORECASE)
# What may stand between two selected words that are shown as one: "well-made".
_JOINT = re.compile(r"[\s-]*")


@dataclass(frozen=True)
class Piece:
    """A part of a text, not escaped; a selected part has its best rank (from 0) and its scores."""

    text: str
    rank: int | None = None
    about: str = ""


def pieces(explanation: Explanation, row: int, *, context: int | None = None) -> list[Piece]:
    """Cut the text of a row into selected pieces and the text around them.

    Adjacent selected words form one piece, including the blank between them. `context` leaves out characters
    further than this from every selected piece; None keeps the whole text.
    """
    one = explanation[row]
    view, texts = with_texts(one)
    text, spans = texts[0], texts.tokens.spans[0].tolist()
    ranks = {feature: rank for rank, feature in enumerate(one.indices[0][one.selected[0]].tolist())}
    runs: list[list[int]] = []
    for feature in sorted(ranks):
        start, _ = spans[feature]
        if feature - 1 in ranks and _JOINT.fullmatch(text, spans[feature - 1][1], start):
            runs[-1].append(feature)
        else:
            runs.append([feature])

    def about(feature: int) -> str:
        start, end = spans[feature]
        name = f" {shown_text(text[start:end])}" if view.unit == "word" else ""
        return f"{ranks[feature] + 1}.{name} (score {one.scores[0, feature]:.3g})"

    parts: list[Piece] = []
    end = 0
    for run in runs:
        start, stop = spans[run[0]][0], spans[run[-1]][1]
        parts.append(_around(text[end:start], context, after=bool(parts), before=True))
        rank = min(ranks[feature] for feature in run)
        parts.append(Piece(shown_text(text[start:stop]), rank, ", ".join(map(about, run))))
        end = stop
    parts.append(_around(text[end:], context, after=bool(parts), before=False))
    return [piece for piece in parts if piece.text]


def with_texts(explanation: Explanation) -> tuple[TextView, Texts]:
    """Return the view and its texts; raise an InputError if the explanation has none."""
    view = explanation.view
    if not isinstance(view, TextView) or explanation.inputs is None:
        raise InputError("This explanation holds no texts: fit with features=l2x.Words() or l2x.Sentences().")
    return view, view.check(explanation.inputs)


def _around(text: str, context: int | None, *, after: bool, before: bool) -> Piece:
    """Return unselected text `after` and `before` marks, shortened to `context` characters next to each."""
    text = shown_text(text)
    if context is None:
        return Piece(text)
    head, tail = context * after, context * before
    if not after and not before:  # nothing is selected: show the beginning
        head = 2 * context
    if len(text) <= head + tail + context // 2:  # an ellipsis would hardly save anything
        return Piece(text)
    beginning = text[:head].rpartition(" ")[0] or text[:head]
    ending = text[len(text) - tail :]
    ending = ending.partition(" ")[2] or ending
    return Piece(f"{beginning} {ELLIPSIS} {ending}")


def shown_text(text: str) -> str:
    """Return a text, or a part of it, on one line: white space and control characters become blanks."""
    return _BLANKS.sub(" ", text)


def text_content(one: Explanation, features: Sequence[int] | None) -> dict[str, Any]:
    """Return only these features of a single text, as phrases; None for the whole text."""
    _, texts = with_texts(one)
    if features is None:
        return {"kind": "text", "phrases": [shown_text(texts[0]).strip()]}
    return {"kind": "text", "phrases": phrases(texts[0], texts.tokens.spans[0], features)}


def phrases(text: str, spans: Array, features: Sequence[int]) -> list[str]:
    """Return the selected words in reading order; words that are adjacent in the text form one phrase.

    >>> phrases("a well-made film", np.array([[0, 1], [2, 6], [7, 11], [12, 16]]), [1, 2])
    ['well-made']
    """
    joined: list[str] = []
    last, end = -2, 0
    for feature in sorted(features):
        start, stop = (int(position) for position in spans[feature])
        word = shown_text(text[start:stop])
        if feature == last + 1:
            # "well-made" keeps its hyphen. Any other text between them was not selected: show a blank.
            joined[-1] += (shown_text(text[end:start]) if _JOINT.fullmatch(text, end, start) else " ") + word
        else:
            joined.append(word)
        last, end = feature, stop
    return joined


def plot_texts(explanation: Explanation) -> Figure:
    """Draw one text's scores; for many texts, the most selected words or the positions of sentences."""
    view, _ = with_texts(explanation)
    if len(explanation) == 1:
        return _plot_one(explanation, view)
    return _plot_words(explanation) if view.unit == "word" else _plot_positions(explanation, view)


def _plot_one(explanation: Explanation, view: TextView) -> Figure:
    """Draw the scores of the words or sentences that can be selected in this text."""
    selectable = np.flatnonzero(explanation.scores[0] > -np.inf)
    if not len(selectable):
        remark = "The text is empty, or the explainer knows none of its words."
        return plot_bars([], [], [], title=f"This text has no {view.unit} to select", remark=remark)
    names = view.names_in(explanation.inputs, selectable[None])[0].tolist()
    k, sizes = min(explanation.k, len(selectable)), explanation.sizes
    one = Explanation(explanation.scores[:, selectable], k, names, sizes=sizes)
    return plot_scores(one, unit=view.unit, of="text")


def _plot_words(explanation: Explanation) -> Figure:
    counts = selected_words(explanation)
    common = counts.most_common(MOST)
    hidden = len(counts) - len(common)
    rest = f"; {hidden:,} other words: at most {common[-1][1]:,} each" if hidden else ""
    return plot_bars(
        [shortened(word) for word, _ in common],
        [float(times) for _, times in common],
        [f"{times:,}" for _, times in common],
        title=f"The words selected most often ({size_text(explanation)})",
        remark=f"Number of selections in {len(explanation):,} texts{rest}.",
    )


def _plot_positions(explanation: Explanation, view: TextView) -> Figure:
    share = explanation.mask.mean(axis=0)
    last = min(MOST, int(np.flatnonzero(share).max(initial=0)) + 1)
    return plot_bars(
        view.names_[:last],
        share[:last].tolist(),
        [percent(part) for part in share[:last]],
        title=f"Positions of the selected {view.unit}s ({size_text(explanation)})",
        remark=f"Share of {len(explanation):,} texts; the view reads up to {view.d} {view.unit}s of a text.",
    )
