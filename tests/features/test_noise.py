"""Noise is small, on every number, and on nothing else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import l2x
from l2x.features._kinds import OF_COLUMNS, OF_PIXELS, jitter


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_columns_move_by_a_share_of_their_deviation() -> None:
    X = rng().normal(0, [1, 100], size=(4000, 2))
    moved = jitter(l2x.Columns().fit(X), X, rng()) - X
    assert moved.std(axis=0) == pytest.approx(OF_COLUMNS * X.std(axis=0), rel=0.1)
    assert (moved != 0).all()


def test_categories_stay() -> None:
    frame = pd.DataFrame({"age": rng().normal(size=50), "town": ["Ulm", "Bonn"] * 25})
    noisy = jitter(l2x.Columns().fit(frame), frame, rng())
    assert noisy["town"].tolist() == frame["town"].tolist()
    assert (noisy["age"] != frame["age"]).all()


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_pixels_stay_pixels(kind: type) -> None:
    bright = 255 if kind is np.uint8 else 1.0
    X = (bright * rng().random((40, 8, 8))).astype(kind)
    noisy = jitter(l2x.Patches(4).fit(X), X, rng())
    assert noisy.dtype == X.dtype
    moved = noisy.astype(float) - X
    assert moved.std() == pytest.approx(OF_PIXELS * bright, rel=0.1)
    assert noisy.max() <= (bright if kind is np.uint8 else 2)


def test_there_is_no_noise_on_texts() -> None:
    texts = ["a good film", "a bad film"] * 10
    view = l2x.Words(length=4, vocabulary=9).fit(texts)
    assert jitter(view, view.check(texts), rng()) is None
