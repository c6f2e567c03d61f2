"""The mask alone: a code in the index set is read, random sets say nothing."""

from __future__ import annotations

import numpy as np
import pytest

from l2x.errors import InputError
from l2x.evaluation import mask_only_accuracy
from l2x.evaluation._mask_only import mask_only_outputs
from l2x.learning._likelihood import Categorical, Gaussian

RNG = np.random.default_rng(0)
ANSWERS = RNG.integers(0, 3, size=600)


def random_masks(n: int) -> np.ndarray:
    return RNG.random((n, 12)).argsort(axis=1) < 3


def test_a_code_is_read() -> None:
    masks = random_masks(600)
    masks[:, :3] = np.eye(3, dtype=bool)[ANSWERS]
    assert mask_only_accuracy(masks[:400], ANSWERS[:400], masks[400:], ANSWERS[400:]) == 1


def test_random_sets_say_nothing() -> None:
    masks = random_masks(600)
    assert mask_only_accuracy(masks[:400], ANSWERS[:400], masks[400:], ANSWERS[400:]) < 0.45


def test_one_class() -> None:
    masks = random_masks(10)
    assert mask_only_accuracy(masks, np.zeros(10), masks, np.zeros(10)) == 1
    with pytest.raises(InputError, match="10 and 10 masks for 9 and 10 answers"):
        mask_only_accuracy(masks, np.zeros(9), masks, np.zeros(10))


def test_as_a_predictor_would_put_it() -> None:
    masks = np.array([[True, False], [False, True]] * 20)
    answers = np.array([[0.9, 0.1, 0.0], [0.0, 0.1, 0.9]] * 20)
    read = mask_only_outputs(masks, answers, masks[:2], Categorical(3))
    assert read.argmax(dim=1).tolist() == [0, 2]
    assert read.isfinite().all()
    one = mask_only_outputs(masks, answers[[0] * 40], masks[:2], Categorical(3))
    assert one.argmax(dim=1).tolist() == [0, 0]
    means = np.array([[1.0], [5.0]] * 20)
    read = mask_only_outputs(masks, means, masks[:2], Gaussian.of(means))
    assert read[:, 0].tolist() == pytest.approx([-1, 1], abs=0.1)
