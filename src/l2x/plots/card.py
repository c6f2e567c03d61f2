"""A report card as a figure and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from l2x.evaluation.card import FINDING_NAMES, Entry, Part, ReportCard
from l2x.evaluation.verdict import Finding
from l2x.plots.report import Section, Tone, render_report
from l2x.plots.style import ACCENT, INK, MUTED, SECOND, SOFT, THIRD, new_figure, note, save_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TONES: dict[Finding, Tone] = {
    "none": "good",
    "encodes": "bad",
    "uncertain": "unsure",
    "unchecked": "unsure",
}
# What is set large at the top of the page: part, key, and what it says.
FACTS = (
    ("judge", "selection", "independent judge: the model's answer from the selection"),
    ("encoding", "share", "of the information is in the choice of features, not in their values"),
    ("information", "share", "of the information is in the selected values"),
)


def card_page(card: ReportCard) -> str:
    """One self-contained page."""
    known = ((_entry(card, part, key), meaning) for part, key, meaning in FACTS)
    facts = [(_percent(entry), meaning) for entry, meaning in known if entry is not None]
    opening = Section("", verdict=(card.verdict, TONES[card.finding]), facts=facts, figures=[plot_card(card)])
    return render_report(
        title=f"Report card: {card.name}",
        subtitle=f"k = {card.k} of {card.features} features, {card.rows:,} rows, {card.task}; "
        "95 % bootstrap intervals",
        sections=[opening, *(_section(part) for part in card.parts)],
    )


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
    if path is not None:
        save_figure(figure, path)
    return figure


def _plot_agreement(axes: Axes, card: ReportCard) -> None:
    lines = _agreement_lines(card)
    for y, (_, entry, colour) in enumerate(lines):
        estimate = entry.estimate
        axes.hlines(y, estimate.low, estimate.high, color=colour, linewidth=3, alpha=0.5)
        axes.plot(estimate.value, y, color=colour, marker="o", markersize=6)
    axes.set_yticks(range(len(lines)), [label for label, _, _ in lines])
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", linewidth=0.8)
    axes.set_xlabel("share of answers kept" if card.task == "classification" else "R²", loc="left")


def _agreement_lines(card: ReportCard) -> list[tuple[str, Entry, str]]:
    """Label, number and colour of who gives the model's answer, as far as it was measured."""
    removals = [
        e
        for e in card["fidelity"].entries
        if not e.key.endswith(("_kl", "_complement")) and e.key != "random"
    ]
    lines: list[tuple[str, Entry | None, str]] = [(f"model, {e.key}", e, ACCENT) for e in removals]
    lines += [
        ("model, all but these", _entry(card, "fidelity", f"{removals[0].key}_complement"), SOFT),
        ("model, random", _entry(card, "fidelity", "random"), SOFT),
        ("judge", _entry(card, "judge", "selection"), THIRD),
        ("judge, random", _entry(card, "judge", "random"), SOFT),
        ("mask alone", _entry(card, "encoding", "mask_only"), SECOND),
        ("most frequent class", _entry(card, "encoding", "majority"), SOFT),
    ]
    return [(label, entry, colour) for label, entry, colour in lines if entry is not None]


def _plot_curve(axes: Axes, card: ReportCard) -> None:
    sizes = [k for k, _ in card.curve]
    axes.fill_between(
        sizes,
        [e.low for _, e in card.curve],
        [e.high for _, e in card.curve],
        color=ACCENT,
        alpha=0.2,
        linewidth=0,
    )
    axes.plot(sizes, [e.value for _, e in card.curve], color=ACCENT, linewidth=2, marker="o", markersize=3.5)
    axes.axhline(card["information"]["available"].value, color=MUTED, linewidth=1, linestyle=(0, (2, 2)))
    axes.axvline(card.k, color=SECOND, linewidth=1)
    axes.annotate(f"k = {card.k}", (card.k, 0.02), (4, 2), xycoords=("data", "axes fraction"),
                  textcoords="offset points", color=SECOND)  # fmt: skip
    axes.grid(axis="y", linewidth=0.8)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, labelcolor=MUTED)
    axes.set_xlabel("features selected, k", loc="left")
    axes.set_title("bits in k features")


def _section(part: Part) -> Section:
    rows = [[entry.label.replace("  ", "· "), entry.text, entry.meaning] for entry in part.entries]
    return Section(
        part.title,
        [text for text in (part.about, part.remark) if text],
        table=(["number", "value and interval", "how to read it"], rows) if rows else None,
    )


def _entry(card: ReportCard, part: str, key: str) -> Entry | None:
    """A number, or None if it was not measured."""
    entries = card[part].entries if part in card else ()
    return next((entry for entry in entries if entry.key == key), None)


def _percent(entry: Entry) -> str:
    value = entry.estimate.value
    return "–" if value != value else f"{100 * value:.1f} %"  # NaN: there is no such number
