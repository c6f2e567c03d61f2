"""Rank metrics against a slow, obvious computation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import l2x
from l2x.evaluation import exact_sets, false_discovery_rate, median_rank, true_positive_rate


def explanation(scores: np.ndarray, k: int) -> l2x.Explanation:
    return l2x.Explanation(scores, k, [f"x{i}" for i in range(scores.shape[1])])


@given(arrays(float, (4, 6), elements=st.integers(-3, 3)), arrays(bool, (4, 6)))
def test_median_rank_is_the_median_of_ranks(scores: np.ndarray, truth: np.ndarray) -> None:
    truth[:, 0] = True
    expected = []
    for row, relevant in zip(scores, truth, strict=True):
        order = sorted(range(6), key=lambda i: (-row[i], i))
        expected.append(np.median([order.index(i) + 1 for i in np.flatnonzero(relevant)]))
    assert median_rank(explanation(scores, 2), truth).tolist() == expected


def test_perfect_and_worst() -> None:
    truth = np.array([[True, True, False, False]])
    best, worst = explanation(np.array([[4.0, 3, 2, 1]]), 2), explanation(np.array([[1.0, 2, 3, 4]]), 2)
    assert (exact_sets(best, truth), exact_sets(worst, truth)) == (1.0, 0.0)
    assert (true_positive_rate(best, truth), true_positive_rate(worst, truth)) == (1.0, 0.0)
    assert (false_discovery_rate(best, truth), false_discovery_rate(worst, truth)) == (0.0, 1.0)
    assert median_rank(best, truth).tolist() == [1.5]


def test_median_rank_is_lenient_and_exact_sets_is_not() -> None:
    truth = np.array([[True] * 4 + [False] * 6])
    lenient = explanation(np.array([[9.0, 8, 7, 1, 6, 5, 4, 3, 2, 0]]), 4)
    assert median_rank(lenient, truth).tolist() == [2.5]
    assert exact_sets(lenient, truth) == 0
    assert true_positive_rate(lenient, truth) == 0.75


def test_errors() -> None:
    with pytest.raises(l2x.InputError, match="truth has shape"):
        exact_sets(explanation(np.zeros((2, 3)), 1), np.ones((3, 3)))
    with pytest.raises(l2x.InputError, match="Row 1 of truth has no relevant feature"):
        median_rank(explanation(np.zeros((2, 3)), 1), np.array([[1, 0, 0], [0, 0, 0]]))
