"""A search for each row: what is possible if the model may be asked hundreds of times about one input."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from l2x._base.arrays import Array, batches
from l2x._base.progress import progress_bar
from l2x.baselines._method import Method
from l2x.errors import InputError
from l2x.features import View, selectable_units
from l2x.model import BlackBox, as_black_box, query

# Inputs that the model is asked at a time.
SEARCH_BATCH = 4096


@dataclass(eq=False, repr=False)
class GreedySearch(Method):
    """Greedy forward selection in each row: k times the feature that, added to those already there, brings
    the model's answer closest to the one for the whole input. In further `rounds` each of the k is chosen
    again, given the others, which never makes the answer worse. Features found score k, k - 1, ... in the
    order of finding, the others zero.

    Every round asks the model about k · d inputs for each row, and knows the answer that is to be reached: a
    mark for post-hoc accuracy, and a warning of how little that alone says.

    >>> def model(X):
    ...     p = 1 / (1 + np.exp(-4 * X[:, 1]))
    ...     return np.stack([1 - p, p], axis=1)
    >>> GreedySearch(model, progress=False).explain(np.random.default_rng(0).normal(size=(2, 4)), k=1).names
    [['x1'], ['x1']]
    """

    name: ClassVar[str] = "Greedy search"

    model: Any
    _: KW_ONLY
    features: View | None = None
    rounds: int = 1
    progress: bool = True

    def _scores(self, view: View, X: Any, k: int) -> Array:
        if self.rounds < 1:
            raise InputError(f"rounds is {self.rounds}; the search needs at least one.")
        black_box = as_black_box(self.model)
        scores = np.empty((len(X), view.d))
        with progress_bar("searching", len(X), visible=self.progress) as advance:
            for rows in batches(len(X), max(1, SEARCH_BATCH // view.d)):
                some = view.take(X, rows)
                scores[rows] = _search(black_box, view, some, k, self.rounds)
                advance(rows.stop, f"{black_box.rows:,} rows asked")
        return scores


def _search(black_box: BlackBox, view: View, X: Any, k: int, rounds: int) -> Array:
    """(n, d): k for the feature found first in each row, and so on down; zero for those not found."""
    n, d = len(X), view.d
    whole = query(black_box, view, X)
    allowed = selectable_units(view, X)
    left = np.ones((n, d), dtype=bool) if allowed is None else allowed
    scores = np.zeros((n, d))
    for rank in [*range(k, 0, -1)] * rounds:
        again = scores == rank
        left |= again
        scores[again] = 0
        row, feature = left.nonzero()
        if not len(row):
            break
        masks = scores[row] > 0
        masks[np.arange(len(row)), feature] = True
        removed = view.for_model(view.take(X, row), masks, rng=np.random.default_rng(0))
        closeness = np.full((n, d), -np.inf)
        closeness[row, feature] = _closeness(black_box, black_box(removed), whole[row])
        rows = np.unique(row)  # short texts run out of words
        found = closeness[rows].argmax(axis=1)
        scores[rows, found] = rank
        left[rows, found] = False
    return scores


def _closeness(black_box: BlackBox, answers: Array, whole: Array) -> Array:
    """How near answers (m, outputs) are to the whole inputs': their class's odds against the next, as a
    logarithm, or -(error)². Differences of probabilities would not do: near 0 and 1 they all look alike."""
    if black_box.task == "regression":
        return np.asarray(-np.square(answers - whole).sum(axis=1))
    logarithms = np.log(np.maximum(answers, np.finfo(answers.dtype).tiny))
    rows, classes = np.arange(len(answers)), whole.argmax(axis=1)
    chosen = logarithms[rows, classes].copy()
    logarithms[rows, classes] = -np.inf
    return np.asarray(chosen - logarithms.max(axis=1))
