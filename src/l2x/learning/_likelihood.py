"""log q(y | x_S) for the two kinds of answers: the term inside the objective of section 3, E[log q(Y | X_S)].

The model's answer enters as it is, a whole distribution (equation 6: Σ_y P_m(y|x) log g_α(x̃_S, y)),
never as a hard label: hard labels throw information away and invite the selection to encode them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from l2x._base.arrays import Array
from l2x._base.registry import Registered

# Predictions that differ by at most this many units of relative float precision are one constant, computed in
# batches of different sizes.
ROUNDING = 8
BITS = 1 / np.log(2)  # in a nat


class Likelihood(Registered, ABC):
    """What kind of variable Y is. Answers are what the model says, targets their tensors (n, outputs)."""

    outputs: int  # how many numbers the predictor gives for a row

    @abstractmethod
    def targets(self, answers: Array) -> Tensor:
        """The model's answers (n, outputs) as float32 training targets."""

    @abstractmethod
    def log_likelihood(self, outputs: Tensor, target: Tensor) -> Tensor:
        """E_{Y ~ P_m(.|x)} log q(Y | x_S) of each row, in nats, (n,)."""

    @abstractmethod
    def agreement(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Of each row, whether q finds the same class most likely; of means, how near they are, (n,)."""

    @abstractmethod
    def most_likely(self, target: Tensor) -> Tensor:
        """The targets of a model that is certain of what it finds most likely."""

    @abstractmethod
    def from_targets(self, target: Tensor) -> Tensor:
        """A black box's own answers as if a predictor had given them."""

    @abstractmethod
    def evidence(self, log_value: Tensor) -> Tensor:
        """log q(y | x_S) on the scale on which independent evidence adds up."""

    @abstractmethod
    def told(self, target: Tensor) -> Tensor:
        """What a selector that is told the model's answer reads of it."""

    @abstractmethod
    def to_targets(self, outputs: Tensor) -> Tensor:
        """The inverse: what a predictor says, as training targets for another."""

    @abstractmethod
    def divergence(self, outputs: Tensor, other: Tensor) -> Tensor:
        """KL(q || q') of each row, in nats, for two predictors' outputs."""

    @abstractmethod
    def answers(self, outputs: Array) -> Array:
        """What a predictor says in the units of the model's answers: probabilities, or means."""


@dataclass(frozen=True)
class Categorical(Likelihood):
    """Y is one of c classes and P_m(.|x) its distribution."""

    outputs: int

    def targets(self, answers: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(answers, dtype=np.float32))

    def log_likelihood(self, outputs: Tensor, target: Tensor) -> Tensor:
        return (target * torch.log_softmax(outputs, dim=-1)).sum(-1)

    def agreement(self, outputs: Tensor, target: Tensor) -> Tensor:
        return (outputs.argmax(dim=-1) == target.argmax(dim=-1)).to(target.dtype)

    def most_likely(self, target: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(target.argmax(dim=-1), self.outputs).to(target.dtype)

    def from_targets(self, target: Tensor) -> Tensor:
        # A model that is certain and wrong must not weigh infinitely: floor at one in a million.
        return target.clamp_min(1e-6).log()

    def evidence(self, log_value: Tensor) -> Tensor:
        certain = log_value.clamp(max=-1e-6)
        return certain - torch.log(-torch.expm1(certain))  # log-odds

    def told(self, target: Tensor) -> Tensor:
        return target.clamp_min(1e-3).log()  # certainty as a number of moderate size

    def divergence(self, outputs: Tensor, other: Tensor) -> Tensor:
        log_q = torch.log_softmax(outputs, dim=-1)
        return (log_q.exp() * (log_q - torch.log_softmax(other, dim=-1))).sum(-1)

    def to_targets(self, outputs: Tensor) -> Tensor:
        return torch.softmax(outputs, dim=-1)

    def answers(self, outputs: Array) -> Array:
        return torch.softmax(torch.from_numpy(outputs), dim=-1).numpy()


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """Y is a real vector; the model gives its mean. Means are standardised and q(y|x_S) = N(g(x̃_S), 1),
    so that -log q is half the squared error up to a constant."""

    mean: tuple[float, ...]
    scale: tuple[float, ...]

    @classmethod
    def of(cls, answers: Array) -> Gaussian:
        """Standardise by the mean and spread of these predictions (n, outputs).

        An output that is constant up to rounding is divided by its own size instead, so that the rounding
        noise stays small and is not learned.
        """
        spread, largest = answers.std(axis=0), np.abs(answers).max(axis=0)
        noise = ROUNDING * _precision(answers) * largest
        constant = (np.ptp(answers, axis=0) <= noise) | (spread == 0)  # 0 also by underflow
        scale = np.where(constant, np.maximum(largest, 1.0), spread)
        return cls(tuple(answers.mean(axis=0).tolist()), tuple(scale.tolist()))

    @property
    def outputs(self) -> int:  # type: ignore[override]
        return len(self.mean)

    def targets(self, answers: Array) -> Tensor:
        standard = (answers - np.asarray(self.mean)) / np.asarray(self.scale)
        return torch.from_numpy(np.ascontiguousarray(standard, dtype=np.float32))

    def log_likelihood(self, outputs: Tensor, target: Tensor) -> Tensor:
        return -0.5 * (target - outputs).square().sum(-1)

    def agreement(self, outputs: Tensor, target: Tensor) -> Tensor:
        return self.log_likelihood(outputs, target)

    def most_likely(self, target: Tensor) -> Tensor:
        return target  # a mean is the most likely value already

    def from_targets(self, target: Tensor) -> Tensor:
        return target

    def evidence(self, log_value: Tensor) -> Tensor:
        return log_value

    def told(self, target: Tensor) -> Tensor:
        return target

    def divergence(self, outputs: Tensor, other: Tensor) -> Tensor:
        return 0.5 * (outputs - other).square().sum(-1)

    def to_targets(self, outputs: Tensor) -> Tensor:
        return outputs

    def answers(self, outputs: Array) -> Array:
        return np.asarray(outputs * np.asarray(self.scale) + np.asarray(self.mean))


def _precision(answers: Array) -> Array:
    """The relative precision of each output (outputs,): that of float32 where all numbers are exact in it."""
    with np.errstate(over="ignore"):  # beyond float32: infinite there, and so not exact
        exact = (answers.astype(np.float32) == answers).all(axis=0)
    return np.where(exact, np.finfo(np.float32).eps, np.finfo(np.float64).eps)
