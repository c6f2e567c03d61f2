"""One look for every figure: a few colours, no frames, text that stays text; drawn without pyplot."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from l2x._base.atomic import write_atomically
from l2x.errors import InputError, require

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
DOTTED: dict[str, Any] = {"color": MUTED, "linewidth": 1, "linestyle": (0, (2, 2))}  # a line to compare with
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
    return new_grid(rows=1, columns=columns, height=height, title=title)


def new_grid(*, rows: int, columns: int, height: float, title: str = "") -> tuple[Figure, list[Axes]]:
    """An empty figure with a grid of axes, row by row, each `height` inches high; see `new_figure`."""
    require("matplotlib.figure", extra="plots")
    pass

    figure = NotebookFigure(figsize=(WIDTH, height * rows), layout="constrained")
    if title:
        figure.suptitle(title, x=0.012, horizontalalignment="left")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def grid_lines(axes: Axes) -> None:
    """Values of y as quiet numbers and lines across the figure, in place of an axis."""
    axes.grid(axis="y", linewidth=0.8)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, labelcolor=MUTED)


def label_rows(axes: Axes, labels: Sequence[str]) -> None:
    """One label per horizontal bar or line of dots, the first on top, nothing else on the axis."""
    axes.set_yticks(range(len(labels)), labels)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)


def note(figure: Figure, text: str) -> None:
    """Quiet lines below the figure, from its left edge."""
    figure.supxlabel(fill(text, NOTE_WIDTH), x=0.012, horizontalalignment="left", color=MUTED)


def saved(figure: Figure, path: str | Path | None) -> Figure:
    """The figure, saved if a path is given: how every function that draws ends."""
    if path is not None:
        save_figure(figure, path)
    return figure


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Save by the extension: .svg, .png or .pdf. An existing file is replaced only by a whole one."""
    kind = Path(path).suffix.lower().lstrip(".")
    if kind not in FORMATS:
        raise InputError(f"Cannot save a figure as '{Path(path).name}'; end the name in .svg, .png or .pdf.")
    return write_file(path, render(figure, kind))


def write_file(path: str | Path, content: bytes) -> Path:
    """Write a whole file or nothing; a missing folder is made."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    return write_atomically(path, content)


def figure_svg(figure: Figure) -> str:
    """The figure as an <svg> element to put into a page: transparent, in the page's font and colours."""
    svg = render(figure, "svg", facecolor="none").decode()
    svg = svg[svg.index("<svg") :]
    # Metadata, group names and a page-wide style rule are of no use inside a page, and names would clash.
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
    """The figure as a file of one of FORMATS; `options` go to matplotlib's savefig."""
    buffer = BytesIO()
    # No date: the same figure gives the same bytes.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with style():
        figure.savefig(buffer, format=kind, metadata=metadata, **options)
    return buffer.getvalue()


class NotebookFigure(Figure):
    """Drawn without pyplot: no window, no global list of figures that keeps it in memory."""

    def _repr_svg_(self) -> str:
        return render(self, "svg").decode()
