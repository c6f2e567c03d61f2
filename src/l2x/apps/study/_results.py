"""Results of a study: human accuracy with intervals, agreement between raters, learning, carelessness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from l2x._base.arrays import Array
from l2x.apps.study._study import Answer, Item, Study
from l2x.errors import InputError, require
from l2x.learning import LEVEL, Estimate

# Raters who pass a smaller share of their checks are careless.
PASS = 2 / 3
# A session is divided into this many parts, to see whether raters learn or tire.
PARTS = 4
# The choice "cannot tell", and the decision of raters if no class has more votes than every other.
UNDECIDED = -1
DRAWS = 1000


@dataclass(frozen=True)
class MethodResult:
    """The results of one method."""

    method: str
    items: int
    answers: int
    accuracy: Estimate  # the paper's: share of items whose raters together choose the predicted class
    careful: Estimate  # the same without careless raters
    single: float  # share of single answers that match the prediction
    neutral: float  # share of "cannot tell"
    seconds: float  # median time of an answer
    alpha: float  # Krippendorff's
    posthoc: float  # post-hoc accuracy of the model on these items
    evaluator: float  # post-hoc accuracy measured by the evaluator
    confusion: Array  # (classes, classes + 1) items by prediction and by decision, undecided last


@dataclass(frozen=True)
class Difference:
    """The accuracy of the first method minus that of the second, on items rated under both."""

    first: str
    second: str
    difference: Estimate


@dataclass(frozen=True)
class Part:
    """A part of the sessions: the share of single answers that match the prediction, and the median time."""

    part: int
    answers: int
    single: float
    seconds: float


@dataclass(frozen=True)
class Careless:
    """A rater who failed the attention checks."""

    number: int
    passed: int
    checks: int


@dataclass(frozen=True)
class Results:
    """The results of a study, either of people or of simulated raters.

    Attributes
    ----------
    simulated : bool
        Whether the raters are simulated.
    raters, answers : int
        How many there are.
    methods : sequence of MethodResult
        Human accuracy and agreement of each method.
    differences : sequence of Difference
        Differences between every two methods.
    learning : sequence of Part
        Accuracy in each part of the sessions.
    careless : sequence of Careless
        Raters who failed attention checks, and are left out.
    """

    simulated: bool
    raters: int
    answers: int
    methods: Sequence[MethodResult]
    differences: Sequence[Difference]
    learning: Sequence[Part]
    careless: Sequence[Careless]

    def to_records(self) -> list[dict[str, Any]]:
        """Return one record per method, for JSON; None where a number does not exist."""
        return [
            {
                "method": one.method,
                "simulated": self.simulated,
                "raters": self.raters,
                "items": one.items,
                "answers": one.answers,
                "human_accuracy": _number(one.accuracy.value),
                "low": _number(one.accuracy.low),
                "high": _number(one.accuracy.high),
                "single_accuracy": _number(one.single),
                "neutral": _number(one.neutral),
                "alpha": _number(one.alpha),
                "posthoc_accuracy": _number(one.posthoc),
                "evaluator_accuracy": _number(one.evaluator),
                "confusion": one.confusion.tolist(),
            }
            for one in self.methods
        ]


def results(study: Study, *, simulated: bool = False, draws: int = DRAWS, seed: int = 0) -> Results:
    """Return the results of a study.

    Parameters
    ----------
    study : Study
        An open study.
    simulated : bool
        Count the answers of simulated raters instead of people's.
    draws, seed : int
        Number of bootstrap draws, and their seed.

    Returns
    -------
    Results
        Accuracies, differences and agreement, with intervals.

    Raises
    ------
    InputError
        If there are no such answers yet.
    """
    answers = study.answers(simulated=simulated)
    rated = [answer for answer in answers if answer.item is not None]
    if not rated:
        who = "simulated raters" if simulated else "people"
        raise InputError(f"'{study.store.path}' has no answers of {who} yet.")
    items, names = study.items(), study.settings.methods
    ratings = _ratings(study, rated, items)
    careless = _careless(answers)
    accuracies, differences = human_accuracy(ratings, draws=draws, seed=seed)
    attentive = ratings.without([one.number for one in careless])
    careful, _ = human_accuracy(attentive, draws=draws, seed=seed) if careless else (accuracies, {})
    seconds = np.array([np.nan if a.seconds is None else a.seconds for a in rated])
    return Results(
        simulated=simulated,
        raters=len(np.unique(ratings.rater)),
        answers=len(rated),
        methods=[
            _method_result(name, m, ratings, items, accuracies[m], careful[m], seconds[ratings.method == m])
            for m, name in enumerate(names)
        ],
        differences=[Difference(names[a], names[b], d) for (a, b), d in differences.items()],
        learning=_learning(rated, ratings.agrees, seconds, study.settings.length),
        careless=careless,
    )


@dataclass(frozen=True)
class Ratings:
    """Answers to items: (n,) arrays of item, method, rater and choice, where -1 is "cannot tell"."""

    item: Array
    method: Array
    rater: Array
    choice: Array
    predicted: Array  # (items,) the class that the model predicts
    methods: int
    classes: int

    @property
    def items(self) -> int:
        """Return the number of items."""
        return len(self.predicted)

    def without(self, raters: Sequence[int]) -> Ratings:
        """Return the answers of all other raters."""
        kept = ~np.isin(self.rater, list(raters))
        columns = {name: getattr(self, name)[kept] for name in ("item", "method", "rater", "choice")}
        return replace(self, **columns)

    @property
    def agrees(self) -> Array:
        """Return (n,) whether a single answer is the predicted class."""
        return np.asarray(self.choice == self.predicted[self.item])

    def counts(self, weights: Array | None = None) -> Array:
        """Return (methods, items, classes + 1) counts of each answer, "cannot tell" last.

        `weights` are (n,) numbers that set how often each answer counts.
        """
        answers = self.classes + 1
        cell = (self.method * self.items + self.item) * answers + self.choice % answers
        size = self.methods * self.items * answers
        return np.bincount(cell, weights, size).reshape(self.methods, self.items, answers)


def _ratings(study: Study, rated: Sequence[Answer], items: Sequence[Item]) -> Ratings:
    return Ratings(
        item=np.array([answer.item for answer in rated]),
        method=np.array([answer.method for answer in rated]),
        rater=np.array([answer.number for answer in rated]),
        choice=np.array([UNDECIDED if answer.choice is None else answer.choice for answer in rated]),
        predicted=np.array([item.prediction for item in items]),
        methods=len(study.settings.methods),
        classes=len(study.settings.classes),
    )


def _method_result(
    name: str, m: int, ratings: Ratings, items: Sequence[Item], accuracy: Estimate, careful: Estimate,
    seconds: Array,
) -> MethodResult:  # fmt: skip
    """Return the results of method number `m`."""
    mine, counts, cells = ratings.method == m, ratings.counts()[m], [item.cells[m] for item in items]
    rated = counts.sum(axis=1) > 0
    return MethodResult(
        method=name,
        items=int(rated.sum()),
        answers=int(mine.sum()),
        accuracy=accuracy,
        careful=careful,
        single=_mean(ratings.agrees[mine]),
        neutral=_mean(ratings.choice[mine] == UNDECIDED),
        seconds=_median(seconds),
        alpha=alpha(counts),
        posthoc=_matches([cell.posthoc for cell in cells], ratings.predicted, rated),
        evaluator=_matches([cell.evaluator for cell in cells], ratings.predicted, rated),
        confusion=_confusion(decided(counts)[rated], ratings.predicted[rated], ratings.classes),
    )


def decided(counts: Array) -> Array:
    """Return what the raters of each cell decided: the class with the most votes; a tie is UNDECIDED.

    With two classes this is the sign of the paper's mean of +1, -1 and 0. "Cannot tell" counts for no class.

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
    """Return each method's human accuracy, and the differences between every two, paired by item.

    Intervals come from a bootstrap over both items and raters (the pigeonhole bootstrap, Owen 2007, which is
    conservative). Draws contain fewer different raters, who decide less often, and so are biased downwards;
    intervals are shifted by the estimated bias.
    """
    pairs = list(combinations(range(ratings.methods), 2))
    rng = np.random.default_rng(seed)
    raters, who = np.unique(ratings.rater, return_inverse=True)
    value = _shares(ratings, pairs, np.ones(ratings.items), None)
    drawn = np.array(
        [
            _shares(ratings, pairs, _resample(ratings.items, rng), _resample(len(raters), rng)[who])
            for _ in range(draws if len(raters) else 0)
        ]
    ).reshape(-1, len(value))
    lowest = [0.0] * ratings.methods + [-1.0] * len(pairs)
    estimates = [_estimate(*each) for each in zip(value, drawn.T, lowest, strict=True)]
    return estimates[: ratings.methods], dict(zip(pairs, estimates[ratings.methods :], strict=True))


