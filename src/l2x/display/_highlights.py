"""Texts cut into what was selected and what is around it, for a page or a terminal."""

from __future__ import annotations

import re
from dataclasses import dataclass

from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.features import Texts, TextView

ELLIPSIS = "…"
# White space, control characters (a terminal would obey them) and line breaks of HTML are shown as one blank.
_BLANKS = re.compile(r"(?:[\s\x00-\x1f\x7f-\x9f]|<br\s*/?>)+", re.IGNORECASE)
# What may stand between two key words that are shown as one: "well-made".
JOINT = re.compile(r"[\s-]*")


@dataclass(frozen=True)
class Piece:
    """A part of a text, not escaped; if it was selected, with its best rank (from 0) and its scores."""

    text: str
    rank: int | None = None
    about: str = ""


@dataclass(frozen=True)
class _Mark:
    """Adjacent selected features: the last, their span of characters, best rank, names and scores."""

    last: int
    start: int
    end: int
    rank: int
    about: str


def pieces(explanation: Explanation, row: int, *, context: int | None = None) -> list[Piece]:
    """The original text of a row, piece by piece.

    Adjacent key words are one piece, with the blank between them. `context` leaves out what is
    further than this many characters from everything selected; None keeps the whole text.
    """
    one = explanation[row]
    text = with_texts(one)[1][0]
    parts: list[Piece] = []
    end = 0
    for mark in _marks(one):
        parts.append(_around(text[end : mark.start], context, after=bool(parts), before=True))
        parts.append(Piece(shown_text(text[mark.start : mark.end]), mark.rank, mark.about))
        end = mark.end
    parts.append(_around(text[end:], context, after=bool(parts), before=False))
    return [piece for piece in parts if piece.text]


def with_texts(explanation: Explanation) -> tuple[TextView, Texts]:
    """The view and its texts, or an error."""
    view = explanation.view
    if not isinstance(view, TextView) or explanation.inputs is None:
        raise InputError("This explanation holds no texts: fit with features=l2x.Words() or l2x.Sentences().")
    return view, view.check(explanation.inputs)


def _marks(one: Explanation) -> list[_Mark]:
    """What was selected in a single text, in reading order, adjacent features joined."""
    view, texts = with_texts(one)
    text, spans = texts[0], texts.tokens.spans[0]
    selected = one.indices[0][one.selected[0]].tolist()
    marks: list[_Mark] = []
    for feature, rank in sorted((feature, rank) for rank, feature in enumerate(selected)):
        start, end = spans[feature].tolist()
        name = f" {shown_text(text[start:end])}" if view.unit == "word" else ""
        about = f"{rank + 1}.{name} (score {one.scores[0, feature]:.3g})"
        if marks and marks[-1].last + 1 == feature and JOINT.fullmatch(text, marks[-1].end, start):
            before = marks.pop()
            start, rank, about = before.start, min(before.rank, rank), f"{before.about}, {about}"
        marks.append(_Mark(feature, start, end, rank, about))
    return marks


def _around(text: str, context: int | None, *, after: bool, before: bool) -> Piece:
    """Unselected text, without what is far from the marks that it comes `after` and `before`."""
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
    """A text, or a part of it, on one line: see _BLANKS."""
    return _BLANKS.sub(" ", text)
