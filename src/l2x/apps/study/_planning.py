"""Plan a study: how large it must be, and simulated raters to try it with.

Power: items differ in how easily a rater sees the model's prediction in them (a beta distribution). An item
that is easy under one method is mostly easy under the other, so differences are paired by item. Every rater
answers equally often under all methods, so that good and bad raters cancel out of a difference.

Simulated raters: lexicon readers rate the sentiment of the shown words, careless raters choose at random. The
study's file marks them permanently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri
from scipy.stats import beta, norm

from l2x._base.arrays import Array
from l2x.apps.study._session import Task, give_answer, next_task
from l2x.apps.study._study import Study
from l2x.errors import InputError, require

ITEMS = (100, 200, 300, 500, 1000, 2000)
RATERS = (1, 3, 5, 7, 9)
POPULATION = 20_000  # simulated items; the standard error of the table is about 0.005
SPREAD = 0.3  # how much items differ: 0 not at all, 1: each item is either obvious or hopeless
CORRELATION = 0.5  # of an item's difficulty under the two methods
SIGNIFICANCE = 0.05  # of a two-sided test
POWER = 0.8  # the chance to detect the difference with `Power.items_needed` items


@dataclass(frozen=True)
class Power:
    """The power of studies with a given number of raters."""

    raters: int  # answers per item and method
    accuracy: float  # human accuracy of the better method
    worse: float  # share of single answers that match the prediction, for the other method
    chances: Sequence[tuple[int, float]]  # for each number of items, the chance to detect the difference
    items_needed: int  # with which 80 % of studies detect it


def power_table(
    difference: float = 0.05,
    *,
    accuracy: float = 0.75,
    neutral: float = 0.1,
    items: Sequence[int] = ITEMS,
    raters: Sequence[int] = RATERS,
    seed: int = 0,
) -> list[Power]:
    """Return the power of studies of several sizes.

    Parameters
    ----------
    difference : float
        Difference between the human accuracies of two methods: 0.05 is five points.
    accuracy : float
        Share of single answers that match the prediction, for the better method.
    neutral : float
        Share of "cannot tell".
    items, raters : sequences of int
        Numbers of items, and of answers per item and method.
    seed : int
        Seed of the simulated items.

    Returns
    -------
    list of Power
        One element for each number of raters.

    Raises
    ------
    InputError
        If the accuracy is not between the difference and one minus the share of neutral answers.

    >>> [entry.raters for entry in power_table(items=[100], raters=[1, 3])]
    [1, 3]
    """
    if not 0 < difference < accuracy < 1 - neutral:
        raise InputError(
            f"accuracy is {accuracy}; expected more than difference ({difference}) and less than 1 - neutral "
            f"({1 - neutral:g})."
        )
    rng = np.random.default_rng(seed)
    covariance = [[1, CORRELATION], [CORRELATION, 1]]
    ease = norm.cdf(rng.multivariate_normal([0, 0], covariance, POPULATION, method="cholesky").T)
    luck = rng.random((2, max(raters), POPULATION))
    return [_power(difference, accuracy, neutral, ease, luck[:, :n], items) for n in raters]


def _power(
    difference: float, accuracy: float, neutral: float, ease: Array, luck: Array, items: Sequence[int]
) -> Power:
    """Return the power for the raters of `luck`, (2, raters, POPULATION); `ease` is (2, POPULATION)."""
    better = _right(_share(accuracy, neutral, ease[0]), neutral, luck[0])

    def worse_at(share: float) -> Array:
        return _right(_share(share, neutral, ease[1]), neutral, luck[1])

    target = better.mean() - difference
    share = brentq(lambda share: float(worse_at(share).mean() - target), 0.01, accuracy, xtol=1e-4)
    sd = float((better - worse_at(share)).std())
    bound = -ndtri(SIGNIFICANCE / 2)
    chances = [(m, float(norm.cdf(np.sqrt(m) * difference / sd - bound))) for m in items]
    needed = int(np.ceil(((bound + ndtri(POWER)) * sd / difference) ** 2))
    return Power(luck.shape[1], float(better.mean()), float(share), chances, needed)


def _share(mean: float, neutral: float, ease: Array) -> Array:
    """Return for each item the chance that a rater who chooses a class chooses the predicted one."""
    among = mean / (1 - neutral)
    size = 1 / SPREAD - 1  # of the beta distribution: its variance is SPREAD of the largest possible
    return np.asarray(beta.ppf(ease, among * size, (1 - among) * size))


def _right(share: Array, neutral: float, luck: Array) -> Array:
    """Return (items,) whether the raters, one row of `luck` each, decide for the predicted class."""
    chosen = luck >= neutral
    right = chosen & ((luck - neutral) / (1 - neutral) < share)
    return np.asarray(2.0 * right.sum(axis=0) > chosen.sum(axis=0), dtype=float)


# Simulated raters

# A lexicon reader chooses a class if the lexicon's score, between -1 and 1, is at least this far from 0. Each
# reader draws a bound from this range, whose lower end is the lexicon's own.
BOUNDS = (0.05, 0.3)
OVERLOOKED = 0.1  # the share of words that a reader overlooks

Reader = Callable[[Task], int | None]


def simulate(study: Study, *, raters: int = 5, careless: int = 0, seed: int = 0) -> int:
    """Let simulated raters answer every task that they are offered; people's quotas are not touched.

    Parameters
    ----------
    study : Study
        An open study.
    raters : int
        Number of raters who read with the lexicon. They need texts and two classes, the second one positive.
    careless : int
        Number of raters who choose at random.
    seed : int
        Seed of overlooked words and random choices.

    Returns
    -------
    int
        The number of answers to items.

    Raises
    ------
    InputError
        If there is no rater, or the lexicon cannot read this study.
    """
    if raters < 0 or careless < 0 or not raters + careless:
        raise InputError("Nothing to simulate: set --raters or --careless to at least 1.")
    lexicon = _lexicon(study) if raters else None
    before = len(study.progress(simulated=True))
    answers = 0
    # Careless raters first: they get tasks even if few are left.
    for i, kind in enumerate(["careless"] * careless + ["lexicon"] * raters):
        rng = np.random.default_rng([seed, before + i])
        read = careless_reader(study, rng) if kind == "careless" else lexicon_reader(lexicon, rng)
        with study.store.writing():  # one transaction per session: much faster than one per answer
            answers += _session(study, kind, read)
    return answers


def _lexicon(study: Study) -> Any:
    """Return the sentiment analyzer, if it can read the study."""
    settings = study.settings
    if settings.kind != "text" or len(settings.classes) != 2:
        raise InputError(
            "Lexicon raters need texts with two classes, negative and positive; this study has "
            f"{settings.kind}s with {len(settings.classes)} classes. Simulate careless raters instead: "
            "--raters 0 --careless 5."
        )
    return require("vaderSentiment.vaderSentiment", extra="study").SentimentIntensityAnalyzer()


def lexicon_reader(lexicon: Any, rng: np.random.Generator) -> Reader:
    """Return a reader who adds up the sentiment of the words, a little inattentively."""
    bound = float(rng.uniform(*BOUNDS))

    def read(task: Task) -> int | None:
        if task.content is None:
            return task.expected
        words = " ".join(task.content["phrases"]).split()
        noticed = [word for word in words if rng.random() >= OVERLOOKED]
        score = lexicon.polarity_scores(" ".join(noticed))["compound"]
        return None if abs(score) < bound else int(score > 0)

    return read


def careless_reader(study: Study, rng: np.random.Generator) -> Reader:
    """Return a rater who chooses among all answers at random."""
    classes = len(study.settings.classes)

    def pick(_: Task) -> int | None:
        choice = int(rng.integers(classes + 1))
        return None if choice == classes else choice

    return pick


def _session(study: Study, kind: str, read: Reader) -> int:
    """Run one simulated rater's whole session; return the number of answers to items."""
    rater = study.invite(kind, simulated=True)
    study.consent(rater)
    study.start(rater)
    answers = 0
    while (task := next_task(study, rater)) is not None:
        give_answer(study, rater, task.position, task.attempt, read(task))
        answers += not task.practice and task.content is not None
    return answers
