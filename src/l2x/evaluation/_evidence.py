"""What the parts of a report card are measured from - who is judged, on what - and the units they share."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from l2x._base.arrays import Array
from l2x.errors import InputError
from l2x.evaluation._information import log_informed, log_uninformed
from l2x.explainer import Explainer
from l2x.explanation import Explanation
from l2x.features import View, removals, selectable_units
from l2x.learning import (
    BITS,
    Bootstrap,
    Conditional,
    Estimate,
    FittedQ,
    RemovalTest,
    TrainingPlan,
    agreement,
    losses,
    masked_answers,
    removal_test,
)
from l2x.model import BlackBox

# Bits below which there is no information about the answer to speak of: it hardly varies.
NOTHING = 0.005
# A first call that takes less than this many seconds may be mostly imports and set-up, which are not the
# price of a row: it is timed again.
SET_UP = 1.0


@dataclass(frozen=True)
class Subject:
    """Explanations of the test rows, and who made them, if that is known."""

    name: str
    explanation: Explanation
    others: Sequence[Explanation]  # of the same rows, by the same method with other seeds
    source: Any  # has explain(X, k); None for precomputed explanations
    explain_seconds: float | None
    keep: float | None = None  # the share that `source` is asked to keep, with k features at most

    def selections(self, method: Any, X: Any) -> Explanation:
        """What a method, or a precomputed explanation of X, selects when it is asked as this one was."""
        return selections_of(method, X, self.explanation.k, self.keep)


def subject_of(
    given: Any, X: Any, k: int | None, name: str | None, *, model: Any = None, keep: float | None = None
) -> Subject:
    """The first of `given`, one or a list, is judged; the others are compared with it."""
    members = [knowing(one, model) for one in (given if isinstance(given, list | tuple) else [given])]
    if not members:
        raise InputError("There is nothing to judge: give an explainer or an explanation.")
    for member in members:
        if not isinstance(member, Explanation) and not hasattr(member, "explain"):
            kind = type(member).__name__
            raise InputError(f"Cannot judge a {kind}: give an explainer, or what it returned for X_test.")
    first, *others = members
    if keep is not None and isinstance(first, Explanation):
        raise InputError("keep= is for an explainer; explanations are judged with the sizes that they have.")
    _check_keeps(first, keep)
    k = getattr(first, "k", None) if k is None else k
    if k is None:
        raise InputError(f"{type(first).__name__} has no k of its own: pass k=, how many features to select.")
    compared = [selections_of(other, X, k, keep) for other in others]
    if isinstance(first, Explanation):
        return Subject(name or "explanations", selections_of(first, X, k), compared, None, None)
    explanation, seconds = _timed(first, X, k, keep)
    if seconds < SET_UP:
        explanation, seconds = _timed(first, X, k, keep)
    own_name = getattr(first, "name", None) or f"l2x, value={getattr(first, 'value', '?')!r}"
    return Subject(name or str(own_name), explanation, compared, first, seconds, keep)


def knowing(method: Any, model: Any) -> Any:
    """The method; an explainer that was loaded without its model gets it."""
    loaded = isinstance(method, Explainer) and method.model is None
    return method.with_model(model) if loaded else method


def selections_of(method: Any, X: Any, k: int, keep: float | None = None) -> Explanation:
    """What a method, or a precomputed explanation of X, selects with this k."""
    if not isinstance(method, Explanation):
        _check_keeps(method, keep)
        share = {} if keep is None else {"keep": keep}
        explanation: Explanation = method.explain(X, k, **share)
        return explanation
    if len(method) != len(X):
        raise InputError(
            f"The explanation is of {len(method)} rows, X_test has {len(X)}: give the same rows."
        )
    # The same ranking, cut after k; sizes are for the k that they were learned with.
    return replace(method, k=k, sizes=method.sizes if k == method.k else None)


def _check_keeps(method: Any, keep: float | None) -> None:
    """Only an explainer of ours has learned how many features a row needs."""
    if not (keep is None or isinstance(method, Explainer | Explanation)):
        raise InputError(f"keep= is for an l2x.Explainer; a {type(method).__name__} has one k.")


def _timed(method: Any, X: Any, k: int, keep: float | None) -> tuple[Explanation, float]:
    """An explanation, and the seconds that it took."""
    started = time.perf_counter()
    explanation = selections_of(method, X, k, keep)
    _ = explanation.mask  # ranking is part of the work
    return explanation, time.perf_counter() - started


@dataclass(frozen=True)
class Evidence:
    """Test rows, the model's answers to them, what was selected in them, and the judge.

    X_test is checked by the view, X_train is as the user gave it; answers are (n, outputs).
    """

    subject: Subject
    black_box: BlackBox
    view: View
    X_train: Any
    X_test: Any
    answers: Array
    judge: FittedQ
    plan: TrainingPlan
    seed: int
    ask_seconds: float  # that the model took for all test rows
    truth: Array | None = None  # (n, d)
    exact: Conditional | None = None
    randomised: Any = None

    @property
    def explanation(self) -> Explanation:
        return self.subject.explanation

    @property
    def classifies(self) -> bool:
        return self.black_box.task == "classification"

    @cached_property
    def boot(self) -> Bootstrap:
        """Over the test rows."""
        return Bootstrap(len(self.answers), seed=self.seed)

    @property
    def measure(self) -> str:
        """What `agreement` is called."""
        return "accuracy" if self.classifies else "R²"

    def agreement(self, guesses: Array, answers: Array | None = None) -> Estimate:
        """The share of rows with the model's own answer; for regression, R². Of the test rows, or of others
        whose answers are given."""
        answers = self.answers if answers is None else answers
        boot = self.boot if len(answers) == len(self.answers) else Bootstrap(len(answers), seed=self.seed)
        return agreement(guesses, answers, boot, classes=self.classifies)

    def losses(self, guesses: Array) -> Array:
        """(n,) of which `agreement` is one minus the mean: 1 where the class is another, or squared errors in
        units of the answers' variance; NaN where these do not vary."""
        return losses(guesses, self.answers, classes=self.classifies)

    @cached_property
    def selectable(self) -> Array:
        """(n, d): what may be selected in each test row; padding may not."""
        found = selectable_units(self.view, self.X_test)
        return np.ones_like(self.explanation.mask) if found is None else found

    @cached_property
    def masks(self) -> RemovalTest[Array]:
        """(n, d) each: the selection, as many random features, and everything but the selection."""
        return removal_test(self.explanation.mask, self.selectable, seed=self.seed)

    @cached_property
    def predictions(self) -> dict[str | None, RemovalTest[Array]]:
        """The model's predictions under these masks, (n, outputs) each, for every way of masking that the
        view has; its own comes first. The model is queried once per mask."""
        return {
            removal: self.masks.map(partial(masked_answers, self.black_box, view, self.X_test))
            for removal, view in removals(self.view).items()
        }

    @cached_property
    def _target(self) -> Array:
        """Answers in the units of log-likelihoods: probabilities, or standardised means."""
        if self.classifies:
            return self.answers
        return self.judge.likelihood.targets(self.answers).numpy()

    @cached_property
    def log_uninformed(self) -> Array:
        """(n,) nats: log q(y) from the mean answer alone."""
        return log_uninformed(self._target, classes=self.classifies)

    @cached_property
    def available(self) -> float:
        """Bits that the whole input has about the answer: I(X; Y), or half the variance of standardised
        means."""
        informed = log_informed(self._target, classes=self.classifies)
        return float((informed - self.log_uninformed).mean() * BITS)

    def captured(self, mask: Array) -> Array:
        """(n,) bits about the answer that the judge finds in a selection."""
        log_q = self.judge.log_q(self.X_test, mask, self.answers)
        return np.asarray((log_q - self.log_uninformed) * BITS)

    def share(self, bits: Estimate) -> Estimate:
        """Of all the information about the answer; NaN where there is none."""
        return bits.scaled(1 / self.available) if self.available >= NOTHING else Estimate(float("nan"))
