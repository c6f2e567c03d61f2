"""The leakage test finds leakage where there is some, and none in sound or random selections."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from toy_models import one_column

import l2x
from l2x.errors import InputError
from l2x.evaluation import FittedSurrogate, fit_evaluator, mask_only_accuracy
from l2x.evaluation._leakage import ExplainedRows, Leakage, leakage_test, mask_only_outputs
from l2x.learning._rows import Categorical, Gaussian

TRAIN, TEST = (np.random.default_rng(seed).normal(size=(2000, 5)) for seed in (2, 3))
Test = Callable[[np.ndarray, np.ndarray], Leakage]


@pytest.fixture(scope="module")
def leakage(plan: l2x.TrainingPlan) -> Test:
    """Of selections of the rows TRAIN and TEST."""
    evaluator = fit_evaluator(one_column, np.random.default_rng(1).normal(size=(3000, 5)), 2, training=plan)

    def measured(masks: np.ndarray, test_masks: np.ndarray) -> Leakage:
        train = ExplainedRows(TRAIN, masks, one_column(TRAIN))
        test = ExplainedRows(TEST, test_masks, one_column(TEST))
        return leakage_test(evaluator, train, test, training=plan)

    return measured


def leaking(X: np.ndarray) -> np.ndarray:
    """Features 3 and 4, or 2 and 3, by the sign of the decisive column: the positions are the prediction."""
    left, right = np.isin(np.arange(5), [2, 3]), np.isin(np.arange(5), [3, 4])
    decides = one_column(X)[:, 1] > 0.5
    return np.where(decides[:, None], left, right)


def check(found: Leakage) -> None:
    assert found.divergence.min() >= -1e-6
    assert abs(found.control.mean()) < 0.02
    assert found.gain.shape == found.control.shape == found.divergence.shape == (2000,)
    assert found.outputs.shape == found.mask_only.shape == (2000, 2)


def test_leakage_is_found(leakage: Test) -> None:
    state = torch.get_rng_state()
    found = leakage(leaking(TRAIN), leaking(TEST))
    check(found)
    assert found.gain.mean() > 0.1
    assert (torch.get_rng_state() == state).all()


def test_sound_and_random_selections_do_not_leak(leakage: Test) -> None:
    def random(seed: int) -> np.ndarray:
        return np.random.default_rng(seed).random((2000, 5)).argsort(axis=1) < 2

    found = leakage(random(0), random(1))
    check(found)
    assert abs(found.gain.mean()) < 0.02
    # The sets differ by class, but the feature that they depend on is selected as well.
    shown = [leaking(TRAIN), leaking(TEST)]
    for mask in shown:
        mask[:, 1] = True
    found = leakage(shown[0], shown[1])
    check(found)
    assert abs(found.gain.mean()) < 0.02


def test_probes_start_from_a_network(
    fitted: l2x.Explainer, table: np.ndarray, short: l2x.TrainingPlan
) -> None:
    querying = l2x.Explainer(one_column, 1, objective="model", training=short).fit(table).surrogate_
    assert isinstance(querying, FittedSurrogate)
    rows = ExplainedRows(table, fitted.explain(table).mask, one_column(table))
    with pytest.raises(InputError, match="fit_evaluator"):
        leakage_test(querying, rows, rows, training=short)


RNG = np.random.default_rng(0)
CLASSES = RNG.integers(0, 3, size=600)


def random_masks(n: int) -> np.ndarray:
    return RNG.random((n, 12)).argsort(axis=1) < 3


def test_positions_that_are_the_class_are_found() -> None:
    masks = random_masks(600)
    masks[:, :3] = np.eye(3, dtype=bool)[CLASSES]
    assert mask_only_accuracy(masks[:400], CLASSES[:400], masks[400:], CLASSES[400:]) == 1


def test_random_sets_say_nothing() -> None:
    masks = random_masks(600)
    assert mask_only_accuracy(masks[:400], CLASSES[:400], masks[400:], CLASSES[400:]) < 0.45


def test_one_class() -> None:
    masks = random_masks(10)
    assert mask_only_accuracy(masks, np.zeros(10), masks, np.zeros(10)) == 1
    with pytest.raises(InputError, match="10 and 10 masks for 9 and 10 "):
        mask_only_accuracy(masks, np.zeros(9), masks, np.zeros(10))


def test_outputs_are_in_the_units_of_a_predictor() -> None:
    masks = np.array([[True, False], [False, True]] * 20)
    predictions = np.array([[0.9, 0.1, 0.0], [0.0, 0.1, 0.9]] * 20)
    read = mask_only_outputs(masks, predictions, masks[:2], Categorical(3))
    assert read.argmax(dim=1).tolist() == [0, 2]
    assert read.isfinite().all()
    one = mask_only_outputs(masks, predictions[[0] * 40], masks[:2], Categorical(3))
    assert one.argmax(dim=1).tolist() == [0, 0]
    means = np.array([[1.0], [5.0]] * 20)
    read = mask_only_outputs(masks, means, masks[:2], Gaussian.of(means))
    assert read[:, 0].tolist() == pytest.approx([-1, 1], abs=0.1)
