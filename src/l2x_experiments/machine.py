"""Where and how fast something was measured."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch

T = TypeVar("T")


def machine() -> str:
    """The processor, its cores and the versions of Python and torch."""
    python = platform.python_version()
    return f"{_processor()}, {os.cpu_count()} cores, Python {python}, torch {torch.__version__}"


def measured_here() -> dict[str, Any]:
    """The two entries of a record that its times depend on."""
    return {"threads": torch.get_num_threads(), "machine": machine()}


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What `work` returns, and the seconds that it took."""
    started = time.perf_counter()
    return work(), time.perf_counter() - started


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
