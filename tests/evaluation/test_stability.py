"""Overlap and collapse of selections."""

from __future__ import annotations

import numpy as np
import pytest

import l2x
from l2x.evaluation import collapse, jaccard
from l2x.evaluation._stability import distinct_sets, overlap


def selecting(*rows: list[int], d: int = 6) -> l2x.Explanation:
    scores = np.zeros((len(rows), d))
    for scored, features in zip(scores, rows, strict=True):
        scored[features] = 1
    return l2x.Explanation(scores, len(rows[0]), [f"x{i}" for i in range(d)])


def test_overlap_is_one_for_the_same_and_zero_for_disjoint_sets() -> None:
    one, other = selecting([0, 1], [0, 1], [0, 1]), selecting([1, 0], [2, 3], [1, 2])
    assert jaccard(one, other) == pytest.approx([1, 0, 1 / 3])
    with pytest.raises(l2x.InputError, match="cannot be compared"):
        jaccard(one, selecting([0, 1]))


def test_rows_may_have_fewer_than_k_features() -> None:
    one, other = np.array([[True, False, False]]), np.array([[True, True, False]])
    assert overlap(one, other).tolist() == [0.5]
    assert overlap(one, one).tolist() == [1]
    assert overlap(~one & one, ~one & one).tolist() == [0]  # no features at all


def test_collapse_is_one_if_every_row_has_the_same_set() -> None:
    assert collapse(selecting([0, 1], [1, 0])).mean() == 1
    assert collapse(selecting([0, 1], [2, 3], [4, 5])).mean() == pytest.approx(1 / 3)
    assert distinct_sets(selecting([0, 1], [1, 0], [2, 3])) == 2
