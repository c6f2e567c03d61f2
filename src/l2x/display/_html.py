"""HTML of an explanation: one renderer for notebooks, reports, the service and studies; and its plain text.

`explanation_html` uses inline styles, because notebooks drop <style> elements. `row_html` uses the classes of
l2x.css, because the pages' security policy forbids inline styles. All names, values and texts are escaped.
Ranks are also written out, so that nothing depends on colour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from l2x._base.arrays import cells, labels, ranked
from l2x.display._figures import plot_table
from l2x.display._images import (
    dimmed,
    image_content,
    image_uri,
    legend,
    outlined_svg,
    outlines,
    plain,
    plot_images,
    svg_uri,
    with_images,
)
from l2x.display._readings import MEANING, REST, UNITS, Reading, readings_if_affordable
from l2x.display._style import (
    amount,
    cell_text,
    count,
    how_many,
    label,
    saved,
    shortened,
    size_text,
    values_of,
)
from l2x.display._texts import BREAK, Piece, pieces, plot_texts, text_content, with_texts
from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.features import Columns, Patches, Superpixels, TextView, View

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# "kind" is "text" (with "phrases"), "table" (with "cells": names and values) or "image" (with "source").
Content = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """How explanations with one class of views are shown."""

    view: type
    figure: Callable[[Explanation], Figure]  # one or more inputs
    rows: Callable[[Explanation, int], str]  # the first n inputs, with inline styles
    row: Callable[[Explanation], str]  # a single input, with the classes of l2x.css
    # Only these features of a single input, as data, for raters of a study; None is the whole input.
    content: Callable[[Explanation, Sequence[int] | None], Content]


def kind_of(explanation: Explanation) -> Kind:
    """Return how the explanation is shown: the first of KINDS that fits its view, otherwise TABLE.

    Explanations without inputs, and views of one's own, are shown as bars and tables. To show a view of one's
    own in another way, insert a `Kind` at the beginning of KINDS.
    """
    view = None if explanation.inputs is None else explanation.view
    return next((kind for kind in KINDS if isinstance(view, kind.view)), TABLE)


def plot_explanation(explanation: Explanation, path: str | Path | None = None) -> Figure:
    """Draw the explanation, and save the figure if a path is given."""
    return saved(kind_of(explanation).figure(explanation), path)


def explanation_html(explanation: Explanation, rows: int = 20) -> str:
    """Return the first rows as an HTML fragment with inline styles, for notebooks and reports."""
    return kind_of(explanation).rows(explanation, max(0, min(rows, len(explanation))))


def row_html(explanation: Explanation, row: int = 0) -> str:
    """Return one row as an HTML fragment for a page that loads l2x.css."""
    one = explanation[row]
    return kind_of(one).row(one)


def selected_content(explanation: Explanation, row: int) -> Content:
    """Return the selected features of a row, in the order of the input, and nothing else of it."""
    one = _with_inputs(explanation[row])
    return kind_of(one).content(one, sorted(one.indices[0][one.selected[0]].tolist()))


def whole_content(explanation: Explanation, row: int) -> Content:
    """Return the whole input of a row in the form of `selected_content`."""
    one = _with_inputs(explanation[row])
    return kind_of(one).content(one, None)


def _with_inputs(explanation: Explanation) -> Explanation:
    if explanation.view is None or explanation.inputs is None:
        raise InputError("This explanation holds no inputs to show; make it with explain(X, k).")
    return explanation


# Shades: by effect, and its sign, where there are effects; otherwise by rank

SHADES = 3
_ALPHAS = (0.42, 0.25, 0.08)
_BLUE, _WARM, _COLD = "47,109,181", "214,92,30", "74,143,212"  # ranks; effects towards and against


def shade(rank: int, k: int) -> int:
    """Return the shade of the feature with this rank (from 0) among k: from 1, the strongest, to SHADES.

    >>> [shade(rank, 3) for rank in range(3)], [shade(rank, 5) for rank in range(5)]
    ([1, 2, 3], [1, 1, 2, 2, 3])
    """
    return 1 + rank * SHADES // max(k, 1)


def _background(rank: int, k: int, reading: Reading | None) -> str:
    colour, number = _BLUE, shade(rank, k)
    if reading is not None:
        colour, number = _WARM if reading.effects[rank] >= 0 else _COLD, reading.shades[rank]
    return f"background:rgba({colour},{_ALPHAS[number - 1]:g})"


def _sign(effect: float) -> str:
    """Return the class of an effect in l2x.css."""
    return "towards" if effect >= 0 else "against"


# Tables. Colours are translucent, so that text and background follow the notebook's theme.

_FRAME = "overflow-x:auto;max-width:100%;font-family:inherit;font-size:13px;line-height:1.35"
_TABLE = "border-collapse:separate;border-spacing:3px;margin:0;border:none"
_PLAIN = "border:none;background:none;opacity:.65"
_HEAD = f"{_PLAIN};text-align:left;font-weight:600;padding:2px 9px"
_ROW = f"{_PLAIN};text-align:right;padding:4px 9px;vertical-align:top"
_CELL = "border:none;border-radius:5px;text-align:left;vertical-align:top;padding:4px 9px;min-width:6.5em"
_VALUE = "opacity:.75;font-variant-numeric:tabular-nums"
_EFFECT = "font-weight:600;font-variant-numeric:tabular-nums"
_NOTE = "opacity:.65;padding:4px 9px"
RUNNERS_UP = 3  # unselected features below the selected ones, so that bars can be compared


def html_table(heads: Sequence[str], rows: Iterable[str], note: str) -> str:
    """Return a table with heads, if any, rows of <td> elements, which must be escaped, and a note below."""
    head = "".join(f'<th style="{_HEAD}">{escape(head)}</th>' for head in heads)
    head = f'<thead><tr style="background:none">{head}</tr></thead>' if heads else ""
    body = "".join(f'<tr style="background:none">{row}</tr>' for row in rows)
    return (
        f'<div class="l2x-explanation" style="{_FRAME}">'
        f'<table style="{_TABLE}">{head}<tbody>{body}</tbody></table>'
        f'<div style="{_NOTE}">{escape(note)}</div></div>'
    )


def shown_of(shown: int, n: int, noun: str) -> str:
    """Return how many rows are shown, for notes.

    >>> shown_of(20, 1000, "row"), shown_of(3, 3, "text")
    ('showing 20 of 1,000 rows', '3 texts')
    """
    return f"showing {shown:,} of {count(n, noun)}" if shown < n else count(n, noun)


def _table_rows(explanation: Explanation, shown: int) -> str:
    """Return one table row per input: prediction, then the selected features, best first, with their values.

    Below each value is its effect, if effects are known.
    """
    n, d = explanation.scores.shape
    first = explanation[:shown]
    most = max((len(names) for names in first.names), default=explanation.k)
    known = readings_if_affordable(first)
    heads = ["row", *(["prediction"] if any(known) else []), *(_ordinal(rank + 1) for rank in range(most))]
    about = f"{shown_of(shown, n, 'row')} · {size_text(explanation)} of {d} features, most important first"
    return html_table(
        heads,
        (_table_row(first, row, known[row]) for row in range(shown)),
        _with_meaning(about, known),
    )


def _with_meaning(about: str, known: Sequence[Reading | None]) -> str:
    """Return a note, with what scores and effects are if effects are shown."""
    reading = next((reading for reading in known if reading is not None), None)
    return about if reading is None else f"{about}. Effects in {UNITS[reading.scale]}. {MEANING}"


def _table_row(explanation: Explanation, row: int, reading: Reading | None) -> str:
    values, names = values_of(explanation, row), _names(explanation[row])
    row_cells = ""
    for rank, i in enumerate(explanation.indices[row][explanation.selected[row]]):
        lines = [_short(names[i])]
        if values[i]:
            lines.append(f'<span style="{_VALUE}">{_short(values[i])}</span>')
        if reading is not None:
            lines.append(f'<span style="{_EFFECT}">{reading.amounts[rank]}</span>')
        look = f"{_CELL};{_background(rank, explanation.k, reading)}"
        row_cells += f'<td style="{look}">{"<br>".join(lines)}</td>'
    return f'<td style="{_ROW}">{_short(_row_label(explanation, row))}</td>{_verdict(reading)}{row_cells}'


def _verdict(reading: Reading | None) -> str:
    """Return a cell with the prediction from all features, from only the selected, and from all others."""
    if reading is None:
        return ""
    _, only_these, all_others = reading.levels
    return (
        f'<td style="{_CELL};background:none"><span style="font-weight:600">{escape(reading.headline)}</span>'
        f'<br><span style="{_VALUE}">only these {only_these}<br>all others {all_others}'
        f"{'<br>not confirmed' * (reading.confirmed is False)}</span></td>"
    )


def _names(one: Explanation) -> Sequence[str]:
    """Return the d names of a single row, such as the words of a text; padding has a name, too."""
    inputs, view = one.inputs, one.view
    every = np.arange(len(one.feature_names))[None]
    own = None if view is None or inputs is None else view.names_in(inputs, every)
    return one.feature_names if own is None else own[0].tolist()


def _row_label(explanation: Explanation, row: int) -> object:
    """Return the row's label in a pandas index, or its number."""
    index = labels(explanation.inputs)
    return row if index is None else index[row]


