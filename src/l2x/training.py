"""The training loop, once for every network: minibatches, averaged weights, early stopping, best weights.

`optimise` maximises any objective; `Explainer.fit` calls it for the value and then for the selector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

History = list[dict[str, Any]]


@dataclass(frozen=True)
class Phase:
    """How one network is trained.

    Attributes
    ----------
    steps, batch_size : updates at most, and rows in each
    learning_rate : the peak of the one-cycle schedule, or the constant rate
    optimizer : "adam" or "rmsprop"
    schedule : "onecycle" (warm up, then down to zero) or "constant"
    averaging : decay of the exponential moving average of the weights; 0 keeps the last weights
    weight_decay : decoupled L2 shrinkage (adam only)
    """

    steps: int
    learning_rate: float
    batch_size: int = 1000
    optimizer: Literal["adam", "rmsprop"] = "adam"
    schedule: Literal["onecycle", "constant"] = "onecycle"
    averaging: float = 0.0
    weight_decay: float = 0.0


@dataclass(frozen=True)
class TrainingPlan:
    """How long and how fast to train. The defaults are measured: see docs/method.md.

    Attributes
    ----------
    value, selector : the two phases; joint training has only the second
    evaluations : how often in a phase the held-out rows are looked at
    patience : stop after so many evaluations without a better figure
    validation_rows : at most so many held-out rows are looked at, to keep evaluations cheap
    progress : show progress bars on standard error
    """

    value: Phase = field(default_factory=lambda: Phase(4000, 3e-3, averaging=0.995))
    selector: Phase = field(default_factory=lambda: Phase(1000, 2e-3, averaging=0.99))
    evaluations: int = 25
    patience: int = 8
    validation_rows: int = 10_000
    progress: bool = True

    @classmethod
    def quick(cls, *, progress: bool = False) -> TrainingPlan:
        """A tenth of the work, for first looks and tests; expect lower fidelity."""
        plan = cls()
        value = replace(plan.value, steps=plan.value.steps // 10)
        selector = replace(plan.selector, steps=plan.selector.steps // 4)
        return cls(value=value, selector=selector, evaluations=10, progress=progress)

    @classmethod
    def paper(cls, *, progress: bool = True) -> TrainingPlan:
        """RMSprop with step size 0.001 (section 4)."""
        joint = Phase(3000, 1e-3, optimizer="rmsprop", schedule="constant")
        return cls(selector=joint, progress=progress)


def optimise(
    network: nn.Module,
    objective: Callable[[Tensor], Tensor],
    validate: Callable[[nn.Module], float],
    *,
    phase: Phase,
    plan: TrainingPlan,
    n: int,
    generator: torch.Generator,
    label: str,
    history: History,
) -> bool:
    """Maximise `objective(row indices)` over the weights of `network`.

    The network is left with the weights whose `validate` (higher is better) was best.
    Returns False if the user pressed Ctrl-C; the best weights so far are kept all the same.
    """
    optimizer = _optimizer(network, phase)
    schedule = _schedule(optimizer, phase)
    moving_average = get_ema_multi_avg_fn(phase.averaging)  # type: ignore[no-untyped-call]
    average = AveragedModel(network, multi_avg_fn=moving_average, use_buffers=True)
    best, best_figure, stale = _snapshot(network), -float("inf"), 0
    every = max(1, phase.steps // plan.evaluations)

    with progress_bar(label, phase.steps, visible=plan.progress) as advance:
        try:
            for step, index in enumerate(_minibatches(n, phase, generator), start=1):
                optimizer.zero_grad(set_to_none=True)
                loss = -objective(index)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()
                average.update_parameters(network)
                if step % every and step != phase.steps:
                    continue
                average.module.eval()
                figure = validate(average.module)
                history.append(
                    {"phase": label, "step": step, "loss": loss.item(), "validation_loss": -figure}
                )
                stale += 1
                if figure > best_figure:
                    best, best_figure, stale = _snapshot(average.module), figure, 0
                advance(step, f"held-out loss {-figure:.4f} (best {-best_figure:.4f})")
                if stale >= plan.patience:
                    break
            finished = True
        except KeyboardInterrupt:
            finished = False
    network.load_state_dict(best)
    network.eval()
    return finished


class progress_bar:  # noqa: N801 - used as a function
    """`with progress_bar("asking the model", 100) as advance: advance(10, "note")`."""

    def __init__(self, label: str, total: int, *, visible: bool = True) -> None:
        self.progress = Progress(
            TextColumn("{task.description:<22}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
            disable=not visible,
        )
        self.task = self.progress.add_task(label, total=total, note="")

    def __enter__(self) -> Callable[[int, str], None]:
        self.progress.start()

        def advance(completed: int, note: str) -> None:
            self.progress.update(self.task, completed=completed, note=note)

        return advance

    def __exit__(self, *exception: object) -> None:
        self.progress.stop()


def _minibatches(n: int, phase: Phase, generator: torch.Generator) -> Iterator[Tensor]:
    """Random rows without replacement, epoch after epoch, for `phase.steps` updates."""
    size = min(phase.batch_size, n)
    order, start = torch.randperm(n, generator=generator), 0
    for _ in range(phase.steps):
        if start + size > n:
            order, start = torch.randperm(n, generator=generator), 0
        yield order[start : start + size]
        start += size


def _optimizer(network: nn.Module, phase: Phase) -> torch.optim.Optimizer:
    if phase.optimizer == "rmsprop":
        return torch.optim.RMSprop(network.parameters(), lr=phase.learning_rate)
    return torch.optim.AdamW(network.parameters(), lr=phase.learning_rate, weight_decay=phase.weight_decay)


def _schedule(optimizer: torch.optim.Optimizer, phase: Phase) -> torch.optim.lr_scheduler.LRScheduler:
    if phase.schedule == "constant":
        return torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    rate, steps = phase.learning_rate, phase.steps
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate, total_steps=steps + 1)


def _snapshot(network: nn.Module) -> dict[str, Tensor]:
    """A copy of all weights and buffers (batch-norm statistics belong to the best weights too)."""
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
