"""Intervals: as wide as theory says, paired, bounded in memory."""

from __future__ import annotations

import numpy as np
import pytest

from l2x.evaluation import Bootstrap, Estimate
from l2x.evaluation.bootstrap import GROUPS

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("n", [400, 5000, 50_000])  # fewer and more rows than groups
def test_the_interval_of_a_mean_is_two_standard_errors_wide(n: int) -> None:
    rows = RNG.normal(size=n)
    found = Bootstrap(n).mean(rows)
    assert found.value == pytest.approx(rows.mean())
    assert found.high - found.low == pytest.approx(2 * 1.96 * rows.std() / n**0.5, rel=0.15)
    assert Bootstrap(n).counts.shape[1] <= GROUPS


def test_a_ratio_of_the_same_rows_has_no_spread() -> None:
    rows = RNG.random(1000)
    found = Bootstrap(1000).ratio(2 * rows, rows)
    assert (found.value, found.low, found.high) == pytest.approx((2, 2, 2))
    assert Bootstrap(1000).ratio(rows, rows, one_minus=True).value == pytest.approx(0)
    assert np.isnan(Bootstrap(1000).ratio(rows, np.zeros(1000)).value)


def test_the_same_seed_gives_the_same_interval() -> None:
    rows = RNG.random(100)
    assert Bootstrap(100, seed=3).mean(rows) == Bootstrap(100, seed=3).mean(rows)
    assert Bootstrap(100, seed=3).mean(rows) != Bootstrap(100, seed=4).mean(rows)


def test_no_interval_is_none_in_json() -> None:
    assert Estimate(0.5).to_dict() == {"value": 0.5, "low": None, "high": None}
    assert str(Estimate(0.5)) == "0.500"
