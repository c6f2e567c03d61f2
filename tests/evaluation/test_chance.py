"""Chance: as many features, only selectable ones, in a stream of its own."""

from __future__ import annotations

import numpy as np
import pytest

from l2x.baselines import RandomK
from l2x.evaluation._stability import overlap
from l2x.learning._agreement import random_selections

RNG = np.random.default_rng(0)


def test_as_many_features_and_only_those_that_may_be_selected() -> None:
    selectable = RNG.random((200, 10)) < 0.6
    selectable[:, 0] = True
    mask = selectable & (RNG.random((200, 10)) < 0.5)
    drawn = random_selections(mask, selectable, seed=0)
    assert (drawn.sum(axis=1) == mask.sum(axis=1)).all()
    assert not (drawn & ~selectable).any()


def test_every_feature_is_as_likely_as_any_other() -> None:
    mask = np.tile(np.arange(5) < 2, (4000, 1))
    assert random_selections(mask, np.ones_like(mask), seed=1).mean(axis=0) == pytest.approx(0.4, abs=0.04)


def test_a_random_method_with_the_same_seed_does_not_look_like_chance() -> None:
    method = RandomK(seed=7).explain(np.zeros((1000, 5)), 1).mask
    drawn = random_selections(method, np.ones_like(method), seed=7)
    assert overlap(method, drawn).mean() == pytest.approx(0.2, abs=0.05)
    assert (drawn == random_selections(method, np.ones_like(method), seed=7)).all()
