"""q(y | x_S): of encoded rows in training, of raw inputs for metrics; what is outside S has no influence."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from toy_models import one_column

import l2x
from l2x.learning import _surrogate as conditional
from l2x.learning._likelihood import Categorical
from l2x.learning._rows import Rows
from l2x.learning._surrogate import ConditionalModel, FittedQ, MixedQ, ModelQ, NetworkQ
from l2x.learning.networks import networks_of

X = np.random.default_rng(0).normal(size=(30, 3))
VIEW = l2x.Columns().fit(X)
MASK = np.random.default_rng(1).random((30, 3)) < 0.5


def network() -> NetworkQ:
    torch.manual_seed(0)
    return NetworkQ(networks_of(VIEW, 2).predictor().eval(), Categorical(2))


def rows() -> Rows:
    return Rows(VIEW, X, VIEW.encode(X), Categorical(2).targets(one_column(X)))


def test_without_gradients_some_rows_at_a_time_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    q, mask = network(), torch.from_numpy(MASK).float()
    at_once = q.outputs(rows(), mask)
    monkeypatch.setattr(conditional, "CELLS_AT_ONCE", 7)
    with torch.no_grad():
        assert torch.allclose(q.outputs(rows(), mask), at_once, atol=1e-6)


def test_other_weights_make_another_q() -> None:
    q = network()
    other = q.with_networks({"predictor": networks_of(VIEW, 2).predictor()})
    assert other.likelihood == q.likelihood
    assert other.predictor is not q.predictor
    assert list(q.networks) == ["predictor"]


def test_the_model_as_q_says_what_it_says_of_the_selection_alone() -> None:
    q = ModelQ(l2x.as_black_box(one_column), Categorical(2), np.random.default_rng(0))
    said = Categorical(2).to_targets(q.outputs(rows(), torch.from_numpy(MASK).float()))
    removed = np.where(MASK, X, X.mean(axis=0))
    assert np.allclose(said, one_column(removed), atol=1e-5)
    assert q.networks == {}
    assert q.with_networks({}) is q
    with pytest.raises(l2x.InputError, match=r"pass it with l2x.load\(path, model=...\)"):
        ModelQ(None, Categorical(2), np.random.default_rng(0)).outputs(rows(), torch.ones(30, 3))


def test_a_fitted_q_is_asked_about_raw_inputs() -> None:
    q = FittedQ(VIEW, network(), l2x.as_black_box(one_column))
    said = q.predict(X, MASK)
    assert np.allclose(said.sum(axis=1), 1, atol=1e-6)
    answers = q.answers(X)
    assert np.allclose(answers, one_column(X))
    expected = (answers * np.log(said)).sum(axis=1)
    assert np.allclose(q.log_q(X, MASK, answers), expected, atol=1e-5)
    others = np.where(MASK, X, 9.9)
    assert np.allclose(q.outputs(others, MASK), q.outputs(X, MASK), atol=1e-5)
    with pytest.raises(l2x.InputError, match="The model is not available; pass its answers"):
        FittedQ(VIEW, network()).answers(X)


def test_the_callers_gradient_mode_is_its_own_between_two_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(l2x.Columns, "rows_at_once", 10)
    parts = FittedQ(VIEW, network()).heads(X, X, k=2)
    for part in parts:
        assert part.shape == (10, 3, 2)
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()


def test_the_conditional_model_averages_over_its_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand for one row; and the same if few rows are asked at a time."""
    background = np.random.default_rng(2).normal(size=(50, 3))
    exact = ConditionalModel(one_column, background)
    answers = exact.answers(X)
    values = exact.log_q(X, MASK, answers)
    p = one_column(np.where(MASK[4], X[4], background)).mean(axis=0)
    assert values[4] == pytest.approx((answers[4] * np.log(p)).sum())
    monkeypatch.setattr(conditional, "CONDITIONAL_BATCH", 120)
    assert np.allclose(exact.log_q(X, MASK, answers), values)


def test_a_reader_learns_from_the_model_where_it_may_be_asked_often_enough() -> None:
    surrogate = NetworkQ(torch.nn.Linear(1, 2), Categorical(2))
    for limit, first_hand in ((math.inf, ModelQ), (100, ModelQ), (13, ModelQ), (12, NetworkQ), (0, NetworkQ)):
        model = ModelQ(None, Categorical(2), np.random.default_rng(0), limit=limit)
        assert isinstance(MixedQ(surrogate, model, 0.5).first_hand(100), first_hand)
    assert surrogate.first_hand(100) is surrogate
