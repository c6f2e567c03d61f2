"""Information about the prediction, in bits: how much a selection carries, and how many features are enough.

Bits are differences of log-likelihoods, row by row: log q(y | x_S) for the selection and log P_m(y | x) for
the whole input, each compared with `log_uninformed`, which knows only the mean prediction.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from l2x._base.arrays import Array
from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.learning import BITS, Conditional, checked_share

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Up to this many features every k is tried; beyond it, about this many on a geometric scale.
FEW_SIZES = 16
# Gains below this, in nats, count as no information.
NO_GAIN = 1e-3


@dataclass(frozen=True)
class Information:
    """Bits about the model's prediction Y.

    Attributes
    ----------
    captured : float
        H(Y) - E[-log2 q(Y | X_S)], a lower bound of I(X_S; Y), section 3.1; below zero if q is poor.
    available : float
        I(X; Y) = H(Y) - E[H(P_m(.|X))], the information in the whole input.

    Examples
    --------
    >>> found = Information(captured=0.25, available=0.5)
    >>> found.share
    0.5
    """

    captured: float
    available: float

    @property
    def share(self) -> float:
        """Captured / available; NaN if no information is available."""
        return self.captured / self.available if self.available > 0 else float("nan")


def information(
    evaluator: Conditional, X: Any, explanation: Explanation, *, predictions: Array | None = None
) -> Information:
    """Return how many bits about the prediction the selection carries, and how many the whole input has.

    Parameters
    ----------
    evaluator : Conditional
        A `fit_evaluator`, `explainer.surrogate_` or `ConditionalModel`. To compare explainers, use one
        evaluator for all of them, best one that none of them was trained with.
    X : rows
        The n rows that were explained.
    explanation : Explanation
        The selected features of these rows.
    predictions : array, (n, classes), optional
        The model's predictions for X; by default the model is queried.

    Returns
    -------
    Information
        Bits captured and available, and their share.

    Examples
    --------
    >>> from l2x.datasets import synthetic
    >>> data = synthetic("orange_skin", 200, seed=0)
    >>> truth = Explanation(data.truth.astype(float), k=4, feature_names=[f"x{i}" for i in range(10)])
    >>> round(information(data.model.conditional(rows=50), data.X, truth).share, 3)
    1.0
    """
    predictions = np.asarray(evaluator.predictions(X) if predictions is None else predictions, np.float64)
    _check_probabilities(predictions)
    log_q = evaluator.log_q(X, explanation.mask, predictions)
    uninformed = log_uninformed(predictions, classes=True)
    return Information(
        captured=float((log_q - uninformed).mean() * BITS),
        available=float((log_informed(predictions, classes=True) - uninformed).mean() * BITS),
    )


def _check_probabilities(predictions: Array) -> None:
    if not np.allclose(predictions.sum(axis=1), 1, atol=1e-3):
        raise InputError("Bits need class probabilities; for regression use l2x.evaluation.posthoc_r2.")


def log_uninformed(target: Array, *, classes: bool) -> Array:
    """Return log q(y) under the mean prediction alone, (n,) nats: the value of an empty selection.

    `target`, (n, outputs), holds class probabilities, or standardised values of a Gaussian with variance one
    (up to a constant, as in `l2x.learning`).
    """
    if classes:
        return np.asarray(target @ np.log(np.maximum(target.mean(axis=0), 1e-12)))
    return np.asarray(-0.5 * np.square(target - target.mean(axis=0)).sum(axis=1))


def log_informed(target: Array, *, classes: bool) -> Array:
    """Return log P_m(y | x), (n,) nats: the value of the whole input."""
    if classes:
        return np.asarray((target * np.log(np.maximum(target, 1e-300))).sum(axis=1))
    return np.zeros(len(target))


@dataclass(frozen=True)
class SizeChoice:
    """The smallest k that preserves a share of the information, and the curve it was read from.

    Attributes
    ----------
    k : int
        The chosen number of features.
    keep : float
        The share that was requested.
    sizes : list of int
        The values of k that were measured.
    shares : list of float
        Their shares; 1 is the most that any number of features reaches with this evaluator.

    Examples
    --------
    >>> choice = SizeChoice(k=2, keep=0.9, sizes=[1, 2, 3], shares=[0.5, 0.95, 1.0])
    >>> choice.k, dict(zip(choice.sizes, choice.shares))
    (2, {1: 0.5, 2: 0.95, 3: 1.0})
    """

    k: int
    keep: float
    sizes: list[int]
    shares: list[float]

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw the curve with the chosen k marked, and save it if a path is given."""
        from l2x.display import plot_sizes

        return plot_sizes(self, path)


