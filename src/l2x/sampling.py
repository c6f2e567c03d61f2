"""How k-subsets are drawn from scores, and how the gradient of E[log q(y | x_S)] comes back to them.

    relaxed   ConcreteMax, RelaxedTopK, SoftAttention   gradient through the value: it must be differentiable
    exact     PlackettLuce, Reinforce                   score function: the value may be any black box

Each sampler has one verb, `objective(scores, k, log_value, generator)`: an estimate of the expected value
whose gradient is the sampler's. `log_value` maps masks (m, batch, d) to log q(y | x_S), (m, batch).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

LogValue = Callable[[Tensor], Tensor]


class Sampler(Protocol):
    """How k-subsets are drawn and how the gradient comes back."""

    @property
    def needs_gradient(self) -> bool:
        """Whether log_value must be differentiable in the mask."""
        ...

    def objective(self, scores: Tensor, k: int, log_value: LogValue, generator: torch.Generator) -> Tensor:
        """A scalar to maximise."""
        ...


def gumbel(shape: torch.Size | tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """G = -log(-log u), u ~ Uniform(0, 1), section 3.2."""
    u = torch.rand(shape, generator=generator, dtype=like.dtype, device=like.device)
    # clamp: -log(0) at u = 0, and log(1) = 0 at u = 1
    return -torch.log(-torch.log(u.clamp(torch.finfo(u.dtype).tiny, 1 - torch.finfo(u.dtype).eps)))


def top_k(scores: Tensor, k: int) -> Tensor:
    """Indices of the k largest scores, best first; ties go to the lower index, so always exactly k."""
    return torch.sort(scores, dim=-1, descending=True, stable=True).indices[..., :k]


def k_hot(indices: Tensor, d: int) -> Tensor:
    """Indices (..., k) as masks (..., d) of zeros and ones."""
    return torch.zeros(*indices.shape[:-1], d, device=indices.device).scatter_(-1, indices, 1.0)


@dataclass(frozen=True)
class ConcreteMax:
    """The paper's relaxation, section 3.2: V_i = max_j C_i^j over k Concrete vectors C^1 ... C^k."""

    temperature: float = 0.1
    needs_gradient = True

    def draw(self, scores: Tensor, k: int, generator: torch.Generator) -> Tensor:
        noise = gumbel((k, *scores.shape), scores, generator)  # (k, batch, d)
        concrete = torch.softmax((torch.log_softmax(scores, -1) + noise) / self.temperature, dim=-1)
        return concrete.amax(dim=0)  # (batch, d)

    def objective(self, scores: Tensor, k: int, log_value: LogValue, generator: torch.Generator) -> Tensor:
        return log_value(self.draw(scores, k, generator)[None]).mean()


@dataclass(frozen=True)
class RelaxedTopK:
    """k softmaxes in a row, each with the weight already given taken out (Plötz and Roth 2018;
    Xie and Ermon 2019): sums to k and, unlike ConcreteMax, draws without replacement."""

    temperature: float = 0.5
    needs_gradient = True

    def draw(self, scores: Tensor, k: int, generator: torch.Generator) -> Tensor:
        keys = scores + gumbel(scores.shape, scores, generator)
        khot = torch.zeros_like(keys)
        for _ in range(k):
            onehot = torch.softmax(keys / self.temperature, dim=-1)
            khot = khot + onehot
            # clamp: log(0) where a feature was taken whole
            keys = keys + torch.log((1 - onehot).clamp_min(torch.finfo(keys.dtype).tiny))
        return khot.clamp_max(1.0)

    def objective(self, scores: Tensor, k: int, log_value: LogValue, generator: torch.Generator) -> Tensor:
        return log_value(self.draw(scores, k, generator)[None]).mean()


