"""Models that tests explain."""

from __future__ import annotations

import numpy as np


def one_column(X: np.ndarray) -> np.ndarray:
    """Looks at column 1 alone."""
    p = 1 / (1 + np.exp(-4 * np.asarray(X, dtype=float)[:, 1]))
    return np.stack([1 - p, p], axis=1)


def first_column(X: np.ndarray) -> np.ndarray:
    """Looks at column 0 alone, of a table of any width."""
    p = 1 / (1 + np.exp(-np.asarray(X, dtype=float)[:, 0]))
    return np.stack([1 - p, p], axis=1)
