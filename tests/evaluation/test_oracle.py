"""The oracle: it is optimal, it finds the truth where that is identifiable, it says where it is not."""

from __future__ import annotations

import numpy as np
import pytest
from toy_models import one_column

import l2x
from l2x.datasets import synthetic
from l2x.evaluation import exact_sets


def test_finds_the_truth_of_orange_skin() -> None:
    data = synthetic("orange_skin", 40, seed=1)
    best = l2x.oracle(data.model.conditional(rows=300), data.X, 4)
    # Not 1.0: where the four true features together look average, another subset tells Y as well.
    assert exact_sets(best.explanation, data.truth) > 0.6
    assert best.gap(best.explanation) == 0.0


def test_no_explanation_beats_it() -> None:
    data = synthetic("switch", 30, seed=1)
    best = l2x.oracle(data.model.conditional(rows=100), data.X, 5)
    rng = np.random.default_rng(0)
    for _ in range(5):
        other = l2x.Explanation(rng.normal(size=(30, 10)), 5, [f"x{i}" for i in range(10)])
        assert best.gap(other) >= 0
        assert best.gap_rows(other).shape == (30,)
        assert best.gap(other) == pytest.approx(best.gap_rows(other).mean())


def test_ties_are_counted() -> None:
    """Additive (paper formula): once x1 is known nearly every subset is as good."""
    data = synthetic("nonlinear_additive", 30, variant="paper", seed=1)
    best = l2x.oracle(data.model.conditional(rows=100), data.X, 4)
    assert np.median(best.ties) > 10


def test_with_a_fitted_value(fitted: l2x.Explainer, table: np.ndarray) -> None:
    best = l2x.oracle(fitted.q_, table[:50], 1)
    assert (best.explanation.indices == 1).mean() > 0.6
    assert best.gap(fitted.explain(table[:50])) >= 0


def test_too_many_subsets() -> None:
    with pytest.raises(l2x.InputError, match=r"subsets of 20 out of 40 features"):
        l2x.oracle(
            synthetic("xor", 2).model.conditional(rows=2), np.zeros((2, 40)), 20, responses=np.ones((2, 2))
        )


def test_texts_are_no_table(fitted: l2x.Explainer) -> None:
    with pytest.raises(l2x.InputError, match=r"every subset of a table's columns; .*GreedySearch"):
        l2x.oracle(fitted.q_, ["a good film"], 2)


def test_model_answers_are_asked_once(table: np.ndarray) -> None:
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
    explainer = l2x.Explainer(one_column, 1, features=features, value="model", training=plan).fit(table)
    assert l2x.oracle(explainer.q_, table[:5], 1).explanation.names == [["x1"]] * 5
    with pytest.raises(l2x.InputError, match=r"The mask has the shape \(5, 5\); expected \(5, 2\)"):
        explainer.q_.outputs(table[:5], np.ones((5, 5), dtype=bool))
