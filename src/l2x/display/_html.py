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
    image_content,
    image_uri,
    legend,
    overlay,
    patch_rectangles,
    plain,
    plot_images,
    with_images,
)
from l2x.display._style import cell_text, count, how_many, label, saved, shortened, size_text, values_of
from l2x.display._texts import Piece, pieces, plot_texts, text_content, with_texts
from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.features import Columns, Patches, TextView, View

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


# Shades by rank

SHADES = 3
_BACKGROUNDS = ("rgba(47,109,181,.42)", "rgba(47,109,181,.25)", "rgba(47,109,181,.08)")


def shade(rank: int, k: int) -> int:
    """Return the shade of the feature with this rank (from 0) among k: from 1, the strongest, to SHADES.

    >>> [shade(rank, 3) for rank in range(3)], [shade(rank, 5) for rank in range(5)]
    ([1, 2, 3], [1, 1, 2, 2, 3])
    """
    return 1 + rank * SHADES // max(k, 1)


def _background(rank: int, k: int) -> str:
    return f"background:{_BACKGROUNDS[shade(rank, k) - 1]}"


# Tables. Colours are translucent, so that text and background follow the notebook's theme.

_FRAME = "overflow-x:auto;max-width:100%;font-family:inherit;font-size:13px;line-height:1.35"
_TABLE = "border-collapse:separate;border-spacing:3px;margin:0;border:none"
_PLAIN = "border:none;background:none;opacity:.65"
_HEAD = f"{_PLAIN};text-align:left;font-weight:600;padding:2px 9px"
_ROW = f"{_PLAIN};text-align:right;padding:4px 9px;vertical-align:top"
_CELL = "border:none;border-radius:5px;text-align:left;vertical-align:top;padding:4px 9px;min-width:6.5em"
_VALUE = "opacity:.75;font-variant-numeric:tabular-nums"
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
    """Return one table row per input: the selected features, best first, with their values."""
    n, d = explanation.scores.shape
    most = max((len(names) for names in explanation[:shown].names), default=explanation.k)
    return html_table(
        ["row", *(_ordinal(rank + 1) for rank in range(most))],
        (_table_row(explanation, row) for row in range(shown)),
        f"{shown_of(shown, n, 'row')} · {size_text(explanation)} of {d} features, most important first",
    )


def _table_row(explanation: Explanation, row: int) -> str:
    values, names = values_of(explanation, row), _names(explanation[row])
    row_cells = "".join(
        f'<td style="{_CELL};{_background(rank, explanation.k)}">{_short(names[i])}'
        + (f'<br><span style="{_VALUE}">{_short(values[i])}</span></td>' if values[i] else "</td>")
        for rank, i in enumerate(explanation.indices[row][explanation.selected[row]])
    )
    return f'<td style="{_ROW}">{_short(_row_label(explanation, row))}</td>{row_cells}'


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
    """Return a single row as bars: the selected features, then the next best."""
    scores, values, names = one.scores[0], values_of(one, 0), _names(one)
    selected = int(one.selected[0].sum())
    order = [int(i) for i in ranked(one.scores)[0][: one.k + RUNNERS_UP] if scores[i] > float("-inf")]
    lowest = float(scores.min()) if order else 0.0
    span = float(scores[order[0]]) - lowest if order else 0.0
    bars = ""
    for rank, i in enumerate(order):
        name, value, score = escape(str(names[i])), escape(values[i]), float(scores[i])
        width = 2 + 98 * (score - lowest) / span if span else 100  # at least 2: an empty bar is invisible
        kind, number, state = (
            ("selected", rank + 1, "") if rank < selected else ("other", "–", ", not selected")
        )
        bars += (
            f'<li class="{kind}"><span class="rank">{number}</span> '
            f'<span class="name" dir="auto" title="{name}">{name}</span> '
            f'<span class="value" dir="auto" title="{value}">{value}</span> '
            f'<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" '
            f'aria-label="score {score:.3g}{state}"><rect width="{width:.1f}" height="8"/></svg></li>\n'
        )
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
# Underlined, because the shade of the last ones is faint.
_MARK = (
    "color:inherit;padding:0 .15em;border-radius:3px 3px 0 0;border-bottom:2px solid rgba(47,109,181,.7);"
    "box-decoration-break:clone;-webkit-box-decoration-break:clone"
)


def _marked(parts: Sequence[Piece], k: int, *, inline: bool) -> str:
    """Return a text with its selected pieces in <mark>, shaded by rank, with scores in tooltips."""
    html = ""
    for piece in parts:
        text = escape(piece.text)
        if piece.rank is not None:
            look = (
                f'style="{_background(piece.rank, k)};{_MARK}"'
                if inline
                else f'class="shade-{shade(piece.rank, k)}" data-rank="{piece.rank + 1}"'
            )
            text = f'<mark {look} title="{escape(piece.about)}">{text}</mark>'
        html += text
    return html


def _text_cell(explanation: Explanation, row: int, context: int | None) -> str:
    text = _marked(pieces(explanation, row, context=context), explanation.k, inline=True)
    return f'<td dir="auto" style="{_TEXT}">{text}</td>'


def _text_note(view: TextView, k: int) -> str:
    if k == 1:
        return f"the most important {view.unit} of each; its score is in the tooltip"
    return f"up to {k} {view.unit}s each; stronger shade: more important; scores are in the tooltips"


