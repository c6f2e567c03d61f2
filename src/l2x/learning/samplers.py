"""How k-subsets are drawn from scores, and how the gradient of E[log q(y | x_S)] comes back to them.

    relaxed   ConcreteMax, RelaxedTopK, SoftAttention   gradient through the value: it must be differentiable
    exact     PlackettLuce, Reinforce, ExactSum         score function: the value may be any black box
    none      Evidence                                  least squares on random subsets: any black box

Each sampler has one verb, `objective(scores, k, log_value, generator, progress)`: a scalar to maximise whose
gradient is the sampler's estimate. `log_value` maps masks (m, batch, d) to log q(y | x_S), (m, batch);
`progress` is the share of training that is done, for what is annealed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from l2x._base.registry import Registered
from l2x.errors import InputError
from l2x.learning._plackett_luce import (
    FEW,
    NEVER,
    first_ranks,
    gumbel,
    k_hot,
    log_probability,
    scores_at,
    top_k,
)

LogValue = Callable[[Tensor], Tensor]

# Subsets have no more features than this, but for k. Large ones show what only counts together: of 2,000
# columns, .21 exact sets after 60 steps with up to 512 in a subset, .996 with any number.
LARGE = 2048
# Of more than FEW features training begins, for this share of its steps, with a regression on subsets of any
# size; and for as many steps more the size falls to k, from this one or 2 k. Of more than MANY, of which a
# regression learns too little in that time, it does not.
BEGINNING, AT_FIRST, MANY = 1 / 6, 16, 256


class Sampler(Registered, ABC):
    """How k-subsets are drawn and how the gradient comes back.

    >>> isinstance(PlackettLuce(), Sampler)
    True
    """

    # Whether log_value must be differentiable in the mask.
    needs_gradient: ClassVar[bool] = False
    # Whether log_value is to be on the scale on which evidence adds up, such as log-odds.
    adds_evidence: ClassVar[bool] = False

    def subsets_of(self, d: int) -> int:
        """How many subsets of a row of d features a step asks the value about."""
        return 1

    @abstractmethod
    def objective(
        self, scores: Tensor, k: int, log_value: LogValue, generator: torch.Generator, progress: float = 0.0
    ) -> Tensor:
        """A scalar to maximise."""


class Relaxed(Sampler):
    """A continuous V in place of the k-hot vector (section 3.2): the gradient goes through the value."""

    needs_gradient: ClassVar[bool] = True

    @abstractmethod
    def draw(self, scores: Tensor, k: int, generator: torch.Generator) -> Tensor:
        """V, (batch, d), between zero and one."""

    def objective(
        self, scores: Tensor, k: int, log_value: LogValue, generator: torch.Generator, progress: float = 0.0
    ) -> Tensor:
        """Equation 5 for one draw: log q(y | V ⊙ x), mean over rows."""
        return log_value(self.draw(scores, k, generator)[None]).mean()


@dataclass(frozen=True)
class ConcreteMax(Relaxed):
    """The paper's relaxation, section 3.2: V_i = max_j C_i^j over k Concrete vectors C^1 ... C^k.

    >>> scores = torch.tensor([[2.0, 0.0, 1.0]])
    >>> sampler = ConcreteMax(temperature=0.1)
    >>> generator = torch.Generator().manual_seed(0)
    >>> sampler.objective(scores, 2, lambda masks: masks[..., 0], generator).shape
    torch.Size([])
    """

    temperature: float = 0.1

    def draw(self, scores: Tensor, k: int, generator: torch.Generator) -> Tensor:
        noise = gumbel((k, *scores.shape), scores, generator)  # (k, batch, d)
        concrete = torch.softmax((torch.log_softmax(scores, -1) + noise) / self.temperature, dim=-1)
        return concrete.amax(dim=0)  # (batch, d)


@dataclass(frozen=True)
class RelaxedTopK(Relaxed):
    """k softmaxes in a row, each with the weight already given taken out (Plötz and Roth 2018;
    Xie and Ermon 2019): sums to k and, unlike ConcreteMax, draws without replacement.

    >>> scores = torch.tensor([[2.0, 0.0, 1.0]])
    >>> sampler = RelaxedTopK(temperature=0.5)
    >>> generator = torch.Generator().manual_seed(0)
    >>> sampler.objective(scores, 2, lambda masks: masks[..., 0], generator).shape
    torch.Size([])
    """

    temperature: float = 0.5

    def draw(self, scores: Tensor, k: int, generator: torch.Generator) -> Tensor:
        keys = scores + gumbel(scores.shape, scores, generator)
        khot = torch.zeros_like(keys)
        for _ in range(k):
            onehot = torch.softmax(keys / self.temperature, dim=-1)
            khot = khot + onehot
            # clamp: log(0) where a feature was taken whole
            keys = keys + torch.log((1 - onehot).clamp_min(torch.finfo(keys.dtype).tiny))
        return khot.clamp_max(1.0)


@dataclass(frozen=True)
class SoftAttention(Relaxed):
    """The deterministic alternative that section 3.2 names: every feature weighted by k · softmax(w),
    capped at one. No noise, no discreteness.

    >>> scores = torch.tensor([[2.0, 0.0, 1.0]])
    >>> sampler = SoftAttention()
    >>> generator = torch.Generator().manual_seed(0)
    >>> sampler.objective(scores, 2, lambda masks: masks[..., 0], generator).shape
    torch.Size([])
    """

    def draw(self, scores: Tensor, k: int, generator: torch.Generator) -> Tensor:
        return (k * torch.softmax(scores, dim=-1)).clamp_max(1.0)


@dataclass(frozen=True)
class PlackettLuce(Sampler):
    """Exact top-k samples with a leave-one-out score function: our recipe.

    Adding Gumbel noise to the scores and taking the largest draws features without replacement
    (Plackett-Luce). Of `samples` subsets per row each is judged against the mean of the others
    (Kool et al. 2019), which keeps the variance low without a learned baseline. The measurements behind the
    defaults are in docs/method.md.

    Of a hundred features, two that only count together, and in some rows, are hardly ever drawn together once
    others are preferred. So there the scores begin as a regression on random subsets, where nothing competes,
    and then subsets shrink to k.

    Attributes
    ----------
    samples : subsets drawn per row
    explore : weight of KL(uniform || softmax(scores)) at the start and at the end of training. Its pull on
        a feature does not fade as the feature's probability does (an entropy bonus' does), so no feature is
        given up for all rows before the network has learned to tell rows apart.
    other_sizes, other_weight : the share of rows whose subsets have a random size instead of k, so that the
        ranking means something at every k, and how much they count. Of many features it is half the share,
        as long rankings are most of the work there, and of up to MANY half of these have fewer than k

    >>> scores = torch.tensor([[2.0, 0.0, 1.0]])
    >>> sampler = PlackettLuce(samples=4)
    >>> generator = torch.Generator().manual_seed(0)
    >>> sampler.objective(scores, 2, lambda masks: masks[..., 0], generator).shape
    torch.Size([])
    """

    samples: int = 4
    explore: tuple[float, float] = (0.03, 0.001)
    other_sizes: float = 0.25
    other_weight: float = 0.3

    def subsets_of(self, d: int) -> int:
        return self.samples

    def draw(self, scores: Tensor, sizes: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Masks (samples, batch, d) of the given sizes (batch,), and the log probability of the draws."""
        with torch.no_grad():
            order = self._order(scores, int(sizes.max()) if len(sizes) else 0, generator)
            ranks = torch.arange(order.shape[-1], device=scores.device)
            chosen = (ranks < sizes[:, None]).to(scores.dtype).expand_as(order)
            masks = scores.new_zeros(self.samples, *scores.shape).scatter_(-1, order, chosen)
        return masks, log_probability(scores, order, chosen)

    def _order(self, scores: Tensor, most: int, generator: torch.Generator) -> Tensor:
        """Rankings (samples, batch, ranks), best first; of many features, the first `most` ranks alone."""
        d = scores.shape[-1]
        if d > FEW and most**2 <= d:
            return first_ranks(scores, most, self.samples, generator)
        keys = scores + gumbel((self.samples, *scores.shape), scores, generator)  # (samples, batch, d)
        return keys.argsort(dim=-1, descending=True) if d <= FEW else top_k(keys, most)

    def objective(
        self, scores: Tensor, k: int, log_value: LogValue, generator: torch.Generator, progress: float = 0.0
    ) -> Tensor:
        batch, d = scores.shape
        several = FEW < d <= MANY
        if several and self.samples > 1 and progress < BEGINNING:
            return self._regression(scores, log_value, generator)
        share = self.other_sizes if d <= FEW else self.other_sizes / 2
        others = int(share * batch) if d > 1 else 0
        sizes = torch.full((batch,), _shrinking(k, d, progress) if several else k, device=scores.device)
        most = max(2, min(d, max(LARGE, k + 1)))
        sizes[:others] = torch.randint(1, most, (others,), generator=generator, device=scores.device)
        # Of several features hardly any size is below k by chance, and nothing would order the first k. Of
        # many all are needed: large subsets show what only counts together.
        fewer = others // 2 if several and k > 1 else 0
        sizes[:fewer] = torch.randint(1, max(2, k), (fewer,), generator=generator, device=scores.device)
        # Of more than FEW, long rankings are only drawn for the rows that need them.
        split = [slice(fewer), slice(fewer, others), slice(others, None)]
        parts = [slice(None)] if d <= FEW else split
        drawn = [self.draw(scores[part], sizes[part], generator) for part in parts]
        masks, log_p = (torch.cat(tensors, dim=1) for tensors in zip(*drawn, strict=True))
        values = log_value(masks)
        advantage = _against_the_others(values.detach())
        # One scale for the rows at k and one for the rest: easy sizes must not drown the one asked for.
        _standardise(advantage[:, others:])
        _standardise(advantage[:, :others], self.other_weight)
        # values.mean() carries the gradient of a value that still learns (joint training)
        return (advantage * log_p).mean() + values.mean() + _exploration(scores, self.explore, progress)

    def _regression(self, scores: Tensor, log_value: LogValue, generator: torch.Generator) -> Tensor:
        """Scores that add up to what subsets of any size are worth, in standard deviations of it. Half of the
        subsets are the complements of the others: between the two, interactions of an even number of features
        cancel out, which scores cannot express (paired sampling, Covert and Lee 2021)."""
        batch, d = scores.shape
        share = torch.rand(batch, 1, generator=generator, device=scores.device)
        half = (self.samples + 1) // 2
        drawn = torch.rand(half, batch, d, generator=generator, device=scores.device) < share
        masks = (torch.cat([drawn, ~drawn])[: self.samples] & (scores > NEVER)).to(scores.dtype)
        values = log_value(masks)
        found = _differences(values.detach())
        _standardise(found)
        return _fit(scores, masks, found) + values.mean()


