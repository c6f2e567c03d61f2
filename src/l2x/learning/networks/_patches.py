"""Networks for images: convolutions, with max-pooling after each hidden layer (section 4.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from l2x.features import Patches, Superpixels, upsample
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
from l2x.learning.networks._tokens import token_networks
from l2x.learning.samplers import PlackettLuce

# Measured on MNIST (l2x_experiments/mnist.py): many patches are almost equally good, and eight subsets per
# image distinguish them better than the default of four.
OURS = Recipe(
    plan_in_small_batches(value=2000, selector=2000),
    thorough=plan_in_small_batches(value=2000, selector=2000),
    sampler=PlackettLuce(samples=8),
)
# Section 4.3: three convolutional layers for the explainer, two for the variational family. The paper does
# not give their filters, so they are those of its model. Its code for images was never released, so q has
# batch normalisation as in the code for tables. Training lasts five epochs of the experiment's 3s and 8s:
# with more, the selected positions leak the class to q, whose loss falls while post-hoc accuracy falls too
# (docs/notebook.md).
RELEASED = Recipe(
    paper_plan(280, batch_size=128, evaluations=5),
    selector={"filters": (8, 16), "head": "conv"},
    predictor={"filters": (8, 16), "normalise": True},
)
PUBLISHED = Recipe(
    paper_plan(168, batch_size=128, evaluations=6, as_published=True),
    selector={"filters": (8, 16), "head": "conv"},
    predictor={"filters": (8, 16)},
)


class PatchSelector(nn.Module):
    """w_θ: (n, c, h, w) -> (n, patches) importance scores, the grid row by row.

    Two hidden convolutions, whose pooling leaves one pixel per patch, and a third layer for the scores.

    Parameters
    ----------
    channels, size : int
        Channels of the image, and pixels per side of a patch.
    grid : tuple of two ints
        Rows and columns of patches.
    filters : sequence of two ints
    kernel : int
    activation : "relu", "selu" or "silu"
    head : "conv" or "dense"
        "conv" scores each patch by its surroundings, as in the paper. "dense" reads the whole image and
        starts at zero, so that all subsets are equally likely at first.
    hidden : int
        Units of a hidden layer of the dense head, which can represent the content of the image; 0 for none.
    prediction_size : int
        How many numbers of the model's prediction are read; they weight the filters.
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
        prediction_size: int = 0,
    ) -> None:
        super().__init__()
        # Patches of 4 pixels are pooled by 2 twice; other even sizes by 2 and the rest, odd sizes at once.
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
            extended = [Extended(seen, hidden, activation)] if hidden else []
            self.head.extend([nn.Flatten(), *extended, last])
        self.prediction = nn.Linear(prediction_size, filters[1]) if prediction_size else None
        if self.prediction is not None:
            nn.init.zeros_(self.prediction.weight)
            nn.init.ones_(self.prediction.bias)
        channels_last(self)

    @in_chunks
    def forward(self, x: Tensor, *prediction: Tensor) -> Tensor:
        """Return the scores, (n, patches)."""
        hidden = self.hidden(x)
        if self.prediction is not None:
            hidden = hidden * self.prediction(*prediction)[:, :, None, None]
        scores: Tensor = self.head(hidden)
        return scores


class Extended(nn.Module):
    """x -> x, concatenated with a hidden layer of x."""

    def __init__(self, fan_in: int, hidden: int, activation: str) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(fan_in, hidden), ACTIVATIONS[activation]())

    def forward(self, x: Tensor) -> Tensor:
        """Return (n, fan_in + hidden)."""
        return torch.cat([x, self.layer(x)], dim=1)


class PatchPredictor(nn.Module):
    """g_α: x̃_S and, with `sees_mask`, the mask as a channel -> (n, outputs) logits or predicted values."""

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
        # Tiny images, such as 2 x 2 patches of one pixel, cannot be pooled.
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
        """Return logits or predicted values, (n, outputs)."""
        if self.sees_mask:
            masked = torch.cat([masked, upsample(mask, self.grid, self.size)], dim=1)
        logits: Tensor = self.layers(masked)
        return logits


def hidden_layer(
    fan_in: int, fan_out: int, kernel: int, pool: int, activation: str, *, normalise: bool = False
) -> list[nn.Module]:
    """Build convolution, max-pooling, activation and optional batch normalisation.

    Pooling before a ReLU gives the same result with fewer operations.
    """
    convolution = nn.Conv2d(fan_in, fan_out, kernel, padding="same")
    pooling = [nn.MaxPool2d(pool)] if pool > 1 else []
    normalisation = [nn.BatchNorm2d(fan_out)] if normalise else []
    return [convolution, *pooling, ACTIVATIONS[activation](), *normalisation]


def channels_last(network: nn.Module) -> None:
    """Store channels contiguously: two to three times faster on a CPU, mostly in the pooling."""
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def _networks(view: Patches, outputs: int) -> Networks:
    """Return convolutions over all pixels of a small image, else networks that read a vector per patch."""
    if view.resolution:
        brightness = (float(view.mean_.mean()) / view.scale_, view.spread_)
        return token_networks(view.encoded_size, view.grid_, outputs, brightness, view.backbone_size_)
    shape = (view.channels, view.size, view.grid_)
    return Networks(partial(PatchSelector, *shape), partial(PatchPredictor, *shape, outputs))


def _queries(view: Patches) -> int:
    return 1 << 16 if view.resolution else 1 << 19


def _segment_networks(view: Superpixels, outputs: int) -> Networks:
    brightness = (float(view.pixels_.mean_.mean()) / view.scale_, view.pixels_.spread_)
    return token_networks(view.encoded_size, None, outputs, brightness)


register(Superpixels, Recipes(_segment_networks, OURS, queries=1 << 16))
register(Patches, Recipes(_networks, OURS, RELEASED, PUBLISHED, queries=_queries))
