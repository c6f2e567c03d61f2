"""Controls: chance is chance, the one subset is the best one, the oracle is the oracle."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import l2x
from l2x.baselines import GlobalTopK, OracleExplainer, RandomK
from l2x.baselines._controls import best_subset, mean_value
from l2x.datasets import synthetic
from l2x.evaluation import exact_sets, posthoc_accuracy


class PairValue:
    """Only the pair (0, 1) is worth something, as in XOR; each other feature a little, by its index."""

    def answers(self, X: Any) -> np.ndarray:
        return np.full((len(X), 2), 0.5)

    def log_q(self, X: Any, mask: np.ndarray, answers: np.ndarray) -> np.ndarray:
        pair = mask[:, 0] & mask[:, 1]
        return pair * 10.0 + mask @ (np.arange(mask.shape[1]) * 0.01)


def test_random_features_are_uniform_seeded_and_exactly_k() -> None:
    X = np.zeros((5000, 5))
    explanation = RandomK(seed=1).explain(X, k=2)
    assert (explanation.mask.sum(axis=1) == 2).all()
    assert explanation.mask.mean(axis=0) == pytest.approx(np.full(5, 0.4), abs=0.03)
    assert (explanation.scores == RandomK(seed=1).explain(X, k=2).scores).all()
    assert (explanation.scores != RandomK(seed=2).explain(X, k=2).scores).any()


@pytest.mark.parametrize("name", ["xor", "orange_skin"])
def test_one_subset_is_enough_where_the_relevant_features_never_change(name: Any) -> None:
    data = synthetic(name, 400, seed=0)
    control = GlobalTopK(data.model.conditional(rows=100), rows=300).fit(data.X, data.k)
    explanation = control.explain(data.X, data.k)
    assert exact_sets(explanation, data.truth) == 1.0
    assert posthoc_accuracy(data.model, data.X, explanation) > 0.5


@pytest.mark.parametrize("k", [2, 3])
def test_the_search_finds_a_pair_that_is_worthless_apart(k: int) -> None:
    # 60 features: too many subsets to try them all.
    worth = mean_value(PairValue(), np.zeros((4, 60)), 60)
    assert best_subset(worth, 60, k) == {0, 1} | ({59} if k == 3 else set())


def test_no_subset_of_a_small_table_is_better() -> None:
    data = synthetic("switch", 100, seed=0)
    value = data.model.conditional(rows=50)
    control = GlobalTopK(value).fit(data.X, 3)
    worth = mean_value(value, data.X, 10)
    every = [worth(frozenset(subset)) for subset in combinations(range(10), 3)]
    assert control.value_ == pytest.approx(max(every), abs=1e-9)


def test_features_outside_the_subset_are_ranked_by_what_they_add() -> None:
    control = GlobalTopK(PairValue()).fit(np.zeros((4, 5)), 2)
    assert control.subset_ == [0, 1]
    assert np.argsort(-control.scores_)[2:].tolist() == [4, 3, 2]


def test_the_oracle_has_the_same_verb() -> None:
    data = synthetic("xor", 30, seed=0)
    value = data.model.conditional(rows=100)
    explanation = OracleExplainer(value).explain(data.X, 2)
    assert (explanation.mask == l2x.oracle(value, data.X, 2).explanation.mask).all()
    assert explanation.view is not None
    assert posthoc_accuracy(data.model, data.X, explanation) > 0.5


def test_wrong_use_is_told() -> None:
    with pytest.raises(l2x.NotFittedError, match=r"call fit\(X, k\)"):
        GlobalTopK(PairValue()).explain(np.zeros((2, 5)), 2)
    with pytest.raises(l2x.InputError, match="k = 9"):
        RandomK().explain(np.zeros((2, 5)), 9)
