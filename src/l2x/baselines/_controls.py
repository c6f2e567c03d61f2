"""Controls: what chance, one subset for everyone, and the exact optimum would select."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cache
from itertools import combinations
from math import comb
from typing import Any, ClassVar, Self

import numpy as np

from l2x._base.arrays import Array
from l2x.baselines._method import Method
from l2x.baselines._oracle import oracle
from l2x.errors import NotFittedError
from l2x.explanation import Explanation
from l2x.features import View, checked_k, fitted_view
from l2x.learning import Conditional

# Up to here every subset is tried, which also finds pairs that are worth nothing alone (XOR).
FEW_SUBSETS = 1000

Subset = frozenset[int]
Worth = Callable[[Subset], float]


@dataclass(eq=False, repr=False, kw_only=True)
class RandomK(Method):
    """k features at random, a different set for each row: what any method has to beat. The seed fixes them.

    >>> RandomK(seed=1).explain(np.zeros((2, 5)), k=2).mask.sum(axis=1).tolist()
    [2, 2]
    """

    name: ClassVar[str] = "Random k"

    features: View | None = None
    seed: int = 0

    def _scores(self, view: View, X: Any, k: int) -> Array:
        return np.random.default_rng(self.seed).random((len(X), view.d))


@dataclass(eq=False, repr=False)
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

    value: Conditional
    _: KW_ONLY
    features: View | None = None
    rows: int = 1000
    seed: int = 0

    def fit(self, X: Any, k: int) -> Self:
        """Search on training rows for the subset of size k with the highest mean log q(y | x_S)."""
        view = fitted_view(self.features, X)
        k = checked_k(view, k)
        X = view.check(X)
        kept = np.random.default_rng(self.seed).choice(len(X), min(self.rows, len(X)), replace=False)
        worth = mean_value(self.value, view.take(X, kept), view.d)
        subset = best_subset(worth, view.d, k)
        order = in_order(worth, view.d, subset)
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
        return super().explain(X, self.k_ if k is None else k)

    def _view(self, X: Any) -> View:
        return self.features_

    def _scores(self, view: View, X: Any, k: int) -> Array:
        return np.tile(self.scores_, (len(X), 1))


@dataclass(eq=False, repr=False)
class OracleExplainer(Method):
    """Theorem 1's optimum by trying every subset, for small d; see `l2x.oracle`.

    Selected features score 1 and the others 0, so that only the set means something, not the order in it.

    >>> from l2x.datasets import synthetic
    >>> data = synthetic("xor", 5, seed=0)
    >>> OracleExplainer(data.model.conditional(rows=100)).explain(data.X, k=2).mask[0].nonzero()[0].tolist()
    [0, 1]
    """

    name: ClassVar[str] = "Oracle"

    value: Conditional
    _: KW_ONLY
    features: View | None = None

    def _scores(self, view: View, X: Any, k: int) -> Array:
        return oracle(self.value, X, k).explanation.scores


def mean_value(value: Conditional, X: Any, d: int) -> Worth:
    """The mean of log q(y | x_S) over rows as a function of S; every subset is asked once."""
    answers = value.answers(X)

    @cache
    def worth(subset: Subset) -> float:
        mask = np.tile(np.isin(np.arange(d), list(subset)), (len(X), 1))
        return float(value.log_q(X, mask, answers).mean())

    return worth


def best_subset(worth: Worth, d: int, k: int) -> Subset:
    """The best of all subsets if they are few, of a local search otherwise."""
    if comb(d, k) <= FEW_SUBSETS:
        return max(map(frozenset, combinations(range(d), k)), key=worth)
    found = max(_forward(worth, d, k), _backward(worth, d, k), key=worth)
    while (better := max(_swaps(found, d), key=worth, default=found)) and worth(better) > worth(found):
        found = better
    return found


def in_order(worth: Worth, d: int, subset: Subset) -> Array:
    """All features: the selected by what their loss costs, then the others by what they would add."""
    rest = set(range(d)) - subset
    inside = sorted(subset, key=lambda i: worth(subset - {i}))
    outside = sorted(rest, key=lambda i: -worth(subset | {i}))
    return np.array([*inside, *outside])


def _forward(worth: Worth, d: int, k: int) -> Subset:
    subset: Subset = frozenset()
    for _ in range(k):
        subset = max((subset | {i} for i in range(d) if i not in subset), key=worth)
    return subset


def _backward(worth: Worth, d: int, k: int) -> Subset:
    subset = frozenset(range(d))
    while len(subset) > k:
        subset = max((subset - {i} for i in sorted(subset)), key=worth)
    return subset


def _swaps(subset: Subset, d: int) -> list[Subset]:
    """Every subset that differs in one feature."""
    rest = [i for i in range(d) if i not in subset]
    return [subset - {out} | {into} for out in sorted(subset) for into in rest]
