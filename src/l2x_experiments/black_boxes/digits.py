"""The network that the MNIST experiment explains (section 4.3); trained once and kept in the cache."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from l2x.datasets import ImageData
from l2x.learning import channels_last
from l2x_experiments.black_boxes.training import Trained, cached_classifier
from l2x_experiments.cache import fingerprint

NETWORK = {"filters": [8, 16], "kernel": 5}  # for the key


class DigitNetwork(nn.Sequential):
    """Two convolutions of kernel 5 with 8 and 16 filters, each with max-pooling of 2, and a dense layer.

    Reads images (n, 28, 28) of 0 .. 255 and gives logits. Every activation is a module of its own, so that
    DeepLIFT can follow it.
    """

    def __init__(self, classes: int) -> None:
        first = (Brightness(), nn.Conv2d(1, 8, 5), nn.ReLU(), nn.MaxPool2d(2))  # (n, 8, 12, 12)
        second = (nn.Conv2d(8, 16, 5), nn.ReLU(), nn.MaxPool2d(2))  # (n, 16, 4, 4)
        super().__init__(*first, *second, nn.Flatten(), nn.Linear(16 * 4 * 4, classes))
        channels_last(self)


class Brightness(nn.Module):
    """(n, h, w) of 0 .. 255 -> (n, 1, h, w) of 0 .. 1."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, None] / 255


def digit_network(data: ImageData, *, epochs: int = 8) -> Trained:
    """The network for these images, trained now or taken from the cache."""
    name = f"digits-{''.join(map(str, data.digits))}"
    key = {"data": fingerprint(data.X, data.y), "digits": data.digits, "network": NETWORK}
    return cached_classifier(
        name,
        key,
        lambda: DigitNetwork(len(data.digits)),
        lambda _: (torch.from_numpy(data.X.copy()), torch.from_numpy(data.y)),
        epochs=epochs,
        rate=3e-3,
    )
