"""What a report card is about: an explainer, anything with explain(X, k), or precomputed explanations."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from l2x.errors import InputError
from l2x.explanation import Explanation

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

    @property
    def fit_seconds(self) -> float | None:
        return getattr(self.source, "fit_seconds_", None)

    @property
    def rows_asked(self) -> int | None:
        return getattr(self.source, "rows_asked_", None)

    @property
    def outputs(self) -> int | None:
        """How many numbers the model gave for a row when the explainer was fitted to it, if that is known."""
        q = getattr(self.source, "q_", None)
        return None if q is None else int(q.likelihood.outputs)

    def explain(self, X: Any) -> Explanation:
        """The same method on other rows."""
        explanation: Explanation = self.source.explain(X, self.explanation.k)
        return explanation


def subject_of(given: Any, X: Any, k: int | None, name: str | None) -> Subject:
    """The first of `given`, one or a list, is judged; the others are compared with it."""
    members = list(given) if isinstance(given, list | tuple) else [given]
    if not members:
        raise InputError("There is nothing to judge: give an explainer or an explanation.")
    for member in members:
        if not isinstance(member, Explanation) and not hasattr(member, "explain"):
            kind = type(member).__name__
            raise InputError(f"Cannot judge a {kind}: give an explainer, or what it returned for X_test.")
    first, *others = members
    if isinstance(first, Explanation):
        source, seconds, explanation = None, None, _precomputed(first, X, k or first.k)
    else:
        source = first
        explanation, seconds = _explained(first, X, k)
    return Subject(
        name or _name(first),
        explanation,
        [selections_of(other, X, explanation.k) for other in others],
        source,
        seconds,
    )


def selections_of(method: Any, X: Any, k: int) -> Explanation:
    """What a method, or a precomputed explanation of X, selects with this k."""
    if isinstance(method, Explanation):
        return _precomputed(method, X, k)
    explanation: Explanation = method.explain(X, k)
    return explanation


def _explained(method: Any, X: Any, k: int | None) -> tuple[Explanation, float]:
    """An explanation, and the seconds that it took."""
    k = getattr(method, "k", None) if k is None else k
    if k is None:
        raise InputError(
            f"{type(method).__name__} has no k of its own: pass k=, how many features to select."
        )
    explanation, seconds = _timed(method, X, k)
    return _timed(method, X, k) if seconds < SET_UP else (explanation, seconds)


def _timed(method: Any, X: Any, k: int) -> tuple[Explanation, float]:
    started = time.perf_counter()
    explanation: Explanation = method.explain(X, k)
    _ = explanation.mask  # ranking is part of the work
    return explanation, time.perf_counter() - started


def _precomputed(explanation: Explanation, X: Any, k: int) -> Explanation:
    if len(explanation) != len(X):
        raise InputError(
            f"The explanation is of {len(explanation)} rows, X_test has {len(X)}: give the same rows."
        )
    return replace(explanation, k=k)  # the same ranking, cut after k


def _name(method: Any) -> str:
    if isinstance(method, Explanation):
        return "explanations"
    return str(getattr(method, "name", None) or f"l2x, value={getattr(method, 'value', '?')!r}")
