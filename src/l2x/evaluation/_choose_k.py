"""How many features are enough: information over k, from one fitted explainer."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from l2x._base.arrays import Array
from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.learning import Conditional

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Up to here every k is tried, beyond it about this many on a geometric scale.
FEW_SIZES = 16
# Nats below which features carry no information worth the name.
NOTHING = 1e-3


@dataclass(frozen=True)
class SizeChoice:
    """The smallest k that keeps a share of the information, and the curve that it was read from.

    k, keep : the choice, and the share that was asked for
    sizes, shares : the curve; 1 is the most that any number of features reaches under this q

    >>> SizeChoice(k=2, keep=0.95, sizes=[1, 2, 3], shares=[0.7, 0.96, 1.0]).k
    2
    """

    k: int
    keep: float
    sizes: list[int]
    shares: list[float]

    def plot(self, path: str | Path | None = None) -> Figure:
        """The curve, with the choice marked. Saved if a path is given."""
        from l2x.display import plot_sizes

        return plot_sizes(self, path)


def choose_k(
    explainer: Any,
    X: Any,
    *,
    keep: float = 0.95,
    value: Conditional | None = None,
    responses: Array | None = None,
) -> SizeChoice:
    """The smallest k whose selections keep a share of the information about the model's answer.

    All sizes come from one ranking of the features: nothing is refitted.

    Parameters
    ----------
    explainer : a fitted Explainer, or anything with explain(X, k)
    X : rows to measure on, best rows that the explainer was not fitted on
    keep : the share; 1 is what the best number of features carries under the same q
    value : the q that measures; by default the explainer's own, better a judge (`fit_judge`)
    responses : the model's answers for X, if they are known; otherwise the value asks the model

    Returns
    -------
    A `SizeChoice`: `.k`, the curve `.sizes` and `.shares`, `.plot()`.

    Raises
    ------
    InputError
        If `keep` is not a share.

    >>> from l2x.baselines import GlobalTopK
    >>> from l2x.datasets import synthetic
    >>> data = synthetic("orange_skin", 200, seed=0)
    >>> exact = data.model.conditional(rows=100)
    >>> choose_k(GlobalTopK(exact).fit(data.X, k=4), data.X, value=exact).k
    4
    """
    if not 0 < keep <= 1:
        raise InputError(f"keep is {keep}; expected a share between 0 and 1, such as 0.95.")
    q = _value(explainer, value)
    gain = Gain(q, X, explainer.explain(X, 1), _answers(q, X, responses))
    sizes = candidate_sizes(gain.ranking.scores.shape[1])
    most = max(gain(k) for k in sizes)
    if most < NOTHING:
        message = "No number of features carries information about the answer: does it vary on these rows?"
        warnings.warn(message, stacklevel=2)
        return SizeChoice(1, keep, sizes, [0.0] * len(sizes))
    k = _smallest(gain, sizes, keep * most)
    tried = sorted(gain.known)
    return SizeChoice(k, keep, tried, [gain(size) / most for size in tried])


class Gain:
    """Nats that the k best features carry more than none at all, mean over rows; each k is measured once."""

    def __init__(self, value: Conditional, X: Any, ranking: Explanation, answers: Array) -> None:
        self.value, self.X, self.ranking, self.answers = value, X, ranking, answers
        self.known: dict[int, float] = {}
        self.nothing = float(value.log_q(X, np.zeros_like(ranking.mask), answers).mean())

    def __call__(self, k: int) -> float:
        if k not in self.known:
            log_q = self.value.log_q(self.X, replace(self.ranking, k=k).mask, self.answers)
            self.known[k] = float(log_q.mean()) - self.nothing
        return self.known[k]


def candidate_sizes(d: int) -> list[int]:
    """All sizes of few features; of many, about FEW_SIZES on a geometric scale, the last one d."""
    if d <= FEW_SIZES:
        return list(range(1, d + 1))
    return sorted({round(float(k)) for k in np.geomspace(1, d, FEW_SIZES)})


def _smallest(gain: Gain, sizes: Sequence[int], enough: float) -> int:
    """The smallest k with enough gain; between two sizes of the grid by bisection."""
    k = next((k for k in sizes if gain(k) >= enough), sizes[-1])
    low = max((size for size in sizes if size < k), default=0)
    while k - low > 1:
        middle = (low + k) // 2
        low, k = (low, middle) if gain(middle) >= enough else (middle, k)
    return k


def _value(explainer: Any, value: Conditional | None) -> Conditional:
    q: Conditional | None = getattr(explainer, "q_", None) if value is None else value
    if q is None:
        kind = type(explainer).__name__
        raise InputError(f"A {kind} does not know what a subset is worth: pass value=, such as a fit_judge.")
    return q


def _answers(q: Conditional, X: Any, responses: Array | None) -> Array:
    answers = q.answers(X) if responses is None else np.asarray(responses)
    if answers.ndim != 2 or len(answers) != len(X):
        raise InputError(
            f"responses has the shape {answers.shape}; expected the model's answers, ({len(X)}, outputs)."
        )
    return answers
