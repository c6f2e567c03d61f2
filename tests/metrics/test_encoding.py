"""The mask-only reader: a code in the places is read, places at random are not."""

from __future__ import annotations

import numpy as np
import pytest

import l2x
from l2x.metrics import mask_only_accuracy

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
