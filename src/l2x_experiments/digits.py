"""The network that the MNIST experiment explains (section 4.3); what is trained once is kept in the cache."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor, nn

from l2x.datasets.mnist import ImageData
from l2x.networks.patches import channels_last
from l2x_experiments.bench import remembered


class DigitNetwork(nn.Sequential):
    """Two convolutions of kernel 5 with 8 and 16 filters, each with max-pooling of 2, and a dense layer.

    Reads images (n, h, w) of 0 .. 255 and gives logits. Every activation is a module of its own, so that
    DeepLIFT can follow it.
    """

    def __init__(self, classes: int, side: int = 28, kernel: int = 5) -> None:
        left = ((side - kernel + 1) // 2 - kernel + 1) // 2  # pixels along the side after both poolings
        super().__init__(
            Brightness(),
            nn.Conv2d(1, 8, kernel),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, kernel),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16 * left * left, classes),
        )
        channels_last(self)


class Brightness(nn.Module):
    """(n, h, w) of 0 .. 255 -> (n, 1, h, w) of 0 .. 1."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, None] / 255


def train_digits(data: ImageData, *, seed: int = 0, epochs: int = 8, batch_size: int = 64) -> DigitNetwork:
    """Trained on hard labels by Adam with a one-cycle schedule."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = DigitNetwork(len(data.digits), data.X.shape[-1], kernel=5 if data.X.shape[-1] >= 16 else 2)
    images, labels = torch.from_numpy(data.X.copy()), torch.from_numpy(data.y)
    steps = epochs * max(1, len(data) // batch_size)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps + 1)
    for _ in range(epochs):
        order = torch.randperm(len(data), generator=generator)
        for rows in order[: steps // epochs * batch_size].view(-1, min(batch_size, len(data))):
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(network(images[rows].float()), labels[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return network.eval().requires_grad_(requires_grad=False)


def digit_network(data: ImageData, *, seed: int = 0, epochs: int = 8) -> nn.Module:
    """The network for these images, trained now or taken from the cache."""
    told = f"{data.digits} {seed} {epochs} {hashlib.sha256(data.X.tobytes()).hexdigest()}"
    return remembered(
        f"digits-{''.join(map(str, data.digits))}",
        told,
        DigitNetwork(len(data.digits), data.X.shape[-1]),
        lambda: train_digits(data, seed=seed, epochs=epochs),
    )
