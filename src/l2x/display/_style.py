"""The look of every figure, and how names, values and shares are written on one line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from html import escape
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from l2x._base.arrays import cells
from l2x._base.atomic import write_atomically
from l2x.errors import InputError, require
from l2x.explanation import Explanation, Scale
from l2x.features import is_missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1f2933"
MUTED = "#6b7786"
GRID = "#e2e7ec"
SOFT = "#b8c4d0"  # unselected features, and what results are compared with
ACCENT = "#2f6db5"  # selected features
SECOND = "#d07a26"
THIRD = "#3f8f6b"
# Signed effects, warm and cold as in shap. For readers who do not see the colours, they also differ in
# lightness, and AGAINST is hatched, dashed or drawn to the left.
TOWARDS = "#c2410c"
AGAINST = "#4a8fd4"

# Inline SVG reads its colours from these variables of the page's CSS, so that it follows light and dark mode.
CSS_NAMES = {
    INK: "--l2x-ink",
    MUTED: "--l2x-muted",
    GRID: "--l2x-grid",
    SOFT: "--l2x-soft",
    ACCENT: "--l2x-accent",
    SECOND: "--l2x-second",
    THIRD: "--l2x-third",
    TOWARDS: "--l2x-towards",
    AGAINST: "--l2x-against",
}
DOTTED: dict[str, Any] = {"color": MUTED, "linewidth": 1, "linestyle": (0, (2, 2))}  # reference lines
FORMATS = ("svg", "png", "pdf")

WIDTH = 6.6  # inches, a comfortable column of text
NOTE_WIDTH = 96  # characters that fit into it
_STYLE: dict[str, Any] = {
    "font.size": 9.5,
    "text.color": INK,
    "text.parse_math": False,  # a feature called "$" is a name, not a formula
    "figure.facecolor": "white",
    "figure.titlesize": 11.5,
    "figure.titleweight": "bold",
    "figure.labelsize": 9.5,
    "axes.facecolor": "none",
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "savefig.dpi": 200,
    "svg.fonttype": "none",  # text stays text: searchable, small, in the page's font
    "svg.hashsalt": "l2x",  # the same figure gives the same bytes
}


# Fonts for scripts that matplotlib's own font lacks, where one of them is installed.
_OTHER_SCRIPTS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "PingFang SC", "Microsoft YaHei",
    "Noto Sans Thai", "Loma", "Leelawadee UI", "Noto Sans Devanagari", "Nirmala UI", "Noto Emoji",
    "Segoe UI Emoji", "Arial Unicode MS",
)  # fmt: skip


@contextmanager
def style() -> Iterator[None]:
    """Apply l2x's look while a figure is made; the user's own matplotlib settings return afterwards."""
    styles: Any = require("matplotlib.style", extra="plots")
    with styles.context(["default", _STYLE | {"font.family": ["sans-serif", *_other_fonts()]}]):
        yield


@cache
def _other_fonts() -> tuple[str, ...]:
    """Return the installed fonts of _OTHER_SCRIPTS; matplotlib takes from them what its own font lacks."""
    manager: Any = require("matplotlib.font_manager", extra="plots")
    installed = set(manager.fontManager.get_font_names())
    return tuple(name for name in _OTHER_SCRIPTS if name in installed)


def new_figure(
    height: float, *, rows: int = 1, columns: int = 1, title: str = ""
) -> tuple[Figure, list[Axes]]:
    """Return an empty figure of the usual width and its axes, row by row, each `height` inches high.

    Call it, and draw, inside `style()`.
    """
    figure = _figure_class()(figsize=(WIDTH, height * rows), layout="constrained")
    if title:
        figure.suptitle(title, x=0.012, horizontalalignment="left")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


@cache
def _figure_class() -> type[Figure]:
    """Return a Figure class that notebooks show as SVG; matplotlib is imported on the first call.

    Figures are made without pyplot: no window opens, and no global list keeps them in memory.
    """
    base: type[Figure] = require("matplotlib.figure", extra="plots").Figure

    class NotebookFigure(base):  # type: ignore[misc, valid-type]
        def _repr_svg_(self) -> str:
            return render(self, "svg").decode()

    return NotebookFigure


def grid_lines(axes: Axes) -> None:
    """Show the values of y as grey numbers and horizontal lines, without an axis line."""
    axes.grid(axis="y", linewidth=0.8)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, labelcolor=MUTED)


def label_rows(axes: Axes, labels: Sequence[str]) -> None:
    """Label horizontal bars or lines of dots, the first on top, and remove the rest of the y-axis."""
    axes.set_yticks(range(len(labels)), labels)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)


def note(figure: Figure, text: str) -> None:
    """Write grey lines of text below the figure, from its left edge."""
    figure.supxlabel(fill(text, NOTE_WIDTH), x=0.012, horizontalalignment="left", color=MUTED)


def saved(figure: Figure, path: str | Path | None) -> Figure:
    """Save the figure if a path is given, and return it."""
    if path is not None:
        save_figure(figure, path)
    return figure


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Save the figure by its extension: .svg, .png or .pdf; a failure leaves an existing file untouched."""
    kind = Path(path).suffix.lower().lstrip(".")
    if kind not in FORMATS:
        raise InputError(f"Cannot save a figure as '{Path(path).name}'; end the name in .svg, .png or .pdf.")
    return write_file(path, render(figure, kind))


