"""q(y | x_S) for encoded rows and for raw inputs: features outside S have no influence."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from toy_models import one_column

import l2x
from l2x.learning import _surrogate
from l2x.learning._rows import Categorical, Rows
from l2x.learning._surrogate import (
    ConditionalModel,
    FittedSurrogate,
    MixedSurrogate,
    ModelSurrogate,
    NetworkSurrogate,
)
from l2x.learning.networks import networks_of

X = np.random.default_rng(0).normal(size=(30, 3))
VIEW = l2x.Columns().fit(X)
MASK = np.random.default_rng(1).random((30, 3)) < 0.5


def network() -> NetworkSurrogate:
    torch.manual_seed(0)
    return NetworkSurrogate(networks_of(VIEW, 2).predictor().eval(), Categorical(2))


def rows() -> Rows:
    return Rows(VIEW, X, VIEW.encode(X), Categorical(2).targets(one_column(X)))


def test_batches_without_gradients_give_the_same_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    surrogate, mask = network(), torch.from_numpy(MASK).float()
    at_once = surrogate.outputs(rows(), mask)
    monkeypatch.setattr(_surrogate, "CELLS_AT_ONCE", 7)
    with torch.no_grad():
        assert torch.allclose(surrogate.outputs(rows(), mask), at_once, atol=1e-6)


def test_a_surrogate_with_other_networks() -> None:
    surrogate = network()
    other = surrogate.with_networks({"predictor": networks_of(VIEW, 2).predictor()})
    assert other.likelihood == surrogate.likelihood
    assert other.predictor is not surrogate.predictor
    assert list(surrogate.networks) == ["predictor"]


def test_the_model_as_surrogate_predicts_masked_rows() -> None:
    surrogate = ModelSurrogate(l2x.as_black_box(one_column), Categorical(2), np.random.default_rng(0))
    predicted = Categorical(2).to_targets(surrogate.outputs(rows(), torch.from_numpy(MASK).float()))
    masked = np.where(MASK, X, VIEW.medians_)
    assert np.allclose(predicted, one_column(masked), atol=1e-5)
    assert surrogate.networks == {}
    assert surrogate.with_networks({}) is surrogate
    with pytest.raises(l2x.errors.InputError, match=r"l2x.load\(path, model=...\)"):
        ModelSurrogate(None, Categorical(2), np.random.default_rng(0)).outputs(rows(), torch.ones(30, 3))


def test_a_fitted_surrogate_takes_raw_inputs() -> None:
    surrogate = FittedSurrogate(VIEW, network(), l2x.as_black_box(one_column))
    predicted = surrogate.predict(X, MASK)
    assert np.allclose(predicted.sum(axis=1), 1, atol=1e-6)
    predictions = surrogate.predictions(X)
    assert np.allclose(predictions, one_column(X))
    expected = (predictions * np.log(predicted)).sum(axis=1)
    assert np.allclose(surrogate.log_q(X, MASK, predictions), expected, atol=1e-5)
    others = np.where(MASK, X, 9.9)
    assert np.allclose(surrogate.outputs(others, MASK), surrogate.outputs(X, MASK), atol=1e-5)
    with pytest.raises(l2x.errors.InputError, match="predictions="):
        FittedSurrogate(VIEW, network()).predictions(X)


def test_the_callers_gradient_mode_does_not_change_between_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(l2x.Columns, "rows_at_once", 10)
    parts = FittedSurrogate(VIEW, network()).prefixes(X, X, k=2)
    for part in parts:
        assert part.shape == (10, 3, 2)
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()


def test_the_conditional_model_averages_over_its_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """Computed by hand for one row; and the same in small batches."""
    background = np.random.default_rng(2).normal(size=(50, 3))
    exact = ConditionalModel(one_column, background)
    predictions = exact.predictions(X)
    values = exact.log_q(X, MASK, predictions)
    p = one_column(np.where(MASK[4], X[4], background)).mean(axis=0)
    assert values[4] == pytest.approx((predictions[4] * np.log(p)).sum())
    monkeypatch.setattr(_surrogate, "CONDITIONAL_BATCH", 120)
    assert np.allclose(exact.log_q(X, MASK, predictions), values)


def test_the_model_is_the_most_faithful_if_it_may_be_queried_often_enough() -> None:
    surrogate = NetworkSurrogate(torch.nn.Linear(1, 2), Categorical(2))
    for limit, expected in (
        (math.inf, ModelSurrogate),
        (100, ModelSurrogate),
        (13, ModelSurrogate),
        (12, NetworkSurrogate),
        (0, NetworkSurrogate),
    ):
        model = ModelSurrogate(None, Categorical(2), np.random.default_rng(0), limit=limit)
        assert isinstance(MixedSurrogate(surrogate, model, 0.5).most_faithful(100), expected)
    assert surrogate.most_faithful(100) is surrogate
