"""The mask-only reader: a code in the places is read, places at random are not."""

from __future__ import annotations

import numpy as np
import pytest
from models import one_column

import l2x
from l2x.evaluation import encode_meter, fit_judge, mask_only_accuracy
from l2x.evaluation.mask_only import mask_only_outputs
from l2x.likelihood import Categorical, Gaussian
from l2x.training import Phase
from l2x.values import FittedValue

RNG = np.random.default_rng(0)
ANSWERS = RNG.integers(0, 3, size=600)


def random_masks(n: int) -> np.ndarray:
    return RNG.random((n, 12)).argsort(axis=1) < 3


def test_a_code_is_read() -> None:
    masks = random_masks(600)
    masks[:, :3] = np.eye(3, dtype=bool)[ANSWERS]
    assert mask_only_accuracy(masks[:400], ANSWERS[:400], masks[400:], ANSWERS[400:]) == 1


def test_random_places_say_nothing() -> None:
    masks = random_masks(600)
    assert mask_only_accuracy(masks[:400], ANSWERS[:400], masks[400:], ANSWERS[400:]) < 0.45


def test_one_class() -> None:
    masks = random_masks(10)
    assert mask_only_accuracy(masks, np.zeros(10), masks, np.zeros(10)) == 1
    with pytest.raises(l2x.InputError, match="10 and 10 masks for 9 and 10 answers"):
        mask_only_accuracy(masks, np.zeros(9), masks, np.zeros(10))


PLAN = l2x.TrainingPlan(value=Phase(400, 5e-3, batch_size=200, averaging=0.9), evaluations=5, progress=False)
TRAIN, TEST = (np.random.default_rng(seed).normal(size=(2000, 5)) for seed in (2, 3))


@pytest.fixture(scope="module")
def judge() -> FittedValue:
    X = np.random.default_rng(1).normal(size=(3000, 5))
    return fit_judge(one_column, X, 2, training=PLAN)


def meter(judge: FittedValue, masks: np.ndarray, test_masks: np.ndarray) -> float:
    """The mean gain in nats of readers of these selections."""
    found = encode_meter(
        judge, TRAIN, masks, one_column(TRAIN), test_X=TEST, test_masks=test_masks,
        test_answers=one_column(TEST), plan=PLAN,
    )  # fmt: skip
    assert found.divergence.min() >= -1e-6
    assert abs(found.control.mean()) < 0.02
    return float(found.gain.mean())


def code(X: np.ndarray) -> np.ndarray:
    """Features 3 and 4, or 2 and 3, by the sign of what decides: the places are the answer."""
    left, right = np.isin(np.arange(5), [2, 3]), np.isin(np.arange(5), [3, 4])
    decides = one_column(X)[:, 1] > 0.5
    return np.where(decides[:, None], left, right)


def test_the_meter_reads_a_code_that_values_do_not_hold(judge: FittedValue) -> None:
    assert meter(judge, code(TRAIN), code(TEST)) > 0.1


def test_selections_without_a_code_have_none(judge: FittedValue) -> None:
    def random(seed: int) -> np.ndarray:
        return np.random.default_rng(seed).random((2000, 5)).argsort(axis=1) < 2

    assert abs(meter(judge, random(0), random(1))) < 0.02
    # The places differ by class, but what they depend on is shown: honest.
    shown = [code(TRAIN), code(TEST)]
    for mask in shown:
        mask[:, 1] = True
    assert abs(meter(judge, shown[0], shown[1])) < 0.02


def test_reading_places() -> None:
    masks = np.array([[True, False], [False, True]] * 20)
    answers = np.array([[0.9, 0.1, 0.0], [0.0, 0.1, 0.9]] * 20)
    read = mask_only_outputs(masks, answers, masks[:2], Categorical(3))
    assert read.argmax(dim=1).tolist() == [0, 2]
    assert read.isfinite().all()
    assert mask_only_outputs(masks, answers[[0] * 40], masks[:2], Categorical(3)).argmax(dim=1).tolist() == [
        0,
        0,
    ]
    means = np.array([[1.0], [5.0]] * 20)
    read = mask_only_outputs(masks, means, masks[:2], Gaussian.of(means))
    assert read[:, 0].tolist() == pytest.approx([-1, 1], abs=0.1)
