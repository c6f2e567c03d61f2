"""Confidence intervals by the bootstrap: what a number would have been on other rows like these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from l2x.foundations.arrays import Array

# Rows are put at random into at most this many groups, which are resampled: memory does not grow with the
# rows, and the spread of a mean stays the same.
GROUPS = 2000
DRAWS = 1000
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval; both ends are NaN where rows say nothing about the spread.

    >>> print(Estimate(0.5, 0.4, 0.6))
    0.500 [0.400, 0.600]
    """

    value: float
    low: float = float("nan")
    high: float = float("nan")

    def __str__(self) -> str:
        return self.text()

    def text(self, digits: int = 3) -> str:
        """As it is printed: "0.500 [0.469, 0.532]", without the interval if there is none, "–" for NaN."""
        if np.isnan(self.value):
            return "–"
        value, low, high = (f"{x:,.{digits}f}" for x in (self.value, self.low, self.high))
        return value if np.isnan(self.low) else f"{value} [{low}, {high}]"

    def scaled(self, factor: float) -> Estimate:
        """In other units."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)

    def to_dict(self) -> dict[str, float | None]:
        """For JSON, which has neither NaN nor infinity: value, low and high, each a number or None."""
        return {name: float(x) if np.isfinite(x) else None for name, x in asdict(self).items()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, float | None]) -> Estimate:
        """The inverse of `to_dict`; what was not finite is NaN.

        >>> Estimate.from_dict({"value": 0.5, "low": None, "high": None})
        Estimate(value=0.5, low=nan, high=nan)
        """
        return cls(**{name: float("nan") if x is None else x for name, x in saved.items()})


class Bootstrap:
    """Percentile intervals of what can be computed from means over n rows.

    All intervals of one bootstrap share their draws, so that differences between numbers are paired.

    Parameters
    ----------
    n : how many rows
    draws : how many resamples an interval is read from
    seed : the same seed gives the same resamples

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
        return self.of_means(lambda mean: mean, rows)

    def of_means(self, statistic: Callable[..., Any], *rows: Array) -> Estimate:
        """`statistic(a, b, ...)` of the means a, b, ... of several (n,) arrays, such as their ratio. It is
        called with numbers, then with arrays of the means in all draws."""
        value = float(statistic(*(np.mean(values) for values in rows)))
        drawn = statistic(*(self._means(values) for values in rows))
        low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return Estimate(value, float(low), float(high))

    def _means(self, rows: Array) -> Array:
        """The mean of each draw, (draws,)."""
        sums = np.bincount(self.group, weights=np.asarray(rows, dtype=float), minlength=len(self.sizes))
        return np.asarray((self.counts @ sums) / (self.counts @ self.sizes))