def _short(text: object) -> str:
    """Return the text shortened and escaped; a tooltip holds the whole text if something was left out."""
    short = shortened(text)
    return (
        escape(short) if short == str(text) else f'<span title="{escape(str(text))}">{escape(short)}</span>'
    )


def _ordinal(number: int) -> str:
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def _bars(one: Explanation) -> str:
    """Return a single row as bars: signed effects, or scores of the selected features and the next best."""
    (reading,) = readings_if_affordable(one)
    return _score_bars(one) if reading is None else signed_bars(one, reading)


def signed_bars(one: Explanation, reading: Reading) -> str:
    """Return the effects of a single row as bars to the right or left of zero; the last is the rest."""
    names, values = _names(one), values_of(one, 0)
    chosen = one.indices[0][one.selected[0]].tolist()
    largest = max([*np.abs(reading.effects), abs(reading.rest)]) or 1.0
    bars = "".join(
        _bar_item(
            "selected", str(rank + 1), str(names[i]), values[i], reading.amounts[rank],
            _signed_bar(float(reading.effects[rank]), largest, reading.amounts[rank]),
        )
        for rank, i in enumerate(chosen)
    )  # fmt: skip
    bars += _bar_item(
        "other", "", REST, None, reading.rest_amount, _signed_bar(reading.rest, largest, reading.rest_amount)
    )
    towards, against = reading.directions
    about = f"Right of the line: {towards}; left: {against}. Effects in {UNITS[reading.scale]}. {MEANING}"
    return f'<ol class="bars signed">\n{bars}</ol>\n<p class="hint">{escape(about)}</p>'


