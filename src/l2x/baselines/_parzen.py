"""The Parzen-window explanation of Baehrens et al. (2010): the gradient of a smooth stand-in for the model.

    p̂(y|x) = Σ_i K_σ(x - x_i) P_m(y|x_i) / Σ_i K_σ(x - x_i),   K_σ Gaussian, x_i training rows

Distances are taken in the view's encoding, so that of `Columns()` in standard deviations of each column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from l2x._base.arrays import Array, batches
from l2x.baselines._method import Method, predicted_class
from l2x.errors import InputError, NotFittedError
from l2x.features import View, as_tensor, fitted_view, has_distances
from l2x.learning import checked_responses, split
from l2x.model import as_black_box, query

# Pairs of (row, training row) weighed at a time: some 32 MB for each of the few arrays of that size.
PAIRS = 4_000_000
# Bandwidths tried, in units of √(input dimensions): distances between standardised rows grow like it.
GRID = tuple(float(s) for s in np.geomspace(0.05, 1.0, 14))


@dataclass(eq=False, repr=False)
class Parzen(Method):
    """Absolute gradient of a Parzen-window estimate of P_m(predicted class | x); the model names the class.

    Parameters
    ----------
    model : anything that predicts
    features : View, default `Columns()`
    rows : int
        At most this many training rows, drawn by the seed, are kept: time per explanation grows with them.
    bandwidths : sequence of float, optional
        The σ to choose from, in units of the encoding; by default 14 from 0.05 √d to √d.
    validation : float
        Share of the rows that the bandwidth is chosen on, by log-likelihood (squared error for regression).

    Attributes
    ----------
    features_, bandwidth_, log_likelihoods_ : the fitted view, the chosen σ, and all σ tried with theirs

    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> def model(X):
    ...     p = 1 / (1 + np.exp(-3 * X[:, 1]))
    ...     return np.stack([1 - p, p], axis=1)
    >>> Parzen(model, progress=False).fit(X).explain(X[:2], k=1).names
    [['x1'], ['x1']]
    """

    name: ClassVar[str] = "Parzen"
    needs_training: ClassVar[bool] = True
    additive: ClassVar[bool] = True

    model: Any
    _: KW_ONLY
    features: View | None = None
    rows: int = 5000
    bandwidths: Sequence[float] | None = None
    validation: float = 0.1
    seed: int = 0
    progress: bool = True

    def fit(self, X: Any, responses: Any = None) -> Self:
        """Ask the model about at most `rows` of X (or take its `responses`), and choose the bandwidth."""
        black_box = as_black_box(self.model)
        view = fitted_view(self.features, X)
        if not has_distances(view):
            raise InputError(
                "Parzen measures distances between numbers: no categories, no missing cells, no texts."
            )
        X = view.check(X)
        rng = np.random.default_rng(self.seed)
        kept = rng.choice(len(X), min(self.rows, len(X)), replace=False)
        some = view.take(X, kept)
        if responses is None:
            answers = query(black_box, view, some, progress=self.progress)
        else:
            answers = checked_responses(responses, len(X), black_box)[kept]
        x = flat(view.encode(some).numpy())
        learn, held = split(len(x), self.validation, len(x), rng)
        sigmas, regression = self._bandwidths(x.shape[1]), black_box.task == "regression"
        self.features_, self.x_, self.answers_ = view, x, answers  # (m, encoded dimensions), (m, classes)
        self.log_likelihoods_ = log_likelihoods(
            x[learn], answers[learn], x[held], answers[held], sigmas, regression=regression
        )
        self.bandwidth_ = max(sigmas, key=self.log_likelihoods_.__getitem__)
        return self

    def _view(self, X: Any) -> View:
        if not hasattr(self, "bandwidth_"):
            raise NotFittedError("This Parzen is not fitted yet; call fit(X) first.")
        return self.features_

    def _scores(self, view: View, X: Any, k: int) -> Array:
        classes = predicted_class(as_black_box(self.model), view, X)
        scores = np.empty((len(X), view.d), dtype=np.float32)
        for rows in batches(len(X), max(1, PAIRS // len(self.x_))):
            x = view.encode(view.take(X, rows), first_row=rows.start)
            slope = gradient(self.x_, self.answers_, flat(x.numpy()), classes[rows], self.bandwidth_)
            scores[rows] = view.units(as_tensor(np.abs(slope)).reshape(x.shape)).numpy()
        return scores

    def _bandwidths(self, dimensions: int) -> list[float]:
        if self.bandwidths is None:
            return [sigma * float(np.sqrt(dimensions)) for sigma in GRID]
        chosen = [float(sigma) for sigma in self.bandwidths]
        if not chosen or min(chosen) <= 0:
            raise InputError(f"bandwidths is {chosen}; give at least one number, all above zero.")
        return chosen


def flat(x: Array) -> Array:
    """Encoded rows as plain vectors, in double precision: (n, ...) -> (n, D)."""
    return np.asarray(x.reshape(len(x), -1), dtype=np.float64)


def squared_distances(x: Array, centres: Array) -> Array:
    """‖x - x_i‖², (n, D) and (m, D) -> (n, m)."""
    squares = np.square(x).sum(axis=1)[:, None] + np.square(centres).sum(axis=1) - 2 * x @ centres.T
    return np.asarray(np.maximum(squares, 0.0))  # rounding may go below zero for equal rows


def kernel_weights(squares: Array, sigma: float) -> Array:
    """K_σ(x - x_i) / Σ_j K_σ(x - x_j); relative to the nearest row, so that none is a division by zero."""
    nearest = squares.min(axis=1, keepdims=True)
    weights = np.exp((nearest - squares) / (2 * sigma**2))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def gradient(centres: Array, answers: Array, x: Array, classes: Array, sigma: float) -> Array:
    """∇ p̂(c|x) = Σ_i w_i (P_m(c|x_i) - p̂(c|x)) x_i / σ², (n, D); the terms in x itself cancel."""
    weights = kernel_weights(squared_distances(x, centres), sigma)  # (n, m)
    of_class = answers.T[classes]  # (n, m)
    mean = (weights * of_class).sum(axis=1, keepdims=True)
    return np.asarray((weights * (of_class - mean)) @ centres / sigma**2)


def log_likelihoods(
    centres: Array, answers: Array, held: Array, truth: Array, bandwidths: list[float], *, regression: bool
) -> dict[float, float]:
    """E log p̂(Y|x) over held-out rows for each bandwidth (minus the squared error for regression)."""
    totals = dict.fromkeys(bandwidths, 0.0)
    for rows in batches(len(held), max(1, PAIRS // len(centres))):
        squares = squared_distances(held[rows], centres)
        for sigma in bandwidths:
            found = kernel_weights(squares, sigma) @ answers
            if regression:
                gain = -np.square(found - truth[rows])
            else:
                gain = truth[rows] * np.log(np.maximum(found, 1e-12))
            totals[sigma] += float(gain.sum())
    return {sigma: total / len(held) for sigma, total in totals.items()}