@dataclass(frozen=True)
class SoftAttention:
    """The deterministic alternative that section 3.2 names: every feature weighted by k · softmax(w),
    capped at one. No noise, no discreteness."""

    needs_gradient = True

    def draw(self, scores: Tensor, k: int, generator: torch.Generator) -> Tensor:
        return (k * torch.softmax(scores, dim=-1)).clamp_max(1.0)

    def objective(self, scores: Tensor, k: int, log_value: LogValue, generator: torch.Generator) -> Tensor:
        return log_value(self.draw(scores, k, generator)[None]).mean()


@dataclass(frozen=True)
class PlackettLuce:
    """Exact top-k samples with a leave-one-out score function.

    Adding Gumbel noise to the scores and taking the k largest draws k features without replacement
    (Plackett-Luce). Of `samples` subsets per row each is judged against the mean of the others
    (Kool et al. 2019), which keeps the variance low without a learned baseline.
    """

    samples: int = 8
    entropy: float = 0.0
    needs_gradient = False

    def draw(self, scores: Tensor, k: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Masks (samples, batch, d) and the log probability of the order drawn (samples, batch)."""
        noise = gumbel((self.samples, *scores.shape), scores, generator)
        order = (scores + noise).argsort(dim=-1, descending=True)  # (samples, batch, d)
        return k_hot(order[..., :k], scores.shape[-1]), log_probability(scores, order, k)

    def objective(self, scores: Tensor, k: int, log_value: LogValue, generator: torch.Generator) -> Tensor:
        masks, log_p = self.draw(scores, k, generator)
        return _score_function(log_value(masks), log_p, _leave_one_out) + self.entropy * _entropy(scores)


@dataclass(frozen=True)
class Reinforce:
    """The score function as Williams (1992) has it: k draws with replacement, duplicates dropped, and
    the batch mean as the baseline. Here because section 3.2 names it as the alternative."""

    samples: int = 1
    needs_gradient = False

    def draw(self, scores: Tensor, k: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        log_p = torch.log_softmax(scores, dim=-1)
        noise = gumbel((self.samples, k, *scores.shape), scores, generator)
        picks = (log_p + noise).argmax(dim=-1).movedim(1, -1)  # (samples, batch, k)
        return k_hot(picks, scores.shape[-1]), _gather(log_p, picks).sum(-1)

    def objective(self, scores: Tensor, k: int, log_value: LogValue, generator: torch.Generator) -> Tensor:
        masks, log_p = self.draw(scores, k, generator)
        return _score_function(log_value(masks), log_p, lambda values: values.mean())


def log_probability(scores: Tensor, order: Tensor, k: int) -> Tensor:
    """log P(first k of `order`) under Plackett-Luce: pick j is a softmax over what is still there.

    scores (batch, d), order (samples, batch, d) a complete ranking -> (samples, batch)
    """
    ordered = _gather(scores, order)
    # Σ exp over the ranks j .. d, as a running sum from the back: stable however peaked the scores are.
    left = torch.logcumsumexp(ordered.flip(-1), dim=-1).flip(-1)
    return (ordered - left)[..., :k].sum(-1)


def _gather(scores: Tensor, indices: Tensor) -> Tensor:
    return scores.expand(len(indices), *scores.shape).gather(-1, indices)


def _leave_one_out(values: Tensor) -> Tensor:
    """For each sample the mean value of the others, (samples, batch)."""
    if len(values) == 1:
        return values.mean()
    return (values.sum(0, keepdim=True) - values) / (len(values) - 1)


def _score_function(values: Tensor, log_p: Tensor, baseline: Callable[[Tensor], Tensor]) -> Tensor:
    """∇E[v] = E[(v - baseline) ∇log p]; values with a gradient of their own (joint training) keep it."""
    reward = values.detach()
    advantage = reward - baseline(reward)
    return (advantage * log_p).mean() + values.mean()


def _entropy(scores: Tensor) -> Tensor:
    log_p = torch.log_softmax(scores, dim=-1)
    return -(log_p.exp() * log_p).sum(-1).mean()
