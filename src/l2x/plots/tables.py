"""An explanation as an HTML table for notebooks, light or dark, safe whatever names and values hold."""

from __future__ import annotations

from html import escape

from l2x.explanation import Explanation, values_of
from l2x.plots.style import shortened

# Styles are inline and colours are see-through over the page's own: notebooks drop <style> from outputs they
# do not trust, and this way text and background follow their theme.
FRAME = "overflow-x:auto;max-width:100%;font-family:inherit;font-size:13px;line-height:1.35"
TABLE = "border-collapse:separate;border-spacing:3px;margin:0;border:none"
_PLAIN = "border:none;background:none;opacity:.65"
HEAD = f"{_PLAIN};text-align:left;font-weight:600;padding:2px 9px"
ROW = f"{_PLAIN};text-align:right;padding:4px 9px;vertical-align:top"
_CELL = "border:none;border-radius:5px;text-align:left;vertical-align:top;padding:4px 9px;min-width:6.5em"
_VALUE = "opacity:.75;font-variant-numeric:tabular-nums"
NOTE = "opacity:.65;padding:4px 9px"


def explanation_table(explanation: Explanation, rows: int = 20) -> str:
    """An HTML fragment: the first `rows` rows, their selected features, best first, and the values."""
    n, d = explanation.scores.shape
    shown = max(0, min(rows, n))
    heads = "".join(f'<th style="{HEAD}">{_ordinal(j + 1)}</th>' for j in range(explanation.k))
    body = "".join(_row(explanation, i) for i in range(shown))
    count = f"showing {shown:,} of {n:,} rows" if shown < n else f"{n:,} row{'s' * (n != 1)}"
    return (
        f'<div class="l2x-explanation" style="{FRAME}"><table style="{TABLE}">'
        f'<thead><tr style="background:none"><th style="{HEAD}">row</th>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
        f'<div style="{NOTE}">{count} · k = {explanation.k} of {d} features, best first</div></div>'
    )


def _row(explanation: Explanation, row: int) -> str:
    values = values_of(explanation, row)
    cells = "".join(
        f'<td style="{_CELL};background:{shade(rank, explanation.k)}">'
        f"{_cell(explanation.feature_names[i], values[i])}</td>"
        for rank, i in enumerate(explanation.indices[row])
    )
    index = getattr(explanation.inputs, "index", None)
    label = row if index is None or callable(index) else index[row]  # a list has a method of that name
    return f'<tr style="background:none"><td style="{ROW}">{_text(label)}</td>{cells}</tr>'


def _cell(name: str, value: str) -> str:
    shown = _text(name)
    return f'{shown}<br><span style="{_VALUE}">{_text(value)}</span>' if value else shown


def _text(text: object) -> str:
    """Short, escaped, the whole of it in a tooltip where something was left out."""
    short = shortened(text)
    if short == str(text):
        return escape(short)
    return f'<span title="{escape(str(text))}">{escape(short)}</span>'


def shade(rank: int, k: int) -> str:
    """The accent colour, strongest for the most important feature."""
    return f"rgba(47,109,181,{0.42 - 0.34 * rank / max(1, k - 1):.2f})"


def _ordinal(number: int) -> str:
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"