def _signed_bar(effect: float, largest: float, text: str) -> str:
    width = 50 * abs(effect) / largest
    left = 50 - (width if effect < 0 else 0)
    return (
        f'<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" '
        f'aria-label="effect {text}"><rect class="{_sign(effect)}" x="{left:.1f}" width="{width:.1f}" '
        f'height="8"/><line class="zero" x1="50" x2="50" y1="0" y2="8"/></svg>'
    )


def _bar_item(kind: str, rank: str, name: str, value: str | None, effect: str, bar: str) -> str:
    name, cell = escape(name), ""
    if value is not None:
        cell = f' <span class="value" dir="auto" title="{escape(value)}">{escape(value)}</span>'
    effect = f' <span class="effect">{effect}</span>' if effect else ""
    return (
        f'<li class="{kind}"><span class="rank">{rank}</span> '
        f'<span class="name" dir="auto" title="{name}">{name}</span>{cell}{effect} {bar}</li>\n'
    )


def _score_bars(one: Explanation) -> str:
    """Return a single row as bars of scores: the selected features, then the next best."""
    scores, values, names = one.scores[0], values_of(one, 0), _names(one)
    selected = int(one.selected[0].sum())
    order = [int(i) for i in ranked(one.scores)[0][: one.k + RUNNERS_UP] if scores[i] > float("-inf")]
    lowest = float(scores.min()) if order else 0.0
    span = float(scores[order[0]]) - lowest if order else 0.0
    bars = ""
    for rank, i in enumerate(order):
        score = float(scores[i])
        width = 2 + 98 * (score - lowest) / span if span else 100  # at least 2: an empty bar is invisible
        kind, number, state = (
            ("selected", str(rank + 1), "") if rank < selected else ("other", "–", ", not selected")
        )
        bar = (
            '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" '
            f'aria-label="score {score:.3g}{state}"><rect width="{width:.1f}" height="8"/></svg>'
        )
        bars += _bar_item(kind, number, str(names[i]), values[i], "", bar)
    hidden = len(names) - len(order)
    rest = f'<p class="hint">{count(hidden, "feature")} with lower scores not shown.</p>' if hidden else ""
    return f'<ol class="bars">\n{bars}</ol>\n{rest}'


