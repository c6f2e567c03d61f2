"""Results on disk: a list of records that grows as an experiment runs, and where they were measured."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

from l2x.foundations.atomic import write_atomically

Record = dict[str, Any]


class Results:
    """Records in a JSON file, written after every addition, so that an interrupted run loses nothing.

    A run that is started again skips what is there: `if results.has(**key): continue`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: list[Record] = json.loads(path.read_text()) if path.exists() else []

    def has(self, **key: Any) -> bool:
        return any(all(record.get(name) == value for name, value in key.items()) for record in self.records)

    def add(self, records: list[Record]) -> None:
        self.records += records
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(json.dumps(record) for record in self.records)
        write_atomically(self.path, f"[\n{lines}\n]\n".encode())


def machine() -> str:
    """The processor, its cores and the versions that figures were measured with."""
    import torch

    python = platform.python_version()
    return f"{_processor()}, {os.cpu_count()} cores, Python {python}, torch {torch.__version__}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
