"""How large must a study be? The chance to find a difference between two methods, by items and raters.

Items differ in how readily a rater sees the model's answer in them (a beta distribution), and what is easy
under one method is mostly easy under the other; that is why differences are paired by item. Every rater
answers under all methods equally often, so that good and bad raters cancel out of a difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri
from scipy.stats import beta, norm

from l2x.errors import InputError
from l2x.foundations.arrays import Array

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
