"""Controls: what chance, one subset for everyone, and the exact optimum would select."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Any, ClassVar, Self

import numpy as np

from l2x.baselines.method import Method, explained
from l2x.conditional import Conditional
from l2x.errors import NotFittedError
from l2x.evaluation.oracle import oracle
from l2x.explanation import Explanation
from l2x.features.fitted import fitted_view
from l2x.features.view import View, checked_k
from l2x.foundations.arrays import Array

# Up to here every subset is tried, which also finds pairs that are worth nothing alone (XOR).
FEW_SUBSETS = 1000


class RandomK(Method):
    """k features at random, a different set for each row: what any method has to beat.

    >>> RandomK(seed=1).explain(np.zeros((2, 5)), k=2).mask.sum(axis=1).tolist()
    [2, 2]
    """

    name: ClassVar[str] = "Random k"

    def __init__(self, *, features: View | None = None, seed: int = 0) -> None:
        self.features = features
        self.seed = seed

    def explain(self, X: Any, k: int) -> Explanation:
        """Random scores, the same at every call with the same seed and number of rows."""
        view = fitted_view(self.features, X)
        X = view.check(X)
        return explained(view, X, np.random.default_rng(self.seed).random((len(X), view.d)), k)


class GlobalTopK(Method):
    """One subset for all rows, the best found: what can be had without looking at the row.

    Parameters
    ----------
    value : Conditional
        What a subset is worth: `explainer.q_`, a judge, or `data.model.conditional()`.
    rows : int
        At most this many training rows, drawn by the seed: the search asks about hundreds of subsets.

    Up to 1,000 subsets are all tried. Otherwise the better of greedy forward selection and greedy backward
    elimination is improved by single swaps until none helps.

    >>> from l2x.datasets import synthetic
    >>> data = synthetic("xor", 200, seed=0)
    >>> control = GlobalTopK(data.model.conditional(rows=100)).fit(data.X, k=2)
    >>> control.subset_
    [0, 1]
    """

    name: ClassVar[str] = "Global top k"
    needs_training: ClassVar[bool] = True

    def __init__(
        self, value: Conditional, *, features: View | None = None, rows: int = 1000, seed: int = 0
    ) -> None:
        self.value = value
        self.features = features
        self.rows = rows
        self.seed = seed

    def fit(self, X: Any, k: int) -> Self:
        """Search on training rows for the subset of size k with the highest mean log q(y | x_S)."""
        view = fitted_view(self.features, X)
        k = checked_k(view, k)
        X = view.check(X)
        kept = np.random.default_rng(self.seed).choice(len(X), min(self.rows, len(X)), replace=False)
        worth = MeanValue(self.value, view.take(X, kept), view.d)
        subset = best_subset(worth, k)
        order = in_order(worth, subset)
        self.features_, self.k_, self.subset_ = view, k, sorted(subset)
        self.value_ = worth(subset)
        self.scores_ = np.empty(view.d)
        self.scores_[order] = np.arange(view.d, 0, -1.0)
        return self

    def explain(self, X: Any, k: int | None = None) -> Explanation:
        """The same subset for every row. A k other than that of `fit` cuts the same ranking elsewhere (the
        subset by what each feature's loss costs, then the others by what they would add): no new search."""
        if not hasattr(self, "subset_"):
            raise NotFittedError("This GlobalTopK is not fitted yet; call fit(X, k) first.")
        X = self.features_.check(X)
        scores = np.tile(self.scores_, (len(X), 1))
        return explained(self.features_, X, scores, self.k_ if k is None else k)


class OracleExplainer(Method):
    """Theorem 1's optimum by trying every subset, for small d; see `l2x.oracle`.

    Selected features score 1 and the others 0, so that only the set means something, not the order in it.
    """

    name: ClassVar[str] = "Oracle"

    def __init__(self, value: Conditional, *, features: View | None = None) -> None:
        self.value = value
        self.features = features

    def explain(self, X: Any, k: int) -> Explanation:
        """The best subset of each row under the value."""
        view = fitted_view(self.features, X)
        X = view.check(X)
        checked_k(view, k)
        return explained(view, X, oracle(self.value, X, k).explanation.scores, k)


class MeanValue:
    """The mean of log q(y | x_S) over rows as a function of S; every subset is asked once."""

    def __init__(self, value: Conditional, X: Any, d: int) -> None:
        self.value = value
        self.X = X
        self.d = d
        self.answers = value.answers(X)
        self.known: dict[frozenset[int], float] = {}

    def __call__(self, subset: frozenset[int]) -> float:
        if subset not in self.known:
            mask = np.tile(np.isin(np.arange(self.d), list(subset)), (len(self.X), 1))
            self.known[subset] = float(self.value.log_q(self.X, mask, self.answers).mean())
        return self.known[subset]


def best_subset(worth: MeanValue, k: int) -> frozenset[int]:
    """The best of all subsets if they are few, of a local search otherwise."""
    if comb(worth.d, k) <= FEW_SUBSETS:
        return max(map(frozenset, combinations(range(worth.d), k)), key=worth)
    found = max(_forward(worth, k), _backward(worth, k), key=worth)
    while (better := max(_swaps(found, worth.d), key=worth, default=found)) and worth(better) > worth(found):
        found = better
    return found


def in_order(worth: MeanValue, subset: frozenset[int]) -> Array:
    """All features: the selected by what their loss costs, then the others by what they would add."""
    rest = set(range(worth.d)) - subset
    inside = sorted(subset, key=lambda i: worth(subset - {i}))
    outside = sorted(rest, key=lambda i: -worth(subset | {i}))
    return np.array([*inside, *outside])


def _forward(worth: MeanValue, k: int) -> frozenset[int]:
    subset: frozenset[int] = frozenset()
    for _ in range(k):
        subset = max((subset | {i} for i in range(worth.d) if i not in subset), key=worth)
    return subset


def _backward(worth: MeanValue, k: int) -> frozenset[int]:
    subset = frozenset(range(worth.d))
    while len(subset) > k:
        subset = max((subset - {i} for i in sorted(subset)), key=worth)
    return subset


def _swaps(subset: frozenset[int], d: int) -> list[frozenset[int]]:
    """Every subset that differs in one feature."""
    rest = [i for i in range(d) if i not in subset]
    return [subset - {out} | {into} for out in sorted(subset) for into in rest]