def _table_content(one: Explanation, features: Sequence[int] | None) -> Content:
    """Return these features of a single row with their values, if every feature has one."""
    view, names, values = one.view, _names(one), values_of(one, 0)
    shown = np.flatnonzero(one.scores[0] > -np.inf) if features is None else np.asarray(features)
    if isinstance(view, Columns) and view.group_ is not None:  # a feature is several columns
        names, values = view.column_names_, [cell_text(cell) for cell in cells(one.inputs, 0)]
        shown = np.flatnonzero(np.isin(view.group_, shown))
    return {"kind": "table", "cells": [[str(names[i]), values[i]] for i in shown.tolist()]}


# Texts

CONTEXT = 60  # characters shown around each selected piece, in a list of many texts
WIDE_CONTEXT = 160  # in a table of a few
# Long words break; an overriding direction (U+202E) ends with its cell.
_TEXT = "border:none;background:none;text-align:start;padding:4px 9px;line-height:1.6;overflow-wrap:anywhere"
# Underlined, because the shade of the last ones is faint; dashed, if the effect is negative.
_MARK = (
    "color:inherit;padding:0 .15em;border-radius:3px 3px 0 0;"
    "box-decoration-break:clone;-webkit-box-decoration-break:clone"
)
_SUPERSCRIPT = "font-size:.72em;line-height:1;font-weight:600;opacity:.8;margin-inline-start:.15em"


def _marked(parts: Sequence[Piece], k: int, reading: Reading | None, *, inline: bool) -> str:
    """Return a text with its selected pieces in <mark>, shaded by effect or rank; tooltips have details."""
    mark = _inline_mark if inline else _page_mark
    return "".join(
        escape(piece.text).replace(BREAK, "<br>")
        if piece.rank is None
        else mark(piece, piece.rank, k, reading)
        for piece in parts
    )


def _inline_mark(piece: Piece, rank: int, k: int, reading: Reading | None) -> str:
    line, superscript = f"solid rgba({_BLUE},.7)", ""
    if reading is not None:
        line = f"solid rgba({_WARM},.8)" if piece.effect >= 0 else f"dashed rgba({_COLD},.9)"
        superscript = f'<sup style="{_SUPERSCRIPT}">{_superscript(piece, reading)}</sup>'
    look = f"{_background(rank, k, reading)};{_MARK};border-bottom:2px {line}"
    return f'<mark style="{look}" title="{escape(piece.about)}">{escape(piece.text)}{superscript}</mark>'


def _page_mark(piece: Piece, rank: int, k: int, reading: Reading | None) -> str:
    look, after = f"shade-{shade(rank, k)}", str(rank + 1)
    if reading is not None:
        look, after = f"{_sign(piece.effect)}-{reading.shades[rank]}", _superscript(piece, reading)
    text = escape(piece.text)
    return f'<mark class="{look}" data-after="{after}" title="{escape(piece.about)}">{text}</mark>'


def _superscript(piece: Piece, reading: Reading) -> str:
    """Return the effect of a piece without its unit, which the note names."""
    return amount(piece.effect, reading.scale).removesuffix(" pp")


def _text_cell(explanation: Explanation, row: int, context: int | None, reading: Reading | None) -> str:
    parts = pieces(explanation, row, context=context, reading=reading)
    text = _marked(parts, explanation.k, reading, inline=True)
    return f'<td dir="auto" style="{_TEXT}">{text}</td>'


def _text_note(view: TextView, k: int, known: Sequence[Reading | None]) -> str:
    reading = next((reading for reading in known if reading is not None), None)
    if reading is not None:
        towards, against = reading.directions
        return (
            f"raised numbers: effects in {UNITS[reading.scale]}; solid underline: {towards}, "
            f"dashed: {against}. {MEANING}"
        )
    if k == 1:
        return f"the most important {view.unit} of each; its score is in the tooltip"
    return f"up to {k} {view.unit}s each; stronger shade: more important; scores are in the tooltips"


