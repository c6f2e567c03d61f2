"""Controls: random features are random, the global subset, the oracle and the search are optimal."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from toy_models import one_column

import l2x
from l2x.baselines import GlobalTopK, GreedySearch, RandomK, _controls
from l2x.baselines._controls import best_subset, mean_value
from l2x.datasets import synthetic
from l2x.evaluation import exact_sets, posthoc_accuracy


class PairSurrogate:
    """Only the pair (0, 1) is value something, as in XOR; each other feature a little, by its index."""

    def predictions(self, X: Any) -> np.ndarray:
        return np.full((len(X), 2), 0.5)

    def log_q(self, X: Any, mask: np.ndarray, predictions: np.ndarray) -> np.ndarray:
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
    assert exact_sets(explanation, data.truth).mean() == 1.0
    assert posthoc_accuracy(data.model, data.X, explanation) > 0.5


@pytest.mark.parametrize("k", [2, 3])
def test_the_search_finds_a_pair_that_is_worthless_apart(k: int) -> None:
    # 60 features: too many subsets to try them all.
    value = mean_value(PairSurrogate(), np.zeros((4, 60)), 60)
    assert best_subset(value, 60, k) == {0, 1} | ({59} if k == 3 else set())


def test_no_subset_of_a_small_table_is_better() -> None:
    data = synthetic("switch", 100, seed=0)
    value = data.model.conditional(rows=50)
    control = GlobalTopK(value).fit(data.X, 3)
    value = mean_value(value, data.X, 10)
    every = [value(frozenset(subset)) for subset in combinations(range(10), 3)]
    assert control.log_q_ == pytest.approx(max(every), abs=1e-9)


def test_features_outside_the_subset_are_ranked_by_what_they_add() -> None:
    control = GlobalTopK(PairSurrogate()).fit(np.zeros((4, 5)), 2)
    assert control.subset_ == [0, 1]
    assert np.argsort(-control.scores_)[2:].tolist() == [4, 3, 2]


def test_wrong_use_is_refused() -> None:
    with pytest.raises(l2x.errors.NotFittedError, match=r"call fit\(X, k\)"):
        GlobalTopK(PairSurrogate()).explain(np.zeros((2, 5)), 2)
    with pytest.raises(l2x.errors.InputError, match="k = 9"):
        RandomK().explain(np.zeros((2, 5)), 9)


def test_finds_the_truth_of_orange_skin() -> None:
    data = synthetic("orange_skin", 40, seed=1)
    best = l2x.oracle(data.model.conditional(rows=300), data.X, 4)
    # Not 1.0: where the four true features together look average, another subset tells Y as well.
    assert exact_sets(best.explanation, data.truth).mean() > 0.6
    assert best.gap(best.explanation).max() == 0.0


def test_no_explanation_beats_it() -> None:
    data = synthetic("switch", 30, seed=1)
    best = l2x.oracle(data.model.conditional(rows=100), data.X, 5)
    rng = np.random.default_rng(0)
    for _ in range(5):
        other = l2x.Explanation(rng.normal(size=(30, 10)), 5, [f"x{i}" for i in range(10)])
        assert best.gap(other).shape == (30,)
        assert (best.gap(other) >= 0).all()


def test_ties_are_counted() -> None:
    """Additive (paper formula): once x1 is known nearly every subset is as good."""
    data = synthetic("nonlinear_additive", 30, variant="paper", seed=1)
    best = l2x.oracle(data.model.conditional(rows=100), data.X, 4)
    assert np.median(best.ties) > 10


def test_with_a_fitted_surrogate(fitted: l2x.Explainer, table: np.ndarray) -> None:
    best = l2x.oracle(fitted.surrogate_, table[:50], 1)
    assert (best.explanation.indices == 1).mean() > 0.6
    assert (best.gap(fitted.explain(table[:50])) >= 0).all()


def test_too_many_subsets() -> None:
    with pytest.raises(l2x.errors.InputError, match=r"subsets of 20 out of 40 features"):
        l2x.oracle(
            synthetic("xor", 2).model.conditional(rows=2), np.zeros((2, 40)), 20, predictions=np.ones((2, 2))
        )


def test_texts_are_no_table(fitted: l2x.Explainer) -> None:
    with pytest.raises(l2x.errors.InputError, match=r"GreedySearch"):
        l2x.oracle(fitted.surrogate_, ["a good film"], 2)


def test_the_model_is_queried_once(table: np.ndarray) -> None:
    rows = []

    def counting(X: np.ndarray) -> np.ndarray:
        rows.append(len(X))
        return one_column(X)

    from l2x.learning._surrogate import ConditionalModel

    l2x.oracle(ConditionalModel(counting, table[:10]), table[:5], 1)
    assert rows == [5] + [50] * 5


def test_groups_are_its_features(table: np.ndarray) -> None:
    plan = l2x.TrainingPlan(l2x.Phase(3, 1e-2), l2x.Phase(3, 1e-2), evaluations=2, progress=False)
    features = l2x.ColumnGroups({"g": [0, 2, 3, 4]})
    explainer = l2x.Explainer(one_column, 1, features=features, objective="model", training=plan).fit(table)
    assert l2x.oracle(explainer.surrogate_, table[:5], 1).explanation.names == [["x1"]] * 5
    with pytest.raises(l2x.errors.InputError, match=r"The mask has the shape \(5, 5\); expected \(5, 2\)"):
        explainer.surrogate_.outputs(table[:5], np.ones((5, 5), dtype=bool))


RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5))
WEIGHTS = np.array([0.0, 3.0, -2.0, 1.0, 0.0])


def linear(X: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-(np.asarray(X) @ WEIGHTS)))
    return np.stack([1 - p, p], axis=1)


def mean(X: np.ndarray) -> np.ndarray:
    return np.asarray(X) @ WEIGHTS


def error(explanation: l2x.Explanation) -> np.ndarray:
    """Of the mean, from the selection alone."""
    masked = np.where(explanation.mask, X, X.mean(axis=0))
    return np.square(mean(masked) - mean(X))


def test_the_first_feature_is_the_best_one_for_each_row() -> None:
    view = l2x.Columns(masking="mean").fit(X)
    found = GreedySearch(mean, features=view, progress=False).explain(X, 1)
    for i in range(5):
        only = np.zeros((40, 5), dtype=bool)
        only[:, i] = True
        other = np.square(mean(np.where(only, X, X.mean(axis=0))) - mean(X))
        assert (error(found) <= other + 1e-12).all()


def test_further_rounds_are_never_worse() -> None:
    view = l2x.Columns(masking="mean").fit(X)
    once, thrice = (
        GreedySearch(mean, features=view, rounds=rounds, progress=False).explain(X, 2) for rounds in (1, 3)
    )
    assert (error(thrice) <= error(once) + 1e-12).all()
    assert once.mask.sum(axis=1).tolist() == thrice.mask.sum(axis=1).tolist() == [2] * 40


def test_small_batches_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = GreedySearch(linear, progress=False).explain(X, 3)
    monkeypatch.setattr(_controls, "SEARCH_BATCH", 10)
    again = GreedySearch(linear, features=whole.view, progress=False).explain(X, 3)
    assert np.array_equal(whole.scores, again.scores)
    assert set(np.unique(whole.scores)) == {0.0, 1.0, 2.0, 3.0}


def test_short_texts_run_out_of_words() -> None:
    def mood(texts: list[str]) -> np.ndarray:
        p = np.array([0.5 + 0.4 * (("good" in text) - int("bad" in text)) for text in texts])
        return np.stack([1 - p, p], axis=1)

    texts = ["good", "a good film", "a bad bad film", "a film"]
    explanation = GreedySearch(
        mood, features=l2x.Words(length=4, vocabulary=9).fit(texts), progress=False
    ).explain(texts, 3)
    assert explanation.mask.sum(axis=1).tolist() == [1, 3, 3, 2]
    assert explanation.names[1][0] == "good"


def test_no_rounds() -> None:
    with pytest.raises(l2x.errors.InputError, match="rounds is 0; the search needs at least one"):
        GreedySearch(linear, rounds=0).explain(X, 1)
