"""The synthetic sets follow their formulas, and only the truly relevant features matter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import l2x
from l2x.datasets import INVASE_SETS, SETS, synthetic

VARIANTS = ("paper", "code")


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_shape_and_probabilities(name: str, variant: str) -> None:
    data = synthetic(name, 500, variant=variant, seed=3)
    p = data.model(data.X)
    assert data.X.shape == data.truth.shape == (500, 10)
    assert np.allclose(p.sum(axis=1), 1)
    assert (data.truth.sum(axis=1) == data.k).all()
    assert set(np.unique(data.y)) <= {0, 1}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_only_the_true_features_matter(name: str, variant: str) -> None:
    """Replacing every other feature (on the same side of the switch) leaves P(y|x) as it was."""
    data = synthetic(name, 300, variant=variant)
    other = np.where(data.truth, data.X, np.random.default_rng(9).normal(size=data.X.shape))
    assert np.allclose(data.model(data.X), data.model(other))


def test_formulas_by_hand() -> None:
    x = np.zeros((1, 10))
    x[0, :4] = [0.3, -2.0, 1.0, 0.5]
    paper = -100 * np.sin(0.6) + 4.0 + 1.0 + np.exp(-0.5)
    code = -100 * np.sin(0.06) + 2.0 + 1.0 + np.exp(-0.5) - 2.4
    assert synthetic("nonlinear_additive", 1, variant="paper").model.logit(x) == pytest.approx(paper)
    assert synthetic("nonlinear_additive", 1, variant="code").model.logit(x) == pytest.approx(code)
    assert synthetic("xor", 1).model.logit(x) == pytest.approx(-0.6)
    assert synthetic("orange_skin", 1).model.logit(x) == pytest.approx(0.09 + 4 + 1 + 0.25 - 4)


def test_switch_branches() -> None:
    up = np.array([[3.0, *([0.0] * 8), -3.0]])
    paper, code = (synthetic("switch", 1, variant=variant).model for variant in VARIANTS)
    assert paper.truth(up)[0].nonzero()[0].tolist() == [0, 1, 2, 3, 4]
    assert code.truth(up)[0].nonzero()[0].tolist() == [4, 5, 6, 7, 9]


def test_no_column_is_a_copy_of_another() -> None:
    """The authors' code leaves columns 1-4 and 5-8 identical; ours must not."""
    X = synthetic("switch", 1000).X
    correlation = np.corrcoef(X.T) - np.eye(10)
    assert np.abs(correlation).max() < 0.2


def test_seed_decides() -> None:
    assert np.array_equal(synthetic("xor", 10, seed=1).X, synthetic("xor", 10, seed=1).X)
    assert not np.array_equal(synthetic("xor", 10, seed=1).X, synthetic("xor", 10, seed=2).X)


def test_unknown_names() -> None:
    with pytest.raises(l2x.errors.InputError, match="no set 'moons'"):
        synthetic("moons", 10)
    with pytest.raises(l2x.errors.InputError, match="'paper' or 'code'"):
        synthetic("xor", 10, variant="book")


def test_the_conditional_model_is_the_truth_where_everything_is_shown() -> None:
    """P(y | x_S) is P(y|x) for all features, and the same for every row for none of them."""
    data = synthetic("xor", 50, seed=4)
    exact = data.model.conditional(rows=200)
    everything, certain = np.ones_like(data.truth), np.tile([0.0, 1.0], (50, 1))
    assert np.allclose(exact.log_q(data.X, everything, certain), np.log(data.model(data.X)[:, 1]))
    nothing = exact.log_q(data.X, ~everything, certain)
    assert np.allclose(nothing, nothing[0])


@pytest.mark.parametrize("d", [11, 100])
@pytest.mark.parametrize("variant", ["code", "paper"])
@pytest.mark.parametrize("name", INVASE_SETS)
def test_other_features_change_nothing(name: Any, variant: Any, d: int) -> None:
    data = synthetic(name, 200, d=d, variant=variant, seed=1)
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
    assert {name: synthetic(name, 10).k for name in INVASE_SETS} == {
        "syn1": 2, "syn2": 4, "syn3": 4, "syn4": 4, "syn5": 4, "syn6": 5,
    }  # fmt: skip
    data = synthetic("syn2", 20_000, seed=0)
    assert data.y.mean() == pytest.approx(data.model(data.X)[:, 1].mean(), abs=0.02)
    # P(y = 1) = 1 / (1 + exp(l)): large squares speak for class 0
    assert data.model(np.full((1, 11), 3.0))[0, 1] < 0.01
    assert (data.X[:5] != synthetic("syn4", 5, seed=2).X).any()


def test_both_formulas() -> None:
    X = np.zeros((1, 11))
    X[0, 6:10] = 0.5, -2.0, 0.25, 1.0
    code, paper = (synthetic("syn3", 1, variant=v).model.logit(X)[0] for v in ("code", "paper"))
    assert code == pytest.approx(-10 * np.sin(0.1) + 2 + 0.25 + np.exp(-1) - 2.4)
    assert paper == pytest.approx(-10 * np.sin(1) + 4 + 0.25 + np.exp(-1))


def test_errors() -> None:
    with pytest.raises(l2x.errors.InputError, match="no set 'syn7'"):
        synthetic("syn7", 5)  # type: ignore[arg-type]
    with pytest.raises(l2x.errors.InputError, match="variant is 'both'"):
        synthetic("syn1", 5, variant="both")  # type: ignore[arg-type]
    with pytest.raises(l2x.errors.InputError, match="uses 11 features"):
        synthetic("syn1", 5, d=10)
