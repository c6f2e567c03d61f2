"""Networks over many inputs, some at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import torch
from torch import Tensor, nn

from l2x.foundations.arrays import batches

# Inputs at a time where no gradient is needed: 8,192 images would take a gigabyte for one hidden layer.
CHUNK = 512


def in_chunks(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A `forward` whose memory does not grow with the number of inputs: without a backward pass to prepare
    for, it takes some at a time."""

    @wraps(forward)
    def chunked(network: nn.Module, *inputs: Tensor) -> Tensor:
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return forward(network, *inputs)
        parts = batches(len(inputs[0]), CHUNK)
        return torch.cat([forward(network, *(tensor[rows] for tensor in inputs)) for rows in parts])

    return chunked
