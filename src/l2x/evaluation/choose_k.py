"""How many features are enough: information over k, from one fitted explainer."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.foundations.arrays import Array
from l2x.values import SubsetValue

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Up to here every k is tried, beyond it some on a geometric scale.
FEW_SIZES = 16
# Nats below which nothing was told.
NOTHING = 1e-3


@dataclass(frozen=True)
class SizeChoice:
    """The smallest k that keeps a share of the information, and the curve that it was read from.

    k, keep : the choice, and the share that was wanted
    sizes, shares : the curve; 1 is the most that any number of features reaches under this q
    """

    k: int
    keep: float
    sizes: list[int]
    shares: list[float]

    def plot(self, path: str | Path | None = None) -> Figure:
        """The curve, with the choice marked. Saved if a path is given."""
        from l2x.plots.sizes import plot_sizes

        return plot_sizes(self, path)


def choose_k(
    explainer: Any,
    X: Any,
    *,
    keep: float = 0.95,
    value: SubsetValue | None = None,
    responses: Array | None = None,
) -> SizeChoice:
    """The smallest k whose selections keep a share of the information about the model's answer.

    Parameters
    ----------
    explainer : a fitted Explainer, or anything with explain(X, k)
    X : rows to measure on, best rows that the explainer was not fitted on
    keep : the share; 1 is what the best number of features tells under the same q
    value : the q that measures; by default the explainer's own, better a judge (`fit_judge`)
    responses : the model's answers for X, if they are at hand

    >>> from l2x.baselines import GlobalTopK
    >>> from l2x.datasets import synthetic
    >>> data = synthetic("orange_skin", 200, seed=0)
    >>> exact = data.model.conditional(rows=100)
    >>> choose_k(GlobalTopK(exact).fit(data.X, k=4), data.X, value=exact).k
    4
    """
    if not 0 < keep <= 1:
        raise InputError(f"keep is {keep}; expected a share between 0 and 1, such as 0.95.")
    q = getattr(explainer, "q_", None) if value is None else value
    if q is None:
        kind = type(explainer).__name__
        raise InputError(f"A {kind} does not know what a subset is worth: pass value=, such as a fit_judge.")
    answers = q.answers(X) if responses is None else np.asarray(responses)
    if answers.ndim != 2 or len(answers) != len(X):
        raise InputError(
            f"responses has the shape {answers.shape}; expected the model's answers, ({len(X)}, outputs)."
        )
    first = explainer.explain(X, 1)
    d = first.scores.shape[1]
    known: dict[int, float] = {}

    def told(k: int) -> float:
        """Nats more than nothing at all tells."""
        if k not in known:
            known[k] = float(q.log_q(X, resized(first, k).mask, answers).mean()) - nothing
        return known[k]

    nothing = float(q.log_q(X, np.zeros_like(first.mask), answers).mean())
    sizes = some_sizes(d)
    most = max(told(k) for k in sizes)
    if most < NOTHING:
        warnings.warn(
            "No number of features tells anything about the answer: does it vary on these rows?", stacklevel=2
        )
        return SizeChoice(1, keep, sizes, [0.0] * len(sizes))
    enough = next((k for k in sizes if told(k) >= keep * most), sizes[-1])
    low = max((k for k in sizes if k < enough), default=0)
    while enough - low > 1:  # between two sizes of the grid
        middle = (low + enough) // 2
        low, enough = (low, middle) if told(middle) >= keep * most else (middle, enough)
    tried = sorted(known)
    return SizeChoice(enough, keep, tried, [known[k] / most for k in tried])


def resized(explanation: Explanation, k: int) -> Explanation:
    """The same ranking, cut after k features."""
    return replace(explanation, k=k)


def some_sizes(d: int) -> list[int]:
    """All sizes of few features; of many, about FEW_SIZES on a geometric scale, the last one d."""
    if d <= FEW_SIZES:
        return list(range(1, d + 1))
    return sorted({round(float(k)) for k in np.geomspace(1, d, FEW_SIZES)})


def curve_rows(
    value: SubsetValue, X: Any, explanation: Explanation, sizes: Sequence[int], answers: Array
) -> list[Array]:
    """log q(y | x_S) of every row at every size, in nats."""
    return [value.log_q(X, resized(explanation, k).mask, answers) for k in sizes]
