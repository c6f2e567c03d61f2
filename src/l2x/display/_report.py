"""A report: one HTML file that needs nothing else - no network, no script - in light or dark."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from l2x._version import __version__
from l2x.display._labels import count
from l2x.display._style import figure_svg, write_file
from l2x.errors import InputError, require

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Table = tuple[Sequence[str], Sequence[Sequence[object]]]


@dataclass(frozen=True)
class SafeHtml:
    """Markup that goes into a page as it is. Every other text is escaped: wrap only what escapes its own
    content, such as `SafeHtml(explanation.to_html())`."""

    markup: str

    def __html__(self) -> str:
        """The protocol by which Jinja's autoescape knows safe markup."""
        return self.markup


Tone = Literal["good", "bad", "unsure"]


@dataclass(frozen=True)
class Section:
    """A part of a report, in the order in which it is shown; what is not given is left out.

    Attributes
    ----------
    heading : may be empty, for an opening without one
    text : paragraphs
    verdict : a sentence set apart, and its tone: "good", "bad" or "unsure"
    facts : (number, what it is) pairs, set large: ("97 %", "same answer with 5 of 30 columns")
    table : (column names, rows); numbers are formatted and put at the right
    figures : drawn as inline SVG, one below the other
    caption : a line below table and figures
    html : markup that is already safe
    """

    heading: str = ""
    text: Sequence[str] = ()
    verdict: tuple[str, Tone] | None = None
    facts: Sequence[tuple[str, str]] = ()
    table: Table | None = None
    figures: Sequence[Figure] = ()
    caption: str = ""
    html: SafeHtml | None = None

    def __post_init__(self) -> None:
        if self.html is not None and not isinstance(self.html, SafeHtml):
            raise InputError(
                f"html is a {type(self.html).__name__}; wrap markup that is known to be safe: SafeHtml(...)."
            )
        columns, rows = self.table or ((), ())
        for row in rows:
            if len(row) != len(columns):
                raise InputError(f"A table of {len(columns)} columns has a row of {len(row)} cells.")


def write_report(path: str | Path, *, title: str, subtitle: str = "", sections: Sequence[Section]) -> Path:
    """Write the sections as one self-contained HTML file; an older file is replaced only by a whole one."""
    return write_file(path, render_report(title=title, subtitle=subtitle, sections=sections).encode())


def render_report(*, title: str, subtitle: str = "", sections: Sequence[Section]) -> str:
    """The sections as one self-contained HTML page."""
    jinja2: Any = require("jinja2", extra="plots")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("l2x.display", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["svg"] = lambda figure: SafeHtml(figure_svg(figure))
    environment.filters["cells"] = _cells
    template = environment.get_template("report.html")
    return str(template.render(title=title, subtitle=subtitle, sections=sections, footer=_footer()))


def _cells(table: Table) -> tuple[list[list[str]], list[bool]]:
    """The rows as texts, and for each column whether it holds numbers."""
    columns, given = table
    rows = [[_cell(cell) for cell in row] for row in given]
    return rows, [all(_is_number(row[j]) for row in rows) for j in range(len(columns))]


def _cell(cell: object) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, Integral):
        return f"{int(cell):,}"
    return f"{float(cell):.4g}" if isinstance(cell, Real) else str(cell)


def _is_number(text: str) -> bool:
    """Whether the text is a number, with or without unit and interval: 97.1 %, 0.98 ± 0.01, 1,000, –."""
    return (
        re.fullmatch(r"[-+−–<>≥≤~]?\s*(\d[\d.,e+\-]*)?(\s*(±|to|–)\s*\d[\d.,]*)?\s*(%|µs|ms|s|bits?)?", text)
        is not None
    )


def _footer() -> str:
    import torch

    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    threads = count(torch.get_num_threads(), "thread")
    cores = f"{os.cpu_count()} cores, torch {torch.__version__} with {threads}"
    return f"l2x {__version__} · {now} · {machine} · {cores}"
