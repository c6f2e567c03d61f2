"""The training loop of black boxes."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from l2x_experiments.black_boxes.columns import train_network
from l2x_experiments.black_boxes.training import cached_classifier


def test_a_classifier_learns_and_is_kept(tmp_path: Path) -> None:
    X = torch.randn(640, 3, generator=torch.Generator().manual_seed(0))
    y = (X[:, 0] > 0).long()
    asked = []

    def data(network: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
        asked.append(network)
        return X, y

    def get(epochs: int) -> nn.Module:
        return cached_classifier(
            "toy", {"data": "toy"}, lambda: nn.Linear(3, 2), data, epochs=epochs, rate=0.1
        ).network

    network = get(4)
    assert (network(X).argmax(dim=1) == y).float().mean() > 0.95
    assert torch.equal(get(4).weight, network.weight)
    assert len(asked) == 1  # the second time nothing is loaded
    get(1)
    assert len(asked) == 2


def test_the_same_seed_gives_the_same_network() -> None:
    X = torch.randn(100, 4, generator=torch.Generator().manual_seed(0)).numpy()
    y = (X[:, 0] > 0).astype("int64")
    first, second, other = (train_network(X, y, seed=seed, steps=3) for seed in (0, 0, 1))
    x = torch.from_numpy(X)
    assert torch.equal(first(x), second(x))
    assert not torch.equal(first(x), other(x))
