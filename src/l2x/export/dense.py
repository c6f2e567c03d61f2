"""Networks as ONNX can have them: the same numbers, without leaving out what is padding.

Networks of texts skip windows and sentences that hold no word, so that their tensors have other shapes for
other texts; a graph is written down for one text and must hold for all.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from l2x.networks.sentences import SentenceEncoder
from l2x.networks.words import PAD, WindowConvolution, Windows, WordEmbedding, weighted_mean


def densely(network: nn.Module) -> nn.Module:
    """A copy on the CPU that computes padding, too."""
    network = copy.deepcopy(network).cpu().eval()
    for parent in list(network.modules()):
        for name, part in list(parent.named_children()):
            if isinstance(part, WindowConvolution):
                setattr(parent, name, DenseConvolution(part))
            elif isinstance(part, SentenceEncoder):
                setattr(parent, name, DenseEncoder(part))
            elif isinstance(part, WordEmbedding):
                setattr(parent, name, DenseEmbedding(part))
    return network


class DenseWindows(Windows):
    """All windows are there."""

    def maximum(self) -> Tensor:
        return torch.maximum(self.values.reshape(*self.live.shape, -1).amax(dim=1), self.empty)


class DenseConvolution(nn.Module):
    """A window without any word is zeros, of which the convolution makes its bias, as it should be."""

    def __init__(self, convolution: WindowConvolution) -> None:
        super().__init__()
        self.linear = convolution.linear

    def forward(self, x: Tensor, present: Tensor) -> DenseWindows:
        beyond = torch.zeros_like(x[:, :1])
        before, after = torch.cat([beyond, x[:, :-1]], dim=1), torch.cat([x[:, 1:], beyond], dim=1)
        windows = torch.stack([before, x, after], dim=-1).flatten(2)  # (n, length, fan_in * 3)
        values = self.linear(windows).flatten(0, 1)
        return DenseWindows(values, torch.ones_like(present), empty=self.linear.bias)


class DenseEmbedding(nn.Module):
    """Words without weight are looked up, and count for nothing."""

    def __init__(self, embedding: WordEmbedding) -> None:
        super().__init__()
        self.embedding = embedding

    def forward(self, ids: Tensor) -> Tensor:
        vectors: Tensor = self.embedding(ids)
        return vectors

    def average(self, ids: Tensor, weights: Tensor, divisor: float | None = None) -> Tensor:
        return weighted_mean(self(ids) * weights[:, :, None], weights, divisor)


class DenseEncoder(nn.Module):
    """Every sentence is read, and those that are not there come out as zeros."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        self.embedding, self.convolution = encoder.embedding, DenseConvolution(encoder.convolution)

    def forward(self, ids: Tensor) -> Tensor:
        words = ids.flatten(0, 1)  # (n * sentences, words)
        encoded = torch.relu(self.convolution(self.embedding(words), words != PAD).maximum())
        there = (ids != PAD).any(dim=2, keepdim=True)
        return encoded.reshape(-1, ids.shape[1], encoded.shape[1]) * there
