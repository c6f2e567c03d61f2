"""Texts: cut into selected pieces and the text around them, reduced to phrases, and drawn as figures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from unicodedata import bidirectional

import numpy as np

from l2x._base.arrays import Array
from l2x.display._figures import by_class_note, plot_bars, plot_scores
from l2x.display._readings import UNITS, Reading, has_effects, readings
from l2x.display._signed import MOST, TEXTS, rows_by_class, with_effects
from l2x.display._style import (
    AGAINST,
    TOWARDS,
    WIDTH,
    amount,
    new_figure,
    note,
    percent,
    shortened,
    size_text,
    style,
)
from l2x.errors import InputError, require
from l2x.explanation import Explanation, Scale
from l2x.features import Texts, TextView

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ELLIPSIS = "…"
BREAK = "\n"
# White space, control characters (a terminal would obey them) and HTML line breaks are shown as one blank.
_BLANKS = re.compile(r"(?:[\s\x00-\x1f\x7f-\x9f]|<br\s*/?>)+", re.IGNORECASE)
# What may stand between two selected words that are shown as one: "well-made".
_JOINT = re.compile(r"[\s-]*")


@dataclass(frozen=True)
class Piece:
    """A part of a text, not escaped; a selected part has its best rank (from 0), details and its effect.

    The text `BREAK` is the end of a line.
    """

    text: str
    rank: int | None = None
    about: str = ""
    effect: float = 0.0


def pieces(
    explanation: Explanation, row: int, *, context: int | None = None, reading: Reading | None = None
) -> list[Piece]:
    """Cut the text of a row into selected pieces and the text around them.

    Adjacent selected words form one piece, including the blank between them, unless `reading`, with the
    effects of the row, has opposite signs for them. `context` leaves out characters further than this from
    every selected piece; None keeps the whole text.
    """
    one = explanation[row]
    view, texts = with_texts(one)
    text, spans = texts[0], texts.tokens.spans[0].tolist()
    ranks = {feature: rank for rank, feature in enumerate(one.indices[0][one.selected[0]].tolist())}

    def effect(feature: int) -> float:
        return 0.0 if reading is None else float(reading.effects[ranks[feature]])

    runs: list[list[int]] = []
    for feature in sorted(ranks):
        start, _ = spans[feature]
        joined = feature - 1 in ranks and _JOINT.fullmatch(text, spans[feature - 1][1], start)
        if joined and view.unit != "passage" and (effect(feature) < 0) == (effect(feature - 1) < 0):
            runs[-1].append(feature)
        else:
            runs.append([feature])

    def about(feature: int) -> str:
        start, end = spans[feature]
        name = f" {shown_text(text[start:end])}" if view.unit == "word" else ""
        score = f"score {one.scores[0, feature]:.3g}"
        details = score if reading is None else f"effect {reading.amounts[ranks[feature]]}, {score}"
        return f"{ranks[feature] + 1}.{name} ({details})"

    def marked(run: list[int]) -> Piece:
        whole = text[spans[run[0]][0] : spans[run[-1]][1]]
        rank = min(ranks[feature] for feature in run)
        return Piece(shown_text(whole), rank, ", ".join(map(about, run)), sum(map(effect, run)))

    if view.unit == "passage":
        return _lines(text, [(run[0], marked(run)) for run in runs], context)
    parts: list[Piece] = []
    end = 0
    for run in runs:
        parts.append(_around(text[end : spans[run[0]][0]], context, after=bool(parts), before=True))
        parts.append(marked(run))
        end = spans[run[-1]][1]
    parts.append(_around(text[end:], context, after=bool(parts), before=False))
    return [piece for piece in parts if piece.text]


def _lines(text: Any, selected: Sequence[tuple[int, Piece]], context: int | None) -> list[Piece]:
    """Return a line for each passage of a text, with its number; unselected ones keep their beginning."""
    marks, parts = dict(selected), []
    for number, passage in enumerate(text.parts):
        shown = Piece(shown_text(passage).strip())
        if context is not None and len(shown.text) > 2 * context:
            shown = Piece(f"{shown.text[: 2 * context]} {ELLIPSIS}")
        parts += [Piece(f"{number + 1}. "), marks.get(number, shown), Piece(BREAK)]
    return parts[:-1]


def with_texts(explanation: Explanation) -> tuple[TextView, Texts]:
    """Return the view and its texts; raise an InputError if the explanation has none."""
    view = explanation.view
    if not isinstance(view, TextView) or explanation.inputs is None:
        raise InputError(
            "This explanation holds no texts: fit with features=l2x.Words(), l2x.Sentences() or "
            "l2x.Passages()."
        )
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
    view, texts = with_texts(one)
    if view.unit == "passage":
        parts = texts[0].parts
        shown = range(len(parts)) if features is None else sorted(features)
        return {"kind": "text", "phrases": [shown_text(parts[i]).strip() for i in shown]}
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
    """Draw one text with its effects or scores; for many texts, the most selected words or positions."""
    view, _ = with_texts(explanation)
    if len(explanation) > 1:
        return _plot_words(explanation) if view.unit == "word" else _plot_positions(explanation, view)
    if not explanation.selected.any():
        remark = "The text is empty, or the explainer knows none of its words."
        return plot_bars([], [], [], title=f"This text has no {view.unit} to select", remark=remark)
    return _plot_marked(explanation) if has_effects(explanation) else _plot_scores(explanation, view)


def _plot_scores(explanation: Explanation, view: TextView) -> Figure:
    """Draw the scores of the words or sentences that can be selected in this text."""
    selectable = np.flatnonzero(explanation.scores[0] > -np.inf)
    names = view.names_in(explanation.inputs, selectable[None])[0].tolist()
    k, sizes = min(explanation.k, len(selectable)), explanation.sizes
    one = Explanation(explanation.scores[:, selectable], k, names, sizes=sizes)
    return plot_scores(one, unit=view.unit, of="text")


# The text of a figure, in points
FONT, SMALL = 9.5, 7.0
LINE = 19.0
PAGE = 72 * WIDTH - 16
CONTEXT = 160  # characters around each selected piece


@dataclass(frozen=True)
class Word:
    """A word of a figure: where it begins, its line and width, and the number of its piece."""

    text: str
    x: float
    line: int
    width: float
    piece: int


def _plot_marked(explanation: Explanation) -> Figure:
    """Draw the text with signed highlights; parts far from selected words are left out."""
    one = with_effects(explanation)
    (reading,) = readings(one)
    parts = pieces(one, 0, context=CONTEXT, reading=reading)
    words = typeset(parts, reading.scale)
    lines, leftwards = words[-1].line + 1, runs_leftwards(parts)
    with style():
        figure, (axes,) = new_figure(LINE * lines / 72 + 0.75, title=reading.title)
        axes.set_axis_off()
        axes.set(xlim=(-4, PAGE + 4), ylim=(lines * LINE, 0))
        marks: dict[tuple[int, int], list[Word]] = {}
        for word in words:
            if parts[word.piece].rank is not None:
                marks.setdefault((word.piece, word.line), []).append(word)
        for (number, _), run in marks.items():
            _draw_mark(axes, run, parts[number], reading)
        for word in words:
            axes.text(word.x, LINE * (word.line + 0.68), word.text, fontsize=FONT)
        for last in {word.piece: word for word in words if parts[word.piece].rank is not None}.values():
            text = _superscript(parts[last.piece], reading.scale)
            x, side = (last.x - 1, "right") if leftwards else (last.x + last.width + 1, "left")
            axes.text(x, LINE * (last.line + 0.42), text, fontsize=SMALL, weight="bold", ha=side)
        note(figure, _marked_note(reading))
    return figure


def _marked_note(reading: Reading) -> str:
    towards, against = reading.directions
    comparison = reading.comparison[0].upper() + reading.comparison[1:]
    return (
        f"{comparison}. Raised numbers: effects in {UNITS[reading.scale]}; solid underline: {towards}; "
        f"dashed: {against}."
    )


def _draw_mark(axes: Axes, words: Sequence[Word], piece: Piece, reading: Reading) -> None:
    """Draw the background and the underline of a selected piece, or of its part on one line."""
    patches: Any = require("matplotlib.patches", extra="plots")
    against = piece.effect < 0
    colour = AGAINST if against else TOWARDS
    alpha = (0.45, 0.27, 0.12)[reading.shades[piece.rank or 0] - 1]
    top, height = LINE * (words[0].line + 0.12), 0.76 * LINE
    left, right = min(word.x for word in words) - 1, max(word.x + word.width for word in words) + 1
    axes.add_patch(
        patches.Rectangle((left, top), right - left, height, color=colour, alpha=alpha, linewidth=0)
    )
    axes.plot(
        [left, right], [top + height] * 2, color=colour, linewidth=1.6,
        linestyle=(0, (2.5, 1.5)) if against else "-", solid_capstyle="butt",
    )  # fmt: skip


def _superscript(piece: Piece, scale: Scale) -> str:
    return amount(piece.effect, scale).removesuffix(" pp")


def typeset(parts: Sequence[Piece], scale: Scale) -> list[Word]:
    """Return the words of a text with their places on lines of the width PAGE.

    A text that begins with a letter of a script from right to left runs from the right.
    """
    measured = _measure()
    blank = measured(" ", FONT)
    words: list[Word] = []
    x, line = 0.0, 0
    for number, piece in enumerate(parts):
        if piece.text == BREAK:
            x, line = 0.0, line + 1
            continue
        found = [part for word in piece.text.split() for part in _broken(word, measured)]
        for i, text in enumerate(found):
            width = measured(text, FONT)
            last = piece.rank is not None and i == len(found) - 1
            after = measured(_superscript(piece, scale), SMALL) + 2 if last else 0.0
            if x and x + width + after > PAGE:
                x, line = 0.0, line + 1
            words.append(Word(text, x, line, width, number))
            glued = last and number + 1 < len(parts) and not parts[number + 1].text[:1].isspace()
            x += width + after + (1.5 if glued else blank)
    if not runs_leftwards(parts):
        return words
    return [replace(word, x=PAGE - word.x - word.width) for word in words]


def runs_leftwards(parts: Sequence[Piece]) -> bool:
    """Return whether the first letter of a text belongs to a right-to-left script."""
    directions = (bidirectional(c) for piece in parts for c in piece.text)
    return next((d for d in directions if d in ("L", "R", "AL")), "L") != "L"


def _broken(word: str, measured: Callable[[str, float], float]) -> list[str]:
    """Return a word in parts that fit on a line; scripts without blanks have very long words."""
    if measured(word, FONT) <= 0.9 * PAGE:
        return [word]
    half = len(word) // 2
    return [*_broken(word[:half], measured), *_broken(word[half:], measured)]


def _measure() -> Callable[[str, float], float]:
    """Return a function that measures the width of a text, in points, at a font size."""
    properties: Any = require("matplotlib.font_manager", extra="plots").FontProperties
    paths: Any = require("matplotlib.textpath", extra="plots").TextToPath()

    def width(text: str, size: float) -> float:
        return float(paths.get_text_width_height_descent(text, properties(size=size), ismath=False)[0])

    return width


def _plot_words(explanation: Explanation) -> Figure:
    n = len(explanation)
    texts = [{word.lower() for word in names} for names in explanation.names]
    counts = Counter(word for words in texts for word in sorted(words))
    common = counts.most_common(MOST)
    hidden = len(counts) - len(common)
    rest = f"; {hidden:,} other words: at most {common[-1][1]:,} each" if hidden else ""
    places = np.sort(np.random.default_rng(0).choice(n, min(n, TEXTS), replace=False))
    classes = {
        name: [float(np.mean([word in texts[i] for i in places[rows]])) for word, _ in common]
        for name, rows in (rows_by_class(explanation[places]) or {}).items()
    }
    return plot_bars(
        [shortened(word) for word, _ in common],
        [times / n for _, times in common],
        [f"{times:,}" for _, times in common],
        parts=classes,
        title=f"The words selected most often ({size_text(explanation)})",
        remark=f"Bars and numbers: in how many of {n:,} texts the word is selected{rest}."
        + by_class_note(classes, len(places), n, "text"),
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
