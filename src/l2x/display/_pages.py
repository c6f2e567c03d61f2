"""Pages: a report is one HTML file without scripts or network access; sites share templates and headers.

`render_report` makes a page of sections; `report_page`, `report_table`, `plot_report` show `l2x.report(...)`.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from math import inf, isnan
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from l2x._version import __version__
from l2x.display._figures import draw_curve, draw_estimates
from l2x.display._html import html_table
from l2x.display._style import (
    ACCENT,
    SECOND,
    SOFT,
    THIRD,
    count,
    figure_svg,
    label_rows,
    new_figure,
    note,
    saved,
    style,
    write_file,
)
from l2x.errors import InputError, require
from l2x.evaluation import Entry, Part, Report
from l2x.learning import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Table = tuple[Sequence[str], Sequence[Sequence[object]]]
Tone = Literal["good", "bad", "unsure"]

STATIC = Path(__file__).parent / "static"
# Scripts, styles and requests only from this host; no inline scripts, inline styles or frames.
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def environment(package: str, *, extra: str) -> Any:
    """Return a Jinja environment that escapes everything, with the templates of `package` and l2x.display.

    base.html has the blocks title, head, nav, main and footer; the variable `root` is the path under which a
    proxy serves the site, empty by default. If Jinja is missing, the error names `extra`.
    """
    jinja2: Any = require("jinja2", extra=extra)
    packages = dict.fromkeys([package, "l2x.display"])
    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(name, "templates") for name in packages]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["root"] = ""
    return made


@dataclass(frozen=True)
class SafeHtml:
    """Markup that goes into a page unchanged; every other text is escaped.

    Wrap only markup that has escaped its own content, such as `SafeHtml(explanation.to_html())`.
    """

    markup: str

    def __html__(self) -> str:
        """Return the markup; Jinja's autoescape recognises safe markup by this method."""
        return self.markup


@dataclass(frozen=True)
class Section:
    """A part of a report; its fields are shown in this order, and empty ones are left out."""

    heading: str = ""
    text: Sequence[str] = ()  # paragraphs
    verdict: tuple[str, Tone] | None = None  # a highlighted sentence and its tone
    facts: Sequence[tuple[str, str]] = ()  # large numbers and their meaning: ("97 %", "post-hoc accuracy")
    table: Table | None = None  # column names and rows; numbers are formatted and right-aligned
    figures: Sequence[Figure] = ()  # drawn as inline SVG
    caption: str = ""  # a line below table and figures
    html: SafeHtml | None = None

    def __post_init__(self) -> None:
        if self.html is not None and not isinstance(self.html, SafeHtml):
            raise InputError(f"html is a {type(self.html).__name__}; wrap safe markup: SafeHtml(...).")
        columns, rows = self.table or ((), ())
        for row in rows:
            if len(row) != len(columns):
                raise InputError(f"The table has {len(columns)} columns, but a row has {len(row)} cells.")


def write_report(path: str | Path, *, title: str, subtitle: str = "", sections: Sequence[Section]) -> Path:
    """Write the page of `render_report`; a failure leaves an existing file untouched."""
    return write_file(path, render_report(title=title, subtitle=subtitle, sections=sections).encode())


def render_report(*, title: str, subtitle: str = "", sections: Sequence[Section]) -> str:
    """Return the sections as one self-contained HTML page."""
    templates = environment("l2x.display", extra="plots")
    templates.filters["svg"] = lambda figure: SafeHtml(figure_svg(figure))
    templates.filters["cells"] = _cells
    stylesheet = SafeHtml((STATIC / "l2x.css").read_text("utf-8"))
    page = {"title": title, "subtitle": subtitle, "sections": sections, "footer": _footer()}
    return str(templates.get_template("report.html").render(page, stylesheet=stylesheet))


def _cells(table: Table) -> tuple[list[list[str]], list[bool]]:
    """Return the rows as texts, and for each column whether it holds numbers."""
    columns, rows = table
    texts = [[_cell(cell) for cell in row] for row in rows]
    return texts, [all(_is_number(row[j]) for row in texts) for j in range(len(columns))]


def _cell(cell: object) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, Integral):
        return f"{int(cell):,}"
    return f"{float(cell):.4g}" if isinstance(cell, Real) else str(cell)


def _is_number(text: str) -> bool:
    """Return whether the text is a number, also with unit or interval: 97 %, 1 ± 0.1, 0.5 [0.4, 0.6], –."""
    number = (
        r"[-+−–<>≥≤~]?\s*(\d[\d.,e+\-]*)?(\s*(±|to|–)\s*\d[\d.,]*)?\s*(%|µs|ms|s|bits?)?"
        r"(\s*\[[-+\d.,\s]+\])?"
    )
    return re.fullmatch(number, text) is not None


def _footer() -> str:
    import torch

    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    threads = count(torch.get_num_threads(), "thread")
    cores = f"{os.cpu_count()} cores, torch {torch.__version__} with {threads}"
    return f"l2x {__version__} · {now} · {machine} · {cores}"


# The report of `l2x.report`

# Large numbers at the top of the page: part, key and meaning.
FACTS = (
    ("evaluator", "selection", "post-hoc accuracy, measured by the evaluator"),
    ("leakage", "share", "of the information is in which features are selected, not in their values"),
    ("information", "share", "of the information is in the selected values"),
)
FINDINGS = {"leaks": "leakage found", "none": "no leakage found"}  # other findings are shown by their name
# Colours of the verdict's edge, readable on white and on black.
TONES = {"good": "#3f8f6b", "bad": "#c0392b", "unsure": "#c9971c"}
_CELL = "border:none;background:none;text-align:left;vertical-align:top;padding:1px 9px"