@dataclass(frozen=True)
class Evidence(Sampler):
    """Scores that add up: Σ_{i in S} w_θ(x)_i fitted to what q says of x_S, over random subsets S of size k.

    A regression learns from every feature of every subset; a sampler learns from the subsets that it prefers,
    and of hundreds of words each is drawn too rarely to be told from filler. It takes features to speak for
    themselves, as words do: what only counts together, such as the two factors of XOR, it cannot see.

    Attributes
    ----------
    subsets : random subsets of each row. Only their differences count: what all of them have in common
        cannot change the ranking

    >>> import l2x
    >>> l2x.learning.recipes_of(l2x.Words).ours.sampler
    Evidence(subsets=4)
    """

    subsets: int = 4
    adds_evidence: ClassVar[bool] = True

    def subsets_of(self, d: int) -> int:
        return self.subsets

    def objective(
        self, scores: Tensor, k: int, log_value: LogValue, generator: torch.Generator, progress: float = 0.0
    ) -> Tensor:
        never = scores <= NEVER
        noise = torch.rand(
            self.subsets, *scores.shape, generator=generator, device=scores.device
        ).masked_fill_(never, -1.0)
        masks = torch.zeros_like(noise).scatter_(-1, noise.topk(k).indices, 1.0) * ~never
        return _fit(scores, masks, _differences(log_value(masks).detach()))


