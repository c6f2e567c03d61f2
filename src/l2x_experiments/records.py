"""Records: what jobs measured, in a JSON file that grows as an experiment runs; also timing and machine."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
import torch

from l2x._base.atomic import write_atomically

Record = dict[str, Any]
T = TypeVar("T")
NOTHING = "–"


class Records(Sequence[Record]):
    """A list of records, and the file that holds them if they were loaded from one.

    The file is a JSON array with one record per line. It is rewritten whole after every addition, so an
    interrupted run loses nothing and the next run skips the records it finds.
    """

    def __init__(self, records: Iterable[Record] = (), path: Path | None = None) -> None:
        self.records = list(records)
        self.path = path

    @classmethod
    def load(cls, path: Path) -> Records:
        """Read the records of a file; return none if it does not exist yet."""
        return cls(json.loads(path.read_text()) if path.exists() else (), path)

    def add(self, new: Iterable[Record]) -> None:
        """Append records and write the file."""
        self.records += new
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lines = ",\n".join(json.dumps(record) for record in self.records)
            write_atomically(self.path, f"[\n{lines}\n]\n".encode())

    def select(self, **key: Any) -> Records:
        """Return the records with these values, detached from the file."""
        return Records(
            record for record in self if all(record.get(name) == value for name, value in key.items())
        )

    def has(self, **key: Any) -> bool:
        """Return whether any record has these values."""
        return bool(self.select(**key))

    def groups(self, **orders: Iterable[Any]) -> Iterator[Records]:
        """Yield the records of each combination of values, for example `groups(set=SETS, method=LABELS)`.

        Combinations come in the given orders, the last key varying fastest. Those without records are
        skipped.
        """
        for values in product(*orders.values()):
            if group := self.select(**dict(zip(orders, values, strict=True))):
                yield group

    def distinct(self, name: str) -> list[Any]:
        """Return the different values of an entry, in the order of their first occurrence."""
        values: list[Any] = []
        for value in self.values(name):
            if value not in values:
                values.append(value)
        return values

    def values(self, *path: str | int) -> list[Any]:
        """Return one entry of each record that has it.

        A path reaches nested entries: `values("card", "parts", "judge")`, or `values("accuracy", 0)` for the
        first element of a list.
        """
        values = (_entry(record, path) for record in self)
        return [value for value in values if value is not None]

    def mean(self, *path: str | int) -> float:
        """Return the mean of an entry."""
        return float(np.mean(self.values(*path)))

    def mean_sd(self, *path: str | int, digits: int = 3) -> str:
        """Return mean ± standard deviation over records; the mean alone for one record, a dash for none."""
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
        except (KeyError, IndexError, TypeError):  # the entry is missing, or is None
            return None
    return record


def measured_here() -> Record:
    """Return the two entries of a record that its times depend on: threads and machine."""
    return {"threads": torch.get_num_threads(), "machine": machine()}


def machine() -> str:
    """Return the processor, its cores and the versions of Python and torch."""
    python = platform.python_version()
    return f"{_processor()}, {os.cpu_count()} cores, Python {python}, torch {torch.__version__}"


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Call `work`; return its result and the seconds it took."""
    started = time.perf_counter()
    return work(), time.perf_counter() - started


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
