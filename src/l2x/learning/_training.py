"""The training loop for all networks: minibatches, averaged weights, early stopping, best weights.

`optimise` maximises any objective; `Explainer.fit` calls it for the surrogate and then for the selector.
"""

from __future__ import annotations

import copy
import math
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from numbers import Real
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from l2x._base import progress_bar
from l2x._base.arrays import is_whole
from l2x.errors import InputError, TrainingError
from l2x.features import View

History = list[dict[str, Any]]

# Differences of the held-out loss below this are no reason to prefer older weights. With few held-out rows
# the standard error is large and would accept any weights, so that this is the limit.
NOTICEABLE = 1e-3
# The value of held-out rows for weights that are not numbers.
UNKNOWN = torch.tensor([math.nan])


@dataclass(frozen=True)
class Phase:
    """How one network is trained.

    Attributes
    ----------
    steps : int
        Maximum number of updates.
    learning_rate : float
        The peak of the schedule, or the constant rate.
    batch_size : int
        Rows per update, at most.
    batches : int
        Updates per epoch, at least: a table with few rows has smaller batches.
    optimizer : "adam" or "rmsprop"
    schedule : "cosine" or "constant"
        "cosine" is a short warm-up, then a cosine down to a hundredth of the rate.
    averaging : float
        Decay of the moving average of the weights, which is evaluated and returned; 0 for none.
    patience : int or None
        Stop after this many evaluations without improvement; None never stops early.
    choose : "best", "latest" or "last"
        Which weights to return: those of the best evaluation on held-out rows; the latest that are not
        noticeably worse than the best (by one standard error, paired over rows, or NOTICEABLE nats, whichever
        is less); or the last, unless their held-out loss is NaN.
    l2 : float
        Weight of the sum of squares of all matrices and filters in the loss, as in Keras, except parameters
        that a module lists as `without_l2`.
    epochs : int or None
        Passes over the rows, at most: few rows need fewer updates. None for no limit.
    look_every : int or None
        Evaluate at least once in this many epochs, so that training on few rows stops as soon as it overfits.
        None for `TrainingPlan.evaluations` alone.
    ahead : int
        The number of updates whose subsets `PlackettLuce` draws and evaluates together: a model predicts one
        large batch faster than several small ones. The subsets are then up to ahead - 1 updates old.

    >>> Phase(200, 1e-3, batch_size=64).steps
    200
    """

    steps: int
    learning_rate: float
    batch_size: int = 1000
    batches: int = 1
    optimizer: Literal["adam", "rmsprop"] = "adam"
    schedule: Literal["cosine", "constant"] = "cosine"
    averaging: float = 0.0
    patience: int | None = None
    choose: Literal["best", "latest", "last"] = "best"
    l2: float = 0.0
    epochs: int | None = None
    look_every: int | None = None
    ahead: int = 1

    def rows_per_step(self, n: int) -> int:
        """Return the rows of one update, if there are n training rows."""
        return min(self.batch_size, math.ceil(n / self.batches))

    def steps_for(self, n: int) -> int:
        """Return the number of updates, if there are n training rows."""
        return self.steps if self.epochs is None else min(self.steps, self.epochs * self._per_epoch(n))

    def steps_between(self, n: int, evaluations: int) -> int:
        """Return the number of updates between evaluations, if there are n training rows."""
        every = max(1, self.steps_for(n) // evaluations)
        return every if self.look_every is None else min(every, self.look_every * self._per_epoch(n))

    def _per_epoch(self, n: int) -> int:
        return math.ceil(n / self.rows_per_step(n))

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "batches", "ahead"):
            _check(self, name, is_whole, "a whole number of at least 1")
        _check(self, "learning_rate", lambda rate: _is_within(rate) and rate > 0, "a number above 0")
        _check(self, "optimizer", _one_of("adam", "rmsprop"), "'adam' or 'rmsprop'")
        _check(self, "schedule", _one_of("cosine", "constant"), "'cosine' or 'constant'")
        _check(self, "averaging", lambda decay: _is_within(decay, below=1.0), "a number in [0, 1)")
        _check(self, "patience", _is_whole_or_none, "a whole number of at least 1, or None")
        _check(self, "choose", _one_of("best", "latest", "last"), "'best', 'latest' or 'last'")
        _check(self, "l2", _is_within, "a number of at least 0")
        for name in ("epochs", "look_every"):
            _check(self, name, _is_whole_or_none, "a whole number of at least 1, or None")


