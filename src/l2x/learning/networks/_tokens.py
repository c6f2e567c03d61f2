"""Networks for large images: one small vector per patch, so that the cost does not depend on the pixels.

    patches (n, d, numbers) ── embedded, mixed with neighbours and the mean of all ──► scores (n, d)
                            └─ embedded, alone and with selected neighbours ──► weighted means over S ──► q

The surrogate is a function of the selected patches alone, and sums over them: what it computes per patch is
shared by all masks of an image, so that eight masks cost little more than one.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from l2x.errors import InputError
from l2x.learning.networks._recipes import Networks, ReadsSelected, in_chunks

# Attention weights are exp(score), with scores between these limits.
MOST_ATTENTION = 8.0


class TokenSelector(nn.Module):
    """w_θ: (n, d, numbers) -> (n, d) importance scores.

    Parameters
    ----------
    numbers : int
        Numbers per patch.
    grid : tuple of two ints or None
        Rows and columns of patches; None if features have no fixed place, and so no neighbours.
    brightness : tuple of two floats
        Mean and standard deviation of the numbers, by which they are standardised.
    backbone : int
        Numbers per patch of a backbone's feature maps, which follow.
    width : int
        Units per patch.
    blocks : int
        Layers that mix each patch with its eight neighbours.
    prediction_size : int
        How many numbers of the model's prediction are read; they weight the units.
    """

    def __init__(
        self,
        numbers: int,
        grid: tuple[int, int] | None,
        *,
        brightness: tuple[float, float] = (0.0, 1.0),
        backbone: int = 0,
        width: int = 64,
        blocks: int = 2,
        prediction_size: int = 0,
    ) -> None:
        super().__init__()
        self.grid, self.numbers = grid, numbers
        self.maps = nn.Sequential(nn.LayerNorm(backbone), nn.Linear(backbone, width)) if backbone else None
        self.embedding = Embedding(numbers, width, brightness)
        self.position = nn.Parameter(torch.zeros(math.prod(grid), width)) if grid else None
        self.mean = nn.Linear(width, width)
        self.blocks = nn.ModuleList(Neighbours(width) if grid else Alone(width) for _ in range(blocks))
        self.prediction = nn.Linear(prediction_size, width) if prediction_size else None
        if self.prediction is not None:
            nn.init.zeros_(self.prediction.weight)
            nn.init.ones_(self.prediction.bias)
        self.head = nn.Linear(width, 1)
        nn.init.zeros_(self.head.weight)  # at first, all subsets are equally likely
        nn.init.zeros_(self.head.bias)

    @in_chunks
    def forward(self, x: Tensor, *prediction: Tensor) -> Tensor:
        """Return the scores, (n, d)."""
        x = x.float()
        tokens = self.embedding(x[..., : self.numbers])
        if self.position is not None:
            tokens = tokens + self.position
        if self.maps is not None:
            tokens = tokens + self.maps(x[..., self.numbers :])
        tokens = torch.relu(tokens)
        tokens = tokens + self.mean(tokens.mean(dim=1, keepdim=True))
        for block in self.blocks:
            tokens = block(tokens, self.grid)
        if self.prediction is not None:
            tokens = tokens * self.prediction(*prediction)[:, None]
        scores: Tensor = self.head(tokens).squeeze(-1)
        return scores


class Alone(nn.Module):
    """x -> x plus a layer of each feature alone."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, tokens: Tensor, grid: None) -> Tensor:
        """Return tokens, (n, d, width)."""
        return tokens + torch.relu(self.layer(tokens))


class Embedding(nn.Linear):
    """Numbers of each patch -> width, after standardising them by a mean and a standard deviation."""

    def __init__(self, numbers: int, width: int, brightness: tuple[float, float]) -> None:
        super().__init__(numbers, width)
        self.brightness = brightness

    def forward(self, x: Tensor) -> Tensor:
        """Return (..., width)."""
        mean, spread = self.brightness
        return super().forward((x - mean) / spread)


