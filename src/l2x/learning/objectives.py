"""What training maximises: which surrogate stands for P_m(y | x_S), and how it is fitted."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from l2x._base import Registered
from l2x.errors import InputError
from l2x.learning._rows import Likelihood, Rows, TrainingRows, split
from l2x.learning._surrogate import BaseSurrogate, MixedSurrogate, ModelSurrogate, NetworkSurrogate
from l2x.learning._training import Phase, Run, freeze, optimise
from l2x.learning.samplers import FEW, USUAL, WHOLE, WHOLE_FIRST, Sampler
from l2x.model import BlackBox, Memory

__all__ = ["Both", "Ingredients", "Joint", "Model", "Objective", "Surrogate"]

# Masks for the held-out rows of a surrogate: at least this number, unless they have more cells than this.
HELD_MASKS, HELD_CELLS = 10_000, 1 << 25
# Probes start from the evaluator, which has learned already: a quarter of its steps, a third of its learning
# rate.
PROBES_SHORTER, PROBES_SLOWER = 4, 3


@dataclass(frozen=True)
class Ingredients:
    """What a surrogate is built from.

    Attributes
    ----------
    likelihood : Likelihood
    build_predictor : callable
        Returns a new g_α; its argument sets whether g_α reads the mask S as well as x̃_S.
    black_box : BlackBox or None
        None for an explainer that was loaded without its model.
    seed : int
    memory : Memory or None
        Stores the model's predictions for masked rows.
    queries_per_call : float
        Maximum number of masked rows per evaluation that the model may be queried for.
    """

    likelihood: Likelihood
    build_predictor: Callable[[bool], nn.Module]
    black_box: BlackBox | None
    seed: int
    memory: Memory | None = None
    queries_per_call: float = math.inf


class Objective(Registered, ABC):
    """What the selector maximises: E[log q(Y | X_S)], for the surrogate q that `build` returns."""

    # Whether there is a gradient with respect to the mask, which relaxed samplers need.
    differentiable: ClassVar[bool] = True
    # Whether training queries the model for masked rows.
    queries_model: ClassVar[bool] = False
    # Whether the surrogate stays the same while the selector learns.
    fixed: ClassVar[bool] = True

    @abstractmethod
    def build(self, given: Ingredients) -> BaseSurrogate:
        """Build the surrogate that the objective needs from the `given` ingredients."""

    def fit(self, surrogate: BaseSurrogate, data: TrainingRows, run: Run) -> None:
        """Fit the surrogate to `data` before the selector learns in the same `run`; by default do nothing."""


@dataclass(frozen=True)
class Surrogate(Objective):
    """A network q(y | x_S, S), fitted on random subsets and then frozen.

    It never sees a selector's choices, so selections cannot leak the prediction to it. It reads S, to
    distinguish an absent feature from the value zero.

    >>> as_objective("surrogate") == Surrogate()
    True
    """

    def build(self, given: Ingredients) -> NetworkSurrogate:
        """Build a network that reads the mask; see `Objective.build`."""
        return NetworkSurrogate(given.build_predictor(True), given.likelihood)

    def fit(self, surrogate: BaseSurrogate, data: TrainingRows, run: Run) -> None:
        """Fit the network on random subsets; see `Objective.fit`."""
        assert isinstance(surrogate, NetworkSurrogate)
        fit_surrogate(surrogate, data, run)


@dataclass(frozen=True)
class Model(Objective):
    """The model itself, queried for masked inputs: exactly what post-hoc accuracy measures.

    >>> as_objective("model") == Model()
    True
    """

    differentiable: ClassVar[bool] = False
    queries_model: ClassVar[bool] = True

    def build(self, given: Ingredients) -> ModelSurrogate:
        """Build a surrogate that queries the model; see `Objective.build`."""
        rng = np.random.default_rng(given.seed)
        return ModelSurrogate(given.black_box, given.likelihood, rng, given.memory, given.queries_per_call)


@dataclass(frozen=True)
class Both(Objective):
    """The mean of the surrogate's and the model's log value: the default objective.

    The model alone can be convinced by masked inputs unlike any training input; the surrogate alone ignores
    whether the model can use what is selected. Together they prevent both: in our measurements each was
    convinced nearly as well as by selections made for it alone (docs/notebook.md).

    Attributes
    ----------
    weight : float
        The model's weight, between 0 (the surrogate alone) and 1.

    >>> Both(weight=0.8)
    Both(weight=0.8)
    """

    weight: float = 0.5
    differentiable: ClassVar[bool] = False
    queries_model: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (isinstance(self.weight, Real) and 0 <= self.weight <= 1):
            raise InputError(f"weight is {self.weight!r}; expected the model's weight, between 0 and 1.")

    def build(self, given: Ingredients) -> MixedSurrogate:
        """Build a network and a surrogate that queries the model; see `Objective.build`."""
        return MixedSurrogate(Surrogate().build(given), Model().build(given), self.weight)

    def fit(self, surrogate: BaseSurrogate, data: TrainingRows, run: Run) -> None:
        """Fit the network on random subsets; see `Objective.fit`."""
        assert isinstance(surrogate, MixedSurrogate)
        fit_surrogate(surrogate.network, data, run)


@dataclass(frozen=True)
class Joint(Objective):
    """The paper's variational family (section 3.1), trained jointly with the selector. It reads x̃_S alone.

    >>> as_objective("joint") == Joint()
    True
    """

    fixed: ClassVar[bool] = False

    def build(self, given: Ingredients) -> NetworkSurrogate:
        """Build a network that does not read the mask; see `Objective.build`."""
        return NetworkSurrogate(given.build_predictor(False), given.likelihood)


SHORT_NAMES: dict[str, type[Objective]] = {
    "both": Both,
    "surrogate": Surrogate,
    "model": Model,
    "joint": Joint,
}


def as_objective(given: Objective | str) -> Objective:
    """Return an objective, or the one with this name: "both", "surrogate", "model" or "joint"."""
    if isinstance(given, Objective):
        return given
    if isinstance(given, str) and given in SHORT_NAMES:
        return SHORT_NAMES[given]()
    names = ", ".join(map(repr, SHORT_NAMES))
    raise InputError(
        f"objective is {given!r}; choose {names}, or pass an objective such as l2x.objectives.Surrogate()."
    )


def check_compatible(objective: Objective, sampler: Sampler) -> None:
    """Raise an InputError if the sampler cannot be trained with this objective."""
    name, chosen = type(sampler).__name__, type(objective).__name__
    if sampler.adds_evidence and not objective.fixed:
        raise InputError(
            f"{name} does not train the surrogate, which {chosen}() trains jointly with the selector: use "
            "sampler=l2x.samplers.PlackettLuce(), or objective='both'."
        )
    if sampler.needs_gradient and not objective.differentiable:
        raise InputError(
            f"{name} needs a gradient, and {chosen}() queries a model that has none: use "
            "sampler=l2x.samplers.PlackettLuce(), or objective='surrogate'."
        )


def fit_surrogate(
    surrogate: NetworkSurrogate, data: TrainingRows, run: Run, *, label: str = "fitting the surrogate"
) -> None:
    """Fit q(y | x_S, S) on random subsets, which are independent of any selector, and freeze it."""
    # Several masks per held-out row in small tables, so that the loss does not depend on a few draws.
    held = data.held.repeat(max(1, min(HELD_MASKS, HELD_CELLS // data.view.d) // len(data.held)))

    def masks(rows: Rows, _: Tensor | None = None, progress: float = 1.0) -> Tensor:
        return random_masks(rows, data.k, run.generator, progress)

    finished = _fit_to_masks(
        surrogate, data.train, (held, masks(held)), masks, run, phase=run.plan.value, label=label
    )
    freeze(surrogate.predictor, finished=finished)


def fit_probe(
    evaluator: NetworkSurrogate, rows: Rows, masks: Tensor, run: Run, *, shuffled: bool
) -> NetworkSurrogate:
    """Train a copy of the evaluator further on the selections `masks` (n, d), for the leakage test.

    With `shuffled`, each row gets the selection of another row: g0 of the test, otherwise g1.
    """
    plan = run.plan
    probe = NetworkSurrogate(copy.deepcopy(evaluator.predictor).requires_grad_(True), evaluator.likelihood)
    parts = split(len(rows), 0.1, plan.validation_rows, np.random.default_rng(run.seed))
    learn, hold = (torch.from_numpy(indices) for indices in parts)
    train, held, train_masks, held_masks = rows[learn], rows[hold], masks[learn], masks[hold]
    if shuffled:
        held_masks = _allowed(held, held_masks[torch.randperm(len(held_masks), generator=run.generator)])

    def selected(batch: Rows, index: Tensor, _: float) -> Tensor:
        if not shuffled:
            return train_masks[index]
        others = torch.randint(len(train), (len(index),), generator=run.generator)
        return _allowed(batch, train_masks[others])

    phase = replace(
        plan.value,
        steps=max(1, plan.value.steps // PROBES_SHORTER),
        learning_rate=plan.value.learning_rate / PROBES_SLOWER,
    )
    with run.seeded():
        label = "fitting the probes"
        _fit_to_masks(probe, train, (held, held_masks), selected, run, phase=phase, label=label)
    return probe


def _fit_to_masks(
    surrogate: NetworkSurrogate,
    train: Rows,
    held: tuple[Rows, Tensor],
    masks: Callable[[Rows, Tensor, float], Tensor],
    run: Run,
    *,
    phase: Phase,
    label: str,
) -> bool:
    """Fit q(y | x_S, S) to the subsets that `masks` returns for a minibatch; return False if interrupted.

    `masks` takes the minibatch, its indices and the completed share of training; `held` is held-out rows with
    their masks.
    """

    def objective(index: Tensor, progress: float) -> Tensor:
        rows = train[index]
        return surrogate.log_value(rows, masks(rows, index, progress)[None]).mean()

    def validate(predictor: nn.Module) -> Tensor:
        rows, held_masks = held
        with torch.no_grad():
            return NetworkSurrogate(predictor, surrogate.likelihood).log_value(rows, held_masks[None])[0]

    return optimise(surrogate.predictor, objective, validate, phase=phase, n=len(train), label=label, run=run)


def _allowed(rows: Rows, masks: Tensor) -> Tensor:
    """Remove features from masks of other rows that are not selectable in these, such as padding."""
    selectable = rows.view.selectable(rows.x)
    return masks if selectable is None else masks * selectable


def random_masks(rows: Rows, k: int, generator: torch.Generator, progress: float = 1.0) -> Tensor:
    """Draw subsets for fitting a surrogate, (n, d): half of size k, half of sizes uniform on 0 .. d.

    The surrogate is used at size k; the other sizes make it reliable at every k (measured: half and half is
    better than either alone, see docs/notebook.md). If some features are not selectable, sizes go up to the
    number of those that are. With more than FEW features, see `_masks_of_many`.
    """
    n, d, selectable = len(rows), rows.view.d, rows.view.selectable(rows.x)
    if selectable is None and d > FEW:
        return _masks_of_many(n, d, k, generator, progress).to(rows.x.device)
    sizes = torch.randint(0, d + 1, (n, 1), generator=generator)
    at_k = torch.rand(n, 1, generator=generator) < 0.5
    noise = torch.rand(n, d, generator=generator)
    if selectable is None:
        return (noise.argsort(dim=-1) < torch.where(at_k, k, sizes)).float().to(rows.x.device)
    selectable = selectable.cpu()
    sizes = sizes * (selectable.sum(dim=1, keepdim=True) + 1) // (d + 1)
    ranks = (noise + ~selectable).argsort(dim=-1).argsort(dim=-1)
    return (selectable & (ranks < torch.where(at_k, k, sizes))).float().to(rows.x.device)


def _masks_of_many(n: int, d: int, k: int, generator: torch.Generator, progress: float) -> Tensor:
    """Draw `random_masks` with more than FEW features, without sorting.

    Half of the subsets have sizes uniform on 1 .. k: small subsets teach more, also about size k. Among the
    others all sizes up to USUAL or 2 k are equally likely; beyond, the probability falls with the square of
    the size, so that all sizes occur and the work hardly grows with d.

    A random subset of four contains two given features of 200 once in 3,000 draws, so nothing would be
    learned about features that matter only together. Training therefore begins with whole rows, or large
    parts of them.
    """
    whole = max(0.0, 1 - progress / WHOLE_FIRST)
    small = round(n * (1 - whole) / 2)  # the first rows; their order is random
    others = n - small
    usual = min(d, max(USUAL, 2 * k))
    reach = torch.rand(others, 1, generator=generator) * (2 - usual / d)
    sizes = usual * torch.where(reach < 1, reach, 1 / (2 - reach))
    sizes[: round(n * whole)] = min(d, WHOLE)
    # Features are drawn independently, so the sizes are met on average.
    masks = torch.rand(others, d, generator=generator) < sizes / d
    up_to_k = _subsets(torch.randint(1, k + 1, (small, 1), generator=generator), d, generator)
    return torch.cat([up_to_k, masks]).float()


def _subsets(sizes: Tensor, d: int, generator: torch.Generator) -> Tensor:
    """Draw masks (n, d) with these sizes (n, 1) uniformly, by Floyd's algorithm: no feature twice."""
    masks = torch.zeros(len(sizes), d, dtype=torch.bool)
    for draw in range(int(sizes.max()) if len(sizes) else 0):
        last = (d - sizes + draw).clamp_(max=d - 1)
        drawn = (torch.rand(len(sizes), 1, generator=generator, dtype=torch.float64) * (last + 1)).long()
        pick = torch.where(masks.gather(1, drawn), last, drawn)
        masks.scatter_(1, pick, masks.gather(1, pick) | (draw < sizes))
    return masks
