"""What came out of a study, of people or of simulated raters, never of both together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from l2x._base.arrays import Array
from l2x.apps.study._statistics import UNDECIDED, Ratings, alpha, decided, human_accuracy
from l2x.apps.study._study import Answer, Study
from l2x.errors import InputError
from l2x.learning import Estimate

# Whoever gets fewer of their checks right is careless.
PASS = 2 / 3
# A session is cut into this many parts, to see whether raters learn or tire.
PARTS = 4


@dataclass(frozen=True)
class MethodResult:
    """One method: `accuracy` is the paper's human accuracy, what raters decided together; `single` the share
    of single answers that are the model's. Post-hoc and judge are of the same items."""

    method: str
    items: int
    answers: int
    accuracy: Estimate
    careful: Estimate  # the accuracy without raters who fail the checks
    single: float
    neutral: float
    seconds: float  # the median
    alpha: float
    posthoc: float
    judge: float
    confusion: Array  # (classes, classes + 1) items by the model's class and what was decided, undecided last


@dataclass(frozen=True)
class Difference:
    """How much higher the first method's accuracy is, on items rated under both."""

    first: str
    second: str
    difference: Estimate


@dataclass(frozen=True)
class Part:
    """A part of the sessions: the share of single answers that are the model's, and the median seconds."""

    part: int
    answers: int
    single: float
    seconds: float


@dataclass(frozen=True)
class Careless:
    """A rater who failed the checks."""

    number: int
    passed: int
    checks: int


@dataclass(frozen=True)
class Results:
    """All of it; `simulated` says whose answers these are."""

    simulated: bool
    raters: int
    answers: int
    methods: Sequence[MethodResult]
    differences: Sequence[Difference]
    learning: Sequence[Part]
    careless: Sequence[Careless]

    def to_records(self) -> list[dict[str, Any]]:
        """One record per method, for JSON."""
        return [
            {
                "method": one.method,
                "simulated": self.simulated,
                "raters": self.raters,
                "items": one.items,
                "answers": one.answers,
                "human_accuracy": one.accuracy.to_dict()["value"],
                "low": one.accuracy.to_dict()["low"],
                "high": one.accuracy.to_dict()["high"],
                "single_accuracy": _number(one.single),
                "neutral": _number(one.neutral),
                "alpha": _number(one.alpha),
                "posthoc_accuracy": _number(one.posthoc),
                "judge_accuracy": _number(one.judge),
                "confusion": one.confusion.tolist(),
            }
            for one in self.methods
        ]


def results(study: Study, *, simulated: bool = False, draws: int = 1000, seed: int = 0) -> Results:
    """What people answered; with `simulated`, what stand-ins did.

    study : with answers
    draws, seed : of the bootstrap

    Returns
    -------
    The `Results`.

    Raises
    ------
    InputError
        If there are no such answers yet.
    """
    answers = study.answers(simulated=simulated)
    if not any(answer.item is not None for answer in answers):
        other = "simulated raters" if simulated else "people"
        raise InputError(f"'{study.store.path}' has no answers of {other} yet.")
    items = study.items()
    rated = [answer for answer in answers if answer.item is not None]
    ratings = _ratings(study, rated, np.array([item.answer for item in items]))
    careless = _careless(answers)
    accuracies, differences = human_accuracy(ratings, draws=draws, seed=seed)
    attentive = ratings.without([one.number for one in careless])
    careful, _ = human_accuracy(attentive, draws=draws, seed=seed) if careless else (accuracies, {})
    seconds = np.array([np.nan if a.seconds is None else a.seconds for a in rated])
    counts, model = ratings.counts(), ratings.model
    found = []
    for m, name in enumerate(study.settings.methods):
        mine, there = ratings.method == m, counts[m].sum(axis=1) > 0
        cells = [item.cells[m] for item in items]
        found.append(
            MethodResult(
                method=name,
                items=int(there.sum()),
                answers=int(mine.sum()),
                accuracy=accuracies[m],
                careful=careful[m],
                single=_mean(ratings.agrees[mine]),
                neutral=_mean(ratings.choice[mine] == UNDECIDED),
                seconds=_median(seconds[mine]),
                alpha=alpha(counts[m]),
                posthoc=_same([cell.posthoc for cell in cells], model, there),
                judge=_same([cell.judge for cell in cells], model, there),
                confusion=_confusion(decided(counts[m])[there], model[there], ratings.classes),
            )
        )
    names = study.settings.methods
    return Results(
        simulated=simulated,
        raters=len(np.unique(ratings.rater)),
        answers=len(rated),
        methods=found,
        differences=[Difference(names[a], names[b], d) for (a, b), d in differences.items()],
        learning=_learning(rated, ratings.agrees, seconds, study.settings.design.length),
        careless=careless,
    )


def _ratings(study: Study, rated: Sequence[Answer], model: Array) -> Ratings:
    return Ratings(
        item=np.array([answer.item for answer in rated]),
        method=np.array([answer.method for answer in rated]),
        rater=np.array([answer.number for answer in rated]),
        choice=np.array([UNDECIDED if answer.choice is None else answer.choice for answer in rated]),
        model=model,
        methods=len(study.settings.methods),
        classes=len(study.settings.classes),
    )


def _careless(answers: Sequence[Answer]) -> list[Careless]:
    """Raters who got too few of their checks right."""
    checks: dict[int, list[bool]] = {}
    for answer in answers:
        if answer.item is None:
            checks.setdefault(answer.number, []).append(answer.choice == answer.model)
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


def _confusion(decision: Array, model: Array, classes: int) -> Array:
    table = np.zeros((classes, classes + 1), dtype=int)
    np.add.at(table, (model, decision), 1)  # UNDECIDED, -1, is the last column
    return table


def _same(classes: Sequence[int | None], model: Array, there: Array) -> float:
    """The share of rated items for which a class is known and is the model's."""
    known = [(c, m) for c, m, t in zip(classes, model, there, strict=True) if t and c is not None]
    return float(np.mean([c == m for c, m in known])) if known else float("nan")


def _mean(values: Array) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _median(values: Array) -> float:
    values = values[np.isfinite(values)]
    return float(np.median(values)) if len(values) else float("nan")


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
