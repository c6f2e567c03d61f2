"""Tables made of records: one row for each group of them, and each column a function of the group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from l2x_experiments.records import NOTHING, Records

if TYPE_CHECKING:
    import rich.table

Cell = Callable[[Records], str]


@dataclass(frozen=True)
class Table:
    """Column names and rows of texts."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    @classmethod
    def of(cls, groups: Iterable[Records], cells: Mapping[str, Cell]) -> Table:
        """{column name: what it says of a group}, over groups of records."""
        return cls(list(cells), [[cell(group) for cell in cells.values()] for group in groups])

    def transposed(self) -> Table:
        """The first column becomes the names of the columns; rows that hold nothing are left out."""
        names, *columns = zip(*self.rows, strict=True)
        rows = [[name, *cells] for name, cells in zip(self.columns[1:], columns, strict=True)]
        return Table([self.columns[0], *names], [row for row in rows if set(row[1:]) != {NOTHING}])

    def markdown(self) -> str:
        lines = [f"| {' | '.join(line)} |" for line in (self.columns, *self.rows)]
        return "\n".join([lines[0], "|---" * len(self.columns) + "|", *lines[1:]]) + "\n"

    def rich(self, title: str) -> rich.table.Table:
        """For the terminal."""
        import rich.table

        table = rich.table.Table(*self.columns, title=title)
        for row in self.rows:
            table.add_row(*row)
        return table


def name_of(key: str, names: Mapping[str, str]) -> Cell:
    """What a group is called, by one of its entries."""
    return lambda group: names[group[0][key]]


def mean_sd(*path: str | int, digits: int = 3) -> Cell:
    """Mean ± standard deviation of an entry."""
    return lambda group: group.mean_sd(*path, digits=digits)
