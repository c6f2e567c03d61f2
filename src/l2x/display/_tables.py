"""An explanation as a table: HTML for notebooks, safe whatever names and values hold, or plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from l2x._base.arrays import labels
from l2x.display._labels import count, how_many, label, shortened, size_text, values_of
from l2x.explanation import Explanation

# Styles are inline and colours are see-through over the page's own: notebooks drop <style> from outputs they
# do not trust, and this way text and background follow their theme.
_FRAME = "overflow-x:auto;max-width:100%;font-family:inherit;font-size:13px;line-height:1.35"
_TABLE = "border-collapse:separate;border-spacing:3px;margin:0;border:none"
_PLAIN = "border:none;background:none;opacity:.65"
_HEAD = f"{_PLAIN};text-align:left;font-weight:600;padding:2px 9px"
ROW = f"{_PLAIN};text-align:right;padding:4px 9px;vertical-align:top"
_CELL = "border:none;border-radius:5px;text-align:left;vertical-align:top;padding:4px 9px;min-width:6.5em"
_VALUE = "opacity:.75;font-variant-numeric:tabular-nums"
_NOTE = "opacity:.65;padding:4px 9px"

# The plain text: how many rows, and how wide a line may get.
TEXT_ROWS = 8
TEXT_WIDTH = 100


def explanation_table(explanation: Explanation, rows: int = 20) -> str:
    """An HTML fragment: the first `rows` rows, their selected features, best first, and the values."""
    n, d = explanation.scores.shape
    shown = max(0, min(rows, n))
    most = max((len(names) for names in explanation[:shown].names), default=explanation.k)
    return html_table(
        ["row", *(_ordinal(rank + 1) for rank in range(most))],
        (_row(explanation, row) for row in range(shown)),
        f"{shown_of(shown, n, 'row')} · {size_text(explanation)} of {d} features, best first",
    )


def html_table(heads: Sequence[str], rows: Iterable[str], note: str) -> str:
    """The frame of every table: heads of columns, if any; rows, each of <td> elements; a note below."""
    cells = "".join(f'<th style="{_HEAD}">{escape(head)}</th>' for head in heads)
    head = f'<thead><tr style="background:none">{cells}</tr></thead>' if heads else ""
    body = "".join(f'<tr style="background:none">{row}</tr>' for row in rows)
    return (
        f'<div class="l2x-explanation" style="{_FRAME}">'
        f'<table style="{_TABLE}">{head}<tbody>{body}</tbody></table>'
        f'<div style="{_NOTE}">{escape(note)}</div></div>'
    )


def shown_of(shown: int, n: int, noun: str) -> str:
    """
    >>> shown_of(20, 1000, "row"), shown_of(3, 3, "text")
    ('showing 20 of 1,000 rows', '3 texts')
    """
    return f"showing {shown:,} of {count(n, noun)}" if shown < n else count(n, noun)


def shade(rank: int, k: int) -> str:
    """The accent colour, strongest for the most important feature."""
    return f"rgba(47,109,181,{0.42 - 0.34 * rank / max(1, k - 1):.2f})"


def explanation_text(explanation: Explanation) -> str:
    """How many rows and features, then what was selected in the first rows, with values if known."""
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
    """The selected features of a row, best first, as many as a line holds."""
    one = explanation[row]
    values = values_of(one, 0)
    selected = one.indices[0][one.selected[0]]
    line = "; ".join(label(name, values[i]) for name, i in zip(one.names[0], selected, strict=True))
    return line if len(line) <= TEXT_WIDTH else line[:TEXT_WIDTH].rpartition("; ")[0] + "; …"


def _row(explanation: Explanation, row: int) -> str:
    values = values_of(explanation, row)
    cells = "".join(
        f'<td style="{_CELL};background:{shade(rank, explanation.k)}">'
        f"{_cell(explanation.feature_names[i], values[i])}</td>"
        for rank, i in enumerate(explanation.indices[row][explanation.selected[row]])
    )
    return f'<td style="{ROW}">{_text(_row_label(explanation, row))}</td>{cells}'


def _row_label(explanation: Explanation, row: int) -> object:
    """The row's label in a pandas index, or its number."""
    index = labels(explanation.inputs)
    return row if index is None else index[row]


def _cell(name: str, value: str) -> str:
    shown = _text(name)
    return f'{shown}<br><span style="{_VALUE}">{_text(value)}</span>' if value else shown


def _text(text: object) -> str:
    """Short, escaped, the whole of it in a tooltip where something was left out."""
    short = shortened(text)
    if short == str(text):
        return escape(short)
    return f'<span title="{escape(str(text))}">{escape(short)}</span>'


def _ordinal(number: int) -> str:
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"
