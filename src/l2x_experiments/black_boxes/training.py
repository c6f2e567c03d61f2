"""One training loop for all black boxes: hard labels, as a practitioner has them, and a one-cycle schedule."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from l2x.foundations.progress import progress_bar


def train_classifier(
    network: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    batches: Iterator[Tensor],
    *,
    steps: int,
    optimizer: torch.optim.Optimizer,
    warm_up: float = 0.3,
    clip: float | None = None,
    label: str = "",
) -> nn.Module:
    """Minimise the cross-entropy of the network's logits over `steps` batches of row numbers.

    The optimizer's learning rate is the peak of the schedule, reached after the share `warm_up` of the steps;
    `clip` limits the norm of the gradients; with a `label` there is a progress bar.
    """
    rate = optimizer.param_groups[0]["lr"]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps + 1, pct_start=warm_up)
    network.train()
    with progress_bar(label, steps, visible=bool(label)) as advance:
        for step, rows in enumerate(batches, start=1):
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(network(inputs[rows]), labels[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            if clip is not None:
                nn.utils.clip_grad_norm_(network.parameters(), clip)
            optimizer.step()
            schedule.step()
            if step % 10 == 0:
                advance(step, f"loss {loss.item():.3f}")
    return network.eval().requires_grad_(requires_grad=False)


def epochs_of(n: int, size: int, epochs: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Row numbers in whole batches, shuffled anew in each epoch."""
    per_epoch = n // size
    for _ in range(epochs):
        yield from torch.randperm(n, generator=generator)[: per_epoch * size].view(-1, size)