def text_rows(explanation: Explanation, shown: int, *, context: int | None = CONTEXT) -> str:
    """Return one table row per text, with its selected words or sentences marked.

    `context` leaves out characters further than this from every mark; None shows whole texts.
    """
    view, texts = with_texts(explanation)
    lines = (f'<td style="{_ROW}">{row}</td>{_text_cell(explanation, row, context)}' for row in range(shown))
    return html_table((), lines, f"{shown_of(shown, len(texts), 'text')} · {_text_note(view, explanation.k)}")


def _text_row(one: Explanation) -> str:
    view, _ = with_texts(one)
    hint = f"There is no {view.unit} to select: the text is empty, or the explainer knows none of its words."
    hint = "" if one.selected.any() else f'\n<p class="hint">{hint}</p>'
    return f'<p class="text" dir="auto">{_marked(pieces(one, 0), one.k, inline=False)}</p>{hint}'


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
        return two + _text_cell(explanation, row, WIDE_CONTEXT)

    selected = f"key {view.unit}{'s' * (explanation.k != 1)}"
    return html_table(
        ("true class", "prediction", selected), map(line, rows), _text_note(view, explanation.k)
    )


def first_of_each_kind(truth: Sequence[Any], predicted: Sequence[Any]) -> list[int]:
    """Return the first correctly classified row of each class, then the first misclassified row of each."""
    names, correct = np.asarray(truth), np.asarray(truth) == np.asarray(predicted)
    masks = [outcome & (names == name) for outcome in (correct, ~correct) for name in np.unique(names)]
    return [int(mask.argmax()) for mask in masks if mask.any()]


# Images

_IMAGES = "display:flex;flex-wrap:wrap;gap:10px;font-family:inherit;font-size:13px;line-height:1.35"
_IMAGE = "width:84px;height:auto;display:block;image-rendering:pixelated;margin-bottom:3px"


def _image_rows(explanation: Explanation, shown: int) -> str:
    """Return the images, each above its copy with selected patches."""
    view, X = with_images(explanation)
    figures = ""
    for row, names in enumerate(explanation[:shown].names):
        selected = escape("; ".join(names))
        pictures = (
            (plain(view, X[row]), f"image {row}"),
            (overlay(view, X[row], explanation, row), selected),
        )
        images = "".join(
            f'<img src="{image_uri(colours)}" alt="{alt}" title="{selected}" style="{_IMAGE}">'
            for colours, alt in pictures
        )
        figures += (
            f'<figure style="margin:0;text-align:center">{images}<figcaption>{row}</figcaption></figure>'
        )
    note = escape(legend(view, shown, len(explanation)))
    return (
        f'<div class="l2x-explanation" style="{_IMAGES}">{figures}'
        f'<div style="flex-basis:100%;opacity:.65">{note}</div></div>'
    )


def _image_row(one: Explanation) -> str:
    """Return a single image next to its copy with selected patches, outlined and numbered by rank."""
    view, X = with_images(one)
    height, width = view.image_shape_[-2:]
    outlines = "".join(
        f'<rect class="patch" data-rank="{rank}" x="{at["x"]}" y="{at["y"]}" width="{at["width"]}" '
        f'height="{at["height"]}"/><text class="patch-rank" x="{at["x"] + 0.06 * at["width"]:g}" '
        f'y="{at["y"] + 0.34 * at["height"]:g}" font-size="{0.34 * at["height"]:g}">{rank}</text>'
        for rank, at in enumerate(patch_rectangles(view, one.indices[0][one.selected[0]].tolist()), 1)
    )
    selected = escape("; ".join(one.names[0]))
    pictures = (
        (plain(view, X[0]), "Image", "Image", ""),
        (overlay(view, X[0], one, 0), "Selected patches", f"Selected patches: {selected}", outlines),
    )
    figures = "".join(
        f'<figure><svg class="picture" viewBox="0 0 {width} {height}" role="img" aria-label="{alt}">'
        f'<image href="{image_uri(colours)}" width="{width}" height="{height}"/>{marks}</svg>'
        f"<figcaption>{caption}</figcaption></figure>\n"
        for colours, caption, alt, marks in pictures
    )
    return f'<div class="pictures">\n{figures}</div>\n<p class="hint">{legend(view, 1, 1)}</p>'


TABLE = Kind(View, plot_table, _table_rows, _bars, _table_content)
KINDS = [
    Kind(TextView, plot_texts, text_rows, _text_row, text_content),
    Kind(Patches, plot_images, _image_rows, _image_row, image_content),
]


# Plain text

TEXT_ROWS = 8
TEXT_WIDTH = 100


def explanation_text(explanation: Explanation) -> str:
    """Return the numbers of rows and features, then the selected features of the first rows with values."""
    n, d = explanation.scores.shape
    first = explanation[:TEXT_ROWS]
    table = [(shortened(_row_label(first, row), 16), _line(first, row)) for row in range(len(first))]
    if len(first) < n:
        table.append(("…", ""))
    width = max((len(title) for title, _ in table), default=0)
    return "\n".join(
        [f"Explanation of {count(n, 'row')}, {how_many(explanation)} of {count(d, 'feature')}"]
        + [f"  {title:>{width}}  {line}".rstrip() for title, line in table]
    )


def _line(explanation: Explanation, row: int) -> str:
    """Return the selected features of a row, best first, as far as they fit on a line."""
    one = explanation[row]
    values = values_of(one, 0)
    selected = one.indices[0][one.selected[0]]
    line = "; ".join(label(name, values[i]) for name, i in zip(one.names[0], selected, strict=True))
    return line if len(line) <= TEXT_WIDTH else line[:TEXT_WIDTH].rpartition("; ")[0] + "; …"
