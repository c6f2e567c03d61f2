"""Arrays, a batch of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def batches(n: int, size: int) -> Iterator[slice]:
    """Consecutive slices that cover n rows."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
