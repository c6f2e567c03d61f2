"""Tables made from records, and the report of an experiment: a page, its figures as files, its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from l2x.display import SafeHtml, Section, save_figure, write_file, write_report
from l2x_experiments.records import NOTHING, Records

if TYPE_CHECKING:
    import rich.table
    from matplotlib.figure import Figure

# What a report found about leakage: the word in the records, and the word on the pages.
FINDINGS = {
    "encodes": "leaks",
    "none": "none found",
    "uncertain": "inconclusive",
    "unchecked": "not tested",
}

Cell = Callable[[Records], str]


@dataclass(frozen=True)
class Table:
    """Column names, and rows of texts."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    @classmethod
    def of(cls, groups: Iterable[Records], cells: Mapping[str, Cell]) -> Table:
        """Make one row for each group of records; `cells` maps a column name to a function of the group."""
        return cls(list(cells), [[cell(group) for cell in cells.values()] for group in groups])

    def transposed(self) -> Table:
        """Return the table with its first column as column names, without rows that hold nothing."""
        names, *columns = zip(*self.rows, strict=True)
        rows = [[name, *cells] for name, cells in zip(self.columns[1:], columns, strict=True)]
        return Table([self.columns[0], *names], [row for row in rows if set(row[1:]) != {NOTHING}])

    def markdown(self) -> str:
        """Return the table as Markdown."""
        lines = [f"| {' | '.join(line)} |" for line in (self.columns, *self.rows)]
        return "\n".join([lines[0], "|---" * len(self.columns) + "|", *lines[1:]]) + "\n"

    def rich(self, title: str) -> rich.table.Table:
        """Return the table for the terminal."""
        import rich.table

        table = rich.table.Table(*self.columns, title=title)
        for row in self.rows:
            table.add_row(*row)
        return table


def name_of(key: str, names: Mapping[str, str]) -> Cell:
    """Return a cell that shows the name of a group, looked up by one of its entries."""
    return lambda group: names[group[0][key]]


def mean_sd(*path: str | int, digits: int = 3) -> Cell:
    """Return a cell that shows mean ± standard deviation of an entry."""
    return lambda group: group.mean_sd(*path, digits=digits)


class Report:
    """Collects the sections of an experiment's page; nothing is written before `write`."""

    def __init__(self, name: str, *, title: str, subtitle: str) -> None:
        self.name, self.title, self.subtitle = name, title, subtitle
        self.sections: list[Section] = []
        self.figures: dict[str, Figure] = {}
        self.tables: list[tuple[str, Table]] = []
        self.markdown = ""  # content of <name>.md, which is written only if there is any

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
        """Add one section; without a heading it continues the section before.

        The keys of `figures` are the ends of file names: "ranks" is saved as figures/<name>-ranks.svg and
        .png, "" as figures/<name>.svg and .png.
        """
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
        """Write figures, page and Markdown into `folder`; return the path of the page."""
        for stem, figure in self.figures.items():
            for ending in ("svg", "png"):
                save_figure(figure, folder / "figures" / f"{stem}.{ending}")
        if self.markdown:
            write_file(folder / f"{self.name}.md", self.markdown.encode())
        page = folder / f"{self.name}.html"
        return write_report(page, title=self.title, subtitle=self.subtitle, sections=self.sections)

    def tables_markdown(self) -> str:
        """Return every table below its heading."""
        return "\n".join(f"## {heading}\n\n{table.markdown()}" for heading, table in self.tables)

    def show(self) -> None:
        """Print every table to the terminal."""
        from rich.console import Console

        for heading, table in self.tables:
            Console().print(table.rich(heading))


def measured_on(records: Records) -> str:
    """Name the machines, and repeat remarks that were added to some records by hand."""
    machines, threads = (" or ".join(map(str, records.distinct(key))) for key in ("machine", "threads"))
    remarks = [f"Remark on some records: {remark}" for remark in records.distinct("conditions")]
    return " ".join([f"Measured on {machines}, {threads} thread(s) per run.", *remarks])
