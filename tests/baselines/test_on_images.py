"""Baselines on images: every method finds the one patch that decides, in the shape that the view gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import l2x
from l2x import baselines
from l2x.features import Patches

VIEW = Patches(size=4)
IMAGES = np.random.default_rng(0).integers(100, 256, size=(6, 8, 12), dtype=np.uint8)
DECISIVE = 4  # row 2, column 2


class OnePatch(nn.Module):
    """Class 1 if the pixels of one patch are bright; the others count a hundredth."""

    def __init__(self) -> None:
        super().__init__()
        weight = torch.full((8, 12), 0.01)
        weight[4:8, 4:8] = 1.0
        self.flatten = nn.Flatten()
        self.linear = nn.Linear(96, 2)
        self.linear.weight.data = torch.stack([-weight.flatten(), weight.flatten()]) / 1000
        self.linear.bias.data.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.flatten(x))


@pytest.fixture(scope="module")
def black_box() -> l2x.model._black_box.BlackBox:
    return l2x.as_black_box(OnePatch(), logits=True)


@pytest.mark.parametrize("method", [baselines.Saliency, baselines.Taylor, baselines.DeepLift])
def test_gradients(method: type) -> None:
    explanation = method(OnePatch(), features=VIEW).explain(IMAGES, k=2)
    assert explanation.scores.shape == (6, 6)
    assert (explanation.indices[:, 0] == DECISIVE).all()


@pytest.mark.parametrize("method", [baselines.Lime, baselines.KernelShap])
def test_perturbations(method: type, black_box: l2x.model._black_box.BlackBox) -> None:
    explain = method(black_box, features=VIEW, samples=200, progress=False).explain
    explanation = explain(IMAGES, k=2)
    assert (explanation.indices[:, 0] == DECISIVE).all()
    # The explanation of an image depends neither on its place nor on the images around it.
    assert np.allclose(explain(IMAGES[3:4], k=2).scores[0], explanation.scores[3])


def test_shap_values_sum_to_the_difference(black_box: l2x.model._black_box.BlackBox) -> None:
    shap = baselines.KernelShap(black_box, features=VIEW, magnitude=False, progress=False)
    scores = shap.explain(IMAGES, k=1).scores
    difference = black_box(IMAGES)[:, 1] - black_box(np.zeros_like(IMAGES))[:, 1]
    assert np.allclose(scores.sum(axis=1), difference, atol=1e-6)


def test_search(black_box: l2x.model._black_box.BlackBox) -> None:
    before = black_box.rows
    explanation = baselines.GreedySearch(black_box, features=VIEW, progress=False).explain(IMAGES, k=2)
    assert black_box.rows - before == 6 + 6 * (6 + 5)  # once whole, then each feature that is left, k times
    assert (explanation.indices[:, 0] == DECISIVE).all()
    assert explanation.mask.sum(axis=1).tolist() == [2] * 6
    assert l2x.evaluation.posthoc_accuracy(black_box, IMAGES, explanation) == 1


def test_search_for_regression() -> None:
    X, view = np.random.default_rng(0).normal(size=(5, 4)), l2x.Columns(masking="mean")
    search = baselines.GreedySearch(lambda X: 3 * X[:, 2], features=view, progress=False)
    assert search.explain(X, k=1).indices[:, 0].tolist() == [2] * 5


def test_more_rounds_of_search_undo_a_greedy_mistake() -> None:
    def model(X: np.ndarray) -> np.ndarray:
        """The first two together decide; the last alone is better than either alone."""
        p = np.where((X[:, 0] > 0) & (X[:, 1] > 0), 0.9, np.where(X[:, 2] > 0, 0.7, 0.6))
        return np.stack([1 - p, p], axis=1)

    X, view = np.ones((2, 3)), l2x.Columns(masking="zero")
    found = [
        baselines.GreedySearch(model, features=view, rounds=rounds, progress=False).explain(X, k=2).mask[0]
        for rounds in (1, 2)
    ]
    assert found[0].tolist() == [True, False, True]
    assert found[1].tolist() == [True, True, False]
    with pytest.raises(l2x.errors.InputError, match="rounds is 0"):
        baselines.GreedySearch(model, rounds=0).explain(X, k=1)


def test_search_tells_tiny_probabilities_apart() -> None:
    def model(X: np.ndarray) -> np.ndarray:
        odds = np.exp(-60 + 10 * X @ np.array([1.0, 0.0, 2.0, 0.0]) + 200 * (X.sum(axis=1) == 4))
        return np.stack([1 / (1 + odds), odds / (1 + odds)], axis=1).astype(np.float32)

    X, view = np.ones((2, 4)), l2x.Columns(masking="zero")
    explanation = baselines.GreedySearch(model, features=view, progress=False).explain(X, k=2)
    assert explanation.indices.tolist() == [[2, 0]] * 2
