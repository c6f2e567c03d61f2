"""The Parzen-window explanation of Baehrens et al. (2010): the gradient of a smooth
approximation of the model.

    p̂(y|x) = Σ_i K_σ(x - x_i) P_m(y|x_i) / Σ_i K_σ(x - x_i),   K_σ Gaussian, x_i training rows

Distances are measured in the view's encoding; for `Columns()`, in standard deviations of each column.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import softmax
from sklearn.metrics.pairwise import euclidean_distances

from l2x._base.arrays import Array, batches
from l2x.baselines._method import Method, predicted_class
from l2x.errors import InputError, NotFittedError
from l2x.features import View, as_tensor, fitted_view
from l2x.learning import split, training_predictions
from l2x.model import as_black_box, query

# Pairs of (row, training row) per batch: an array of that size takes 32 MB.
PAIRS = 4_000_000
# Bandwidths to try, in units of √(input dimensions): distances between standardised rows grow like it. The
# best has the highest log-likelihood (for regression, the lowest squared error) on this share of the rows.
VALIDATION = 0.1
GRID = tuple(float(s) for s in np.geomspace(0.05, 1.0, 14))


@dataclass(eq=False, repr=False)
class Parzen(Method):
    """Rank by the absolute gradient of a Parzen-window estimate of P_m(predicted class | x).

    Parameters
    ----------
    rows : int
        Store at most this many training rows: the time per explanation grows with them.

    Attributes
    ----------
    features_ : View
        The fitted view.
    bandwidth_ : float
        The chosen σ.
    log_likelihoods_ : dict of float to float
        The log-likelihood of each σ.

    Examples
    --------
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
    seed: int = 0
    progress: bool = True

    def fit(self, X: Any, predictions: Any = None) -> Self:
        """Query the model for at most `rows` of X (or take its `predictions`), and choose the bandwidth."""
        black_box = as_black_box(self.model)
        view = fitted_view(self.features, X)
        if not view.has_distances:
            raise InputError(
                "Parzen needs distances between numbers: categories, missing cells and texts have none."
            )
        X = view.check(X)
        rng = np.random.default_rng(self.seed)
        drawn = rng.choice(len(X), min(self.rows, len(X)), replace=False)
        stored = view.take(X, drawn)
        if predictions is None:
            predictions = query(black_box, view, stored, progress=self.progress)
        else:
            predictions = training_predictions(predictions, len(X), black_box)[drawn]
        x = flat(view.encode(stored).numpy())
        learn, held = split(len(x), VALIDATION, len(x), rng)
        sigmas = [sigma * float(np.sqrt(x.shape[1])) for sigma in GRID]
        regression = black_box.task == "regression"
        self.features_ = view
        self.x_, self.predictions_ = x, predictions  # (m, encoded dimensions), (m, classes)
        self.log_likelihoods_ = log_likelihoods(
            x[learn], predictions[learn], x[held], predictions[held], sigmas, regression=regression
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
            slope = gradient(self.x_, self.predictions_, flat(x.numpy()), classes[rows], self.bandwidth_)
            scores[rows] = view.units(as_tensor(np.abs(slope)).reshape(x.shape)).numpy()
        return scores


def flat(x: Array) -> Array:
    """Return encoded rows as vectors in double precision, (n, ...) -> (n, D)."""
    return np.asarray(x.reshape(len(x), -1), dtype=np.float64)


def kernel_weights(squares: Array, sigma: float) -> Array:
    """Return K_σ(x - x_i) / Σ_j K_σ(x - x_j) for squared distances, (n, m)."""
    return np.asarray(softmax(-squares / (2 * sigma**2), axis=1))


def gradient(centres: Array, predictions: Array, x: Array, classes: Array, sigma: float) -> Array:
    """Return ∇ p̂(c|x) = Σ_i w_i (P_m(c|x_i) - p̂(c|x)) x_i / σ², (n, D); the terms in x cancel."""
    weights = kernel_weights(euclidean_distances(x, centres, squared=True), sigma)  # (n, m)
    explained = predictions.T[classes]  # (n, m)
    mean = (weights * explained).sum(axis=1, keepdims=True)
    return np.asarray((weights * (explained - mean)) @ centres / sigma**2)


def log_likelihoods(
    centres: Array,
    predictions: Array,
    held: Array,
    truth: Array,
    bandwidths: list[float],
    *,
    regression: bool,
) -> dict[float, float]:
    """Return E log p̂(Y|x) on held-out rows for each bandwidth; for regression, minus the squared error."""
    totals = dict.fromkeys(bandwidths, 0.0)
    for rows in batches(len(held), max(1, PAIRS // len(centres))):
        squares = euclidean_distances(held[rows], centres, squared=True)
        for sigma in bandwidths:
            estimate = kernel_weights(squares, sigma) @ predictions
            if regression:
                value = -np.square(estimate - truth[rows])
            else:
                value = truth[rows] * np.log(np.maximum(estimate, 1e-12))
            totals[sigma] += float(value.sum())
    return {sigma: total / len(held) for sigma, total in totals.items()}
