"""What a report is measured from: the explanations, the model's predictions, the evaluator."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np

from l2x._base.arrays import Array
from l2x.errors import InputError
from l2x.evaluation._information import log_informed, log_uninformed
from l2x.explainer import Explainer
from l2x.explanation import Explanation
from l2x.features import View, selectable_units
from l2x.learning import (
    BITS,
    Bootstrap,
    Conditional,
    Estimate,
    FittedSurrogate,
    RemovalTest,
    TrainingPlan,
    agreement,
    losses,
    masked_predictions,
    removal_test,
)
from l2x.model import BlackBox

# Predictions with less information than this, in bits, hardly vary: shares of it would be noise.
NOTHING = 0.005
# A first call that takes less than this many seconds may be mostly imports and set-up: it is timed again.
SET_UP = 1.0


@dataclass(frozen=True)
class Reference:
    """Known facts that explanations can be compared with.

    Attributes
    ----------
    truth : array of bool, (n, d), optional
        The truly relevant features of each test row.
    exact : Conditional, optional
        The exact P_m(y | x_S), such as a `ConditionalModel`. Adds the gap to the best subsets; needs `truth`.
    randomised : Explainer or Explanation, optional
        The same method fitted to a `random_model`, or its explanations of the test rows: these must differ.

    Examples
    --------
    >>> Reference(truth=np.eye(3, dtype=bool)).exact is None
    True
    """

    truth: Array | None = None
    exact: Conditional | None = None
    randomised: Any = None

    def __post_init__(self) -> None:
        if self.exact is not None and self.truth is None:
            raise InputError("Reference(exact=...) also needs truth=, the truly relevant features.")
        given = self.randomised
        if not (given is None or isinstance(given, Explanation) or hasattr(given, "explain")):
            raise InputError(
                f"randomised is a {type(given).__name__}, not an explainer; pass one that was fitted to the "
                "random model: Explainer(random_model(...), k).fit(X)."
            )


@dataclass(frozen=True)
class Subject:
    """Explanations of the test rows, and the method that made them, if it is available."""

    name: str
    explanation: Explanation
    repeats: Sequence[Explanation] = ()  # of the same rows, by the same method with other seeds
    source: Any = None  # the method, with explain(X, k); None for precomputed explanations
    explain_seconds: float | None = None  # for all rows
    how: Mapping[str, Any] = field(default_factory=dict)  # further options of `Explainer.explain`

    def selections(self, method: Any, X: Any) -> Explanation:
        """Return what a method selects in X with the same k and options."""
        return selections_of(method, X, self.explanation.k, self.how)


def subject_of(
    given: Any,
    X: Any,
    k: int | None,
    name: str | None,
    *,
    model: Any = None,
    how: Mapping[str, Any] | None = None,
) -> Subject:
    """Explain X by the first of `given`, one method or a list, and by the others for comparison."""
    how = how or {}
    members = [attach_model(one, model) for one in (given if isinstance(given, list | tuple) else [given])]
    if not members:
        raise InputError("There is nothing to report on: pass an explainer or an explanation.")
    for member in members:
        if not isinstance(member, Explanation) and not hasattr(member, "explain"):
            kind = type(member).__name__
            raise InputError(f"Cannot report on a {kind}: pass an explainer, or its explanation of X_test.")
    first, *repeated = members
    if how and isinstance(first, Explanation):
        raise InputError(f"{next(iter(how))}= needs an explainer; these explanations are already computed.")
    k = getattr(first, "k", None) if k is None else k
    if k is None:
        raise InputError(f"{type(first).__name__} has no k; pass k=, the number of features to select.")
    explanation, seconds = _timed(first, X, k, how)
    repeats = [selections_of(other, X, k, how) for other in repeated]
    if isinstance(first, Explanation):
        return Subject(name or "explanations", explanation, repeats)
    own_name = getattr(first, "name", None) or f"l2x, objective={getattr(first, 'objective', '?')!r}"
    return Subject(name or str(own_name), explanation, repeats, first, seconds, how)


def attach_model(method: Any, model: Any) -> Any:
    """Return the method, with `model` attached if it is an explainer that was loaded without one."""
    loaded = isinstance(method, Explainer) and method.model is None
    return method.with_model(model) if loaded else method


def selections_of(method: Any, X: Any, k: int, how: Mapping[str, Any] = MappingProxyType({})) -> Explanation:
    """Return what a method, or a precomputed explanation of X, selects with this k.

    `how` are further options of `Explainer.explain`: keep, polish, refine.
    """
    if isinstance(method, Explanation):
        if len(method) != len(X):
            raise InputError(f"The explanation has {len(method)} rows, X_test has {len(X)}.")
        # The same ranking, cut after k. Sizes only hold for the k that they were learned with.
        return replace(method, k=k, sizes=method.sizes if k == method.k else None)
    if how and not isinstance(method, Explainer):
        option, kind = next(iter(how)), type(method).__name__
        raise InputError(f"{option}= needs an l2x.Explainer; a {kind} only has explain(X, k).")
    explanation: Explanation = method.explain(X, k, **how)
    return explanation


def _timed(method: Any, X: Any, k: int, how: Mapping[str, Any]) -> tuple[Explanation, float]:
    """Return an explanation and the seconds it took, without the set-up of a first call."""
    seconds = 0.0
    for _ in range(2):
        started = time.perf_counter()
        explanation = selections_of(method, X, k, how)
        _ = explanation.mask  # ranking is part of the work
        seconds = time.perf_counter() - started
        if seconds >= SET_UP:
            break
    return explanation, seconds


@dataclass(frozen=True)
class Evidence:
    """Test rows, the model's predictions for them, the explanations, and the evaluator."""

    subject: Subject
    black_box: BlackBox
    view: View
    X_train: Any  # as the user passed it
    X_test: Any  # as checked by the view
    predictions: Array  # (n, outputs), for X_test
    evaluator: FittedSurrogate
    training: TrainingPlan  # for the probes
    seed: int  # for the probes, the bootstrap and random selections
    query_seconds: float  # for all rows of X_test
    reference: Reference = field(default_factory=Reference)

    @property
    def explanation(self) -> Explanation:
        """The explanations of the test rows."""
        return self.subject.explanation

    @property
    def classifies(self) -> bool:
        """Whether the model is a classifier."""
        return self.black_box.task == "classification"

    @property
    def measure(self) -> str:
        """The name of what `agreement` returns."""
        return "accuracy" if self.classifies else "R²"

    @cached_property
    def boot(self) -> Bootstrap:
        """The bootstrap over the test rows."""
        return Bootstrap(len(self.predictions), seed=self.seed)

    def agreement(self, guesses: Array, predictions: Array | None = None) -> Estimate:
        """Return the share of rows with the model's class, or R²; for the test rows by default."""
        if predictions is None:
            predictions = self.predictions
        same_rows = len(predictions) == len(self.predictions)
        boot = self.boot if same_rows else Bootstrap(len(predictions), seed=self.seed)
        return agreement(guesses, predictions, boot, classes=self.classifies)

    def losses(self, guesses: Array) -> Array:
        """Return (n,) numbers whose mean is one minus `agreement`; NaN if the predictions do not vary."""
        return losses(guesses, self.predictions, classes=self.classifies)

    @cached_property
    def selectable(self) -> Array:
        """Features that may be selected in each test row, (n, d); padding may not."""
        selectable = selectable_units(self.view, self.X_test)
        return np.ones_like(self.explanation.mask) if selectable is None else selectable

    @cached_property
    def masks(self) -> RemovalTest[Array]:
        """The masks of the removal test, (n, d) each."""
        return removal_test(self.explanation.mask, self.selectable, seed=self.seed)

    @cached_property
    def masked(self) -> dict[str | None, RemovalTest[Array]]:
        """The model's predictions under these masks, (n, outputs) each, by masking; the view's own is first.

        Tables have the maskings that every figure is reported under, other views all maskings they define.
        The model is queried once per mask and row, and 20 times for values of random training rows."""
        ways = self.view.reported_maskings()
        return {
            way: self.masks.map(
                partial(masked_predictions, self.black_box, self.view, self.X_test, masking=way)
            )
            for way in (tuple(self.view.maskings()) if ways == (None,) else ways)
        }

    @cached_property
    def _target(self) -> Array:
        """Predictions in the units of log-likelihoods: probabilities, or standardised values."""
        if self.classifies:
            return self.predictions
        return self.evaluator.likelihood.targets(self.predictions).numpy()

    @cached_property
    def log_uninformed(self) -> Array:
        """log q(y) from the mean prediction alone, (n,) nats."""
        return log_uninformed(self._target, classes=self.classifies)

    @cached_property
    def available(self) -> float:
        """Bits about the prediction in the whole input: I(X; Y), or half the variance of standardised
        values."""
        informed = log_informed(self._target, classes=self.classifies)
        return float((informed - self.log_uninformed).mean() * BITS)

    def captured(self, mask: Array) -> Array:
        """Return the bits about the prediction that the evaluator finds in a selection, (n,)."""
        log_q = self.evaluator.log_q(self.X_test, mask, self.predictions)
        return np.asarray((log_q - self.log_uninformed) * BITS)

    def share(self, bits: Estimate) -> Estimate:
        """Return bits as a share of the available information; NaN if there is none."""
        return bits.scaled(1 / self.available) if self.available >= NOTHING else Estimate(float("nan"))