def write_file(path: str | Path, content: bytes) -> Path:
    """Write the file as a whole or not at all; missing folders are created."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    return write_atomically(path, content)


def figure_svg(figure: Figure) -> str:
    """Return the figure as an <svg> element for a page: transparent, in the page's font and colours."""
    svg = render(figure, "svg", facecolor="none").decode()
    svg = svg[svg.index("<svg") :]
    # A page has no use for metadata, group names and a page-wide style rule, and names would clash.
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"\s*<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "var(--l2x-font, sans-serif)", svg)
    for colour, name in CSS_NAMES.items():
        svg = svg.replace(f": {colour}", f": var({name}, {colour})")
    title = figure.get_suptitle() or "figure"
    look = "max-width: 100%; height: auto; stroke-linejoin: round; stroke-linecap: butt"
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" style="{look}" ', 1)


def render(figure: Figure, kind: str, **options: Any) -> bytes:
    """Return the figure as a file of one of FORMATS; `options` go to matplotlib's savefig."""
    buffer = BytesIO()
    # No date: the same figure gives the same bytes.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with style():
        figure.savefig(buffer, format=kind, metadata=metadata, **options)
    return buffer.getvalue()


# Names, values and shares as short texts

NAME_LENGTH = 36
VALUE_LENGTH = 16


def values_of(explanation: Explanation, row: int) -> list[str]:
    """Return the d values of a row as texts, not escaped; empty texts if features are not table cells."""
    values = cells(explanation.inputs, row)
    d = len(explanation.feature_names)
    # Features may also be groups of columns, patches of an image or words of a text.
    return [cell_text(cell) for cell in values] if len(values) == d else [""] * d


def how_many(explanation: Explanation) -> str:
    """Return the number of selected features: "3", or "up to 3" if rows differ in size."""
    return f"{explanation.k}" if explanation.sizes is None else f"up to {explanation.k}"


def size_text(explanation: Explanation) -> str:
    """Return the number of selected features for titles: "k = 3", or "k up to 3"."""
    return f"k {'=' if explanation.sizes is None else 'up to'} {explanation.k}"


def cell_text(cell: Any) -> str:
    """Return a table cell as text; floats have four significant digits.

    >>> cell_text(1.23456789), cell_text(12), cell_text("red"), cell_text(None)
    ('1.235', '12', 'red', 'missing')
    """
    if is_missing(cell):
        return "missing"
    return f"{cell:.4g}" if isinstance(cell, float | np.floating) else str(cell)


def with_value(name: object, value: str) -> str:
    """Return a feature's name with its value, if it has one.

    >>> with_value("age", "42"), with_value("row 2, column 3", "")
    ('age = 42', 'row 2, column 3')
    """
    return f"{name} = {value}" if value else str(name)


def label(name: object, value: str = "") -> str:
    """Return `with_value` for the label of a bar or a line: both parts are shortened."""
    return with_value(shortened(name), shortened(value, VALUE_LENGTH))


def shortened(text: object, length: int = NAME_LENGTH) -> str:
    """Return the text on one line, without control characters; the middle of a long text is left out."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    if len(line) <= length:
        return line
    tail = (length - 1) // 3
    return f"{line[: length - 1 - tail]}…{line[-tail:]}"


def percent(share: float) -> str:
    """Return a rounded percentage; "<1%" and ">99%" near the ends.

    >>> percent(0.256), percent(0.001), percent(0.999), percent(1.0)
    ('26%', '<1%', '>99%', '100%')
    """
    if 0 < share < 0.005:
        return "<1%"
    if 0.995 <= share < 1:
        return ">99%"
    return f"{share:.0%}"


def level(value: float, scale: Scale) -> str:
    """Return a prediction on a scale: a percentage, log-odds, or a value with four significant digits.

    >>> level(0.882, "probability"), level(-1.25, "log-odds"), level(152000.0, "value")
    ('88%', '−1.25', '152,000')
    """
    return percent(value) if scale == "probability" else _number(value)


def amount(value: float, scale: Scale) -> str:
    """Return a signed effect on a scale; differences of probabilities are percentage points (pp).

    >>> amount(0.182, "probability"), amount(-0.004, "probability"), amount(12.3456, "value")
    ('+18 pp', '−0.4 pp', '+12.35')
    """
    if scale != "probability":
        return _number(value, sign="+")
    points = 100 * value
    return f"{_minus(f'{points:+.0f}' if abs(points) >= 9.95 else f'{points:+.1f}')} pp"


def _number(value: float, sign: str = "") -> str:
    digits = f"{sign},.0f" if 1e4 <= abs(value) < 1e9 else f"{sign}.4g"
    return _minus(f"{value:{digits}}")


def _minus(text: str) -> str:
    """Return zero without a sign, and other numbers with a minus sign that is as wide as the plus sign."""
    return text.replace("-", "−") if text.strip("+-0.") else "0"


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the singular or plural.

    >>> count(1, "row"), count(1200, "text"), count(3, "patch")
    ('1 row', '1,200 texts', '3 patches')
    """
    plural = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{plural}"
