"""Intervals: as wide as theory says, paired, bounded in memory."""

from __future__ import annotations

from operator import truediv

import numpy as np
import pytest

from l2x.evaluation import Bootstrap, Estimate
from l2x.learning._agreement import GROUPS, r2

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
    found = Bootstrap(1000).of_means(truediv, 2 * rows, rows)
    assert (found.value, found.low, found.high) == pytest.approx((2, 2, 2))
    assert Bootstrap(1000).of_means(r2, rows, rows).value == pytest.approx(0)
    assert np.isnan(Bootstrap(1000).of_means(r2, rows, np.zeros(1000)).value)


def test_draws_without_a_spread_leave_no_interval() -> None:
    spread = np.zeros(20)
    spread[0] = 1.0  # a third of all draws miss this row
    found = Bootstrap(20).of_means(r2, np.zeros(20), spread)
    assert found.value == 1
    assert np.isnan([found.low, found.high]).all()


def test_the_same_seed_gives_the_same_interval() -> None:
    rows = RNG.random(100)
    assert Bootstrap(100, seed=3).mean(rows) == Bootstrap(100, seed=3).mean(rows)
    assert Bootstrap(100, seed=3).mean(rows) != Bootstrap(100, seed=4).mean(rows)


def test_no_interval_is_none_in_json() -> None:
    assert Estimate(0.5).to_dict() == {"value": 0.5, "low": None, "high": None}
    assert Estimate(float("inf"), 1, np.float32(0.5)).to_dict() == {"value": None, "low": 1.0, "high": 0.5}


def test_as_it_is_printed() -> None:
    assert str(Estimate(0.5)) == "0.500"
    assert str(Estimate(0.5, 0.4, 0.6)) == "0.500 [0.400, 0.600]"
    assert Estimate(1234.5).text(0) == "1,234"
    assert str(Estimate(float("nan"))) == "–"


def test_other_units() -> None:
    assert Estimate(1.0, 0.5, 2.0).scaled(2) == Estimate(2.0, 1.0, 4.0)