class Neighbours(nn.Module):
    """x -> x plus a layer of each patch and its eight neighbours: a depthwise and a pointwise convolution."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.around = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.layer = nn.Linear(width, width)

    def forward(self, tokens: Tensor, grid: tuple[int, int]) -> Tensor:
        """Return tokens, (n, d, width)."""
        n, d, width = tokens.shape
        plane = tokens.reshape(n, *grid, width).permute(0, 3, 1, 2)
        around = self.around(plane).permute(0, 2, 3, 1).reshape(n, d, width)
        return tokens + torch.relu(self.layer(around))


class TokenPredictor(ReadsSelected):
    """g_α: weighted means over the selected patches, and over pairs of selected neighbours -> (n, outputs).

    Without `sees_mask`, unselected patches are zero vectors and take part in the means.

    Parameters
    ----------
    numbers, grid, outputs : int, tuple of two ints or None, int
    brightness : tuple of two floats
        Mean and standard deviation of the numbers.
    width : int
        Units per patch.
    heads : int
        Weighted means, each with its own weights and `width / heads` units.
    hidden : int
        Units of the hidden layer that reads the means.
    sees_mask : bool
    """

    def __init__(
        self,
        numbers: int,
        grid: tuple[int, int] | None,
        outputs: int,
        *,
        brightness: tuple[float, float] = (0.0, 1.0),
        width: int = 64,
        heads: int = 8,
        hidden: int = 128,
        sees_mask: bool = True,
    ) -> None:
        super().__init__()
        self.grid, self.numbers, self.reads_rows = grid, numbers, sees_mask
        self.embedding = Embedding(numbers, width, brightness)
        self.alone = Means(width, heads)
        read = width + heads
        if grid:
            self.position = nn.Parameter(torch.zeros(math.prod(grid), width))
            self.parts = nn.Linear(width, 3 * width)  # of a pair: its first, right and lower patch
            self.paired = Means(width, heads)
            read *= 3
        self.head = nn.Sequential(nn.Linear(read, hidden), nn.ReLU(), nn.Linear(hidden, outputs))

    def forward(self, masked: Tensor, mask: Tensor) -> Tensor:
        """Return logits or predicted values, (n, outputs)."""
        mask = mask if self.reads_rows else torch.ones_like(mask)
        # One mask per row. Sizes that depend on n would be constants in an ONNX graph.
        outputs: Tensor = self._outputs(masked, mask.reshape(-1, 1, *(self.grid or (1, mask.shape[1]))))
        return outputs[:, 0]

    def read(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the outputs for masks of each row; see `ReadsSelected.read`."""
        n, d = len(x), mask.shape[1]
        # (n, m, rows, columns); without a grid, all features are in one row.
        masks = mask.reshape(-1, n, d).transpose(0, 1).reshape(n, -1, *(self.grid or (1, d)))
        return self._outputs(x, masks).transpose(0, 1).reshape(len(mask), -1)

    @in_chunks
    def _outputs(self, x: Tensor, masks: Tensor) -> Tensor:
        """Return the outputs for masks (n, m, rows, columns) of each row, (n, m, outputs)."""
        # Without the feature maps of a backbone, which know what is around a patch.
        tokens = self.embedding(x[..., : self.numbers].to(self.embedding.weight.dtype))
        if self.grid is None:
            alone: Tensor = self.head(self.alone(torch.relu(tokens)[:, None], masks))
            return alone
        tokens = torch.relu(tokens + self.position).reshape(-1, *self.grid, self.position.shape[1])
        first, right, below = self.parts(tokens).chunk(3, dim=-1)
        right = torch.relu(first[:, :, :-1] + right[:, :, 1:])
        below = torch.relu(first[:, :-1] + below[:, 1:])
        means = [
            self.alone(tokens, masks),
            self.paired(right, masks[..., :-1] * masks[..., 1:]),
            self.paired(below, masks[:, :, :-1] * masks[:, :, 1:]),
        ]
        outputs: Tensor = self.head(torch.cat(means, dim=-1))
        return outputs


class Means(nn.Module):
    """Elements (n, rows, columns, width) and masks (n, m, rows, columns) -> means, (n, m, width + heads).

    Each head has positive weights; its mean over no element is zero. The logarithms of the sums of weights
    are returned as well.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.both = nn.Linear(width, width + heads)

    def forward(self, elements: Tensor, masks: Tensor) -> Tensor:
        """Return the means and the logarithms of the sums of weights."""
        heads = self.heads
        both = self.both(elements.flatten(1, 2))
        weights = both[..., :heads].clamp(-MOST_ATTENTION, MOST_ATTENTION).exp()
        values = both[..., heads:].unflatten(-1, (heads, -1)) * weights[..., None]
        sums = torch.bmm(masks.flatten(2), torch.cat([weights, values.flatten(2)], dim=-1))
        total = sums[..., :heads]
        means = torch.unflatten(sums[..., heads:], -1, (heads, -1)) / (total[..., None] + 1)
        return torch.cat([means.flatten(2), torch.log1p(total)], dim=-1)


def token_networks(
    numbers: int,
    grid: tuple[int, int] | None,
    outputs: int,
    brightness: tuple[float, float] = (0.0, 1.0),
    backbone: int = 0,
) -> Networks:
    """Return the builders of both networks for patches of this many numbers, and of a backbone's.

    `brightness` is the mean and the standard deviation of the numbers.
    """
    selector = partial(TokenSelector, numbers, grid, brightness=brightness, backbone=backbone)
    predictor = partial(TokenPredictor, numbers, grid, outputs, brightness=brightness)
    return Networks(partial(_built, selector), partial(_built, predictor))


def _built(build: Any, **options: Any) -> nn.Module:
    """Return the network; raise an InputError for options of the paper's networks."""
    if known := sorted(options.keys() & {"filters", "head", "kernel", "normalise"}):
        raise InputError(
            f"The networks for images of more than 1,024 pixels have no option {known[0]!r}: they read one "
            "vector per patch. L2X as published, l2x.Explainer.paper(...), explains smaller images only."
        )
    network: nn.Module = build(**options)
    return network
