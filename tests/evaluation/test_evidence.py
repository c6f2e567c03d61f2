"""What a report is about, and the units that its parts share: those of the public metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from toy_models import one_column

import l2x
from l2x.baselines import RandomK
from l2x.errors import InputError
from l2x.evaluation import Estimate, FittedSurrogate, fit_evaluator, information
from l2x.evaluation._evidence import SET_UP, Evidence, selections_of, subject_of
from l2x.features import fitted_view
from l2x.model._black_box import as_black_box

ZEROS = np.zeros((7, 4))


def evidence_of(model: Any, evaluator: FittedSurrogate, X: np.ndarray, plan: l2x.TrainingPlan) -> Evidence:
    """Of two random features."""
    black_box = as_black_box(model)
    return Evidence(
        subject=subject_of(RandomK(seed=1), X, 2, None),
        black_box=black_box,
        view=fitted_view(None, X),
        X_train=X,
        X_test=X,
        predictions=black_box(X),
        evaluator=evaluator,
        training=plan,
        seed=0,
        query_seconds=0.1,
    )


@pytest.fixture(scope="module")
def evidence(evaluator: FittedSurrogate, table: np.ndarray, plan: l2x.TrainingPlan) -> Evidence:
    return evidence_of(one_column, evaluator, table, plan)


@pytest.fixture(scope="module")
def of_means(table: np.ndarray, short: l2x.TrainingPlan) -> Evidence:
    """A regression of two outputs on different scales."""

    def model(X: np.ndarray) -> np.ndarray:
        return X[:, :2] * [1.0, 50.0] + 7

    black_box = l2x.as_black_box(model, task="regression")
    return evidence_of(black_box, fit_evaluator(black_box, table, 2, training=short), table, short)


def test_bits_are_those_of_information(
    evidence: Evidence, evaluator: FittedSurrogate, table: np.ndarray
) -> None:
    found = information(evaluator, table, evidence.explanation)
    assert evidence.captured(evidence.explanation.mask).mean() == pytest.approx(found.captured)
    assert evidence.available == pytest.approx(found.available)
    assert evidence.share(Estimate(found.captured)).value == pytest.approx(found.share)


def test_where_nothing_is_available_there_is_no_share(evidence: Evidence) -> None:
    constant = replace(evidence, predictions=np.full((600, 2), 0.5))
    assert constant.available == pytest.approx(0)
    assert np.isnan(constant.share(Estimate(0.1)).value)


def test_agreement(evidence: Evidence, of_means: Evidence) -> None:
    assert evidence.measure == "accuracy"
    assert evidence.agreement(evidence.predictions).value == 1
    assert evidence.agreement(-evidence.predictions).value == 0
    half = evidence.predictions[:300]
    assert evidence.agreement(half, half).value == 1
    assert of_means.measure == "R²"
    assert of_means.agreement(of_means.predictions).value == 1
    mean = np.tile(of_means.predictions.mean(axis=0), (600, 1))
    assert of_means.agreement(mean).value == pytest.approx(0)


def test_outputs_in_the_units_of_predictions(evidence: Evidence, of_means: Evidence) -> None:
    probabilities, means = (each.evaluator.likelihood.predictions for each in (evidence, of_means))
    standard = of_means.evaluator.likelihood.targets(of_means.predictions).numpy()
    np.testing.assert_allclose(means(standard), of_means.predictions, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(probabilities(np.log(evidence.predictions)), evidence.predictions, rtol=1e-6)
    assert of_means.available == pytest.approx(np.log2(np.e))  # two standardised means: half of 1 + 1 nats


def test_everything_may_be_selected_in_a_table(evidence: Evidence) -> None:
    assert evidence.selectable.all()
    assert (evidence.masks.random[0].sum(axis=1) == 2).all()


def test_an_explainer_brings_its_k_and_its_speed(fitted: l2x.Explainer, table: np.ndarray) -> None:
    subject = subject_of(fitted, table, None, None)
    assert subject.explanation.k == 1
    assert subject.name == "l2x, objective='both'"
    assert subject.source is fitted
    assert 0 < (subject.explain_seconds or 0) < SET_UP


def test_a_method_and_others_with_other_seeds() -> None:
    subject = subject_of((RandomK(), RandomK(seed=1), RandomK(seed=2)), ZEROS, 2, None)
    assert subject.name == "Random k"
    assert [len(other) for other in subject.repeats] == [7, 7]


def test_a_quick_first_call_is_timed_again() -> None:
    class Counted(RandomK):
        calls = 0

        def explain(self, X: Any, k: int) -> l2x.Explanation:
            type(self).calls += 1
            return super().explain(X, k)

    subject_of(Counted(), ZEROS, 2, None)
    assert Counted.calls == 2


def test_precomputed_explanations_are_cut_after_k() -> None:
    first, second = RandomK().explain(ZEROS, 1), RandomK(seed=1).explain(ZEROS, 3)
    subject = subject_of([first, second], ZEROS, None, "mine")
    assert (subject.name, subject.source, subject.explain_seconds) == ("mine", None, None)
    assert [e.k for e in (subject.explanation, *subject.repeats)] == [1, 1]
    assert subject_of(first, ZEROS, 2, None).explanation.k == 2
    assert selections_of(second, ZEROS, 2).k == selections_of(RandomK(), ZEROS, 2).k == 2


WRONG: dict[str, tuple[Any, str]] = {
    "nothing": ([], "nothing to report on"),
    "an array": (ZEROS, "a ndarray"),
    "an array among others": ([RandomK().explain(ZEROS, 1), ZEROS], "a ndarray"),
    "other rows": (RandomK().explain(ZEROS[:5], 1), "has 5 rows, X_test has 7"),
    "other rows among others": (
        [RandomK().explain(ZEROS, 1), RandomK().explain(ZEROS[:5], 1)],
        "X_test has 7",
    ),
    "no k": (RandomK(), "pass k="),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_refused(case: str) -> None:
    given, sentence = WRONG[case]
    with pytest.raises(InputError, match=sentence):
        subject_of(given, ZEROS, None, None)


def test_sizes_belong_to_the_k_that_they_were_learned_for() -> None:
    sized = replace(RandomK().explain(ZEROS, 3), sizes=np.array([1, 1, 2, 2, 3, 3, 3]))
    assert selections_of(sized, ZEROS, 3).mask.sum(axis=1).tolist() == [1, 1, 2, 2, 3, 3, 3]
    for k in (1, 2, 4):
        assert (selections_of(sized, ZEROS, k).mask.sum(axis=1) == k).all(), k
