"""The network that the MNIST experiment explains (section 4.3); trained once and kept in the cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from l2x.datasets.mnist import ImageData
from l2x.networks.patches import channels_last
from l2x_experiments.black_boxes.training import epochs_of, train_classifier
from l2x_experiments.cache import fingerprint, remembered

BATCH, RATE = 64, 3e-3


class DigitNetwork(nn.Sequential):
    """Two convolutions of kernel 5 with 8 and 16 filters, each with max-pooling of 2, and a dense layer.

    Reads images (n, 28, 28) of 0 .. 255 and gives logits. Every activation is a module of its own, so that
    DeepLIFT can follow it.
    """

    def __init__(self, classes: int) -> None:
        super().__init__(
            Brightness(),
            nn.Conv2d(1, 8, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16 * 4 * 4, classes),
        )
        channels_last(self)


class Brightness(nn.Module):
    """(n, h, w) of 0 .. 255 -> (n, 1, h, w) of 0 .. 1."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, None] / 255


def network_key(data: ImageData, *, seed: int, epochs: int) -> Mapping[str, Any]:
    """What the weights depend on."""
    return {
        "data": fingerprint([data.X.tobytes(), data.y.tobytes()]),
        "digits": list(data.digits),
        "network": {"convolutions": [8, 16], "kernel": 5},
        "seed": seed,
        "epochs": epochs,
        "batch_size": BATCH,
        "learning_rate": RATE,
    }


def digit_network(data: ImageData, *, seed: int = 0, epochs: int = 8) -> nn.Module:
    """The network for these images, trained now or taken from the cache."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = DigitNetwork(len(data.digits))

    def train() -> nn.Module:
        return train_classifier(
            network,
            torch.from_numpy(data.X.copy()),
            torch.from_numpy(data.y),
            epochs_of(len(data), BATCH, epochs, generator),
            steps=epochs * (len(data) // BATCH),
            optimizer=torch.optim.Adam(network.parameters(), lr=RATE),
        )

    name = f"digits-{''.join(map(str, data.digits))}"
    return remembered(name, network_key(data, seed=seed, epochs=epochs), network, train)
