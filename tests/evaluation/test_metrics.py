"""Metrics for selections: ranks against known truth, overlap and collapse, and selected words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import l2x
from l2x.evaluation import (
    collapse,
    exact_sets,
    false_discovery_rate,
    jaccard,
    median_rank,
    selected_words,
    true_positive_rate,
)
from l2x.evaluation._metrics import distinct_sets, overlap


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
    assert (exact_sets(best, truth).mean(), exact_sets(worst, truth).mean()) == (1.0, 0.0)
    assert (true_positive_rate(best, truth).mean(), true_positive_rate(worst, truth).mean()) == (1.0, 0.0)
    assert (false_discovery_rate(best, truth).mean(), false_discovery_rate(worst, truth).mean()) == (0.0, 1.0)
    assert median_rank(best, truth).tolist() == [1.5]


def test_median_rank_is_lenient_and_exact_sets_is_not() -> None:
    truth = np.array([[True] * 4 + [False] * 6])
    lenient = explanation(np.array([[9.0, 8, 7, 1, 6, 5, 4, 3, 2, 0]]), 4)
    assert median_rank(lenient, truth).tolist() == [2.5]
    assert exact_sets(lenient, truth).mean() == 0
    assert true_positive_rate(lenient, truth).mean() == 0.75


def test_errors() -> None:
    with pytest.raises(l2x.errors.InputError, match=r"truth has the shape \(3, 3\)"):
        exact_sets(explanation(np.zeros((2, 3)), 1), np.ones((3, 3)))
    with pytest.raises(l2x.errors.InputError, match="Row 1 of truth has no relevant feature"):
        median_rank(explanation(np.zeros((2, 3)), 1), np.array([[1, 0, 0], [0, 0, 0]]))


def selecting(*rows: list[int], d: int = 6) -> l2x.Explanation:
    scores = np.zeros((len(rows), d))
    for scored, features in zip(scores, rows, strict=True):
        scored[features] = 1
    return l2x.Explanation(scores, len(rows[0]), [f"x{i}" for i in range(d)])


def test_overlap_is_one_for_the_same_and_zero_for_disjoint_sets() -> None:
    one, other = selecting([0, 1], [0, 1], [0, 1]), selecting([1, 0], [2, 3], [1, 2])
    assert jaccard(one, other) == pytest.approx([1, 0, 1 / 3])
    with pytest.raises(l2x.errors.InputError, match=r"\(3, 6\) and \(1, 6\)"):
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


TEXTS = ["A great film", "the GREAT plot", "", "Not great"]


def explained(view: l2x.Words | l2x.Sentences, k: int = 2) -> l2x.Explanation:
    """The last k features of each text."""
    view = view.fit(TEXTS)
    scores = np.tile(np.arange(view.d, dtype=float), (len(TEXTS), 1))
    selectable = view.selectable(view.encode(TEXTS)).numpy()
    return l2x.Explanation(np.where(selectable, scores, -np.inf), k, view.names_, inputs=TEXTS, view=view)


def test_words_are_counted_whatever_their_case_and_padding_is_none() -> None:
    counts = selected_words(explained(l2x.Words(length=4)))
    assert counts == {"great": 3, "film": 1, "plot": 1, "not": 1}
    assert {"a", "the"} <= set(selected_words(explained(l2x.Words(length=4), k=3)))


def test_only_words_can_be_counted() -> None:
    with pytest.raises(l2x.errors.InputError, match=r"l2x.Words"):
        selected_words(explained(l2x.Sentences(length=2), k=1))