def choose_k(
    explainer: Any,
    X: Any,
    *,
    keep: float = 0.95,
    evaluator: Conditional | None = None,
    predictions: Array | None = None,
) -> SizeChoice:
    """Return the smallest k whose selections preserve a share of the information about the prediction.

    All sizes are cut from one ranking of the features: nothing is refitted.

    Parameters
    ----------
    explainer : Explainer or object with explain(X, k)
        The fitted explainer.
    X : rows
        Rows to measure on, preferably rows that the explainer was not fitted on.
    keep : float
        The share to preserve; 1 is the information that the best number of features carries.
    evaluator : Conditional, optional
        Measures the information; by default the explainer's own surrogate. A `fit_evaluator` is better.
    predictions : array, (n, outputs), optional
        The model's predictions for X; by default the model is queried.

    Returns
    -------
    SizeChoice
        The chosen `.k`, the curve `.sizes` and `.shares`, and `.plot()`.

    Examples
    --------
    >>> from l2x.baselines import GlobalTopK
    >>> from l2x.datasets import synthetic
    >>> data = synthetic("orange_skin", 200, seed=0)
    >>> exact = data.model.conditional(rows=100)
    >>> choose_k(GlobalTopK(exact).fit(data.X, k=4), data.X, evaluator=exact).k
    4
    """
    gain, sizes = _gain(explainer, X, evaluator, predictions)
    keep, most = checked_share(keep), max(map(gain, sizes))
    if most < NO_GAIN:
        warnings.warn(
            "No number of features carries information about the prediction: does it vary on these rows?",
            stacklevel=2,
        )
        return SizeChoice(1, keep, sizes, [0.0] * len(sizes))
    k = next((k for k in sizes if gain(k) >= keep * most), sizes[-1])
    low = max((size for size in sizes if size < k), default=0)
    while k - low > 1:  # bisection between two candidates
        middle = (low + k) // 2
        sizes.append(middle)
        low, k = (low, middle) if gain(middle) >= keep * most else (middle, k)
    return SizeChoice(k, keep, sorted(sizes), [gain(size) / most for size in sorted(sizes)])


def candidate_sizes(d: int) -> list[int]:
    """Return every size up to d, or about FEW_SIZES sizes on a geometric scale that ends at d."""
    if d <= FEW_SIZES:
        return list(range(1, d + 1))
    return sorted({round(float(k)) for k in np.geomspace(1, d, FEW_SIZES)})


def _gain(
    explainer: Any, X: Any, evaluator: Conditional | None, predictions: Array | None
) -> tuple[Callable[[int], float], list[int]]:
    """Return k -> the information in the k best features, in nats, mean over rows; and candidates for k."""
    known = getattr(explainer, "surrogate_", None) if evaluator is None else evaluator
    if known is None:
        kind = type(explainer).__name__
        raise InputError(f"A {kind} has no surrogate; pass evaluator=, such as a fit_evaluator.")
    targets = known.predictions(X) if predictions is None else np.asarray(predictions)
    if targets.ndim != 2 or len(targets) != len(X):
        raise InputError(f"predictions has the shape {targets.shape}; expected ({len(X)}, outputs).")
    ranking = explainer.explain(X, 1)
    nothing = float(known.log_q(X, np.zeros_like(ranking.mask), targets).mean())

    @cache
    def gain(k: int) -> float:
        return float(known.log_q(X, replace(ranking, k=k).mask, targets).mean()) - nothing

    return gain, candidate_sizes(ranking.scores.shape[1])
