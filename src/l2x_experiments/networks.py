"""Networks that experiments train and then explain as black boxes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from l2x.features.view import as_tensor
from l2x.foundations.arrays import Array
from l2x.networks.columns import perceptron


def train_network(X: Array, y: Array, *, seed: int, steps: int = 4000, batch_size: int = 1000) -> nn.Module:
    """A classifier with three hidden dense layers of 200 (section 4.1); gives logits.

    Adam with a one-cycle schedule and decoupled weight decay; the labels are hard, as a practitioner's are.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = perceptron([X.shape[1], 200, 200, 200, int(y.max()) + 1], "relu")
    inputs, labels = as_tensor(X), torch.from_numpy(y)
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps + 1)
    for _ in range(steps):
        rows = torch.randint(len(inputs), (min(batch_size, len(inputs)),), generator=generator)
        optimizer.zero_grad(set_to_none=True)
        loss: Tensor = nn.functional.cross_entropy(network(inputs[rows]), labels[rows])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return network.eval().requires_grad_(requires_grad=False)
