"""How large must a study be? The chance to find a difference between two methods, by items and raters.

Items differ in how readily a rater sees the model's answer in them (a beta distribution), and what is easy
under one method is mostly easy under the other; that is why differences are paired by item. Every rater
answers under all methods equally often, so that good and bad raters cancel out of a difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri
from scipy.stats import beta, norm

from l2x._base.arrays import Array
from l2x.errors import InputError, require
from l2x.learning import LEVEL, Estimate

ITEMS = (100, 200, 300, 500, 1000, 2000)
RATERS = (1, 3, 5, 7, 9)
# Items of the imagined population; its numbers are off by about 0.005.
POPULATION = 20_000


@dataclass(frozen=True)
class Power:
    """With this many raters per item and method: the chance to find the difference, by number of items, and
    how many items find it in 80 % of studies."""

    raters: int
    accuracy: float  # human accuracy of the better method
    worse: float  # the share of single answers that are the model's, with the other method
    chances: Sequence[tuple[int, float]]
    items_needed: int


def power_table(
    difference: float = 0.05,
    *,
    accuracy: float = 0.75,
    neutral: float = 0.1,
    spread: float = 0.3,
    correlation: float = 0.5,
    items: Sequence[int] = ITEMS,
    raters: Sequence[int] = RATERS,
    level: float = 0.05,
    wanted: float = 0.8,
    seed: int = 0,
) -> list[Power]:
    """One entry for each number of raters.

    Parameters
    ----------
    difference : between the human accuracies of two methods, in shares: 0.05 are five points
    accuracy : the share of single answers that are the model's, with the better method
    neutral : the share of "cannot tell"
    spread : how much items differ, from 0 (not at all) to 1 (each is either plain or hopeless)
    correlation : of an item's difficulty under the two methods
    items, raters : numbers of items, and of answers to each, to try
    level, wanted : of a two-sided test, and the chance that `items_needed` is for
    seed : of the simulated studies

    Returns
    -------
    A `Power` for each number of raters: the chance for each number of items, and how many are needed.

    Raises
    ------
    InputError
        If the accuracy is not between the difference and what neutral answers leave.

    >>> [entry.raters for entry in power_table(items=[100], raters=[1, 3])]
    [1, 3]
    """
    if not 0 < difference < accuracy < 1 - neutral:
        raise InputError(
            f"The accuracy, {accuracy}, must lie between the difference, {difference}, and what the share of "
            f"neutral answers, {neutral}, leaves."
        )
    rng = np.random.default_rng(seed)
    ease = norm.cdf(
        rng.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], POPULATION, method="cholesky").T
    )
    luck = rng.random((2, max(raters), POPULATION))
    found = []
    for n in raters:
        better = _right(_share(accuracy, neutral, spread, ease[0]), neutral, luck[0, :n])
        target = better.mean() - difference

        def excess(share: float, n: int = n, target: float = target) -> float:
            worse = _right(_share(share, neutral, spread, ease[1]), neutral, luck[1, :n])
            return float(worse.mean() - target)

        share = brentq(excess, 0.01, accuracy, xtol=1e-4)
        worse = _right(_share(share, neutral, spread, ease[1]), neutral, luck[1, :n])
        sd = float((better - worse).std())
        bound = -ndtri(level / 2)
        chances = [(m, float(norm.cdf(np.sqrt(m) * difference / sd - bound))) for m in items]
        needed = int(np.ceil(((bound + ndtri(wanted)) * sd / difference) ** 2))
        found.append(Power(n, float(better.mean()), float(share), chances, needed))
    return found


def _share(mean: float, neutral: float, spread: float, ease: Array) -> Array:
    """For each item the chance that a rater who says a class says the model's."""
    among = mean / (1 - neutral)
    if spread <= 0:
        return np.full_like(ease, among)
    size = 1 / spread - 1  # of the beta distribution: its variance is `spread` of the largest possible
    return np.asarray(beta.ppf(ease, among * size, (1 - among) * size))


def _right(share: Array, neutral: float, luck: Array) -> Array:
    """(items,) whether the raters, one row of `luck` each, decide for the model's class."""
    told = luck >= neutral
    yes = told & ((luck - neutral) / (1 - neutral) < share)
    return np.asarray(2.0 * yes.sum(axis=0) > told.sum(axis=0), dtype=float)


# In `choice`, and as what raters decided: no class has more votes than every other.
UNDECIDED = -1
DRAWS = 1000


