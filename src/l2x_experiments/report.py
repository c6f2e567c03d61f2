"""A report: a page with its tables and figures, the figures as files, the tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from l2x.display import SafeHtml, Section, save_figure, write_file, write_report
from l2x_experiments.records import Records
from l2x_experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Report:
    """Collects the sections of an experiment's page; nothing is written before `write`."""

    def __init__(self, name: str, *, title: str, subtitle: str) -> None:
        self.name, self.title, self.subtitle = name, title, subtitle
        self.sections: list[Section] = []
        self.figures: dict[str, Figure] = {}
        self.tables: list[tuple[str, Table]] = []
        self.markdown = ""  # of <name>.md, which is not written if this is empty

    def add(
        self,
        heading: str = "",
        text: Sequence[str] = (),
        *,
        facts: Sequence[tuple[str, str]] = (),
        table: Table | None = None,
        figures: Mapping[str, Figure] | None = None,
        caption: str = "",
        html: SafeHtml | None = None,
    ) -> None:
        """One section. `figures` are keyed by the end of their files' names: "ranks" is saved as
        figures/<name>-ranks.svg and .png, "" as figures/<name>.svg and .png. A section without a heading
        belongs to the one before."""
        figures = figures or {}
        self.sections.append(
            Section(
                heading,
                text,
                facts=facts,
                table=None if table is None else (table.columns, table.rows),
                figures=list(figures.values()),
                caption=caption,
                html=html,
            )
        )
        self.figures |= {"-".join(filter(None, (self.name, end))): figure for end, figure in figures.items()}
        if table is not None:
            last = next((section.heading for section in self.sections[::-1] if section.heading), self.title)
            self.tables.append((last, table))

    def write(self, folder: Path) -> Path:
        """The figures, the page and, if there is any, the Markdown; returns the path of the page."""
        for stem, figure in self.figures.items():
            for ending in ("svg", "png"):
                save_figure(figure, folder / "figures" / f"{stem}.{ending}")
        if self.markdown:
            write_file(folder / f"{self.name}.md", self.markdown.encode())
        page = folder / f"{self.name}.html"
        return write_report(page, title=self.title, subtitle=self.subtitle, sections=self.sections)

    def tables_markdown(self) -> str:
        """Every table below its heading."""
        return "\n".join(f"## {heading}\n\n{table.markdown()}" for heading, table in self.tables)

    def show(self) -> None:
        """Every table in the terminal."""
        from rich.console import Console

        for heading, table in self.tables:
            Console().print(table.rich(heading))


def measured_on(records: Records) -> str:
    """The machines, and a person's remarks about some runs, such as what else kept them busy."""
    machines, threads = (" or ".join(map(str, records.distinct(key))) for key in ("machine", "threads"))
    remarks = [f"Of some records: {remark}" for remark in records.distinct("conditions")]
    return " ".join([f"Measured on {machines}, {threads} thread(s) per run.", *remarks])
