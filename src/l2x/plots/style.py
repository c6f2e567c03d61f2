"""One look for every figure: a few colours, no frames, text that stays text; drawn without pyplot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from l2x.errors import InputError, require
from l2x.foundations.atomic import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1f2933"
MUTED = "#6b7786"
GRID = "#e2e7ec"
SOFT = "#b8c4d0"  # what was not selected, what is compared with
ACCENT = "#2f6db5"  # what was selected
SECOND = "#d07a26"
THIRD = "#3f8f6b"

# Inline SVG takes these from the page, so that it follows light and dark; the page's CSS sets them.
CSS_NAMES = {
    INK: "--l2x-ink",
    MUTED: "--l2x-muted",
    GRID: "--l2x-grid",
    SOFT: "--l2x-soft",
    ACCENT: "--l2x-accent",
    SECOND: "--l2x-second",
    THIRD: "--l2x-third",
}
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
    "axes.prop_cycle": "cycler('color', ['2f6db5', 'd07a26', '3f8f6b', '6b7786'])",
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


@contextmanager
def style() -> Iterator[None]:
    """l2x's look while a figure is made, whatever the user's own settings are; theirs come back after."""
    styles: Any = require("matplotlib.style", extra="plots")
    with styles.context(["default", _STYLE]):
        yield


def new_figure(height: float, *, columns: int = 1, title: str = "") -> tuple[Figure, list[Axes]]:
    """An empty figure of the usual width (height in inches) and its axes, side by side.

    Call it, and draw, inside `style()`.
    """
    figures: Any = require("matplotlib.figure", extra="plots")

    class NotebookFigure(figures.Figure):  # type: ignore[misc]
        """Notebooks show pyplot's figures by themselves, but this one is not pyplot's."""

        def _repr_svg_(self) -> str:
            return _render(self, "svg").decode()

    figure: Figure = NotebookFigure(figsize=(WIDTH, height), layout="constrained")
    if title:
        figure.suptitle(title, x=0.012, horizontalalignment="left")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    return figure, list(axes)


def new_grid(*, rows: int, columns: int, height: float, title: str = "") -> tuple[Figure, list[Axes]]:
    """An empty figure with a grid of axes, row by row, each `height` inches high; see `new_figure`."""
    figure, (first,) = new_figure(height * rows, title=title)
    first.remove()
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def note(figure: Figure, text: str) -> None:
    """Quiet lines below the figure, from its left edge."""
    figure.supxlabel(fill(text, NOTE_WIDTH), x=0.012, horizontalalignment="left", color=MUTED)


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Save by the extension: .svg, .png or .pdf. An existing file is replaced only by a whole one."""
    kind = Path(path).suffix.lower().lstrip(".")
    if kind not in FORMATS:
        raise InputError(f"Cannot save a figure as '{Path(path).name}'; end the name in .svg, .png or .pdf.")
    return write_file(path, _render(figure, kind))


def write_file(path: str | Path, content: bytes) -> Path:
    """Write a whole file or nothing; a missing folder is made."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    return write_atomically(path, content)


def figure_svg(figure: Figure) -> str:
    """The figure as an <svg> element to put into a page: transparent, in the page's font and colours."""
    svg = _render(figure, "svg", facecolor="none").decode()
    svg = svg[svg.index("<svg") :]
    # Metadata, group names and a page-wide style rule are of no use inside a page, and names would clash.
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"\s*<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "var(--l2x-font, sans-serif)", svg)
    for colour, name in CSS_NAMES.items():
        svg = svg.replace(f": {colour}", f": var({name}, {colour})")
    look = "max-width: 100%; height: auto; stroke-linejoin: round; stroke-linecap: butt"
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(_title(figure))}" style="{look}" ', 1)


def shortened(text: object, length: int = 36) -> str:
    """A label on one line: no line breaks, no control characters, the middle left out where it is long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    if len(line) <= length:
        return line
    tail = (length - 1) // 3
    return f"{line[: length - 1 - tail]}…{line[-tail:]}"


def _render(figure: Figure, kind: str, **options: Any) -> bytes:
    buffer = BytesIO()
    # No date: the same figure gives the same bytes.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with style():
        figure.savefig(buffer, format=kind, metadata=metadata, **options)
    return buffer.getvalue()


def _title(figure: Figure) -> str:
    return figure.get_suptitle() or "figure"
