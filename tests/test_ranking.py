"""Ranking: the best first, ties to the lower index, whatever floats hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from l2x._base import ranking
from l2x._base.ranking import above_rest, best, best_with_scores, ranked

ODD_SCORES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-40, -1e-40, np.inf, -np.inf, np.nan]) | st.floats(
    width=32
)


@given(
    arrays(np.float32, st.tuples(st.integers(1, 5), st.integers(1, 40)), elements=ODD_SCORES),
    st.integers(1, 40),
)
def test_sorted_integers_rank_as_floats_do(scores: np.ndarray, k: int) -> None:
    k = min(k, scores.shape[1])
    for some in (scores, scores.astype(np.float64), scores[:, ::-1]):
        assert best(some, k).tolist() == ranked(some)[:, :k].tolist()


@given(
    arrays(np.float32, st.tuples(st.integers(1, 5), st.integers(1, 40)), elements=ODD_SCORES),
    st.integers(1, 40),
)
def test_few_scores_and_many_are_ranked_alike(scores: np.ndarray, k: int) -> None:
    k = min(k, scores.shape[1])
    indices, of_best = best_with_scores(scores, k)
    assert indices == ranked(scores)[:, :k].tolist()
    assert np.array_equal(of_best, np.take_along_axis(scores, ranked(scores)[:, :k], axis=1), equal_nan=True)


def test_ranking_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "CACHED_CELLS", 10)
    scores = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    assert best(scores, 2).tolist() == ranked(scores)[:, :2].tolist()


@given(arrays(np.float32, (4, 6), elements=st.integers(-99, 99), unique=True), st.integers(1, 6))
def test_what_is_selected_stands_above_the_rest(scores: np.ndarray, k: int) -> None:
    mask = np.zeros(scores.shape, dtype=bool)
    np.put_along_axis(mask, best(scores, k), values=True, axis=1)
    above = above_rest(scores, mask)
    assert (np.argsort(above, axis=1) == np.argsort(scores, axis=1)).all()
    if k < 6:
        assert ((above > 0) == mask).all()
        assert (np.where(mask, -np.inf, above).max(axis=1) == 0).all()
    else:
        assert (above.min(axis=1) == 0).all()


def test_a_row_with_nothing_to_select() -> None:
    scores = np.array([[-np.inf, -np.inf], [1.0, -np.inf]])
    above = above_rest(scores, mask=scores > -np.inf)
    assert above.tolist() == [[-np.inf, -np.inf], [0.0, -np.inf]]
