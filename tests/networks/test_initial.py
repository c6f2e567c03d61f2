"""Initial weights: Glorot's variance, zero biases, and torch's own left alone."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from l2x.learning.networks._recipes import initialise


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv1d(20, 30, 3), nn.Embedding(9, 4), nn.Linear(300, 100), nn.BatchNorm1d(100))


def test_glorot() -> None:
    layers = network()
    before = copy.deepcopy(layers)
    initialise(layers, "glorot")
    convolution, embedding, dense, _ = layers.children()
    assert dense.weight.var().item() == pytest.approx(2 / (300 + 100), rel=0.05)
    assert convolution.weight.var().item() == pytest.approx(2 / (3 * 20 + 3 * 30), rel=0.1)
    assert not dense.bias.any()
    assert not convolution.bias.any()
    assert torch.equal(embedding.weight, before[1].weight)  # type: ignore[index]


def test_torch_leaves_them_alone() -> None:
    layers = network()
    initialise(layers, "torch")
    for mine, theirs in zip(layers.parameters(), network().parameters(), strict=True):
        assert torch.equal(mine, theirs)
