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

    With `prior` the scores are a vector common to all rows plus g(x). The common part learns PRIOR_SPEED
    times faster and g starts at zero, so that rows which say nothing about the choice (ties: 97 % of
    nonlinear additive) fall back on what helps everywhere. Without it, the plain network of the paper.
    """

    PRIOR_SPEED = 5.0

    def __init__(
        self, d: int, *, hidden: Sequence[int] = (128, 128), activation: str = "silu", prior: bool = True
    ) -> None:
        super().__init__()
        self.layers = perceptron([d, *hidden, d], activation)
        self.prior = nn.Parameter(torch.zeros(d)) if prior else None
        if prior:
            last = self.layers[-1]
            assert isinstance(last, nn.Linear)
            nn.init.zeros_(last.weight)
            last.bias.requires_grad_(False).zero_()  # `prior` takes its place

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layers(x)
        # Adam's steps do not depend on a gradient's scale: a factor here is a factor of the learning rate.
        return scores if self.prior is None else scores + self.PRIOR_SPEED * self.prior


class ColumnPredictor(nn.Module):
    """g_α: x̃_S, and the mask where the value asks for it, -> (n, outputs) logits or means."""

    def __init__(
        self,
        d: int,
        outputs: int,
        *,
        hidden: Sequence[int] = (128, 128, 128),
        activation: str = "silu",
        sees_mask: bool = True,
        per_feature: int = 1,
    ) -> None:
        super().__init__()
        self.sees_mask = sees_mask
        self.layers = perceptron([d * (per_feature + sees_mask), *hidden, outputs], activation)

    def forward(self, masked: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = self.layers(torch.cat([masked, mask], dim=-1) if self.sees_mask else masked)
        return logits
