"""Networks for tables: multilayer perceptrons."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

ACTIVATIONS = {"relu": nn.ReLU, "silu": nn.SiLU}


def perceptron(sizes: Sequence[int], activation: str) -> nn.Sequential:
    """Dense layers of the given sizes with an activation between them."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), ACTIVATIONS[activation]()]
    return nn.Sequential(*layers[:-1])


class ColumnSelector(nn.Module):
    """w_θ: (n, d) -> (n, d) importance scores.

    The last layer starts at zero, so that training begins with every subset equally likely.
    """

    def __init__(self, d: int, *, hidden: Sequence[int] = (200, 200), activation: str = "silu") -> None:
        super().__init__()
        self.layers = perceptron([d, *hidden, d], activation)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layers(x)
        return scores


class ColumnPredictor(nn.Module):
    """g_α: x̃_S, and the mask where the value asks for it, -> (n, outputs) logits or means."""

    def __init__(
        self,
        d: int,
        outputs: int,
        *,
        hidden: Sequence[int] = (256, 256, 256),
        activation: str = "silu",
        sees_mask: bool = True,
    ) -> None:
        super().__init__()
        self.sees_mask = sees_mask
        self.layers = perceptron([2 * d if sees_mask else d, *hidden, outputs], activation)

    def forward(self, masked: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = self.layers(torch.cat([masked, mask], dim=-1) if self.sees_mask else masked)
        return logits
