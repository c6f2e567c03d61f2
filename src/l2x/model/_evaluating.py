"""Torch modules in evaluation mode, for as long as somebody queries them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class _Mode:
    """The mode that a part of a torch module had before `evaluating`, and its number of callers."""

    part: Any
    training: bool
    users: int = 0


# The parts that a thread evaluates at the moment, by id: modules may share parts.
_modes: dict[int, _Mode] = {}
_modes_lock = threading.Lock()


@contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Keep a torch module in evaluation mode, then restore the mode of each of its parts.

    Several threads may evaluate one module, or modules that share parts: the first to enter saves the mode
    of a part, and the last to leave restores it.
    """
    parts = list(module.modules())
    with _modes_lock:
        for part in parts:
            _modes.setdefault(id(part), _Mode(part, part.training)).users += 1
    try:
        with _modes_lock:
            if any(part.training for part in parts):
                module.eval()
        yield
    finally:
        with _modes_lock:
            for part in parts:
                _leave(part)


def _leave(part: Any) -> None:
    mode = _modes[id(part)]
    mode.users -= 1
    if not mode.users:
        part.training = mode.training
        del _modes[id(part)]