def _check(settings: Any, name: str, is_valid: Callable[[Any], bool], expected: str) -> None:
    """Raise an InputError that names the field unless its value is valid."""
    if not is_valid(value := getattr(settings, name)):
        raise InputError(f"{name} is {value!r} in a {type(settings).__name__}; expected {expected}.")


def _one_of(*names: str) -> Callable[[Any], bool]:
    return lambda name: isinstance(name, str) and name in names


def _is_within(number: Any, *, below: float = math.inf) -> bool:
    """Return whether this is a number in [0, below); booleans are not numbers."""
    is_number = isinstance(number, Real) and not isinstance(number, bool)
    return is_number and bool(0 <= number < below)


def _is_whole_or_none(number: Any) -> bool:
    return number is None or is_whole(number)


@dataclass(frozen=True)
class TrainingPlan:
    """How long and how fast to train. The defaults are measured: see docs/notebook.md.

    Attributes
    ----------
    value : Phase
        Fits the surrogate; joint training does not have this phase.
    selector : Phase
        Trains the selector.
    evaluations : int
        Evaluations on held-out rows per phase.
    validation_rows : int
        Maximum number of held-out rows.
    progress : bool
        Show progress bars on standard error.
    threads : int or None
        Torch's CPU threads during training; None leaves them unchanged. The default is one: networks of this
        size gain little from a second thread and lose much on a busy machine (measured on 2 busy cores: 7.5 s
        with one thread, 185 s with two).

    >>> plan = TrainingPlan().with_steps(value=200, selector=100)
    >>> plan.value.steps, plan.selector.steps
    (200, 100)
    """

    value: Phase = Phase(1100, 1.5e-2, batch_size=512, averaging=0.99, patience=6)
    selector: Phase = Phase(300, 4e-3, batch_size=512, batches=3, averaging=0.98, choose="latest")
    evaluations: int = 20
    validation_rows: int = 4000
    progress: bool = True
    threads: int | None = 1

    def __post_init__(self) -> None:
        for name in ("value", "selector"):
            _check(self, name, lambda phase: isinstance(phase, Phase), "a Phase")
        for name in ("evaluations", "validation_rows"):
            _check(self, name, is_whole, "a whole number of at least 1")
        _check(self, "progress", lambda shown: isinstance(shown, bool), "True or False")
        _check(self, "threads", _is_whole_or_none, "a whole number of at least 1, or None")

    def with_steps(self, *, value: int | None = None, selector: int | None = None) -> TrainingPlan:
        """Return a copy with other numbers of steps for the phases `value` and `selector`."""
        phases = {"value": self.value if value is None else replace(self.value, steps=value)}
        phases["selector"] = self.selector if selector is None else replace(self.selector, steps=selector)
        return replace(self, **phases)  # type: ignore[arg-type]

    @classmethod
    def thorough(cls, features: View | None = None, *, progress: bool = True) -> TrainingPlan:
        """Return a plan that takes two to five times as long as the default.

        It has more steps, larger batches of table rows and lower rates. On average it is hardly better
        (benchmarks/fit.py). The default is for tables: for texts and images pass the view as `features`. With
        `progress`, progress bars are shown.

        >>> import l2x
        >>> TrainingPlan.thorough().value.steps, TrainingPlan.thorough(l2x.Words()).value.steps
        (4000, 2000)
        """
        from l2x.learning.networks import recipes_of  # imports this module

        recipe = None if features is None else recipes_of(features).ours
        if recipe is not None and recipe.thorough is not None:
            return replace(recipe.thorough, progress=progress)
        return cls(
            value=Phase(4000, 3e-3, averaging=0.995, patience=6),
            selector=Phase(600, 2e-3, averaging=0.99, choose="latest"),
            evaluations=20,
            validation_rows=10_000,
            progress=progress,
        )

    @classmethod
    def quick(cls, features: View | None = None, *, progress: bool = False) -> TrainingPlan:
        """Return a short plan for first looks and tests; expect lower fidelity.

        The default is for tables. Texts and images need smaller batches and fewer steps: pass the view as
        `features`. With `progress`, progress bars are shown.

        >>> import l2x
        >>> TrainingPlan.quick(l2x.Words()).value.batch_size
        128
        """
        from l2x.learning.networks import recipes_of  # imports this module

        plan = cls() if features is None else recipes_of(features).ours.plan
        value, selector = (4, 1) if features is None or features.kind == "table" else (8, 2)
        shorter = plan.with_steps(
            value=max(1, plan.value.steps // value), selector=max(1, plan.selector.steps // selector)
        )
        return replace(shorter, evaluations=min(plan.evaluations, 10), progress=progress)

    @classmethod
    def paper(cls, *, as_published: bool = False, progress: bool = True) -> TrainingPlan:
        """Return the plan of L2X as released: Adam, 1,000 steps of 1,000 rows, L2, the last weights.

        With `as_published`: RMSprop (section 4) and, for what the text leaves open, the released number of
        steps and the best weights. There is no early stop, because on XOR nothing improves for a long time.
        With `progress`, progress bars are shown.
        """
        joint = Phase(1000, 1e-3, schedule="constant", choose="last", l2=1e-3)
        if as_published:
            joint = replace(joint, optimizer="rmsprop", choose="best", l2=0.0)
        return cls(selector=joint, evaluations=20, validation_rows=10_000, progress=progress)


def checked_seed(seed: Any) -> int:
    """Return a seed that numpy and torch both accept, or raise an InputError."""
    if not is_whole(seed, least=0) or seed >= 2**63:
        raise InputError(f"seed is {seed!r}; pass a whole number of at least 0 and below 2**63, such as 0.")
    return int(seed)


def pick_device(name: Any) -> torch.device:
    """Return the device with this name; "auto" is the GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).cpu()  # torch accepts names of devices that are not here
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        raise InputError(
            f"device is {name!r}, which is not available here; choose 'auto' or 'cpu'."
        ) from error
    return device


# All threads share torch's global generator: concurrent fits would consume each other's draws.
_ONE_AT_A_TIME = threading.RLock()


@dataclass(frozen=True)
class Run:
    """What all phases of one fit share: the plan, the seed and generator, the device, and the history."""

    plan: TrainingPlan
    seed: int
    device: torch.device
    generator: torch.Generator
    history: History

    @classmethod
    def begin(cls, plan: TrainingPlan, seed: int, device: str | torch.device = "cpu") -> Run:
        """Start a run with a generator seeded by `seed` and an empty history."""
        device, seed = torch.device(device), checked_seed(seed)
        return cls(plan, seed, device, torch.Generator(device=device).manual_seed(seed), [])

    @contextmanager
    def seeded(self) -> Iterator[None]:
        """Seed torch's global generator, for initial weights and dropout, and restore it afterwards."""
        with _ONE_AT_A_TIME, torch.random.fork_rng():
            torch.manual_seed(self.seed)
            yield


def optimise(
    network: nn.Module,
    objective: Callable[[Tensor, float], Tensor],
    validate: Callable[[nn.Module], Tensor],
    *,
    phase: Phase,
    n: int,
    label: str,
    run: Run,
    prepare: Callable[[Sequence[Tensor], float], None] | None = None,
) -> bool:
    """Maximise `objective(row indices, completed share of training)` over the weights of `network`.

    `prepare` is called before every `phase.ahead` updates, with the row indices of each of them.

    `validate` returns the value of each held-out row, by which `phase.choose` picks the weights. Return False
    if the user pressed Ctrl-C; the network then has the best weights so far. Raise a TrainingError if the
    held-out loss was never finite.
    """
    phase = replace(phase, steps=phase.steps_for(n))
    best, finished = BestWeights(phase), True
    with (
        progress_bar(label, phase.steps, visible=run.plan.progress) as advance,
        _threads(run.plan.threads),
    ):
        try:
            for step, loss, averaged in _updates(network, objective, phase, n, run, prepare):
                diverged = math.isnan(loss)  # the weights are lost, even if held-out rows have a value
                value = best.consider(averaged, UNKNOWN if diverged else validate(averaged))
                run.history.append({"phase": label, "step": step, "loss": loss, "validation_loss": -value})
                advance(step, f"loss {-value:.4f} (best {-best.value:.4f})")
                if best.stale == phase.patience and step < phase.steps:
                    advance(step, f"stopped early (best {-best.value:.4f})")
                    break
                if diverged and best.weights is not None:
                    message = f"Training diverged ({label}, step {step}); the best weights before are used. "
                    warnings.warn(message + _lower_rate(phase), stacklevel=2)
                    break
        except KeyboardInterrupt:
            finished = False
    if best.weights is None and best.stale:
        raise _diverged(phase, label, run.history[-1]["validation_loss"])
    network.load_state_dict(best.weights or network.state_dict())  # None before the first evaluation
    network.eval()
    return finished


def _updates(
    network: nn.Module,
    objective: Callable[[Tensor, float], Tensor],
    phase: Phase,
    n: int,
    run: Run,
    prepare: Callable[[Sequence[Tensor], float], None] | None,
) -> Iterator[tuple[int, float, nn.Module]]:
    """Update the weights; yield step, loss and averaged network when it is to be evaluated."""
    update, average = _optimizer(network, phase), WeightAverage(network, phase.averaging)
    rate = _schedule(phase)
    every = phase.steps_between(n, run.plan.evaluations)
    batches, coming = _minibatches(n, phase, run.generator), deque[Tensor]()
    for step in range(1, phase.steps + 1):
        if not coming:
            coming.extend(islice(batches, phase.ahead))
            if prepare is not None:
                prepare(coming, step / phase.steps)
        index = coming.popleft()
        network.zero_grad(set_to_none=True)
        loss = -objective(index, step / phase.steps)
        loss.backward()  # type: ignore[no-untyped-call]
        update(rate(step - 1))
        average.update()
        if step % every == 0 or step == phase.steps:
            yield step, loss.item(), average.network


def freeze(network: nn.Module, *, finished: bool) -> None:
    """Stop a network from learning; raise a KeyboardInterrupt if its training did not finish."""
    network.requires_grad_(requires_grad=False)
    if not finished:
        raise KeyboardInterrupt("stopped before the selector was trained; nothing was learned yet")


class WeightAverage:
    """A moving average of a network's weights, in a copy that is ready to be evaluated."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.source, self.decay, self.updates = network, decay, 0
        self.network = copy.deepcopy(network).requires_grad_(requires_grad=False).eval()
        self.averages = [p.detach() for p in self.network.parameters()]
        self.weights = [p.detach() for p in network.parameters()]

    @torch.no_grad()
    def update(self) -> None:
        """Include the network's current weights; copy its buffers."""
        self.updates += 1
        # Forget the initial weights quickly.
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        torch._foreach_lerp_(self.averages, self.weights, 1 - decay)
        for mine, theirs in zip(self.network.buffers(), self.source.buffers(), strict=True):
            mine.copy_(theirs)


class BestWeights:
    """Choose among the evaluated weights, by `phase.choose`."""

    def __init__(self, phase: Phase) -> None:
        self.rule = phase.choose
        self.value = -float("inf")
        self.stale = 0
        self.weights: dict[str, Tensor] | None = None
        self.best_rows: Tensor | None = None

    def consider(self, network: nn.Module, rows: Tensor) -> float:
        """Store the network's weights if they are chosen; return their value, the mean over rows."""
        value = rows.mean().item()
        self.stale += 1
        if value > self.value:
            self.value, self.best_rows, self.stale = value, rows, 0
            self.weights = _snapshot(network)
        elif self.rule == "last" and not math.isnan(value):
            self.weights = _snapshot(network)
        elif self.rule == "latest" and self.best_rows is not None:
            lost = self.best_rows - rows
            # A single row has no standard error.
            error = lost.std().item() / len(lost) ** 0.5 if len(lost) > 1 else math.inf
            if lost.mean() <= min(error, NOTICEABLE):
                self.weights = _snapshot(network)
        return value


def _diverged(phase: Phase, label: str, loss: float) -> TrainingError:
    return TrainingError(
        f"Training diverged ({label}): the validation loss is {loss} and was never finite. "
        + _lower_rate(phase)
    )


def _lower_rate(phase: Phase) -> str:
    rate = phase.learning_rate
    return f"The learning_rate of this phase is {rate:g}; choose a lower one, such as {rate / 10:.2g}."


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _minibatches(n: int, phase: Phase, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield random rows without replacement, epoch after epoch, for `phase.steps` updates."""
    size = phase.rows_per_step(n)
    order, start = torch.randperm(n, generator=generator), 0
    for _ in range(phase.steps):
        if start + size > n:
            order, start = torch.randperm(n, generator=generator), 0
        yield order[start : start + size]
        start += size


def _optimizer(network: nn.Module, phase: Phase) -> Callable[[float], None]:
    """Return a function that updates the weights by their gradients, at the rate that it is given."""
    learning = [p for p in network.parameters() if p.requires_grad]
    free = {id(p) for module in network.modules() for p in getattr(module, "without_l2", ())}
    # No penalty for biases and scales of normalisation. The derivative of a square is twice the weight.
    penalised = [p for p in learning if phase.l2 and p.ndim > 1 and id(p) not in free]
    groups = [(penalised, 2 * phase.l2), ([p for p in learning if all(p is not q for q in penalised)], 0.0)]
    groups = [(parameters, decay) for parameters, decay in groups if parameters]
    if phase.optimizer == "adam":
        return Adam(groups).update
    # TensorFlow's defaults, which the paper used; torch's are alpha = 0.99 and eps = 1e-8.
    optimizer = torch.optim.RMSprop(
        [{"params": parameters, "weight_decay": decay} for parameters, decay in groups], alpha=0.9, eps=1e-7
    )

    def update(rate: float) -> None:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()

    return update


class Adam:
    """Torch's fused Adam, for groups of parameters with their weight decay.

    `torch.optim.Adam` would do, but it imports torch's compiler, which takes 0.7 s in every process.
    """

    def __init__(self, groups: Sequence[tuple[list[nn.Parameter], float]]) -> None:
        self.groups = groups
        self.state = {
            p: (torch.zeros_like(p), torch.zeros_like(p), torch.zeros((), device=p.device))  # moments, steps
            for parameters, _ in groups
            for p in parameters
        }

    @torch.no_grad()
    def update(self, rate: float) -> None:
        """Update the parameters that have a gradient."""
        for parameters, weight_decay in self.groups:
            reached: list[Any] = [p for p in parameters if p.grad is not None]
            first, second, steps = ([self.state[p][i] for p in reached] for i in range(3))
            adam(
                reached, [p.grad for p in reached], first, second, [], steps, fused=True, amsgrad=False,
                beta1=0.9, beta2=0.999, lr=rate, weight_decay=weight_decay, eps=1e-8, maximize=False,
            )  # fmt: skip


def _schedule(phase: Phase) -> Callable[[int], float]:
    """Return a function from a step to its rate: a rise in a tenth of the steps, then a cosine to 1 %."""
    warm = max(1, phase.steps // 10)

    def rate(step: int) -> float:
        if phase.schedule == "constant":
            return phase.learning_rate
        if step < warm:
            return phase.learning_rate * (step + 1) / warm
        done = (step - warm) / max(1, phase.steps - warm)
        return phase.learning_rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))

    return rate


def _snapshot(network: nn.Module) -> dict[str, Tensor]:
    """Copy all weights and buffers: batch-norm statistics belong to the best weights too."""
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
