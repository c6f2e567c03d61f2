"""What training maximises: which surrogate stands for P_m(y | x_S)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np
from torch import nn

from l2x._base import Registered
from l2x.errors import InputError
from l2x.learning._rows import Likelihood, TrainingRows
from l2x.learning._surrogate import (
    BaseSurrogate,
    MixedSurrogate,
    ModelSurrogate,
    NetworkSurrogate,
    fit_surrogate,
)
from l2x.learning._training import Run
from l2x.learning.samplers import Sampler
from l2x.model import BlackBox, Memory

__all__ = ["Both", "Ingredients", "Joint", "Model", "Objective", "Surrogate"]


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
    """What the selector maximises: E[log q(Y | X_S)], for the surrogate q that `build` returns.

    Examples
    --------
    >>> import l2x
    >>> issubclass(l2x.objectives.Surrogate, Objective), issubclass(l2x.objectives.Both, Objective)
    (True, True)
    >>> l2x.Explainer(lambda X: X, k=1, objective=l2x.objectives.Both(weight=0.8)).objective.weight
    0.8
    """

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
    if sampler.signed and (not objective.fixed or isinstance(objective, Model)):
        raise InputError(
            f"{name} learns from a surrogate network that is fitted first, and {chosen}() has none: use "
            "objective='surrogate' or 'both'."
        )
    if sampler.needs_gradient and not objective.differentiable:
        raise InputError(
            f"{name} needs a gradient, and {chosen}() queries a model that has none: use "
            "sampler=l2x.samplers.PlackettLuce(), or objective='surrogate'."
        )
