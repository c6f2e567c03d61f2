"""Parzen: its gradient, its bandwidth, its memory, and what it finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import euclidean_distances
from toy_models import one_column

import l2x
from l2x.baselines import Parzen
from l2x.baselines._parzen import gradient, kernel_weights


@pytest.fixture(scope="module")
def fitted_parzen() -> Parzen:
    X = np.random.default_rng(0).normal(size=(800, 3)) * [1, 2, 30] + 5
    return Parzen(lambda X: one_column(np.asarray(X) - 5), progress=False).fit(X)


def estimate(centres: np.ndarray, predictions: np.ndarray, x: np.ndarray, sigma: float) -> np.ndarray:
    """p̂(y|x), (n, D) -> (n, classes)."""
    return kernel_weights(euclidean_distances(x, centres, squared=True), sigma) @ predictions


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), sigma=st.floats(0.3, 3.0))
def test_the_gradient_is_that_of_finite_differences(seed: int, sigma: float) -> None:
    rng = np.random.default_rng(seed)
    centres, x = rng.normal(size=(30, 4)), rng.normal(size=(5, 4))
    predictions = rng.dirichlet(np.ones(3), size=30)
    classes = rng.integers(3, size=5)
    step = 1e-5
    expected = np.empty((5, 4))
    for j in range(4):
        shift = step * np.eye(4)[j]
        change = estimate(centres, predictions, x + shift, sigma) - estimate(
            centres, predictions, x - shift, sigma
        )
        expected[:, j] = change[np.arange(5), classes] / (2 * step)
    assert gradient(centres, predictions, x, classes, sigma) == pytest.approx(expected, abs=1e-6)


def test_the_estimate_is_a_distribution_even_far_from_all_rows() -> None:
    rng = np.random.default_rng(0)
    predictions = rng.dirichlet(np.ones(3), size=30)
    p = estimate(rng.normal(size=(30, 4)), predictions, np.full((2, 4), 1e4), 0.1)
    assert p.sum(axis=1) == pytest.approx([1, 1])
    assert (p >= 0).all()


def test_it_finds_the_column_that_the_model_reads_whatever_the_scales(fitted_parzen: Parzen) -> None:
    X = np.random.default_rng(1).normal(size=(50, 3)) * [1, 0.1, 30] + 5
    assert (fitted_parzen.explain(X, k=1).indices == 1).mean() > 0.9


def test_the_bandwidth_is_the_best_on_held_out_rows(fitted_parzen: Parzen) -> None:
    figures = fitted_parzen.log_likelihoods_
    assert len(figures) == 14
    assert figures[fitted_parzen.bandwidth_] == max(figures.values())
    assert min(figures) < fitted_parzen.bandwidth_ < max(figures)


def test_no_more_than_this_many_rows_are_stored_and_queried() -> None:
    black_box = l2x.as_black_box(one_column)
    parzen = Parzen(black_box, rows=100, progress=False).fit(np.random.default_rng(0).normal(size=(500, 3)))
    assert len(parzen.x_) == 100
    assert black_box.rows == 100


def test_predictions_are_used_instead_of_the_model(table: np.ndarray) -> None:
    queried = Parzen(one_column, rows=300, progress=False).fit(table)
    black_box = l2x.as_black_box(one_column)
    passed = Parzen(black_box, rows=300, progress=False).fit(table, one_column(table))
    assert black_box.rows == 0
    assert (passed.explain(table[:9], k=2).scores == queried.explain(table[:9], k=2).scores).all()


def test_batches_give_what_one_batch_gives(fitted_parzen: Parzen, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(1).normal(size=(20, 3)) + 5
    whole = fitted_parzen.explain(X, k=1).scores
    monkeypatch.setattr("l2x.baselines._parzen.PAIRS", 2000)
    assert fitted_parzen.explain(X, k=1).scores == pytest.approx(whole, rel=1e-4, abs=1e-7)


@settings(max_examples=5, deadline=None)
@given(order=st.permutations(range(5)))
def test_permuting_columns_permutes_the_explanation(order: list[int]) -> None:
    table = np.random.default_rng(0).normal(size=(300, 5))
    inverse = np.argsort(order)
    ours = Parzen(one_column, progress=False).fit(table).explain(table[:20], k=2)
    theirs = Parzen(lambda X: one_column(X[:, inverse]), progress=False).fit(table[:, order])
    assert theirs.explain(table[:20, order], k=2).scores == pytest.approx(ours.scores[:, order], abs=1e-5)


def test_a_mean_is_explained_too(table: np.ndarray) -> None:
    parzen = Parzen(lambda X: X[:, 2], progress=False).fit(table)
    assert (parzen.explain(table[:50], k=1).indices == 2).mean() > 0.8


def test_the_same_seed_gives_the_same_explanation(table: np.ndarray) -> None:
    first, again = (Parzen(one_column, rows=200, progress=False).fit(table) for _ in range(2))
    assert (first.explain(table, k=2).scores == again.explain(table, k=2).scores).all()


def test_wrong_use_is_refused(table: np.ndarray) -> None:
    with pytest.raises(l2x.errors.NotFittedError, match="call fit"):
        Parzen(one_column).explain(table, k=1)
    with pytest.raises(l2x.errors.InputError, match="predictions has 3 rows"):
        Parzen(one_column, progress=False).fit(table, np.full((3, 2), 0.5))
