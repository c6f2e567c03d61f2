"""INVASE and REAL-X: they find what is known to matter, and their gradients are what the papers claim."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from l2x.baselines import Invase, RealX
from l2x.baselines._learned import Price, log_probability, rebar_draws
from l2x.datasets import synthetic
from l2x.errors import InputError, NotFittedError
from l2x.features import Patches
from l2x.learning import TrainingPlan

PLAN = TrainingPlan(progress=False).with_steps(value=150, selector=250)


class Gate:
    """The sign of the first column decides which of two others matters."""

    def __call__(self, X: np.ndarray) -> np.ndarray:
        p = 1 / (1 + np.exp(-4 * np.where(X[:, 0] > 0, X[:, 1], X[:, 2])))
        return np.stack([1 - p, p], axis=1)


def rows(n: int = 2000, d: int = 6, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize("method", [Invase, RealX])
def test_the_price_leads_to_k_features_on_average(method: Any) -> None:
    fitted = method(Gate(), k=2, training=PLAN, progress=False).fit(rows())
    expected = 1 / (1 + np.exp(-fitted.explain(rows(500, seed=1), k=2).scores))
    assert expected.sum(axis=1).mean() == pytest.approx(2, abs=0.4)


def test_real_x_selects_the_switch_and_its_branch() -> None:
    X = rows(500, seed=1)
    mask = RealX(Gate(), k=2, training=PLAN, progress=False).fit(rows()).explain(X, k=2).mask
    assert (mask & np.eye(6, dtype=bool)[np.where(X[:, 0] > 0, 1, 2)]).any(axis=1).mean() > 0.9


def test_invase_finds_the_features_of_orange_skin() -> None:
    data = synthetic("syn2", 4000, seed=0)
    found = Invase(data.model, k=4, training=PLAN, progress=False).fit(data.X).explain(data.X[:500], k=4)
    assert (found.mask & data.truth[:500]).sum(axis=1).mean() > 3.2


def test_a_higher_penalty_selects_less() -> None:
    sizes = []
    for penalty in (0.01, 2.0):
        fitted = RealX(Gate(), penalty=penalty, training=PLAN, progress=False).fit(rows())
        sizes.append((fitted.explain(rows(300, seed=1), k=1).scores > 0).sum(axis=1).mean())
    assert sizes[1] < sizes[0]


def test_the_same_seed_gives_the_same_scores_and_known_predictions_need_no_model() -> None:
    X, short = rows(300), TrainingPlan(progress=False).with_steps(value=5, selector=5)
    scores = [
        Invase(Gate(), k=2, training=short, progress=False).fit(X, predictions).explain(X, 2).scores
        for predictions in (None, Gate()(X))
    ]
    assert (scores[0] == scores[1]).all()


@pytest.mark.parametrize("method", [Invase, RealX])
def test_patches_are_selected_too(method: Any) -> None:
    images = np.random.default_rng(0).integers(0, 256, size=(200, 8, 8), dtype=np.uint8)

    def model(images: np.ndarray) -> np.ndarray:
        p = 1 / (1 + np.exp(-(np.asarray(images, dtype=float)[:, :4, :4].mean(axis=(1, 2)) - 127) / 5))
        return np.stack([1 - p, p], axis=1)

    short = TrainingPlan(progress=False).with_steps(value=5, selector=5)
    view = Patches(4).fit(images)
    fitted = method(model, k=1, features=view, training=short, progress=False).fit(images)
    assert fitted.explain(images[:3], k=1).mask.sum(axis=1).tolist() == [1, 1, 1]


def test_rebar_has_the_gradient_of_the_expectation() -> None:
    """For three features the expectation is a sum over eight masks."""
    logits = torch.tensor([[0.5, -0.3, 1.0]], requires_grad=True)

    def value(mask: torch.Tensor) -> torch.Tensor:
        return mask[:, 0] * mask[:, 1] - 2 * mask[:, 2] + mask.sum(dim=1).square() / 4

    every = torch.tensor([[i >> j & 1 for j in range(3)] for i in range(8)], dtype=torch.float32)
    (log_probability(logits, every).exp() * value(every)).sum().backward()
    exact, logits.grad = logits.grad, None
    n = 200_000
    mask, soft, tilde = rebar_draws(logits.expand(n, 3), torch.Generator().manual_seed(0))
    reward = (value(mask) - value(tilde)).detach()
    gain = reward * log_probability(logits.expand(n, 3), mask) + value(soft) - value(tilde)
    gain.mean().backward()
    assert logits.grad is not None
    assert exact is not None
    assert torch.allclose(logits.grad, exact, atol=0.02)


def test_mistakes_are_named() -> None:
    with pytest.raises(NotFittedError, match="Invase"):
        Invase(Gate(), k=2).explain(rows(3), k=2)
    with pytest.raises(InputError, match="penalty is -1"):
        Price(None, -1)
