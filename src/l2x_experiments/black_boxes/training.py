"""One training loop for all black boxes: on labels, as a practitioner has them, with a one-cycle schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from l2x._base.progress import progress_bar
from l2x_experiments.cache import Key, remembered

SEED, BATCH = 0, 64


class Trained(NamedTuple):
    """A network, and what its weights depend on."""

    network: nn.Module
    key: Key


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
            if step % 10 == 0 or step == steps:
                advance(step, f"loss {loss.item():.3f}")
    return network.eval().requires_grad_(requires_grad=False)


def cached_classifier(
    name: str,
    key: Key,
    build: Callable[[], nn.Module],
    data: Callable[[nn.Module], tuple[Tensor, Tensor]],
    *,
    epochs: int,
    rate: float,
    warm_up: float = 0.3,
    clip: float | None = None,
    fused: bool = False,
) -> Trained:
    """The network that `build` makes, trained now by Adam on the inputs and labels of `data`, or taken from
    the cache. `key` is of the data and the network; what training depends on is added here."""
    key = {**key, "seed": SEED, "epochs": epochs, "batch_size": BATCH, "learning_rate": rate}
    key |= {"warm_up": warm_up, "clip": clip}
    with torch.random.fork_rng():
        torch.manual_seed(SEED)  # of the first weights
        network = build()

    def train() -> nn.Module:
        inputs, labels = data(network)
        generator, per_epoch = torch.Generator().manual_seed(SEED), len(inputs) // BATCH
        orders = (torch.randperm(len(inputs), generator=generator) for _ in range(epochs))
        batches = (rows for order in orders for rows in order[: per_epoch * BATCH].view(-1, BATCH))
        optimizer = torch.optim.Adam(network.parameters(), lr=rate, fused=fused)
        with torch.random.fork_rng():
            torch.manual_seed(SEED)  # of the dropout
            return train_classifier(
                network, inputs, labels, batches, steps=epochs * per_epoch, optimizer=optimizer,
                warm_up=warm_up, clip=clip, label=name,
            )  # fmt: skip

    return Trained(remembered(name, key, network, train), key)
