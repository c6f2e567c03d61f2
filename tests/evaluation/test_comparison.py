"""Methods side by side on the same rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import l2x
from l2x.baselines import METHODS
from l2x.evaluation._comparison import EXPLAINERS, NAMES, VARIANTS, Comparison
from l2x.learning._training import TrainingPlan

PLAN = TrainingPlan.quick()
X = np.random.default_rng(0).normal(size=(400, 6)).astype(np.float32)


def classifier(X: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-4 * X[:, 1]))
    return np.stack([1 - p, p], axis=1)


def mean(X: np.ndarray) -> np.ndarray:
    return np.asarray(3 * X[:, 2])


class First:
    """A method of one's own: always the first features."""

    def explain(self, X: np.ndarray, k: int) -> l2x.Explanation:
        scores = np.tile(np.arange(X.shape[1], 0, -1.0), (len(X), 1))
        return l2x.Explanation(scores, k, [f"x{i}" for i in range(X.shape[1])])


@pytest.fixture(scope="module")
def found() -> Comparison:
    methods = ["l2x", "random", "search", ("first", First())]
    return l2x.compare(classifier, X, methods, k=1, rows=100, training=PLAN)


def test_methods_that_find_the_feature_are_the_most_faithful(found: Comparison) -> None:
    frame = found.to_frame()
    assert frame["posthoc_accuracy"].is_monotonic_decreasing
    assert frame.loc["l2x", "posthoc_accuracy"] > 0.95 > 0.8 > frame.loc["first", "posthoc_accuracy"]
    assert frame.loc["l2x", "removal"] < 0.8
    assert (frame["low"] <= frame["posthoc_accuracy"]).all()
    assert (frame["posthoc_accuracy"] <= frame["high"]).all()


def test_all_explain_the_same_rows(found: Comparison) -> None:
    assert found.rows == 100
    assert {len(explanation) for explanation in found.explanations.values()} == {100}
    first, *others = (e.inputs for e in found.explanations.values() if e.inputs is not None)
    assert all(np.array_equal(first, other) for other in others)


def test_learning_is_timed_apart(found: Comparison) -> None:
    frame = found.to_frame()
    assert frame.loc["l2x", "fit_seconds"] > 0.1 > frame.loc["random", "fit_seconds"]
    assert frame.loc["search", "seconds_per_row"] > 0


def test_it_is_a_table_a_page_and_a_picture(found: Comparison, tmp_path: Path) -> None:
    assert "post-hoc accuracy with 1 of 6 features, on 100 rows" in repr(found)
    assert "evaluator" not in repr(found)  # there was none
    assert found._repr_html_().count("<tr") == 2 + len(found.methods)
    found.plot(tmp_path / "methods.svg")
    assert "seconds per row" in (tmp_path / "methods.svg").read_text()


def test_regression_and_an_evaluator() -> None:
    evaluator = l2x.evaluation.fit_evaluator(mean, X[:200], k=1, training=PLAN)
    methods = [("ours", l2x.Explainer(mean, k=1, training=PLAN)), "random"]
    found = l2x.compare(mean, X[200:], methods, k=1, evaluator=evaluator)
    frame = found.to_frame()
    assert found.measure == "post-hoc R²"
    assert frame.loc["ours", "posthoc_accuracy"] > 0.9 > frame.loc["random", "posthoc_accuracy"]
    assert frame.loc["ours", "evaluator"] > 0.5 > frame.loc["random", "evaluator"]


def test_every_method_can_be_called_by_name() -> None:
    needs_surrogate = {"global"}
    assert {*NAMES} == {*EXPLAINERS, *VARIANTS, *METHODS} - needs_surrogate


def test_learned_and_refined_selections_share_one_explainer() -> None:
    found = l2x.compare(classifier, X, ["l2x", "learned", "refined"], k=1, rows=50, training=PLAN)
    assert found.to_frame()["fit_seconds"].nunique() == 1
    learned, refined = found.explanations["learned"], found.explanations["refined"]
    assert learned.known_predictions is None
    assert refined.confirmed is not None
    assert (refined.confirmed.mean(), refined.queries.max()) >= (0.95, 1)
    assert np.array_equal(learned.scores, refined.scores)


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (["shapley"], "There is no method 'shapley'; choose among l2x, "),
        ("l2x", r"pass a list, \['l2x'\]"),
        ([], "at least one"),
        ([classifier], "has no explain"),
        (["random", "random"], "Two methods are called random"),
    ],
)
def test_what_cannot_be_compared(methods: object, message: str) -> None:
    with pytest.raises(l2x.errors.InputError, match=message):
        l2x.compare(classifier, X, methods, k=1)  # type: ignore[arg-type]


def test_too_few_rows() -> None:
    with pytest.raises(l2x.errors.InputError, match="X has 10 rows"):
        l2x.compare(classifier, X[:10], k=1)
    with pytest.raises(l2x.errors.InputError, match="rows is 0"):
        l2x.compare(classifier, X, k=1, rows=0)


@pytest.mark.parametrize("seed", [-1, "a", None])
def test_seeds_that_are_none(seed: object) -> None:
    with pytest.raises(l2x.errors.InputError, match="seed is "):
        l2x.compare(classifier, X, k=1, seed=seed)  # type: ignore[arg-type]