def report_page(report: Report) -> str:
    """Return the report as one self-contained page."""
    measured = _estimates(report)
    facts = [
        (_percent(measured[part, key], at_least=0.0 if key == "share" else -inf), meaning)
        for part, key, meaning in FACTS
        if (part, key) in measured
    ]
    opening = Section(verdict=(report.verdict, report.tone), facts=facts, figures=[plot_report(report)])
    return render_report(
        title=f"Report card: {report.name}",
        subtitle=_setting(report),
        sections=[opening, *(_section(part) for part in report.parts)],
    )


def report_table(report: Report) -> str:
    """Return the report as an HTML fragment for notebooks: the verdict, and every number with its meaning."""
    title = f"{_CELL};font-weight:600;padding-top:7px"
    looks = ("white-space:nowrap", "font-variant-numeric:tabular-nums;white-space:nowrap", "opacity:.65")
    rows = []
    for part in report.parts:
        rows.append(f'<td colspan="3" style="{title}">{escape(part.title)}</td>')
        for entry in part.entries:
            cells = zip(looks, _entry_texts(entry), strict=True)
            rows.append("".join(f'<td style="{_CELL};{look}">{escape(text)}</td>' for look, text in cells))
    verdict = f"border-left:4px solid {TONES[report.tone]};padding:4px 10px;margin:4px 0 8px;max-width:52em"
    return (
        f'<div class="l2x-report"><div style="font-weight:600">Report card: {escape(report.name)}</div>'
        f'<div style="{verdict}">{escape(report.verdict)}</div>{html_table([], rows, _setting(report))}</div>'
    )


def _setting(report: Report) -> str:
    return f"{report.selected}, {report.rows:,} rows, {report.task}; 95 % bootstrap intervals"


def _entry_texts(entry: Entry) -> tuple[str, str, str]:
    return entry.label.replace("  ", "· "), entry.text, entry.meaning


def _section(part: Part) -> Section:
    width = 3 if any(entry.meaning for entry in part.entries) else 2
    rows = [_entry_texts(entry)[:width] for entry in part.entries]
    columns = ["measure", "value and interval", "meaning"][:width]
    text = [text for text in (part.about, part.remark) if text]
    return Section(part.title, text, table=(columns, rows) if rows else None)


def _estimates(report: Report) -> dict[tuple[str, str], Estimate]:
    """Return what was measured, by part and key."""
    return {(part.key, entry.key): entry.estimate for part in report.parts for entry in part.entries}


def _percent(estimate: Estimate, at_least: float) -> str:
    """Return a percentage as in the verdict, where a share below zero, due to noise, counts as zero."""
    if isnan(estimate.value):
        return "–"
    rounded = round(100 * max(at_least, estimate.value), 1)
    return f"{rounded + 0:.1f} %"  # + 0: no minus sign before zero


def plot_report(report: Report, path: str | Path | None = None) -> Figure:
    """Draw the agreement with the model's prediction (left) and the information over k (right)."""
    names, estimates, colours = zip(*_agreement_lines(report), strict=True)
    sizes = [k for k, _ in report.curve]
    low, value, high = ([getattr(e, end) for _, e in report.curve] for end in ("low", "value", "high"))
    with style():
        figure, (left, right) = new_figure(3.4, columns=2, title=f"Report card: {report.name}")
        draw_estimates(left, estimates, colours)
        label_rows(left, names)
        measure = "agreement with the prediction" if report.task == "classification" else "R²"
        left.set_xlabel(measure, loc="left")
        right.fill_between(sizes, low, high, color=ACCENT, alpha=0.2, linewidth=0)
        draw_curve(right, sizes, value, limit=report["information"]["available"].value)
        right.axvline(report.k, color=SECOND, linewidth=1)
        right.annotate(f"k = {report.k}", (report.k, 0.02), (4, 2), xycoords=("data", "axes fraction"),
                       textcoords="offset points", color=SECOND)  # fmt: skip
        right.set_title("information in k features, bits")
        leakage = FINDINGS.get(report.finding, report.finding)
        note(figure, f"Bars: 95 % intervals; dotted: all available information. Leakage test: {leakage}.")
    return saved(figure, path)


def _agreement_lines(report: Report) -> list[tuple[str, Estimate, str]]:
    """Return label, number and colour of every agreement that was measured."""
    measured = _estimates(report)
    keys = [key for part, key in measured if part == "fidelity"]
    maskings = [key for key in keys if not key.endswith(("_kl", "_removal", "random"))]
    lines = [
        *((f"model, masking: {key}", "fidelity", key, ACCENT) for key in maskings),
        ("model, removal test", "fidelity", f"{maskings[0]}_removal", SOFT),
        ("model, random features", "fidelity", "random", SOFT),
        ("evaluator", "evaluator", "selection", THIRD),
        ("evaluator, random features", "evaluator", "random", SOFT),
        ("mask alone", "leakage", "mask_only", SECOND),
        ("most frequent class", "leakage", "majority", SOFT),
    ]
    return [
        (name, measured[part, key], colour) for name, part, key, colour in lines if (part, key) in measured
    ]