@dataclass(frozen=True)
class ExactSum(Sampler):
    """For k = 1 the expectation itself, Σ_i softmax(scores)_i log q(y | x_i): nothing is drawn.

    It asks the value about every feature of a row, d times: for few features, such as sentences.

    >>> scores = torch.tensor([[2.0, 0.0, 1.0]])
    >>> sampler = ExactSum()
    >>> generator = torch.Generator().manual_seed(0)
    >>> sampler.objective(scores, 1, lambda masks: masks[..., 0], generator).shape
    torch.Size([])
    """

    explore: tuple[float, float] = (0.03, 0.001)

    def subsets_of(self, d: int) -> int:
        return d

    def objective(
        self, scores: Tensor, k: int, log_value: LogValue, generator: torch.Generator, progress: float = 0.0
    ) -> Tensor:
        if k != 1:
            raise InputError(f"ExactSum is for k = 1, and k is {k}; use PlackettLuce().")
        batch, d = scores.shape
        masks = torch.eye(d, device=scores.device)[:, None].expand(d, batch, d)
        expected = (torch.softmax(scores, dim=-1).T * log_value(masks)).sum(dim=0)
        return expected.mean() + _exploration(scores, self.explore, progress)


@dataclass(frozen=True)
class Reinforce(Sampler):
    """The score function as Williams (1992) has it: k draws with replacement, duplicates dropped, and
    the batch mean as the baseline. Here because section 3.2 names it as the alternative.

    >>> scores = torch.tensor([[2.0, 0.0, 1.0]])
    >>> sampler = Reinforce(samples=2)
    >>> generator = torch.Generator().manual_seed(0)
    >>> sampler.objective(scores, 2, lambda masks: masks[..., 0], generator).shape
    torch.Size([])
    """

    samples: int = 1

    def subsets_of(self, d: int) -> int:
        return self.samples

    def draw(self, scores: Tensor, k: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Masks (samples, batch, d) of k independent picks, and the log probability of the picks."""
        log_p = torch.log_softmax(scores, dim=-1)
        noise = gumbel((self.samples, k, *scores.shape), scores, generator)
        picks = (log_p + noise).argmax(dim=-1).movedim(1, -1)  # (samples, batch, k)
        return k_hot(picks, scores.shape[-1]), scores_at(log_p, picks).sum(-1)

    def objective(
        self, scores: Tensor, k: int, log_value: LogValue, generator: torch.Generator, progress: float = 0.0
    ) -> Tensor:
        masks, log_p = self.draw(scores, k, generator)
        values = log_value(masks)
        reward = values.detach()
        return ((reward - reward.mean()) * log_p).mean() + values.mean()


def _shrinking(k: int, d: int, progress: float) -> int:
    """The size of subsets, after the regression: k in the end."""
    start = min(d, max(AT_FIRST, 2 * k))
    return k + round((start - k) * min(1.0, max(0.0, 2 - progress / BEGINNING)))


def _differences(values: Tensor) -> Tensor:
    """Of the subsets of a row, (m, batch): what all of them have in common cannot change the ranking."""
    return values - values.mean(dim=0)


def _fit(scores: Tensor, masks: Tensor, found: Tensor) -> Tensor:
    """How well the scores of subsets, (m, batch, d), add up to what was found of them: less the squared error
    as a share of the variance, so that the learning rate means the same everywhere."""
    explained = (scores.masked_fill(scores <= NEVER, 0.0) * masks).sum(dim=-1)  # (m, batch)
    errors = found - explained + explained.mean(dim=0)
    return -errors.square().mean() / found.square().mean().clamp_min(1e-6)


def _exploration(scores: Tensor, weights: tuple[float, float], progress: float) -> Tensor:
    """-KL(uniform || softmax(scores)), up to a constant, its weight going from the first to the second;
    uniform over what may be selected."""
    start, end = weights
    weight = start ** (1 - progress) * end**progress if start > 0 else 0.0
    logs, never = torch.log_softmax(scores, dim=-1), scores <= NEVER
    return weight * (logs[~never].mean() if never.any() else logs.mean())


def _against_the_others(values: Tensor) -> Tensor:
    """Each sample's value less the mean of the row's other samples, (samples, batch)."""
    m = len(values)
    return values - values.mean() if m == 1 else _differences(values) * (m / (m - 1))


def _standardise(advantage: Tensor, weight: float = 1.0) -> None:
    """Divide by the root mean square, in place; one scale for all rows, so that rows with small advantages
    are not amplified (measured: per-row scales lose the weak features)."""
    if advantage.numel():
        advantage.mul_(weight / (advantage.square().mean().sqrt() + 1e-6))
