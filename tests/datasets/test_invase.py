"""INVASE's sets: only the features that are called relevant matter, in every row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import l2x
from l2x.datasets import INVASE_SETS, invase


@pytest.mark.parametrize("d", [11, 100])
@pytest.mark.parametrize("variant", ["code", "paper"])
@pytest.mark.parametrize("name", INVASE_SETS)
def test_other_features_change_nothing(name: Any, variant: Any, d: int) -> None:
    data = invase(name, 200, d=d, variant=variant, seed=1)
    assert data.X.shape == data.truth.shape == (200, d)
    noise = np.random.default_rng(0).standard_normal(data.X.shape)
    same = data.model(np.where(data.truth, data.X, noise))
    assert np.allclose(same, data.model(data.X))
    # and every relevant one does
    for i in np.flatnonzero(data.truth.any(axis=0)):
        moved = data.X.copy()
        moved[:, i] += 1.3
        assert not np.allclose(data.model(moved), data.model(data.X))


def test_sizes_labels_and_seeds() -> None:
    assert {name: invase(name, 10).k for name in INVASE_SETS} == {
        "syn1": 2, "syn2": 4, "syn3": 4, "syn4": 4, "syn5": 4, "syn6": 5,
    }  # fmt: skip
    data = invase("syn2", 20_000, seed=0)
    assert data.y.mean() == pytest.approx(data.model(data.X)[:, 1].mean(), abs=0.02)
    # P(y = 1) = 1 / (1 + exp(l)): large squares speak for class 0
    assert data.model(np.full((1, 11), 3.0))[0, 1] < 0.01
    assert (data.X[:5] != invase("syn4", 5, seed=2).X).any()


def test_both_formulas() -> None:
    X = np.zeros((1, 11))
    X[0, 6:10] = 0.5, -2.0, 0.25, 1.0
    code, paper = (invase("syn3", 1, variant=v).model.logit(X)[0] for v in ("code", "paper"))
    assert code == pytest.approx(-10 * np.sin(0.1) + 2 + 0.25 + np.exp(-1) - 2.4)
    assert paper == pytest.approx(-10 * np.sin(1) + 4 + 0.25 + np.exp(-1))


def test_errors() -> None:
    with pytest.raises(l2x.InputError, match="no set 'syn7'"):
        invase("syn7", 5)  # type: ignore[arg-type]
    with pytest.raises(l2x.InputError, match="variant is 'both'"):
        invase("syn1", 5, variant="both")  # type: ignore[arg-type]
    with pytest.raises(l2x.InputError, match="use 11 features"):
        invase("syn1", 5, d=10)