def text_rows(explanation: Explanation, shown: int, *, context: int | None = CONTEXT) -> str:
    """Return one table row per text, with its prediction, if known, and its selected words or sentences.

    `context` leaves out characters further than this from every mark; None shows whole texts.
    """
    view, texts = with_texts(explanation)
    first = explanation[:shown]
    known = readings_if_affordable(first)
    lines = (
        f'<td style="{_ROW}">{row}</td>{_verdict(known[row])}{_text_cell(first, row, context, known[row])}'
        for row in range(shown)
    )
    about = f"{shown_of(shown, len(texts), 'text')} · {_text_note(view, explanation.k, known)}"
    return html_table((), lines, about)


def _text_row(one: Explanation) -> str:
    view, _ = with_texts(one)
    if not one.selected.any():
        why = "the text is empty, or the explainer knows none of its words"
        hint = f'<p class="hint">There is no {view.unit} to select: {why}.</p>'
        return f'<p class="text" dir="auto">{_marked(pieces(one, 0), one.k, None, inline=False)}</p>\n{hint}'
    (reading,) = readings_if_affordable(one)
    text = _marked(pieces(one, 0, reading=reading), one.k, reading, inline=False)
    hint = "" if reading is None else f'\n<p class="hint">{escape(_text_note(view, one.k, [reading]))}</p>'
    return f'<p class="text" dir="auto">{text}</p>{hint}'


def verdict_table(
    explanation: Explanation,
    truth: Sequence[Any],
    predicted: Sequence[Any],
    rows: Sequence[int] | None = None,
    *,
    classes: Sequence[str] | None = None,
) -> str:
    """Return the paper's table of texts as HTML: true class, predicted class, selected words or sentences.

    `truth` and `predicted` are labels of all texts, or indices into `classes`. By default, `rows` are
    `first_of_each_kind`.
    """
    view, _ = with_texts(explanation)
    rows = first_of_each_kind(truth, predicted) if rows is None else rows

    def line(row: int) -> str:
        names = (name if classes is None else classes[int(name)] for name in (truth[row], predicted[row]))
        two = "".join(f'<td style="{_ROW};text-align:left">{escape(str(name))}</td>' for name in names)
        return two + _text_cell(explanation, row, WIDE_CONTEXT, None)

    selected = f"key {view.unit}{'s' * (explanation.k != 1)}"
    return html_table(
        ("true class", "prediction", selected), map(line, rows), _text_note(view, explanation.k, ())
    )


def first_of_each_kind(truth: Sequence[Any], predicted: Sequence[Any]) -> list[int]:
    """Return the first correctly classified row of each class, then the first misclassified row of each."""
    names, correct = np.asarray(truth), np.asarray(truth) == np.asarray(predicted)
    masks = [outcome & (names == name) for outcome in (correct, ~correct) for name in np.unique(names)]
    return [int(mask.argmax()) for mask in masks if mask.any()]


# Images

_IMAGES = "display:flex;flex-wrap:wrap;gap:10px;font-family:inherit;font-size:13px;line-height:1.35"
_IMAGE = "width:112px;height:auto;display:block;image-rendering:pixelated;margin-bottom:3px"


