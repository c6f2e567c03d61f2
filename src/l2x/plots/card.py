"""A report card as a figure and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from l2x.evaluation.card import Entry, Finding, Part, ReportCard
from l2x.plots.report import Section, Tone, render_report
from l2x.plots.style import ACCENT, INK, MUTED, SECOND, SOFT, THIRD, new_figure, note, save_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TONES: dict[Finding, Tone] = {"none": "good", "encodes": "bad", "uncertain": "unsure"}
WHAT = {
    "fidelity": "Is the model's answer the same when it is shown only the selected features, the rest "
    "removed in several ways? And when it is shown everything else? A selection that passes a code can score "
    "high here.",
    "judge": "A predictor that was fitted on random subsets of other rows, so that no selection could agree "
    "on a code with it (EVAL-X).",
    "encoding": "A reader of the explainer's own selections (g1) against a reader of the same selections "
    "dealt to other rows (g0), which can only use the values. What g1 knows more is a code in the places.",
    "information": "What the selected values tell about the answer, by the judge.",
    "stability": "How far the same features are selected with another seed, under small noise, for another "
    "row, for another model. 1 is the same set, 0 a disjoint one.",
    "truth": "Against the features that truly matter, which are known here.",
    "cost": "What learning took, and after how many rows it has paid.",
}


def card_page(card: ReportCard) -> str:
    """One self-contained page."""
    facts = [
        (_fact(entry), label)
        for part, key, label in (
            ("judge", "selection", "independent judge: the model's answer from the selection"),
            ("encoding", "share", "of what there is to know is told by the places, beyond the values"),
            ("information", "share", "of the information is in the selected values"),
        )
        if (entry := _entry(card, part, key)) is not None
    ]
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
            + card.verdict.partition(":")[0].capitalize()
            + ".",
        )
    if path is not None:
        save_figure(figure, path)
    return figure


def _plot_agreement(axes: Axes, card: ReportCard) -> None:
    removals = [
        e
        for e in card["fidelity"].entries
        if not e.key.endswith(("_kl", "_complement")) and e.key != "random"
    ]
    lines: list[tuple[str, Entry | None, str]] = [(f"model, {e.key}", e, ACCENT) for e in removals]
    first = removals[0].key
    lines += [
        ("model, all but these", _entry(card, "fidelity", f"{first}_complement"), SOFT),
        ("model, random", _entry(card, "fidelity", "random"), SOFT),
        ("judge", _entry(card, "judge", "selection"), THIRD),
        ("judge, random", _entry(card, "judge", "random"), SOFT),
        ("places alone", _entry(card, "encoding", "mask_only"), SECOND),
        ("most frequent class", _entry(card, "encoding", "majority"), SOFT),
    ]
    known = [(label, entry.estimate, colour) for label, entry, colour in lines if entry is not None]
    for place, (_, estimate, colour) in enumerate(known):
        axes.hlines(place, estimate.low, estimate.high, color=colour, linewidth=3, alpha=0.5)
        axes.plot(estimate.value, place, color=colour, marker="o", markersize=6)
    axes.set_yticks(range(len(known)), [label for label, _, _ in known])
    axes.set_ylim(len(known) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", linewidth=0.8)
    axes.set_xlabel("share of answers kept" if card.task == "classification" else "R²", loc="left")


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
    text = [WHAT[part.key]] + ([part.remark] if part.remark else [])
    return Section(
        part.title, text, table=(["figure", "value and interval", "how to read it"], rows) if rows else None
    )


def _entry(card: ReportCard, part: str, key: str) -> Entry | None:
    return next((entry for entry in card[part].entries if entry.key == key), None)


def _fact(entry: Entry) -> str:
    if entry.estimate.value != entry.estimate.value:  # NaN: there is no such figure
        return "–"
    return f"{100 * entry.estimate.value:.1f} %"
