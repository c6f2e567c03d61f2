"""Controls: random features, one global subset, the best subset of each row, and a greedy search for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cache
from itertools import combinations
from math import comb
from typing import Any, ClassVar, Self

import numpy as np

from l2x._base import progress_bar
from l2x._base.arrays import Array, batches
from l2x.baselines._method import Method
from l2x.errors import InputError, NotFittedError
from l2x.explanation import Explanation
from l2x.features import View, checked_k, fitted_view, selectable_units
from l2x.learning import BITS, Conditional
from l2x.model import BlackBox, as_black_box, query

# GlobalTopK tries all subsets up to this many, which also finds pairs that are worth nothing alone (XOR).
FEW_SUBSETS = 1000
# The oracle refuses more subsets than this: they would take too long.
MOST_SUBSETS = 20_000
# Subsets within this many nats are equally good.
EQUAL = 1e-6
# GreedySearch queries the model for this many inputs at a time.
SEARCH_BATCH = 4096

Subset = frozenset[int]
Value = Callable[[Subset], float]


@dataclass(eq=False, repr=False, kw_only=True)
class RandomK(Method):
    """Select k features at random, a different set for each row: the baseline that any method has to beat.

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
    """Select one subset for all rows, the best that is found: what is possible without looking at the row.

    Up to 1,000 subsets are all tried. Otherwise the better of greedy forward selection and greedy backward
    elimination is improved by single swaps until none helps.

    Parameters
    ----------
    surrogate : Conditional
        Evaluates subsets: `explainer.surrogate_`, an evaluator, or `data.model.conditional()`.
    rows : int
        Use at most this many training rows: the search evaluates hundreds of subsets.

    Attributes
    ----------
    subset_, log_q_ : list of int, float
        The subset, and its mean log q(y | x_S).

    Examples
    --------
    >>> from l2x.datasets import synthetic
    >>> data = synthetic("xor", 200, seed=0)
    >>> control = GlobalTopK(data.model.conditional(rows=100)).fit(data.X, k=2)
    >>> control.subset_
    [0, 1]
    """

    name: ClassVar[str] = "Global top k"
    needs_training: ClassVar[bool] = True

    surrogate: Conditional
    _: KW_ONLY
    features: View | None = None
    rows: int = 1000
    seed: int = 0

    def fit(self, X: Any, k: int) -> Self:
        """Search training rows X for the subset of size k with the highest mean log q(y | x_S)."""
        view = fitted_view(self.features, X)
        k = checked_k(view, k)
        X = view.check(X)
        drawn = np.random.default_rng(self.seed).choice(len(X), min(self.rows, len(X)), replace=False)
        value = mean_value(self.surrogate, view.take(X, drawn), view.d)
        subset = best_subset(value, view.d, k)
        self.features_, self.k_, self.subset_, self.log_q_ = view, k, sorted(subset), value(subset)
        self.scores_ = np.empty(view.d)
        self.scores_[in_order(value, view.d, subset)] = np.arange(view.d, 0, -1.0)
        return self

    def explain(self, X: Any, k: int | None = None) -> Explanation:
        """Select the same subset in every row of X.

        A k other than that of `fit` cuts the same ranking elsewhere: first the subset, by how much each
        feature's loss costs, then the others, by how much they would add.
        """
        if not hasattr(self, "subset_"):
            raise NotFittedError("This GlobalTopK is not fitted yet; call fit(X, k) first.")
        return super().explain(X, self.k_ if k is None else k)

    def _view(self, X: Any) -> View:
        return self.features_

    def _scores(self, view: View, X: Any, k: int) -> Array:
        return np.tile(self.scores_, (len(X), 1))


def mean_value(surrogate: Conditional, X: Any, d: int) -> Value:
    """Return the mean of log q(y | x_S) over rows as a cached function of S."""
    predictions = surrogate.predictions(X)

    @cache
    def value(subset: Subset) -> float:
        mask = np.tile(np.isin(np.arange(d), list(subset)), (len(X), 1))
        return float(surrogate.log_q(X, mask, predictions).mean())

    return value