def _resample(n: int, rng: np.random.Generator) -> Array:
    """Return how often each of n is drawn in n draws."""
    return np.asarray(rng.multinomial(n, np.full(n, 1 / n)), dtype=float)


def _shares(ratings: Ratings, pairs: Sequence[tuple[int, int]], items: Array, answers: Array | None) -> Array:
    """Return the accuracies, then the paired differences, with weights of items and answers; NaN if none."""
    counts = ratings.counts(answers)
    rated = (counts.sum(axis=2) > 0) * items  # (methods, items)
    right = decided(counts) == ratings.predicted
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


def alpha(counts: Array) -> float:
    """Return Krippendorff's alpha (nominal) of (items, answers) counts.

    It is NaN if no item has two answers, or all answers are the same.

    >>> round(alpha(np.array([[2, 0], [0, 2], [1, 1]])), 3)
    0.444
    """
    krippendorff = require("krippendorff", extra="study")
    pairable = counts[counts.sum(axis=1) > 1]
    if not len(pairable) or (pairable.sum(axis=0) > 0).sum() < 2:
        return float("nan")
    return float(krippendorff.alpha(value_counts=pairable.astype(int), level_of_measurement="nominal"))


def _careless(answers: Sequence[Answer]) -> list[Careless]:
    """Return the raters who passed too few of their checks."""
    checks: dict[int, list[bool]] = {}
    for answer in answers:
        if answer.item is None:
            checks.setdefault(answer.number, []).append(answer.choice == answer.expected)
    return [
        Careless(number, sum(passed), len(passed))
        for number, passed in checks.items()
        if sum(passed) < PASS * len(passed)
    ]


def _learning(rated: Sequence[Answer], agrees: Array, seconds: Array, length: int) -> list[Part]:
    part = np.array([min(PARTS - 1, answer.place * PARTS // length) for answer in rated])
    return [
        Part(p, int((part == p).sum()), _mean(agrees[part == p]), _median(seconds[part == p]))
        for p in range(PARTS)
        if (part == p).any()
    ]


def _confusion(decision: Array, predicted: Array, classes: int) -> Array:
    table = np.zeros((classes, classes + 1), dtype=int)
    np.add.at(table, (predicted, decision), 1)  # UNDECIDED, -1, is the last column
    return table


def _matches(classes: Sequence[int | None], predicted: Array, rated: Array) -> float:
    """Return the share of rated items with a class for which it is the predicted one."""
    pairs = [(c, p) for c, p, r in zip(classes, predicted, rated, strict=True) if r and c is not None]
    return float(np.mean([c == p for c, p in pairs])) if pairs else float("nan")


def _mean(values: Array) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _median(values: Array) -> float:
    values = values[np.isfinite(values)]
    return float(np.median(values)) if len(values) else float("nan")


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
