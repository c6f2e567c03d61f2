"""Networks for images: convolutions, with max-pooling after each hidden layer (section 4.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from l2x.features import Patches, upsample
from l2x.learning.networks._columns import ACTIVATIONS
from l2x.learning.networks._recipes import (
    Networks,
    Recipe,
    Recipes,
    in_chunks,
    paper_plan,
    plan_in_small_batches,
    register,
)
from l2x.learning.samplers import PlackettLuce

# Measured on MNIST (l2x_experiments/mnist.py): many patches are nearly as good as each other, and eight
# subsets of an image tell them apart better than the usual four.
OURS = Recipe(plan_in_small_batches(value=2000, selector=2000), sampler=PlackettLuce(samples=8))
# Section 4.3: three convolutional layers for the explainer, two for the family. Their filters are not in the
# paper: those of its black box are taken. Its code for images was never released: batch normalisation is in q
# as in the code for tables. Five epochs of the experiment's 3s and 8s: with longer training q and selector
# agree on a code of positions: q's own loss falls, the model agrees less (docs/method.md).
PAPER = Recipe(
    paper_plan(280, batch_size=128, evaluations=5),
    selector={"filters": (8, 16), "head": "conv"},
    predictor={"filters": (8, 16), "normalise": True},
)
LETTER = Recipe(
    paper_plan(168, batch_size=128, evaluations=6, to_the_letter=True),
    selector={"filters": (8, 16), "head": "conv"},
    predictor={"filters": (8, 16)},
)


class PatchSelector(nn.Module):
    """w_θ: (n, c, h, w) -> (n, patches) importance scores, the grid row by row.

    Two hidden convolutions whose pooling leaves one pixel per patch, and a third layer that scores them:
    `head="conv"` scores each patch by what lies around it, as the paper does; `head="dense"` sees the whole
    image, knows where each patch is, and starts at zero, so that all subsets begin equally likely. A layer of
    `hidden` units can say what the image shows, on which the patches that count depend.

    The model's answer, of `told` numbers, says how much each filter counts.
    """

    def __init__(
        self,
        channels: int,
        size: int,
        grid: tuple[int, int],
        *,
        filters: Sequence[int] = (16, 32),
        kernel: int = 5,
        activation: str = "relu",
        head: Literal["conv", "dense"] = "dense",
        hidden: int = 256,
        told: int = 0,
    ) -> None:
        super().__init__()
        # Of the usual patch of 4 both pools take 2; other sizes are divided as evenly as they can be.
        first = 2 if size % 2 == 0 else size
        self.hidden = nn.Sequential(
            *hidden_layer(channels, filters[0], kernel, first, activation),
            *hidden_layer(filters[0], filters[1], kernel, size // first, activation),
        )
        self.head = nn.Sequential()
        if head == "conv":
            self.head.extend([nn.Conv2d(filters[1], 1, kernel, padding="same"), nn.Flatten()])
        else:
            seen = filters[1] * math.prod(grid)
            last = nn.Linear(seen + hidden, math.prod(grid))
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
            beside = [Beside(seen, hidden, activation)] if hidden else []
            self.head.extend([nn.Flatten(), *beside, last])
        self.told = nn.Linear(told, filters[1]) if told else None
        if self.told is not None:
            nn.init.zeros_(self.told.weight)
            nn.init.ones_(self.told.bias)
        channels_last(self)

    @in_chunks
    def forward(self, x: Tensor, *told: Tensor) -> Tensor:
        hidden = self.hidden(x)
        if self.told is not None:
            hidden = hidden * self.told(*told)[:, :, None, None]
        scores: Tensor = self.head(hidden)
        return scores


class Beside(nn.Module):
    """x -> x and a hidden layer of it, side by side."""

    def __init__(self, fan_in: int, hidden: int, activation: str) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(fan_in, hidden), ACTIVATIONS[activation]())

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.layer(x)], dim=1)


class PatchPredictor(nn.Module):
    """g_α: x̃_S, and the mask as one more channel where the value asks for it, -> (n, outputs) logits."""

    def __init__(
        self,
        channels: int,
        size: int,
        grid: tuple[int, int],
        outputs: int,
        *,
        filters: Sequence[int] = (16, 32),
        kernel: int = 5,
        activation: str = "relu",
        normalise: bool = False,
        sees_mask: bool = True,
    ) -> None:
        super().__init__()
        self.size, self.grid, self.sees_mask = size, grid, sees_mask
        height, width = grid[0] * size, grid[1] * size
        # Tiny images, such as 2 x 2 patches of one pixel, have nothing left to pool.
        first = 2 if min(height, width) >= 4 else 1
        second = 2 if min(height, width) >= 8 else 1
        pooled = (height // first // second) * (width // first // second)
        self.layers = nn.Sequential(
            *hidden_layer(channels + sees_mask, filters[0], kernel, first, activation, normalise=normalise),
            *hidden_layer(filters[0], filters[1], kernel, second, activation, normalise=normalise),
            nn.Flatten(),
            nn.Linear(filters[1] * pooled, outputs),
        )
        channels_last(self)

    @in_chunks
    def forward(self, masked: Tensor, mask: Tensor) -> Tensor:
        if self.sees_mask:
            masked = torch.cat([masked, upsample(mask, self.grid, self.size)], dim=1)
        logits: Tensor = self.layers(masked)
        return logits


def hidden_layer(
    fan_in: int, fan_out: int, kernel: int, pool: int, activation: str, *, normalise: bool = False
) -> list[nn.Module]:
    """Convolution, max-pooling, activation: for relu, pooling first gives the same from fewer operations.
    Then, where asked for, batch normalisation."""
    convolution = nn.Conv2d(fan_in, fan_out, kernel, padding="same")
    pooling = [nn.MaxPool2d(pool)] if pool > 1 else []
    normalisation = [nn.BatchNorm2d(fan_out)] if normalise else []
    return [convolution, *pooling, ACTIVATIONS[activation](), *normalisation]


def channels_last(network: nn.Module) -> None:
    """Channels side by side in memory: two to three times faster on a CPU, most of it in the pooling."""
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def _networks(view: Patches, outputs: int) -> Networks:
    shape = (view.channels, view.size, view.grid_)
    return Networks(partial(PatchSelector, *shape), partial(PatchPredictor, *shape, outputs))


register(Patches, Recipes(_networks, OURS, PAPER, LETTER, queries=1 << 19))
