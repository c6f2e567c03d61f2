"""What a subset is worth: which q stands for P_m(y | x_S), and how it learns."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np
from torch import nn

from l2x._base.registry import Registered
from l2x.errors import InputError
from l2x.learning._likelihood import Likelihood
from l2x.learning._phases import fit_surrogate
from l2x.learning._rows import TrainingRows
from l2x.learning._surrogate import MixedQ, ModelQ, NetworkQ, Q
from l2x.learning._training import Run
from l2x.learning.samplers import Sampler
from l2x.model import BlackBox, Memory


@dataclass(frozen=True)
class Ingredients:
    """What a q may be made of.

    build_predictor : -> g_α; the argument says whether it sees the mask S beside x̃_S
    black_box : None for an explainer that was loaded without its model
    memory, questions_per_call : what a q that asks the black box remembers, and how much it may ask
    """

    likelihood: Likelihood
    build_predictor: Callable[[bool], nn.Module]
    black_box: BlackBox | None
    seed: int
    memory: Memory | None = None
    questions_per_call: float = math.inf


class Value(Registered, ABC):
    """One of the five choices of an explanation problem, beside model, features, sampler and networks."""

    # The gradient with respect to the mask exists, which relaxed samplers need.
    differentiable: ClassVar[bool] = True
    # Training asks the black box about masked inputs, and so needs them raw.
    asks_model: ClassVar[bool] = False
    # q does not change while the selector learns.
    fixed: ClassVar[bool] = True

    @abstractmethod
    def build(self, given: Ingredients) -> Q:
        """A new q."""

    def fit(self, q: Q, data: TrainingRows, run: Run) -> None:
        """What q learns before the selector does; by default nothing."""


@dataclass(frozen=True)
class Surrogate(Value):
    """q(y | x_S, S) fitted on random subsets, then frozen: not trained to encode the answer. It sees S, to
    tell an absent feature from zero.

    >>> as_value("surrogate") == Surrogate()
    True
    """

    def build(self, given: Ingredients) -> NetworkQ:
        return NetworkQ(given.build_predictor(True), given.likelihood)

    def fit(self, q: Q, data: TrainingRows, run: Run) -> None:
        assert isinstance(q, NetworkQ)
        fit_surrogate(q, data, run)


@dataclass(frozen=True)
class Model(Value):
    """The black box itself on inputs with the rest removed: exactly what post-hoc accuracy measures.

    >>> as_value("model") == Model()
    True
    """

    differentiable: ClassVar[bool] = False
    asks_model: ClassVar[bool] = True

    def build(self, given: Ingredients) -> ModelQ:
        rng = np.random.default_rng(given.seed)
        return ModelQ(given.black_box, given.likelihood, rng, given.memory, given.questions_per_call)


@dataclass(frozen=True)
class Both(Value):
    """The surrogate's log value and the model's, averaged.

    The model alone is convinced by inputs that look like none of its training inputs; the surrogate alone
    does not care whether the model can read what it selects. Both together leave neither way open: where the
    two were measured, each was convinced nearly as well as by its own selections (docs/method.md).

    weight : of the model, between 0 (the surrogate alone) and 1

    >>> Both(weight=0.8)
    Both(weight=0.8)
    """

    weight: float = 0.5
    differentiable: ClassVar[bool] = False
    asks_model: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (isinstance(self.weight, Real) and 0 <= self.weight <= 1):
            raise InputError(f"weight is {self.weight!r}; expected the model's share, between 0 and 1.")

    def build(self, given: Ingredients) -> MixedQ:
        return MixedQ(Surrogate().build(given), Model().build(given), self.weight)

    def fit(self, q: Q, data: TrainingRows, run: Run) -> None:
        assert isinstance(q, MixedQ)
        fit_surrogate(q.surrogate, data, run)


@dataclass(frozen=True)
class Joint(Value):
    """The paper's variational family (section 3.1), trained together with the selector. It sees x̃_S alone.

    >>> as_value("joint") == Joint()
    True
    """

    fixed: ClassVar[bool] = False

    def build(self, given: Ingredients) -> NetworkQ:
        return NetworkQ(given.build_predictor(False), given.likelihood)


SHORT_NAMES: dict[str, type[Value]] = {
    "both": Both,
    "surrogate": Surrogate,
    "model": Model,
    "joint": Joint,
}


def as_value(given: Value | str) -> Value:
    """The value itself, or the one that a short name stands for: "both", "surrogate", "model", "joint"."""
    if isinstance(given, Value):
        return given
    if isinstance(given, str) and given in SHORT_NAMES:
        return SHORT_NAMES[given]()
    names = ", ".join(map(repr, SHORT_NAMES))
    raise InputError(f"value is {given!r}; choose among {names}, or pass a value such as l2x.Surrogate().")


def check_compatible(value: Value, sampler: Sampler) -> None:
    """Relaxed samplers learn from the gradient through the value: a black box has none. Evidence is regressed
    on a q that has learned already."""
    if sampler.adds_evidence and not value.fixed:
        raise InputError(
            f"{type(sampler).__name__} does not teach q, and {type(value).__name__}() has to learn beside "
            "the selector: use sampler=l2x.PlackettLuce(), or value='both'."
        )
    if sampler.needs_gradient and not value.differentiable:
        raise InputError(
            f"{type(sampler).__name__} needs a gradient, and a black box has none: with "
            f"{type(value).__name__}() use sampler=l2x.PlackettLuce(), or take value='surrogate'."
        )
