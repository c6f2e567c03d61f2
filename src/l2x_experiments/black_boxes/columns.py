"""The network that the synthetic experiment explains (section 4.1)."""

from __future__ import annotations

import torch
from torch import nn

from l2x._base.arrays import Array
from l2x.features import as_tensor
from l2x.learning import perceptron
from l2x_experiments.black_boxes.training import train_classifier


def train_network(X: Array, y: Array, *, seed: int, steps: int = 4000, batch_size: int = 1000) -> nn.Module:
    """A classifier with three hidden dense layers of 200; gives logits. Adam with decoupled weight decay."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = perceptron([X.shape[1], 200, 200, 200, int(y.max()) + 1], "relu")
    batches = (torch.randint(len(X), (min(batch_size, len(X)),), generator=generator) for _ in range(steps))
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=1e-2)
    return train_classifier(
        network, as_tensor(X), torch.from_numpy(y), batches, steps=steps, optimizer=optimizer
    )
