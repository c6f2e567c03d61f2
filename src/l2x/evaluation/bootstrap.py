"""Confidence intervals by the bootstrap: what a figure would have been on other rows like these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from l2x.foundations.arrays import Array

# Rows are dealt into at most so many groups, which are resampled: memory does not grow with the rows, and the
# spread of a mean stays the same.
GROUPS = 2000
DRAWS = 1000
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval; both ends are NaN where rows say nothing about the spread."""

    value: float
    low: float = float("nan")
    high: float = float("nan")

    def __str__(self) -> str:
        if not np.isfinite(self.low):
            return f"{self.value:.3f}"
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"

    def scaled(self, factor: float) -> Estimate:
        """In other units."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)

    def to_dict(self) -> dict[str, float | None]:
        """For JSON, which has no NaN."""
        return {name: number_or_none(getattr(self, name)) for name in ("value", "low", "high")}


class Bootstrap:
    """Percentile intervals of means over n rows, and of ratios of means.

    All intervals of one bootstrap share their draws, so that differences between figures are paired.

    >>> rows = np.tile([0.0, 1.0], 500)
    >>> print(Bootstrap(1000).mean(rows))
    0.500 [0.469, 0.532]
    """

    def __init__(self, n: int, *, draws: int = DRAWS, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        groups = min(n, GROUPS)
        self.group = rng.permutation(np.arange(n) % groups)  # (n,) the group of each row
        counts = rng.multinomial(groups, np.full(groups, 1 / groups), size=draws)
        self.counts = counts.astype(np.float32)  # (draws, groups)
        self.sizes = np.bincount(self.group, minlength=groups).astype(float)

    def mean(self, rows: Array) -> Estimate:
        """The mean of (n,) values."""
        return self._estimate(float(np.mean(rows)), self._means(rows))

    def ratio(self, rows: Array, by: Array, *, one_minus: bool = False) -> Estimate:
        """mean(rows) / mean(by), or 1 - mean(rows) / mean(by), which is an R² for squared errors."""
        if np.mean(by) == 0:
            return Estimate(float("nan"))
        sign, shift = (-1.0, 1.0) if one_minus else (1.0, 0.0)
        draws = shift + sign * self._means(rows) / self._means(by)
        return self._estimate(shift + sign * float(np.mean(rows) / np.mean(by)), draws)

    def _means(self, rows: Array) -> Array:
        """The mean of each draw, (draws,)."""
        sums = np.bincount(self.group, weights=np.asarray(rows, dtype=float), minlength=len(self.sizes))
        return np.asarray((self.counts @ sums) / (self.counts @ self.sizes))

    @staticmethod
    def _estimate(value: float, draws: Array) -> Estimate:
        low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return Estimate(value, float(low), float(high))


def number_or_none(value: Any) -> float | None:
    number = float(value)
    return number if np.isfinite(number) else None