def best_subset(value: Value, d: int, k: int) -> Subset:
    """Return the best of all subsets if there are few, otherwise the result of a local search."""
    if comb(d, k) <= FEW_SUBSETS:
        return max(map(frozenset, combinations(range(d), k)), key=value)
    best = max(_forward(value, d, k), _backward(value, d, k), key=value)
    while (better := max(_swaps(best, d), key=value, default=best)) and value(better) > value(best):
        best = better
    return best


def in_order(value: Value, d: int, subset: Subset) -> Array:
    """Rank all features: the selected ones by what their loss costs, then the others by what they add."""
    rest = set(range(d)) - subset
    inside = sorted(subset, key=lambda i: value(subset - {i}))
    outside = sorted(rest, key=lambda i: -value(subset | {i}))
    return np.array([*inside, *outside])


def _forward(value: Value, d: int, k: int) -> Subset:
    subset: Subset = frozenset()
    for _ in range(k):
        subset = max((subset | {i} for i in range(d) if i not in subset), key=value)
    return subset


def _backward(value: Value, d: int, k: int) -> Subset:
    subset = frozenset(range(d))
    while len(subset) > k:
        subset = max((subset - {i} for i in sorted(subset)), key=value)
    return subset


def _swaps(subset: Subset, d: int) -> list[Subset]:
    """Return every subset that differs in one feature."""
    rest = [i for i in range(d) if i not in subset]
    return [subset - {out} | {into} for out in sorted(subset) for into in rest]


@dataclass(frozen=True)
class Oracle:
    """The best subset of each row under a surrogate.

    Attributes
    ----------
    explanation : Explanation
        The subsets; selected features score 1, all others 0.
    log_q : array, (n,)
        Their log q(y | x_S), in nats.
    ties : array of int, (n,)
        How many subsets are as good as the best, within 1e-6 nats.
    surrogate, X, predictions : Conditional, rows, array
        The inputs of the search.

    Examples
    --------
    >>> from l2x.datasets import synthetic
    >>> data = synthetic("xor", 20, seed=0)
    >>> best = oracle(data.model.conditional(rows=200), data.X, k=2)
    >>> best.explanation.names[0], best.log_q.shape, best.ties.shape
    (['x0', 'x1'], (20,), (20,))
    """

    explanation: Explanation
    log_q: Array
    ties: Array
    surrogate: Conditional
    X: Any
    predictions: Array

    def gap(self, explanation: Explanation) -> Array:
        """Return the bits that an explanation of the same rows loses versus the optimum, (n,)."""
        log_q = self.surrogate.log_q(self.X, explanation.mask, self.predictions)
        return np.asarray((self.log_q - log_q) * BITS)


def oracle(surrogate: Conditional, X: Any, k: int, *, predictions: Array | None = None) -> Oracle:
    """Find E*(x) = argmin_S E_m[-log P(Y | x_S) | x], Theorem 1, by trying every subset.

    Parameters
    ----------
    surrogate : Conditional
        Evaluates P_m(y | x_S): `data.model.conditional()` for synthetic data (exact),
        `explainer.surrogate_`, or an evaluator.
    X : table, (n, d)
        Rows to explain; at most 20,000 subsets of their columns are tried.
    k : int
        Number of features in a subset.
    predictions : array, (n, outputs), optional
        The model's predictions for X; by default the model is queried.

    Returns
    -------
    Oracle
        The best `.explanation`, its `.log_q` and `.ties` row by row, and `.gap(other)`.

    Examples
    --------
    >>> from l2x.datasets import synthetic
    >>> data = synthetic("xor", 20, seed=0)
    >>> best = oracle(data.model.conditional(rows=200), data.X, k=2)
    >>> best.explanation.names[0], best.gap(best.explanation).max()
    (['x0', 'x1'], np.float64(0.0))
    """
    names = _feature_names(surrogate, X, k)
    predictions = surrogate.predictions(X) if predictions is None else np.asarray(predictions)
    n, d = len(X), len(names)
    subsets = np.array([np.isin(np.arange(d), subset) for subset in combinations(range(d), k)])
    values = np.stack([surrogate.log_q(X, np.tile(subset, (n, 1)), predictions) for subset in subsets])
    best = values.max(axis=0)  # values: (subsets, n)
    explanation = Explanation(subsets[values.argmax(axis=0)].astype(float), k, names)
    return Oracle(explanation, best, (values >= best - EQUAL).sum(axis=0), surrogate, X, predictions)


