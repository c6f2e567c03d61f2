"""Networks over many inputs, some at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from l2x.foundations.arrays import batches

# Inputs at a time where no gradient is needed: 8,192 images would take a gigabyte for one hidden layer.
CHUNK = 512


def in_chunks(network: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """Without a backward pass to prepare for, memory does not grow with the number of inputs."""
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return network(*inputs)
    parts = batches(len(inputs[0]), CHUNK)
    return torch.cat([network(*(tensor[rows] for tensor in inputs)) for rows in parts])
