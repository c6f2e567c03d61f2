"""The ways to remove features: the view's own first, and all others that its parameter takes."""

from __future__ import annotations

import numpy as np
import pytest

import l2x
from l2x.features._masking import removals

TABLE = np.random.default_rng(0).normal(size=(20, 3))
TEXTS = ["a good film", "a bad film"] * 10


@pytest.mark.parametrize("own", ["mean", "zero", "resample"])
def test_the_views_own_comes_first_and_each_stands_once(own: str) -> None:
    view = l2x.Columns(removal=own).fit(TABLE)
    ways = removals(view)
    assert next(iter(ways)) == own
    assert ways[own] is view
    assert set(ways) == {"mean", "zero", "resample"}
    assert {way: other.removal for way, other in ways.items()} == {way: way for way in ways}
    assert view.removal == own


def test_each_way_removes_in_its_own_way() -> None:
    view, nothing = l2x.Columns().fit(TABLE), np.zeros((20, 3), dtype=bool)
    removed = {way: other.for_model(TABLE, nothing) for way, other in removals(view).items()}
    assert np.allclose(removed["mean"], TABLE.mean(axis=0))
    assert not removed["zero"].any()
    assert set(removed["resample"][:, 0]) <= set(TABLE[:, 0])


def test_a_black_box_that_reads_ids_sees_padding_in_any_case() -> None:
    words = l2x.Words(length=4, vocabulary=9)
    assert len(removals(words.fit(TEXTS))) > 1
    by_ids = l2x.Words(length=4, vocabulary=9, reads="ids").fit(TEXTS)
    assert list(removals(by_ids).values()) == [by_ids]
