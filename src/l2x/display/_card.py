"""A report card as a figure and as a page."""

from __future__ import annotations

from html import escape
from math import inf, isnan
from pathlib import Path
from typing import TYPE_CHECKING

from l2x.display._report import Section, render_report
from l2x.display._sizes import draw_curve
from l2x.display._style import ACCENT, SECOND, SOFT, THIRD, label_rows, new_figure, note, saved, style
from l2x.display._tables import html_table
from l2x.evaluation import ReportCard
from l2x.evaluation._card import FINDING_NAMES, Entry, Part
from l2x.learning import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# What is set large at the top of the page: part, key, and what it says.
FACTS = (
    ("judge", "selection", "independent judge: the model's answer from the selection"),
    ("encoding", "share", "of the information is in the choice of features, not in their values"),
    ("information", "share", "of the information is in the selected values"),
)

# The edge of the verdict, readable on white and on black.
TONES = {"good": "#3f8f6b", "bad": "#c0392b", "unsure": "#c9971c"}


def card_page(card: ReportCard) -> str:
    """One self-contained page."""
    known = _estimates(card)
    facts = [
        (_percent(known[part, key], at_least=0.0 if key == "share" else -inf), meaning)
        for part, key, meaning in FACTS
        if (part, key) in known
    ]
    verdict = card.verdict, card.tone
    opening = Section("", verdict=verdict, facts=facts, figures=[plot_card(card)])
    return render_report(
        title=f"Report card: {card.name}",
        subtitle=f"{card.selected}, {card.rows:,} rows, {card.task}; 95 % bootstrap intervals",
        sections=[opening, *(_section(part) for part in card.parts)],
    )


def card_table(card: ReportCard) -> str:
    """For notebooks: the verdict, and every number with how to read it; colours over the page's own."""
    heading = f"Report card: {card.name}"
    rows = [row for part in card.parts for row in (_title_row(part), *map(_table_row, part.entries))]
    note_below = f"{card.selected}, {card.rows:,} rows, {card.task}; 95 % bootstrap intervals"
    verdict = f"border-left:4px solid {TONES[card.tone]};padding:4px 10px;margin:4px 0 8px;max-width:52em"
    return (
        f'<div class="l2x-card"><div style="font-weight:600">{escape(heading)}</div>'
        f'<div style="{verdict}">{escape(card.verdict)}</div>{html_table([], rows, note_below)}</div>'
    )


CELL = "border:none;background:none;text-align:left;vertical-align:top;padding:1px 9px"


def _title_row(part: Part) -> str:
    """Across all columns: what the numbers mean needs the room."""
    return f'<td colspan="3" style="{CELL};font-weight:600;padding-top:7px">{escape(part.title)}</td>'


def _table_row(entry: Entry) -> str:
    cells = [
        (escape(entry.label.replace("  ", "· ")), "white-space:nowrap"),
        (escape(entry.text), "font-variant-numeric:tabular-nums;white-space:nowrap"),
        (escape(entry.meaning), "opacity:.65"),
    ]
    return "".join(f'<td style="{CELL};{style}">{text}</td>' for text, style in cells)


def plot_card(card: ReportCard, path: str | Path | None = None) -> Figure:
    """Left, who gives the model's answer; right, the information over k."""
    with style():
        figure, (left, right) = new_figure(3.4, columns=2, title=f"Report card: {card.name}")
        _plot_agreement(left, card)
        _plot_curve(right, card)
        note(
            figure,
            "Bars: 95 % bootstrap intervals; dashed: all bits there are. "
            f"Encoding: {FINDING_NAMES[card.finding]}.",
        )
    return saved(figure, path)


def _plot_agreement(axes: Axes, card: ReportCard) -> None:
    lines = _agreement_lines(card)
    for y, (_, estimate, colour) in enumerate(lines):
        axes.hlines(y, estimate.low, estimate.high, color=colour, linewidth=3, alpha=0.5)
        axes.plot(estimate.value, y, color=colour, marker="o", markersize=6)
    label_rows(axes, [label for label, _, _ in lines])
    axes.grid(axis="x", linewidth=0.8)
    axes.set_xlabel("share of answers kept" if card.task == "classification" else "R²", loc="left")


def _agreement_lines(card: ReportCard) -> list[tuple[str, Estimate, str]]:
    """Label, number and colour of who gives the model's answer, as far as it was measured."""
    known = _estimates(card)
    keys = [key for part, key in known if part == "fidelity"]
    removals = [key for key in keys if not key.endswith(("_kl", "_complement", "random"))]
    lines = [
        *((f"model, {key}", "fidelity", key, ACCENT) for key in removals),
        ("model, all but these", "fidelity", f"{removals[0]}_complement", SOFT),
        ("model, random", "fidelity", "random", SOFT),
        ("judge", "judge", "selection", THIRD),
        ("judge, random", "judge", "random", SOFT),
        ("mask alone", "encoding", "mask_only", SECOND),
        ("most frequent class", "encoding", "majority", SOFT),
    ]
    return [(label, known[part, key], colour) for label, part, key, colour in lines if (part, key) in known]


def _plot_curve(axes: Axes, card: ReportCard) -> None:
    sizes = [k for k, _ in card.curve]
    low, value, high = ([getattr(e, end) for _, e in card.curve] for end in ("low", "value", "high"))
    axes.fill_between(sizes, low, high, color=ACCENT, alpha=0.2, linewidth=0)
    draw_curve(axes, sizes, value, limit=card["information"]["available"].value)
    axes.axvline(card.k, color=SECOND, linewidth=1)
    axes.annotate(f"k = {card.k}", (card.k, 0.02), (4, 2), xycoords=("data", "axes fraction"),
                  textcoords="offset points", color=SECOND)  # fmt: skip
    axes.set_title("bits in k features")


def _section(part: Part) -> Section:
    rows = [[entry.label.replace("  ", "· "), entry.text, entry.meaning] for entry in part.entries]
    return Section(
        part.title,
        [text for text in (part.about, part.remark) if text],
        table=(["number", "value and interval", "how to read it"], rows) if rows else None,
    )


def _estimates(card: ReportCard) -> dict[tuple[str, str], Estimate]:
    """What was measured, by part and key."""
    return {(part.key, entry.key): entry.estimate for part in card.parts for entry in part.entries}


def _percent(estimate: Estimate, at_least: float) -> str:
    """As in the verdict: a share is not negative, but noise can make its estimate so; the table has that."""
    if isnan(estimate.value):
        return "–"
    rounded = round(100 * max(at_least, estimate.value), 1)
    return f"{rounded + 0:.1f} %"  # + 0: a minus sign before zero says nothing