@dataclass(frozen=True)
class Ratings:
    """Answers to items, (n,) each: which item, under which method, by whom, what; -1 is "cannot tell"."""

    item: Array
    method: Array
    rater: Array
    choice: Array
    model: Array  # (items,) the model's class for each item
    methods: int
    classes: int

    @property
    def items(self) -> int:
        return len(self.model)

    def without(self, raters: Sequence[int]) -> Ratings:
        """The answers of everybody else."""
        kept = ~np.isin(self.rater, list(raters))
        columns = {name: getattr(self, name)[kept] for name in ("item", "method", "rater", "choice")}
        return replace(self, **columns)

    @property
    def agrees(self) -> Array:
        """(n,) whether a single answer is the model's."""
        return np.asarray(self.choice == self.model[self.item])

    def counts(self, weights: Array | None = None) -> Array:
        """(methods, items, classes + 1) how often each answer was given, "cannot tell" last; `weights` say
        how much each of the answers counts."""
        answers = self.classes + 1
        cell = (self.method * self.items + self.item) * answers + self.choice % answers
        size = self.methods * self.items * answers
        return np.bincount(cell, weights, size).reshape(self.methods, self.items, answers)


def decided(counts: Array) -> Array:
    """What the raters of each cell decided: the class with the most votes, the paper's mean of +1, -1 and 0
    where there are two. "Cannot tell" counts for no class; a tie is UNDECIDED.

    >>> decided(np.array([[2, 1, 0], [1, 1, 5], [0, 1, 5]])).tolist()
    [0, -1, 1]
    """
    votes = counts[..., :-1]
    most = votes.max(axis=-1)
    alone = (votes == most[..., None]).sum(axis=-1) == 1
    return np.where(alone & (most > 0), votes.argmax(axis=-1), UNDECIDED)


def human_accuracy(
    ratings: Ratings, *, draws: int = DRAWS, seed: int = 0
) -> tuple[list[Estimate], dict[tuple[int, int], Estimate]]:
    """Per method the share of its rated items where raters decided for the model's class, and the differences
    between every two methods, paired by item, each with an interval.

    Items and raters are both drawn with replacement, since both could have been others (the pigeonhole
    bootstrap, Owen 2007, which errs to the wide side). Fewer different raters decide less surely, so that
    draws lie too low on average: intervals are shifted back by that.
    """
    pairs = list(combinations(range(ratings.methods), 2))
    rng = np.random.default_rng(seed)
    raters, who = np.unique(ratings.rater, return_inverse=True)
    once = np.ones(ratings.items)
    value = _shares(ratings, pairs, once, None)
    drawn = np.array(
        [
            _shares(ratings, pairs, _drawn(ratings.items, rng), _drawn(len(raters), rng)[who])
            for _ in range(draws if len(raters) else 0)
        ]
    ).reshape(-1, len(value))
    found = [_estimate(v, d, -1.0 if i >= ratings.methods else 0.0) for i, (v, d) in enumerate(
        zip(value, drawn.T, strict=True)
    )]  # fmt: skip
    return found[: ratings.methods], dict(zip(pairs, found[ratings.methods :], strict=True))


def alpha(counts: Array) -> float:
    """Krippendorff's alpha (nominal) of (items, answers) counts; NaN where nothing can be compared, or where
    all answers are the same.

    >>> round(alpha(np.array([[2, 0], [0, 2], [1, 1]])), 3)
    0.444
    """
    krippendorff = require("krippendorff", extra="study")
    pairable = counts[counts.sum(axis=1) > 1]
    if not len(pairable) or (pairable.sum(axis=0) > 0).sum() < 2:
        return float("nan")
    return float(krippendorff.alpha(value_counts=pairable.astype(int), level_of_measurement="nominal"))


def _drawn(n: int, rng: np.random.Generator) -> Array:
    """How often each of n is drawn in n draws."""
    return np.asarray(rng.multinomial(n, np.full(n, 1 / n)), dtype=float)


def _shares(ratings: Ratings, pairs: Sequence[tuple[int, int]], items: Array, answers: Array | None) -> Array:
    """The accuracies, then the paired differences, where items and answers count so often; NaN where none."""
    counts = ratings.counts(answers)
    rated = (counts.sum(axis=2) > 0) * items  # (methods, items)
    right = decided(counts) == ratings.model
    with np.errstate(invalid="ignore"):
        accuracies = (right * rated).sum(axis=1) / rated.sum(axis=1)
        differences = []
        for a, b in pairs:
            both = (rated[a] > 0) * rated[b]
            differences.append((both * (right[a] * 1.0 - right[b])).sum() / both.sum())
    return np.array([*accuracies, *differences])


def _estimate(value: float, drawn: Array, lowest: float) -> Estimate:
    drawn = drawn[np.isfinite(drawn)]
    if not len(drawn) or np.isnan(value):
        return Estimate(float(value))
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) + value - drawn.mean()
    return Estimate(float(value), float(max(lowest, low)), float(min(1.0, high)))
