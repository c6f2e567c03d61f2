"""Records: what jobs measured, in a JSON file that grows as an experiment runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, overload

import numpy as np

from l2x._base.atomic import write_atomically

Record = dict[str, Any]
NOTHING = "–"


class Records(Sequence[Record]):
    """A list of records, and the file that holds them if they were loaded from one.

    The file is a JSON array with one record per line, rewritten whole after every addition: an interrupted
    run loses nothing, and the next one skips what the file holds.
    """

    def __init__(self, records: Iterable[Record] = (), path: Path | None = None) -> None:
        self.records = list(records)
        self.path = path

    @classmethod
    def load(cls, path: Path) -> Records:
        """The records of a file; none if it does not exist yet."""
        return cls(json.loads(path.read_text()) if path.exists() else (), path)

    def add(self, new: Iterable[Record]) -> None:
        """Append records and write the file."""
        self.records += new
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lines = ",\n".join(json.dumps(record) for record in self.records)
            write_atomically(self.path, f"[\n{lines}\n]\n".encode())

    def select(self, **key: Any) -> Records:
        """The records that have these values, detached from the file."""
        return Records(
            record for record in self if all(record.get(name) == value for name, value in key.items())
        )

    def has(self, **key: Any) -> bool:
        return bool(self.select(**key))

    def groups(self, **orders: Iterable[Any]) -> Iterator[Records]:
        """The records of each combination of values, in the given orders, the last varying fastest;
        combinations without records are left out: `records.groups(set=SETS, method=LABELS)`."""
        for values in product(*orders.values()):
            if some := self.select(**dict(zip(orders, values, strict=True))):
                yield some

    def distinct(self, name: str) -> list[Any]:
        """The values that occur, in the order of their first occurrence."""
        found: list[Any] = []
        for value in self.values(name):
            if value not in found:
                found.append(value)
        return found

    def values(self, *path: str | int) -> list[Any]:
        """One entry of each record that has it: `values("seed")`, `values("card", "parts", "judge")`,
        `values("accuracy", 0)` for the first of a list."""
        found = (_entry(record, path) for record in self)
        return [value for value in found if value is not None]

    def mean(self, *path: str | int) -> float:
        return float(np.mean(self.values(*path)))

    def mean_sd(self, *path: str | int, digits: int = 3) -> str:
        """Mean ± standard deviation over records, which are seeds where a method learns; a mean alone of one
        record, a dash of none."""
        values = self.values(*path)
        if not values:
            return NOTHING
        mean = f"{np.mean(values):.{digits}f}"
        return mean if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"

    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        return self.records[index]


def _entry(record: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        try:
            record = record[step]
        except (KeyError, IndexError, TypeError):  # a part that is not there, or is None
            return None
    return record
