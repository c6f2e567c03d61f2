"""A report card as it is read: parts made of numbers with their intervals, and one verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from l2x.evaluation._verdict import Fidelity, Finding
from l2x.learning import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure


FINDING_NAMES: dict[Finding, str] = {
    "encodes": "encodes",
    "none": "none found",
    "uncertain": "uncertain",
    "unchecked": "not checked",
}


@dataclass(frozen=True)
class Entry:
    """One number: its key in `to_dict`, its name for people, how to read it, and how many digits to show."""

    key: str
    label: str
    estimate: Estimate
    meaning: str = ""
    digits: int = 3

    @property
    def text(self) -> str:
        """The number and its interval, as they are printed."""
        return self.estimate.text(self.digits)


@dataclass(frozen=True)
class Part:
    """Numbers that answer one question.

    key, title : for programs and for people
    about : what is measured, in a sentence or two, for the page
    remark : what a reader should know about this card's numbers, such as why there are none
    """

    key: str
    title: str
    entries: Sequence[Entry]
    about: str = ""
    remark: str = ""

    def __getitem__(self, key: str) -> Estimate:
        """A number by its key: `card["encoding"]["gain"]`."""
        estimates = {entry.key: entry.estimate for entry in self.entries}
        if key not in estimates:
            raise KeyError(f"{key!r}; part {self.key!r} has {', '.join(estimates)}")
        return estimates[key]


@dataclass(frozen=True)
class ReportCard:
    """What was measured about explanations, and whether they encode the answer.

    `print(card)` is all of it; `card["judge"]["selection"]` is one number, an `Estimate`.

    Attributes
    ----------
    name : of the method
    task, rows, features, k : what was measured, on how many rows
    finding : "encodes", "none" (no encoding found), "uncertain" (too few rows, or too weak a judge, to tell)
        or "unchecked" (a brief card)
    fidelity : "faithful", "chance" (the model keeps no more with the selection than with random features) or
        "undecided"
    verdict : both in a sentence each
    parts : fidelity, judge, encoding, information, stability, truth (where it is known), cost; a brief card
        has fidelity, judge, information
    curve : (k, bits captured) pairs, with intervals
    mean_size : how many features a row has on average, where rows differ (`keep=`); else None
    """

    name: str
    task: str
    rows: int
    features: int
    k: int
    finding: Finding
    fidelity: Fidelity
    verdict: str
    parts: Sequence[Part]
    curve: Sequence[tuple[int, Estimate]] = ()
    mean_size: float | None = None

    @property
    def selected(self) -> str:
        """How many features, of how many."""
        if self.mean_size is None:
            return f"k = {self.k} of {self.features} features"
        return f"at most k = {self.k} of {self.features} features, {self.mean_size:.2f} on average"

    @property
    def encodes(self) -> bool:
        """Whether the choice of features was found to encode the answer."""
        return self.finding == "encodes"

    @property
    def tone(self) -> Literal["good", "bad", "unsure"]:
        """Of the verdict: bad if either half is, good if both are."""
        if self.encodes or self.fidelity == "chance":
            return "bad"
        return "good" if self.finding == "none" and self.fidelity == "faithful" else "unsure"

    def __getitem__(self, key: str) -> Part:
        """A part by its key: `card["fidelity"]`."""
        parts = {part.key: part for part in self.parts}
        if key not in parts:
            raise KeyError(f"{key!r}; this card has {', '.join(parts)}")
        return parts[key]

    def __contains__(self, key: str) -> bool:
        return any(part.key == key for part in self.parts)

    def __str__(self) -> str:
        from rich.console import Console

        buffer = StringIO()
        Console(file=buffer, width=110, color_system=None).print(self)
        return buffer.getvalue()

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from rich.table import Table
        from rich.text import Text

        yield Text(f"Report card: {self.name}", style="bold")
        yield Text(f"{self.selected}, {self.rows:,} rows, 95 % intervals\n")
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(style="dim")
        for part in self.parts:
            table.add_row(Text(part.title, style="bold"), "", Text(part.remark))
            for entry in part.entries:
                table.add_row(Text(f"  {entry.label}"), Text(entry.text), Text(entry.meaning))
        yield table
        colour = {"bad": "red", "good": "green", "unsure": "yellow"}[self.tone]
        yield Text(f"\n{self.verdict}", style=f"bold {colour}")

    def to_dict(self) -> dict[str, Any]:
        """Plain Python, for JSON: {"parts": {part: {key: {"value", "low", "high"}}}, "finding", ...}; None
        where a number does not exist."""
        plain = ("name", "task", "rows", "features", "k", "mean_size", "finding", "fidelity", "verdict")
        parts = {part.key: {e.key: e.estimate.to_dict() for e in part.entries} for part in self.parts}
        curve = [{"k": k, **estimate.to_dict()} for k, estimate in self.curve]
        return {name: getattr(self, name) for name in plain} | {"parts": parts, "curve": curve}

    def to_html(self) -> str:
        """One self-contained page, everything escaped."""
        from l2x.display import card_page

        return card_page(self)

    def _repr_html_(self) -> str:
        from l2x.display import card_table

        return card_table(self)

    def save(self, path: str | Path) -> Path:
        """Write the page; an older file is replaced only by a whole one."""
        from l2x.display import write_file

        return write_file(path, self.to_html().encode())

    def plot(self, path: str | Path | None = None) -> Figure:
        """Who gives the model's answer from the selection, and the information over k. Saved if a path is
        given."""
        from l2x.display import plot_card

        return plot_card(self, path)