def _image_rows(explanation: Explanation, shown: int) -> str:
    """Return the images, each above its copy with outlined patches, the prediction and the effects."""
    view, X = with_images(explanation)
    first = explanation[:shown]
    known = readings_if_affordable(first)
    figures = ""
    for row, names in enumerate(first.names):
        selected = escape("; ".join(names))
        whole, patches = plain(view, X[row]), outlined_svg(first[row], known[row])
        sources = ((image_uri(whole), f"image {row}"), (svg_uri(patches), selected))
        images = "".join(
            f'<img src="{source}" alt="{alt}" title="{selected}" style="{_IMAGE}">' for source, alt in sources
        )
        caption = "<br>".join(map(escape, _image_caption(row, known[row])))
        figures += (
            f'<figure style="margin:0;text-align:center;max-width:112px">{images}'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    note = escape(_with_meaning(legend(shown, len(explanation), known).removesuffix("."), known))
    return (
        f'<div class="l2x-explanation" style="{_IMAGES}">{figures}'
        f'<div style="flex-basis:100%;opacity:.65">{note}</div></div>'
    )


def _image_caption(row: int, reading: Reading | None) -> list[str]:
    if reading is None:
        return [str(row)]
    _, only_these, all_others = reading.levels
    numbered = [f"{rank}: {text}" for rank, text in enumerate(reading.amounts, 1)]
    flag = ["not confirmed"] * (reading.confirmed is False)
    return [reading.headline, f"only these {only_these}", f"all others {all_others}", *flag, *numbered]


def _image_row(one: Explanation) -> str:
    """Return a single image next to its copy with outlined, numbered patches, and bars of their effects."""
    view, X = with_images(one)
    height, width = view.sides
    (reading,) = readings_if_affordable(one)
    selected = escape("; ".join(one.names[0]))
    pictures = (
        (plain(view, X[0]), "Image", "Image", ""),
        (
            dimmed(view, X[0], one.mask[0]),
            "Selected patches",
            f"Selected patches: {selected}",
            outlines(one, reading),
        ),
    )
    figures = "".join(
        f'<figure><svg class="picture" viewBox="0 0 {width} {height}" role="img" aria-label="{alt}">'
        f'<image href="{image_uri(colours)}" width="{width}" height="{height}"/>{marks}</svg>'
        f"<figcaption>{caption}</figcaption></figure>\n"
        for colours, caption, alt, marks in pictures
    )
    bars = "" if reading is None else f"\n{signed_bars(one, reading)}"
    hint = f'<p class="hint">{escape(legend(1, 1, [reading]))}</p>'
    return f'<div class="pictures">\n{figures}</div>\n{hint}{bars}'


TABLE = Kind(View, plot_table, _table_rows, _bars, _table_content)
KINDS = [
    Kind(TextView, plot_texts, text_rows, _text_row, text_content),
    Kind(Patches, plot_images, _image_rows, _image_row, image_content),
    Kind(Superpixels, plot_images, _image_rows, _image_row, image_content),
]


# Plain text

TEXT_ROWS = 8
TEXT_WIDTH = 100


def explanation_text(explanation: Explanation) -> str:
    """Return the numbers of rows and features, then the first rows: prediction, features, values, effects."""
    n, d = explanation.scores.shape
    first = explanation[:TEXT_ROWS]
    known = readings_if_affordable(first)
    titles = [shortened(_row_label(first, row), 16) for row in range(len(first))] + ["…"] * (len(first) < n)
    width = max(map(len, titles), default=0)
    unit = f"; effects in {UNITS[known[0].scale].removesuffix(' (pp)')}" if known and known[0] else ""
    lines = [f"Explanation of {count(n, 'row')}, {how_many(explanation)} of {count(d, 'feature')}{unit}"]
    for row, title in enumerate(titles):
        texts = _lines(first[row], known[row]) if row < len(first) else [""]
        lines += [f"  {'' if i else title:>{width}}  {text}".rstrip() for i, text in enumerate(texts)]
    return "\n".join(lines)


def _lines(one: Explanation, reading: Reading | None) -> list[str]:
    """Return a row as text: the prediction, then features with values and effects, as far as they fit."""
    values = values_of(one, 0)
    selected = one.indices[0][one.selected[0]]
    parts = [label(name, values[i]) for name, i in zip(one.names[0], selected, strict=True)]
    if reading is None:
        return _filled(parts, lines=1)
    texts = [text.removesuffix(" pp") for text in reading.amounts]  # the first line names the unit
    parts = [f"{part} ({text})" for part, text in zip(parts, texts, strict=True)]
    title = reading.title.removeprefix("Prediction: ")
    return [f"{title} ({reading.comparison})", *_filled(parts, lines=2)]


def _filled(parts: Sequence[str], *, lines: int) -> list[str]:
    """Return the parts, divided by semicolons, on at most this many lines; an ellipsis replaces the others.

    >>> _filled(["a" * 60, "b" * 60, "c"], lines=1)[0][-6:]
    'aaa; …'
    """
    filled = [""]
    for part in parts:
        joined = f"{filled[-1]}; {part}" if filled[-1] else part
        if len(joined) <= TEXT_WIDTH or not filled[-1]:
            filled[-1] = joined
        elif len(filled) < lines:
            filled[-1] += ";"
            filled.append(part)
        else:
            filled[-1] += "; …"
            break
    return filled