def _feature_names(surrogate: Conditional, X: Any, k: int) -> list[str]:
    """Return the names of the d features, and check that every subset of k can be tried."""
    # A fitted surrogate knows its features, such as groups of columns.
    view: View | None = getattr(surrogate, "view", None)
    names = [f"x{i}" for i in range(np.shape(X)[-1])] if view is None else view.names_
    d = len(names)
    if np.ndim(X) != 2:
        raise InputError(
            "The oracle tries every subset of a table's columns; texts and images have too many features; "
            "use l2x.baselines.GreedySearch instead."
        )
    if not 1 <= k <= d:
        raise InputError(f"k = {k} but there are {d} features; choose k between 1 and {d}.")
    if comb(d, k) > MOST_SUBSETS:
        raise InputError(
            f"There are {comb(d, k):,} subsets of {k} out of {d} features; "
            f"the oracle tries at most {MOST_SUBSETS:,}. Use l2x.baselines.GreedySearch, or a smaller k."
        )
    return list(names)


@dataclass(eq=False, repr=False)
class GreedySearch(Method):
    """Search each row for the features from which the model best reproduces its prediction.

    Each of k steps adds the feature that brings the model's prediction closest to that for the whole input.
    In further rounds each of the k is chosen again, given the others, which never increases the distance.
    Selected features score k, k - 1, ... in the order of selection, all others zero.

    Every round queries the model for k · d inputs per row. The search optimises post-hoc accuracy directly:
    it shows what is possible, and how little post-hoc accuracy means alone.

    Parameters
    ----------
    rounds : int
        Number of rounds.

    Examples
    --------
    >>> def model(X):
    ...     p = 1 / (1 + np.exp(-4 * X[:, 1]))
    ...     return np.stack([1 - p, p], axis=1)
    >>> X = np.random.default_rng(0).normal(size=(9, 4))
    >>> GreedySearch(model, progress=False).explain(X, k=1).names[:2]
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
                scores[rows] = _search(black_box, view, view.take(X, rows), k, self.rounds)
                advance(rows.stop, f"{black_box.rows:,} rows queried")
        return scores


def _search(black_box: BlackBox, view: View, X: Any, k: int, rounds: int) -> Array:
    """Return (n, d) scores: k for the feature selected first in each row, and so on down to zero."""
    n, d = len(X), view.d
    whole = query(black_box, view, X)
    selectable = selectable_units(view, X)
    left = np.ones((n, d), dtype=bool) if selectable is None else selectable
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
        masked = view.for_model(view.take(X, row), masks, rng=np.random.default_rng(0))
        closeness = np.full((n, d), -np.inf)
        closeness[row, feature] = _closeness(black_box, black_box(masked), whole[row])
        rows = np.unique(row)  # short texts run out of words
        best = closeness[rows].argmax(axis=1)
        scores[rows, best] = rank
        left[rows, best] = False
    return scores


def _closeness(black_box: BlackBox, predictions: Array, whole: Array) -> Array:
    """Return how close predictions (m, outputs) are to those for the whole inputs, (m,).

    For classes this is the log-odds of the predicted class versus the next best: differences of probabilities
    near 0 and 1 would all look alike. For regression it is minus the squared error.
    """
    if black_box.task == "regression":
        return np.asarray(-np.square(predictions - whole).sum(axis=1))
    logarithms = np.log(np.maximum(predictions, np.finfo(predictions.dtype).tiny))
    rows, classes = np.arange(len(predictions)), whole.argmax(axis=1)
    chosen = logarithms[rows, classes].copy()
    logarithms[rows, classes] = -np.inf
    return np.asarray(chosen - logarithms.max(axis=1))
