"""A search for each row: what is possible if the model may be asked hundreds of times about one input."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from l2x.baselines.method import explained, fitted_view, selectable_units
from l2x.blackbox import BlackBox, as_black_box, batches
from l2x.explanation import Explanation
from l2x.features.view import Array, View
from l2x.rows import ask
from l2x.training import progress_bar

# Inputs that the model is asked at a time.
SEARCH_BATCH = 4096


class GreedySearch(BaseEstimator):  # type: ignore[misc]
    """Greedy forward selection in each row: k times the feature that, added to those already there, brings
    the model's answer closest to the one for the whole input.

    It asks the model about k · d inputs for each row, and knows the answer that is to be reached: a mark for
    post-hoc accuracy, and a warning of how little that alone says. Greedy, so not a bound: on MNIST's 3 and 8
    it reaches 0.9975, DeepLIFT 0.9995.

    >>> def model(X):
    ...     p = 1 / (1 + np.exp(-4 * X[:, 1]))
    ...     return np.stack([1 - p, p], axis=1)
    >>> GreedySearch(model, progress=False).explain(np.random.default_rng(0).normal(size=(2, 4)), k=1).names
    [['x1'], ['x1']]
    """

    name: ClassVar[str] = "Greedy search"
    needs_training: ClassVar[bool] = False
    additive: ClassVar[bool] = False
    model_agnostic: ClassVar[bool] = True

    def __init__(self, model: Any, *, features: View | None = None, progress: bool = True) -> None:
        self.model = model
        self.features = features
        self.progress = progress

    def explain(self, X: Any, k: int) -> Explanation:
        """Found features score k, k - 1, ... in the order of finding, the others zero."""
        black_box = as_black_box(self.model)
        view = fitted_view(self.features, X)
        X = view.check(X)
        k = view.checked_k(k)
        scores = np.empty((len(X), view.d))
        with progress_bar("searching", len(X), visible=self.progress) as advance:
            for rows in batches(len(X), max(1, SEARCH_BATCH // view.d)):
                some = view.take(X, rows)
                scores[rows] = _forward(black_box, view, some, k)
                advance(rows.stop, f"{black_box.rows:,} rows asked")
        return explained(view, X, scores, k)


def _forward(black_box: BlackBox, view: View, X: Any, k: int) -> Array:
    """(n, d): k for the feature found first in each row, and so on down; zero for those not found."""
    n, d = len(X), view.d
    whole = ask(black_box, view, X, progress=False)
    allowed = selectable_units(view, X)
    left = np.ones((n, d), dtype=bool) if allowed is None else allowed
    scores = np.zeros((n, d))
    for j in range(k):
        row, feature = left.nonzero()
        if not len(row):
            break
        masks = scores[row] > 0
        masks[np.arange(len(row)), feature] = True
        removed = view.remove(view.take(X, row), masks, rng=np.random.default_rng(0))
        closeness = np.full((n, d), -np.inf)
        closeness[row, feature] = _closeness(black_box, black_box(removed), whole[row])
        open_rows = np.flatnonzero(left.any(axis=1))
        found = closeness[open_rows].argmax(axis=1)
        scores[open_rows, found] = k - j
        left[open_rows, found] = False
    return scores


def _closeness(black_box: BlackBox, answers: Array, whole: Array) -> Array:
    """How near answers (m, outputs) are to the whole inputs': the lead of their class, or -(error)²."""
    if black_box.task == "regression":
        return np.asarray(-np.square(answers - whole).sum(axis=1))
    rows, classes = np.arange(len(answers)), whole.argmax(axis=1)
    others = answers.copy()
    others[rows, classes] = -np.inf
    return np.asarray(answers[rows, classes] - others.max(axis=1))
