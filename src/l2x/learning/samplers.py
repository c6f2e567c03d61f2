"""Draw k-subsets from scores, and estimate the gradient of E[log q(y | x_S)] with respect to them.

    relaxed      ConcreteMax, RelaxedTopK, SoftAttention   gradient through a differentiable objective
    exact        PlackettLuce, Reinforce, ExactSum         score function: any black box
    regression   Evidence                                  least squares on random subsets: any black box
    signed       Shapley                                   least squares with the Shapley kernel

A sampler has one method, `objective`. It returns a scalar to maximise; the gradient of that scalar is the
sampler's estimate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from l2x._base import Registered
from l2x._base.arrays import best
from l2x.errors import InputError

if TYPE_CHECKING:
    from l2x.learning._training import Phase

__all__ = [
    "ConcreteMax",
    "Evidence",
    "ExactSum",
    "PlackettLuce",
    "Reinforce",
    "RelaxedTopK",
    "Sampler",
    "Shapley",
    "SoftAttention",
]

LogValue = Callable[[Tensor], Tensor]

# How training depends on the number of features d (measurements: docs/notebook.md, "Wide tables"):
#
#   d <= FEW         Rankings are drawn and sorted in full. Surrogates learn from size k and any other size.
#   d > FEW          Only the ranks that are needed are drawn, one by one if k² <= d; Gumbel noise has coarser
#                    tails. Surrogates start with whole rows, then see mostly small subsets: `random_masks`.
#   FEW < d <= MANY  PlackettLuce starts with a regression on subsets of any size, for BEGINNING of the steps.
#                    For as many steps more, the size is annealed to k, from START_SIZE or 2 k. Otherwise two
#                    features that matter only together are hardly ever drawn together.
#   d > MANY         PlackettLuce starts at size k: a regression would learn too little in so few steps. Rows
#                    with other sizes have up to LARGE features, which show interactions: with 2,000 columns,
#                    up to 512 gave 0.21 exact sets after 60 steps, and any number 0.996.
#
# The view adds two limits: a surrogate looks up only the selected cells in tables wider than
# `features.WIDE` = 64 columns, and all columns share 65,536 quantile bins (`features._columns.MOST_BINS`).
FEW, MANY = 64, 256
BEGINNING, START_SIZE, LARGE = 1 / 6, 16, 2048
# For `random_masks` with d > FEW: the share of training in which whole rows give way to subsets, the maximum
# number of features in a whole row, and the size up to which all sizes are equally likely.
WHOLE_FIRST, WHOLE, USUAL = 0.1, 512, 32

# The smallest relative difference of two float64 sums that still has correct digits, and the smallest mass.
PRECISION, SMALLEST = 1e-12, 1e-300
# The score of a feature that may not be selected, such as padding. It is finite in training, so that sums
# over sorted scores stay finite; explanations use -inf.
NEVER = -1e9


class Sampler(Registered, ABC):
    """How k-subsets are drawn, and how the gradient is estimated.

    Examples
    --------
    >>> isinstance(PlackettLuce(), Sampler)
    True
    """

    # Whether log_value must be differentiable with respect to the mask.
    needs_gradient: ClassVar[bool] = False
    # Whether log_value must be on a scale on which independent evidence adds up, such as log-odds.
    adds_evidence: ClassVar[bool] = False
    # Whether scores are signed and explain one output of each row, such as the probability of a class. The
    # selector then also reads which output that is, and log_value is the output itself.
    signed: ClassVar[bool] = False

    def subsets_of(self, d: int) -> int:
        """Return the number of subsets per row, with d features, that one step evaluates."""
        return 1

    @abstractmethod
    def objective(
        self, scores: Tensor, k: int, log_value: LogValue, generator: torch.Generator, progress: float = 0.0
    ) -> Tensor:
        """Return a scalar to maximise.

        Parameters
        ----------
        scores : (batch, d) tensor
            The selector's scores.
        k : int
            Features per explanation.
        log_value : callable
            Maps masks (m, batch, d) to log q(y | x_S), (m, batch).
        generator : torch.Generator
            The source of randomness.
        progress : float
            The completed share of training, for quantities that are annealed.
        """

    def phase(self, default: Phase) -> Phase:
        """Return the selector's phase if the user gives no plan; here the view's own, `default`."""
        return default

    def held_out(self, scores: Tensor, k: int, log_value: LogValue, generator: torch.Generator) -> Tensor:
        """Return the value of each held-out row, (batch,), by which weights are chosen.

        By default it is that of the k best features; see `objective` for the parameters.
        """
        return log_value(k_hot(top_k(scores, k), scores.shape[-1])[None])[0]


class Relaxed(Sampler):
    """A continuous V replaces the k-hot vector (section 3.2); the gradient passes through the objective."""

    needs_gradient: ClassVar[bool] = True

    @abstractmethod
    def draw(self, scores: Tensor, k: int, generator: torch.Generator) -> Tensor:
        """Draw V, (batch, d), between zero and one, from scores, k and generator."""

    def objective(
        self, scores: Tensor, k: int, log_value: LogValue, generator: torch.Generator, progress: float = 0.0
    ) -> Tensor:
        """Return equation 5 for one draw: the mean of log q(y | V ⊙ x); see `Sampler.objective`."""
        return log_value(self.draw(scores, k, generator)[None]).mean()


@dataclass(frozen=True)
class ConcreteMax(Relaxed):
    """The paper's relaxation, section 3.2: V_i = max_j C_i^j over k Concrete vectors C^1 ... C^k.

    Parameters
    ----------
    temperature : float
        The lower, the closer V is to a k-hot vector.

    Examples
    --------
    >>> ConcreteMax().draw(torch.tensor([[99.0, 0.0, 0.0]]), 1, torch.Generator()).tolist()
    [[1.0, 0.0, 0.0]]
    """

    temperature: float = 0.1

    def draw(self, scores: Tensor, k: int, generator: torch.Generator) -> Tensor:
        """Return the elementwise maximum of k Concrete vectors; see `Relaxed.draw`."""
        noise = gumbel((k, *scores.shape), scores, generator)  # (k, batch, d)
        concrete = torch.softmax((torch.log_softmax(scores, -1) + noise) / self.temperature, dim=-1)
        return concrete.amax(dim=0)  # (batch, d)


@dataclass(frozen=True)
class RelaxedTopK(Relaxed):
    """A sum of k softmaxes, each without the weight already given: sampling without replacement.

    Plötz and Roth (2018); Xie and Ermon (2019).

    Parameters
    ----------
    temperature : float
        The lower, the closer V is to a k-hot vector.

    Examples
    --------
    >>> RelaxedTopK().draw(torch.tensor([[99.0, 0.0, 99.0]]), 2, torch.Generator()).sum().item()
    2.0
    """

    temperature: float = 0.5

    def draw(self, scores: Tensor, k: int, generator: torch.Generator) -> Tensor:
        """Return the sum of k softmaxes; see `Relaxed.draw`."""
        keys = scores + gumbel(scores.shape, scores, generator)
        khot = torch.zeros_like(keys)
        for _ in range(k):
            onehot = torch.softmax(keys / self.temperature, dim=-1)
            khot = khot + onehot
            # clamp: log(0) if a feature has all the weight
            keys = keys + torch.log((1 - onehot).clamp_min(torch.finfo(keys.dtype).tiny))
        return khot.clamp_max(1.0)


@dataclass(frozen=True)
class SoftAttention(Relaxed):
    """The deterministic alternative that section 3.2 mentions: weights k · softmax(w), capped at one.

    Examples
    --------
    >>> SoftAttention().draw(torch.zeros(1, 4), 2, torch.Generator()).tolist()
    [[0.5, 0.5, 0.5, 0.5]]
    """

    def draw(self, scores: Tensor, k: int, generator: torch.Generator) -> Tensor:
        """Return the weights without drawing anything; see `Relaxed.draw`."""
        return (k * torch.softmax(scores, dim=-1)).clamp_max(1.0)


@dataclass(frozen=True)
class Draws:
    """The subsets of one step.

    Attributes
    ----------
    masks : (samples, batch, d) tensor
    rankings : list of (slice, order, chosen), optional
        By parts of the batch, the rankings that were drawn, and which ranks count; see `log_probability`.
        None if the subsets do not depend on the scores.
    others : int
        The number of first rows whose subsets have another size than k.
    """

    masks: Tensor
    rankings: list[tuple[slice, Tensor, Tensor]] | None = None
    others: int = 0


@dataclass(frozen=True)
class PlackettLuce(Sampler):
    """Exact top-k samples with a leave-one-out score function, the default sampler.

    Adding Gumbel noise to the scores and taking the largest draws features without replacement
    (Plackett-Luce). Each of the `samples` subsets of a row is compared with the mean of the others
    (Kool et al. 2019), which keeps the variance low without a learned baseline. The defaults were measured:
    see docs/notebook.md.

    Parameters
    ----------
    samples : int
        Subsets drawn per row.
    explore : tuple of two floats
        Weight of KL(uniform || softmax(scores)) at the start and at the end of training. Unlike an entropy
        bonus, its gradient does not vanish as a feature becomes unlikely, so no feature is abandoned for all
        rows before the network has learned to distinguish rows.
    other_sizes, other_weight : float
        The share of rows whose subsets have a random size instead of k, so that the ranking is meaningful at
        every k, and their weight. With more than FEW features the share is halved, because long rankings are
        most of the work there; with up to MANY, half of these rows have fewer than k features.

    Examples
    --------
    >>> scores = torch.tensor([[2.0, 0.0, 1.0]])
    >>> masks, _ = PlackettLuce(samples=4).draw(scores, torch.tensor([2]), torch.Generator().manual_seed(0))
    >>> masks.sum(dim=-1).flatten().tolist()
    [2.0, 2.0, 2.0, 2.0]
    """

    samples: int = 4
    explore: tuple[float, float] = (0.03, 0.001)
    other_sizes: float = 0.25
    other_weight: float = 0.3

    def subsets_of(self, d: int) -> int:
        """Return the number of samples per row; see `Sampler.subsets_of`."""
        return self.samples

    def draw(self, scores: Tensor, sizes: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw masks (samples, batch, d) from scores with sizes (batch,) and a generator.

        Return the masks and their log probability, (samples, batch).
        """
        masks, order, chosen = self._draw(scores, sizes, generator)
        return masks, log_probability(scores, order, chosen)

    @torch.no_grad()
    def _draw(
        self, scores: Tensor, sizes: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return masks, rankings, and which ranks count."""
        order = self._order(scores, int(sizes.max()) if len(sizes) else 0, generator)
        ranks = torch.arange(order.shape[-1], device=scores.device)
        chosen = (ranks < sizes[:, None]).to(scores.dtype).expand_as(order)
        return scores.new_zeros(self.samples, *scores.shape).scatter_(-1, order, chosen), order, chosen

    def _order(self, scores: Tensor, most: int, generator: torch.Generator) -> Tensor:
        """Draw rankings (samples, batch, ranks), best first; with d > FEW, only the first `most` ranks."""
        d = scores.shape[-1]
        if d > FEW and most**2 <= d:
            return first_ranks(scores, most, self.samples, generator)
        keys = scores + gumbel((self.samples, *scores.shape), scores, generator)  # (samples, batch, d)
        return keys.argsort(dim=-1, descending=True) if d <= FEW else top_k(keys, most)

    def objective(
        self, scores: Tensor, k: int, log_value: LogValue, generator: torch.Generator, progress: float = 0.0
    ) -> Tensor:
        """Return the score-function surrogate loss, negated; see `Sampler.objective`."""
        draws = self.draws(scores.detach(), k, generator, progress)
        return self.gain(scores, draws, log_value(draws.masks), progress)

    def draws(self, scores: Tensor, k: int, generator: torch.Generator, progress: float) -> Draws:
        """Draw the subsets of one step; see `Sampler.objective` for the parameters."""
        d = scores.shape[-1]
        if FEW < d <= MANY and self.samples > 1 and progress < BEGINNING:
            return Draws(self._pairs(scores, generator))
        sizes, fewer, others = self._sizes(scores, k, generator, progress)
        # With more than FEW features, long rankings are drawn only for the rows that need them.
        parts = [slice(fewer), slice(fewer, others), slice(others, None)] if d > FEW else [slice(None)]
        drawn = [self._draw(scores[part], sizes[part], generator) for part in parts]
        rankings = [(part, order, chosen) for part, (_, order, chosen) in zip(parts, drawn, strict=True)]
        return Draws(torch.cat([masks for masks, _, _ in drawn], dim=1), rankings, others)

    def gain(self, scores: Tensor, draws: Draws, values: Tensor, progress: float) -> Tensor:
        """Return the number to maximise.

        The `scores` may be a few steps newer than those that the subsets, the `draws`, were drawn from. Their
        `values` have the shape (samples, batch); `progress` is the completed share of training.
        """
        if draws.rankings is None:
            differences = _differences(values.detach())
            _standardise(differences)
            return _fit(scores, draws.masks, differences) + values.mean()
        log_p = torch.cat(
            [log_probability(scores[part], order, chosen) for part, order, chosen in draws.rankings], dim=1
        )
        advantage = _leave_one_out(values.detach())
        # One scale for the rows with size k and one for the others: easy sizes must not dominate.
        _standardise(advantage[:, draws.others :])
        _standardise(advantage[:, : draws.others], self.other_weight)
        # values.mean() carries the gradient of an objective that still learns (joint training).
        return (advantage * log_p).mean() + values.mean() + exploration(scores, self.explore, progress)

    def _sizes(
        self, scores: Tensor, k: int, generator: torch.Generator, progress: float
    ) -> tuple[Tensor, int, int]:
        """Return subset sizes (batch,): below k in the first `fewer` rows, any up to `others`, then k."""
        batch, d = scores.shape
        anneal = FEW < d <= MANY
        share = self.other_sizes if d <= FEW else self.other_sizes / 2
        others = int(share * batch) if d > 1 else 0
        sizes = torch.full((batch,), _annealed_size(k, d, progress) if anneal else k, device=scores.device)
        most = max(2, min(d, max(LARGE, k + 1)))
        sizes[:others] = torch.randint(1, most, (others,), generator=generator, device=scores.device)
        # Sizes below k are rare by chance, and without them nothing would order the first k features.
        fewer = others // 2 if anneal and k > 1 else 0
        sizes[:fewer] = torch.randint(1, max(2, k), (fewer,), generator=generator, device=scores.device)
        return sizes, fewer, others

    def _pairs(self, scores: Tensor, generator: torch.Generator) -> Tensor:
        """Draw subsets of any size, for scores whose sums are fitted to their standardised values.

        Half of the subsets are the complements of the others. Between a subset and its complement,
        interactions of an even number of features cancel, which sums cannot express (paired sampling,
        Covert and Lee 2021).
        """
        batch, d = scores.shape
        share = torch.rand(batch, 1, generator=generator, device=scores.device)
        half = (self.samples + 1) // 2
        drawn = torch.rand(half, batch, d, generator=generator, device=scores.device) < share
        return (torch.cat([drawn, ~drawn])[: self.samples] & (scores > NEVER)).to(scores.dtype)


@dataclass(frozen=True)
class Evidence(Sampler):
    """Additive scores: Σ_{i in S} w_θ(x)_i is fitted to the value of x_S, over random subsets S of size k.

    A regression learns from every feature of every subset, whereas a sampler learns from the subsets that it
    prefers. Among hundreds of words it draws each too rarely to distinguish it from filler. Features must
    matter on their own, as words do: a regression cannot find features that matter only together, such as the
    two factors of XOR.

    Parameters
    ----------
    subsets : int
        Random subsets per row. Only the differences between their values count: a common constant cannot
        change the ranking.

    Examples
    --------
    >>> from l2x import Words
    >>> from l2x.learning import recipes_of
    >>> recipes_of(Words).ours.sampler
    Evidence(subsets=4)
    """

    subsets: int = 4
    adds_evidence: ClassVar[bool] = True

    def subsets_of(self, d: int) -> int:
        """Return the number of subsets per row; see `Sampler.subsets_of`."""
        return self.subsets

    def objective(
        self, scores: Tensor, k: int, log_value: LogValue, generator: torch.Generator, progress: float = 0.0
    ) -> Tensor:
        """Return the fit of the regression; see `Sampler.objective`."""
        never = scores <= NEVER
        noise = torch.rand(
            self.subsets, *scores.shape, generator=generator, device=scores.device
        ).masked_fill_(never, -1.0)
        masks = torch.zeros_like(noise).scatter_(-1, noise.topk(k).indices, 1.0) * ~never
        return _fit(scores, masks, _differences(log_value(masks).detach()))


@dataclass(frozen=True)
class Shapley(Sampler):
    """Scores that are Shapley values: signed, for all features, and for any output (FastSHAP).

    Shapley values are the weighted least-squares fit of Σ_{i in S} φ_i to v(S) - v(∅), with weights that give
    the sizes s and d - s the probability 1 / (s (d - s)) (Charnes et al. 1988). Fitting the selector to
    subsets drawn with these probabilities makes its scores approximate the Shapley values of every row, in
    one forward pass (Jethani et al. 2022). v(S) is the prediction of the frozen surrogate from S. Each subset
    comes with its complement, and the scores are corrected to add up to v(all) - v(∅) before they are fitted.
    Features are selected by the absolute value of their scores.

    Parameters
    ----------
    pairs : int
        Subsets per row and step, each with its complement.

    Examples
    --------
    >>> Shapley().subsets_of(d=10)
    10
    """

    pairs: int = 4
    signed: ClassVar[bool] = True

    def phase(self, default: Phase) -> Phase:
        """Return the `default` with four times the steps, a higher rate and a longer average.

        Every score is fitted, not only their order: on switch, 1,200 steps at 9e-3 instead of 600 at 3e-3
        raised the correlation with exact values from 0.975 to 0.990, and more pairs did not (10,000 rows).
        """
        return replace(
            default, steps=4 * default.steps, learning_rate=2.25 * default.learning_rate, averaging=0.99
        )

    def subsets_of(self, d: int) -> int:
        """Return the number of subsets per row, whatever d is, with the empty one and all features."""
        return 2 * self.pairs + 2

    def objective(
        self, scores: Tensor, k: int, log_value: LogValue, generator: torch.Generator, progress: float = 0.0
    ) -> Tensor:
        """Return minus the squared error as a share of the variance; see `Sampler.objective`."""
        errors, added = self._errors(scores, log_value, generator)
        return -errors.square().mean() / added.square().mean().clamp_min(1e-6)

    def held_out(self, scores: Tensor, k: int, log_value: LogValue, generator: torch.Generator) -> Tensor:
        """Return minus the squared error of each row; see `Sampler.held_out`."""
        return -self._errors(scores, log_value, generator)[0].square().mean(dim=0)

    def _errors(
        self, scores: Tensor, log_value: LogValue, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return the errors of summed scores on random subsets, and what was to be fitted, (m, batch)."""
        drawn = self.draw(scores > NEVER, generator).to(scores.dtype)
        values = log_value(drawn).detach()
        added = values[2:] - values[0]
        return added - (efficient(scores, values[1] - values[0]) * drawn[2:]).sum(dim=-1), added

    def draw(self, selectable: Tensor, generator: torch.Generator) -> Tensor:
        """Draw subsets of selectable features (batch, d) with a generator, (2 + 2 pairs, batch, d).

        They are: none, all, `pairs` others, and their complements.
        """
        batch, d = selectable.shape
        present = selectable.sum(dim=-1, keepdim=True)
        sizes = torch.arange(1, max(d, 2), device=selectable.device)
        kernel = torch.where(sizes < present, 1 / (sizes * (present - sizes)).clamp_min(1), 0.0)
        kernel[:, 0].clamp_min_(1e-9)  # a row with a single feature has no other subsets
        size = 1 + torch.multinomial(kernel, self.pairs, replacement=True, generator=generator)
        noise = torch.rand(self.pairs, batch, d, generator=generator, device=selectable.device)
        ranks = (noise + ~selectable).argsort(dim=-1).argsort(dim=-1)
        subsets = (ranks < size.T[..., None]) & selectable
        ends = torch.stack([torch.zeros_like(selectable), selectable])
        return torch.cat([ends, subsets, selectable & ~subsets])


def efficient(scores: Tensor, total: Tensor) -> Tensor:
    """Return scores (batch, d) that add up to `total` (batch,): the difference is spread over all features.

    Features that may not be selected have zero.
    """
    selectable = scores > NEVER
    finite = scores.masked_fill(~selectable, 0.0)
    missing = (total - finite.sum(dim=-1)) / selectable.sum(dim=-1).clamp_min(1)
    return finite + missing[:, None] * selectable


@dataclass(frozen=True)
class ExactSum(Sampler):
    """The exact expectation for k = 1, Σ_i softmax(scores)_i log q(y | x_i): nothing is drawn.

    Each step evaluates the objective d times per row, so d should be small, as for sentences.

    Parameters
    ----------
    explore : tuple of two floats
        As in `PlackettLuce`.

    Examples
    --------
    >>> ExactSum().subsets_of(d=12)
    12
    """

    explore: tuple[float, float] = (0.03, 0.001)

    def subsets_of(self, d: int) -> int:
        """Return d, for every feature alone."""
        return d

    def objective(
        self, scores: Tensor, k: int, log_value: LogValue, generator: torch.Generator, progress: float = 0.0
    ) -> Tensor:
        """Return the expectation; see `Sampler.objective`. Raise an InputError unless k is 1."""
        if k != 1:
            raise InputError(f"ExactSum is for k = 1, but k = {k}; use PlackettLuce().")
        batch, d = scores.shape
        masks = torch.eye(d, device=scores.device)[:, None].expand(d, batch, d)
        expected = (torch.softmax(scores, dim=-1).T * log_value(masks)).sum(dim=0)
        return expected.mean() + exploration(scores, self.explore, progress)


@dataclass(frozen=True)
class Reinforce(Sampler):
    """The score function of Williams (1992), which section 3.2 mentions as an alternative.

    It draws k features with replacement, drops duplicates, and uses the batch mean as the baseline.

    Parameters
    ----------
    samples : int
        Subsets drawn per row.

    Examples
    --------
    >>> masks, log_p = Reinforce(samples=2).draw(torch.zeros(1, 3), 1, torch.Generator())
    >>> masks.shape, log_p.shape
    (torch.Size([2, 1, 3]), torch.Size([2, 1]))
    """

    samples: int = 1

    def subsets_of(self, d: int) -> int:
        """Return the number of samples per row; see `Sampler.subsets_of`."""
        return self.samples

    def draw(self, scores: Tensor, k: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw masks (samples, batch, d) from scores, k picks with replacement, and a generator.

        Return the masks and their log probability, (samples, batch).
        """
        log_p = torch.log_softmax(scores, dim=-1)
        noise = gumbel((self.samples, k, *scores.shape), scores, generator)
        picks = (log_p + noise).argmax(dim=-1).movedim(1, -1)  # (samples, batch, k)
        return k_hot(picks, scores.shape[-1]), scores_at(log_p, picks).sum(-1)

    def objective(
        self, scores: Tensor, k: int, log_value: LogValue, generator: torch.Generator, progress: float = 0.0
    ) -> Tensor:
        """Return the score-function surrogate loss, negated; see `Sampler.objective`."""
        masks, log_p = self.draw(scores, k, generator)
        values = log_value(masks)
        reward = values.detach()
        return ((reward - reward.mean()) * log_p).mean() + values.mean()


def _annealed_size(k: int, d: int, progress: float) -> int:
    """Return the subset size after the regression: it falls linearly to k."""
    start = min(d, max(START_SIZE, 2 * k))
    return k + round((start - k) * min(1.0, max(0.0, 2 - progress / BEGINNING)))


def _differences(values: Tensor) -> Tensor:
    """Subtract the mean over the subsets of each row, (m, batch): a constant cannot change the ranking."""
    return values - values.mean(dim=0)


def _fit(scores: Tensor, masks: Tensor, differences: Tensor) -> Tensor:
    """Return minus the squared error of the summed scores of subsets (m, batch, d).

    It is a share of the variance, so that the learning rate means the same for every problem.
    """
    explained = (scores.masked_fill(scores <= NEVER, 0.0) * masks).sum(dim=-1)  # (m, batch)
    errors = differences - explained + explained.mean(dim=0)
    return -errors.square().mean() / differences.square().mean().clamp_min(1e-6)


def exploration(scores: Tensor, weights: tuple[float, float], progress: float) -> Tensor:
    """Return -KL(uniform || softmax(scores)) up to a constant, weighted from the first to the second weight.

    Uniform means uniform over the selectable features.
    """
    start, end = weights
    weight = start ** (1 - progress) * end**progress if start > 0 else 0.0
    logs, never = torch.log_softmax(scores, dim=-1), scores <= NEVER
    return weight * (logs[~never].mean() if never.any() else logs.mean())


def _leave_one_out(values: Tensor) -> Tensor:
    """Subtract the mean of the row's other samples from each value, (samples, batch)."""
    m = len(values)
    return values - values.mean() if m == 1 else _differences(values) * (m / (m - 1))


def _standardise(advantage: Tensor, weight: float = 1.0) -> None:
    """Divide by the root mean square, in place.

    All rows share one scale, so that small advantages are not amplified (measured: with a scale per row, weak
    features are lost).
    """
    if advantage.numel():
        advantage.mul_(weight / (advantage.square().mean().sqrt() + 1e-6))


def gumbel(shape: torch.Size | tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """Draw Gumbel noise G = -log(-log u), u ~ Uniform(0, 1), section 3.2.

    -log u is drawn directly, as an Exponential(1), unless there are more than FEW features: the formula is
    four times faster and has coarser tails.
    """
    exponential = torch.empty(shape, dtype=like.dtype, device=like.device)
    if shape[-1] > FEW:
        exponential.uniform_(generator=generator).log_().neg_()
    else:
        exponential.exponential_(generator=generator)
    # clamp: -log(0) if the draw underflows
    return -exponential.clamp_min_(torch.finfo(like.dtype).tiny).log_()


def top_k(scores: Tensor, k: int) -> Tensor:
    """Return the indices of the k largest scores, best first; ties go to the lower index."""
    rows = scores.detach().flatten(end_dim=-2).cpu().numpy()
    return torch.from_numpy(best(rows, k)).reshape(*scores.shape[:-1], k).to(scores.device)


def k_hot(indices: Tensor, d: int) -> Tensor:
    """Turn indices (..., k) into masks (..., d) of zeros and ones."""
    return torch.zeros(*indices.shape[:-1], d, device=indices.device).scatter_(-1, indices, 1.0)


def first_ranks(scores: Tensor, k: int, samples: int, generator: torch.Generator) -> Tensor:
    """Draw the first k ranks of Plackett-Luce rankings, (samples, batch, k), one pick after the other.

    Each pick is the feature whose share of the remaining probability mass contains a uniform number. Adding
    noise to all d scores gives the same distribution but takes ten times as long for thousands of features.
    Rows whose mass is almost used up before the last pick lack precision; they are drawn with noise.
    """
    mass = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    ends = mass.cumsum(dim=-1, dtype=torch.float64)  # (batch, d)
    total = ends[:, -1:]
    drawn = torch.rand(len(scores), samples, k, generator=generator, device=scores.device, dtype=total.dtype)
    picks = torch.empty(len(scores), samples, 0, dtype=torch.long, device=scores.device)
    left = total.expand(-1, samples)
    exact = torch.ones(len(scores), dtype=torch.bool, device=scores.device)
    for j in range(k):
        exact &= (left > PRECISION * total).all(dim=-1)
        place = drawn[..., j] * left
        for taken in picks.sort(dim=-1).values.unbind(dim=-1):  # skip the mass of earlier picks
            share = mass.gather(-1, taken)
            place = place + share * (place >= ends.gather(-1, taken) - share)
        pick = torch.searchsorted(ends, place, right=True).clamp_(max=scores.shape[-1] - 1)
        exact &= (pick[..., None] != picks).all(dim=-1).all(dim=-1)
        left = left - mass.gather(-1, pick)
        picks = torch.cat([picks, pick[..., None]], dim=-1)
    order = picks.movedim(1, 0)
    if not exact.all():
        rest = scores[~exact]
        order[:, ~exact] = (rest + gumbel((samples, *rest.shape), rest, generator)).topk(k).indices
    return order


def log_probability(scores: Tensor, order: Tensor, chosen: Tensor) -> Tensor:
    """Return the Plackett-Luce log probability of the chosen first ranks: a softmax per pick.

    Parameters
    ----------
    scores : (batch, d) tensor
    order : (samples, batch, ranks) tensor
        A ranking, or its first ranks.
    chosen : (samples, batch, ranks) tensor
        One for the ranks that count, else zero.

    Returns
    -------
    (samples, batch) tensor
    """
    log_p: Tensor = _LogProbability.apply(scores, order, chosen)  # type: ignore[no-untyped-call]
    return log_p


class _LogProbability(torch.autograd.Function):
    """log p = Σ_j c_j (s_j - log Z_j) over the ranks j, where c_j is 1 for the ranks that count, else 0.

    Z_j = Σ_{l >= j} exp s_l is the mass that is left at rank j. The derivative with respect to the score of
    the feature at rank r is c_r - exp(s_r) Σ_{j <= r} c_j / Z_j; a feature behind the given ranks has c = 0
    and the sum over all of them. This closed form takes a quarter of the time of automatic differentiation.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, order: Tensor, chosen: Tensor) -> Tensor:
        ordered = scores_at(scores, order)
        # Unselectable features come last, and their order carries no information about the scores.
        counts = chosen.double() * (ordered > NEVER)
        top = scores.amax(dim=-1, keepdim=True)
        mass = (scores - top).double().exp()  # (batch, d)
        own = scores_at(mass, order)  # (samples, batch, ranks)
        left = own.flip(-1).cumsum(-1).flip(-1)
        if order.shape[-1] < scores.shape[-1]:
            # The mass behind the given ranks is a difference, bounded below by its precision.
            everything = mass.sum(dim=-1)
            left = left + (everything - own.sum(dim=-1)).maximum(PRECISION * everything)[..., None]
        left = left.clamp_min(SMALLEST)
        ctx.save_for_backward(order, counts, mass, own, (counts / left).cumsum(-1))
        return ((ordered - top - left.log()) * counts).sum(-1).to(scores.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        order, counts, mass, own, passed = ctx.saved_tensors
        weight, (samples, batch, ranks) = gradients[0].double(), order.shape
        # In a whole ranking nothing is behind: what is added and subtracted there would lose all digits.
        partial = 0 < ranks < mass.shape[-1]
        last = passed[..., -1:] if partial else passed.new_zeros(samples, batch, 1)
        behind = -mass * (weight[..., None] * last).sum(dim=0)  # as if every feature were behind the ranks
        given = weight[..., None] * (counts - own * (passed - last))
        where, what = (tensor.movedim(0, 1).reshape(batch, samples * ranks) for tensor in (order, given))
        return behind.scatter_add_(1, where, what).to(gradients[0].dtype), None, None


def scores_at(scores: Tensor, indices: Tensor) -> Tensor:
    """Gather scores (batch, d) at indices (samples, batch, ranks), so that gradients are summed once."""
    samples, batch, ranks = indices.shape
    gathered = scores.gather(-1, indices.movedim(0, 1).reshape(batch, samples * ranks))
    return gathered.view(batch, samples, ranks).movedim(1, 0)
