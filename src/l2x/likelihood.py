"""log q(y | x_S) for the two kinds of response, and the objective of section 3: E[log q(Y | X_S)].

The model's answer enters as it is, a whole distribution (equation 6: Σ_y P_m(y|x) log g_α(x̃_S, y)),
never as a hard label: hard labels throw information away and invite the selection to encode them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from l2x.foundations.arrays import Array


class Response(Protocol):
    """What kind of variable Y is."""

    @property
    def outputs(self) -> int:
        """How many numbers the predictor gives for a row."""
        ...

    def encode(self, responses: Array) -> Tensor:
        """The model's answers as training targets."""
        ...

    def log_likelihood(self, outputs: Tensor, target: Tensor) -> Tensor:
        """E_{Y ~ P_m(.|x)} log q(Y | x_S) of each row, in nats."""
        ...

    def from_answers(self, answers: Tensor) -> Tensor:
        """A black box's own (encoded) answers as if a predictor had given them."""
        ...

    def divergence(self, outputs: Tensor, other: Tensor) -> Tensor:
        """KL(q || q') of each row, in nats, for two predictors' outputs."""
        ...

    def to_answers(self, outputs: Tensor) -> Tensor:
        """The inverse: what a predictor says, as training targets for another."""
        ...


@dataclass(frozen=True)
class Categorical:
    """Y is one of c classes and P_m(.|x) its distribution."""

    outputs: int

    def encode(self, responses: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(responses, dtype=np.float32))

    def log_likelihood(self, outputs: Tensor, target: Tensor) -> Tensor:
        return (target * torch.log_softmax(outputs, dim=-1)).sum(-1)

    def from_answers(self, answers: Tensor) -> Tensor:
        # A model that is certain and wrong must not weigh infinitely: floor at one in a million.
        return answers.clamp_min(1e-6).log()

    def divergence(self, outputs: Tensor, other: Tensor) -> Tensor:
        log_q = torch.log_softmax(outputs, dim=-1)
        return (log_q.exp() * (log_q - torch.log_softmax(other, dim=-1))).sum(-1)

    def to_answers(self, outputs: Tensor) -> Tensor:
        return torch.softmax(outputs, dim=-1)


@dataclass(frozen=True)
class Gaussian:
    """Y is a real vector; the model gives its mean. Means are standardised and q(y|x_S) = N(g(x̃_S), 1),
    so that -log q is half the squared error up to a constant."""

    mean: tuple[float, ...]
    scale: tuple[float, ...]

    @classmethod
    def of(cls, responses: Array) -> Gaussian:
        scale = responses.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        return cls(tuple(responses.mean(axis=0).tolist()), tuple(scale.tolist()))

    @property
    def outputs(self) -> int:
        return len(self.mean)

    def encode(self, responses: Array) -> Tensor:
        standard = (responses - np.asarray(self.mean)) / np.asarray(self.scale)
        return torch.from_numpy(np.ascontiguousarray(standard, dtype=np.float32))

    def log_likelihood(self, outputs: Tensor, target: Tensor) -> Tensor:
        return -0.5 * (target - outputs).square().sum(-1)

    def from_answers(self, answers: Tensor) -> Tensor:
        return answers

    def divergence(self, outputs: Tensor, other: Tensor) -> Tensor:
        return 0.5 * (outputs - other).square().sum(-1)

    def to_answers(self, outputs: Tensor) -> Tensor:
        return outputs
