"""The power table: more items and raters help, and its numbers are those of studies drawn for it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from l2x.apps.study._statistics import _right, _share, power_table
from l2x.errors import InputError


def test_more_items_and_raters_find_more() -> None:
    table = power_table(items=(100, 500, 2000), raters=(1, 5))
    for row in table:
        chances = [chance for _, chance in row.chances]
        assert chances == sorted(chances)
        assert all(0 < chance <= 1 for chance in chances)
    one, five = table
    assert five.items_needed < one.items_needed
    assert five.accuracy > one.accuracy  # together raters see more
    assert all(b > a for (_, a), (_, b) in zip(one.chances, five.chances, strict=True))
    (large,) = power_table(0.1, items=(500,), raters=(5,))
    assert large.items_needed < five.items_needed / 3
    assert power_table(items=(100,), raters=(3,)) == power_table(items=(100,), raters=(3,))


def test_the_chance_is_that_of_studies_drawn_with_these_settings() -> None:
    """400 studies of 500 items with 3 raters: how many have a paired difference that a z-test finds?"""
    (row,) = power_table(raters=(3,), items=(500,), correlation=0.5)
    rng = np.random.default_rng(1)
    found, differences = 0, []
    for _ in range(400):
        ease = norm.cdf(rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 500).T)
        right = [
            _right(_share(mean, 0.1, 0.3, e), 0.1, rng.random((3, 500)))
            for mean, e in zip((0.75, row.worse), ease, strict=True)
        ]
        difference = right[0] - right[1]
        differences.append(difference.mean())
        found += abs(difference.mean()) > 1.96 * difference.std() / np.sqrt(500)
    assert np.mean(differences) == pytest.approx(0.05, abs=0.006)
    assert found / 400 == pytest.approx(row.chances[0][1], abs=0.08)


@pytest.mark.parametrize("wrong", [{"difference": 0.0}, {"accuracy": 0.95}, {"difference": 0.8}])
def test_what_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match="must lie between"):
        power_table(**wrong)
