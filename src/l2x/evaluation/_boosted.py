"""A second kind of evaluator for tables, gradient-boosted trees: no figure hangs on one architecture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from l2x._base.arrays import Array
from l2x.errors import InputError
from l2x.features import Columns, View, as_columns, checked_k, fitted_view
from l2x.model import as_black_box, query

# Masked copies of all rows together: more take longer and change little.
COPIED_ROWS = 30_000
MOST_COPIES = 30
# A leaf has about this many different rows: copies of one row must not fill it.
ROWS_PER_LEAF = 5
# The number of trees, at most this, is chosen on this share of the rows. The early stopping of scikit-learn
# would hold out copies of training rows.
TREES, HELD_OUT = 200, 0.2
# Classes that are less likely than this are left out of a row's training weights.
UNLIKELY = 0.02
# scikit-learn has one bin for each category, at most 255.
MOST_CODES = 254


@dataclass(frozen=True)
class BoostedEvaluator:
    """Gradient-boosted trees that predict from any subset of the columns; see `fit_boosted_evaluator`.

    Attributes
    ----------
    view : Columns
        The fitted view that reads the table.
    ensembles : tuple
        Fitted scikit-learn ensembles: one for classes, or one for each predicted value.
    outputs : int
        The number of classes, or of predicted values.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> evaluator = fit_boosted_evaluator(lambda X: np.full((len(X), 2), 0.5), X, k=1)
    >>> evaluator.predict(X[:1], np.array([[True, False]])).round(1).tolist()
    [[0.5, 0.5]]
    """

    view: Columns
    ensembles: tuple[Any, ...]
    outputs: int

    def predict(self, X: Any, mask: Array) -> Array:
        """Predict from some of the columns alone.

        Parameters
        ----------
        X : table
            The n rows.
        mask : (n, d) boolean array
            The columns that the evaluator may read.

        Returns
        -------
        array, (n, outputs)
            Probabilities, or predicted values.
        """
        X = self.view.check(X)
        if mask.shape != (len(X), self.view.d):
            raise InputError(f"The mask has the shape {mask.shape}; expected {(len(X), self.view.d)}.")
        cells = masked_cells(self.view, X, mask)
        first = self.ensembles[0]
        if not hasattr(first, "classes_"):
            return np.stack([ensemble.predict(cells) for ensemble in self.ensembles], axis=1)
        predictions = np.zeros((len(X), self.outputs))
        predictions[:, first.classes_] = first.predict_proba(cells)
        return predictions


def fit_boosted_evaluator(
    model: Any, X: Any, k: int, *, predictions: Any = None, features: View | None = None, seed: int = 0
) -> BoostedEvaluator:
    """Fit an evaluator as EVAL-X (Jethani et al. 2021) with gradient-boosted trees instead of a network.

    The trees are scikit-learn's HistGradientBoosting. Masked cells are missing, and the mask is appended to
    the columns. As in `fit_evaluator`, half of the random subsets have k columns and the others any number,
    so that the evaluator has seen no explainer's selections and cannot exploit leakage.

    Parameters
    ----------
    model : object
        The model being explained, in any form that `as_black_box` takes.
    X : table
        Rows to fit on, preferably rows that the explainers were not fitted on.
    k : int
        Number of selected columns.
    predictions : array, (n, outputs), optional
        The model's predictions for X; by default the model is queried.
    features : Columns, optional
        What one feature is: single columns; groups, words and patches have only the network of
        `fit_evaluator`.
    seed : int
        Seed of the random subsets.

    Returns
    -------
    BoostedEvaluator
        `predict(X, mask)` returns predictions from the columns in the mask; `l2x.compare` takes it as
        `evaluator=`.

    Raises
    ------
    InputError
        If features are not single columns, or k exceeds their number.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> def model(X):
    ...     return np.where(X[:, 1:2] > 0, [0.1, 0.9], [0.9, 0.1])
    >>> evaluator = fit_boosted_evaluator(model, X, k=1)
    >>> mask = np.tile([False, True, False], (300, 1))
    >>> bool((evaluator.predict(X, mask).argmax(axis=1) == (X[:, 1] > 0)).mean() > 0.95)
    True
    """
    view = as_columns(fitted_view(features, X))
    if view is None:
        name = type(features).__name__
        raise InputError(f"The boosted evaluator reads single columns, not {name}; use fit_evaluator.")
    X, black_box, k = view.check(X), as_black_box(model), checked_k(view, k)
    known = query(black_box, view, X) if predictions is None else np.asarray(predictions, dtype=np.float64)
    known = known.reshape(len(X), -1)
    copies = max(1, min(MOST_COPIES, COPIED_ROWS // len(X)))
    rng = np.random.default_rng(seed)
    rows = np.tile(rng.permutation(len(X)), copies)
    mask = random_subsets(len(rows), view.d, k, rng)
    copied = Copies(masked_cells(view, view.take(X, rows), mask), known[rows], len(X), ROWS_PER_LEAF * copies)
    categories = list(view.levels_) or None
    regression = black_box.task == "regression"
    fit = partial(_fit_values if regression else _fit_classes, categories=categories, seed=seed)
    outputs = range(known.shape[1]) if regression else [slice(None)]
    ensembles = [_with_best_number_of_trees(fit, copied.output(output)) for output in outputs]
    return BoostedEvaluator(view, tuple(ensembles), known.shape[1])


@dataclass(frozen=True)
class Copies:
    """Masked copies of rows: one copy of all `rows` after the other.

    Attributes
    ----------
    cells : (copies · rows, width) array
    targets : (copies · rows, classes) array, or (copies · rows,) for regression
    rows : int
        The number of different rows.
    leaf : int
        The smallest number of copies in a leaf.
    """

    cells: Array
    targets: Array
    rows: int
    leaf: int

    def output(self, which: Any) -> Copies:
        """Return the copies with one of the outputs, or all of them."""
        return replace(self, targets=self.targets[:, which])

    def split(self) -> tuple[Copies, Copies]:
        """Return the copies of most rows, and those of held-out rows."""
        held = np.arange(len(self.cells)) % self.rows < max(1, round(HELD_OUT * self.rows))
        train, test = (replace(self, cells=self.cells[p], targets=self.targets[p]) for p in (~held, held))
        return train, test


Fit = Callable[[Copies, int], Any]


def _with_best_number_of_trees(fit: Fit, copies: Copies) -> Any:
    """Choose the number of trees on held-out rows, then fit on all rows."""
    if copies.rows < 2:
        return fit(copies, 1)
    train, held = copies.split()
    ensemble = fit(train, TREES)
    if hasattr(ensemble, "classes_"):
        targets = held.targets[:, ensemble.classes_]
        stages = ensemble.staged_predict_proba(held.cells)
        losses = [-(targets * np.log(np.maximum(q, 1e-6))).sum(axis=1).mean() for q in stages]
    else:
        losses = [np.square(q - held.targets).mean() for q in ensemble.staged_predict(held.cells)]
    return fit(copies, 1 + int(np.argmin(losses)))


def _fit_values(copies: Copies, trees: int, *, categories: list[int] | None, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    ensemble = HistGradientBoostingRegressor(
        max_iter=trees, min_samples_leaf=copies.leaf, categorical_features=categories, early_stopping=False,
        random_state=seed,
    )  # fmt: skip
    return ensemble.fit(copies.cells, copies.targets)


def _fit_classes(copies: Copies, trees: int, *, categories: list[int] | None, seed: int) -> Any:
    """Fit with each copy as often as it has likely classes, with their probabilities as weights."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    which, classes = np.nonzero(copies.targets >= min(UNLIKELY, 1 / copies.targets.shape[1]))
    weights = copies.targets[which, classes]
    ensemble = HistGradientBoostingClassifier(
        max_iter=trees, min_samples_leaf=copies.leaf, categorical_features=categories, early_stopping=False,
        random_state=seed,
    )  # fmt: skip
    return ensemble.fit(copies.cells[which], classes, sample_weight=weights)


def random_subsets(n: int, d: int, k: int, rng: np.random.Generator) -> Array:
    """Draw n subsets of d columns, (n, d): half of them have k columns, the others 0 to d."""
    sizes = np.where(np.arange(n) % 2 == 0, k, rng.integers(0, d + 1, size=n))
    ranks = rng.random((n, d)).argsort(axis=1).argsort(axis=1)
    return np.asarray(ranks < rng.permutation(sizes)[:, None])


def masked_cells(view: Columns, X: Any, mask: Array) -> Array:
    """Return what the trees read: numbers and codes, NaN if masked or missing; then the mask."""
    cells = view.numbers(X)
    for c in view.levels_:
        codes = cells[:, c]
        cells[:, c] = np.where(codes < 0, np.nan, np.minimum(codes, MOST_CODES))  # unseen categories
    return np.concatenate([np.where(mask, cells, np.nan), mask], axis=1)
