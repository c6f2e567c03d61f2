"""Perturbation methods, for any model: LIME and Kernel SHAP, with their authors' packages.

Columns of a table are perturbed with the values of background rows. Patches and words are present or masked,
as defined by the view.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar
from zlib import crc32

import numpy as np

from l2x._base import progress_bar
from l2x._base.arrays import Array, batches
from l2x.baselines._method import Method, predicted_class
from l2x.errors import InputError, require
from l2x.features import Columns, View, as_columns, fitted_view
from l2x.model import BlackBox, Task, as_black_box

# Rows of numbers, or masks (m, d) of one row -> the model's predictions, (m, classes).
Predict = Callable[[Array], Array]
# (row, its predicted class, a seed) -> (d,) attributions.
RowAttribution = Callable[[Array, int, int], Array]

# Masked copies of a row in one query.
UNIT_BATCH = 1024
# The package's default for images: cosine distances of a few tenths still count.
LIME_KERNEL_WIDTH = 0.25


@dataclass(eq=False, repr=False)
class PerturbationMethod(Method):
    """The base class of both methods: they explain one row at a time.

    The seed for a row is derived from its content, so that its explanation depends neither on its position
    nor on the rows around it.
    """

    additive: ClassVar[bool] = True

    model: Any
    _: KW_ONLY
    background: Any = None
    features: View | None = None
    magnitude: bool = True
    seed: int = 0
    progress: bool = True

    def _view(self, X: Any) -> View:
        return fitted_view(self.features, X if self.background is None else self.background)

    def _scores(self, view: View, X: Any, k: int) -> Array:
        black_box, columns = as_black_box(self.model), as_columns(view)
        classes = predicted_class(black_box, view, X)
        scores = np.empty((len(X), view.d))
        with (
            progress_bar(f"explaining with {self.name}", len(X), visible=self.progress) as advance,
            quiet("shap"),
        ):
            attribute: Callable[[int, int], Array] = (
                partial(self._presence_in_row, black_box, view, X)
                if columns is None
                else self._values_in_rows(black_box, columns, X)
            )
            for i, label in enumerate(classes):
                scores[i] = attribute(i, int(label))
                advance(i + 1, f"{black_box.rows:,} rows queried")
        return scores

    def _values_in_rows(self, black_box: BlackBox, view: Columns, X: Any) -> Callable[[int, int], Array]:
        """Return (index of a row, class) -> (d,) attributions of its columns."""
        view.encode(X)  # reports the row and column of a missing value
        matrix, background = view.numbers(X), self._background(view)

        def predict(rows: Array) -> Array:
            return black_box(view.cells_.table(X, rows))

        attribute = self._of_values(predict, background, view, black_box.task)
        return lambda i, label: attribute(matrix[i], label, row_seed(self.seed, matrix[i]))

    def _presence_in_row(self, black_box: BlackBox, view: View, X: Any, i: int, label: int) -> Array:
        """Return (d,) attributions of a row's patches or words, zero for those that cannot be selected."""
        row = view.take(X, slice(i, i + 1))
        x = view.encode(row, first_row=i)  # reports the position of a missing value
        allowed = view.selectable(x)
        units = np.arange(view.d) if allowed is None else np.flatnonzero(allowed[0].numpy())
        seed = row_seed(self.seed, x[0] if hasattr(X, "columns") else X[i])
        scores = np.zeros(view.d)
        if len(units):
            predict = query_masks(black_box, view, row, units)
            scores[units] = self._of_presence(predict, len(units), label, seed)
        return scores

    def _of_values(
        self, predict: Predict, background: Array, view: Columns, task: Task | None
    ) -> RowAttribution:
        """Return a function that explains one row of numbers, with categories as codes."""
        raise NotImplementedError

    def _of_presence(self, predict: Predict, d: int, label: int, seed: int) -> Array:
        """Return the attributions of the d units of one row to the class `label`."""
        raise NotImplementedError

    def _background(self, view: Columns) -> Array:
        if self.background is not None:
            return view.numbers(view.check(self.background))
        if self.features is None or not hasattr(self.features, "names_"):
            raise InputError(
                f"{self.name} needs background rows; pass background=X_train, or a fitted view as features=."
            )
        return np.asarray(view.background_, dtype=np.float64)


@dataclass(eq=False, repr=False)
class Lime(PerturbationMethod):
    """Rank by LIME (Ribeiro et al. 2016): the weights of a linear model fitted around the row.

    Parameters
    ----------
    background : rows, optional
        Training rows whose quartiles and moments define the perturbation; by default those stored in a
        fitted view.
    samples : int
        Perturbed rows per explanation; 5,000 is the package's default.
    discretize : bool
        Fit on "in the same quartile or not" (the package's default) instead of on the values.
    magnitude : bool
        Rank by absolute weights, as the package does; False ranks by signed weights.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> def model(X):
    ...     p = 1 / (1 + np.exp(X[:, 2] - 0.1 * X[:, 0]))
    ...     return np.stack([1 - p, p], axis=1)
    >>> Lime(model, background=X, progress=False).explain(X[:2], k=1).names
    [['x2'], ['x2']]
    """

    name: ClassVar[str] = "LIME"

    _: KW_ONLY
    samples: int = 5000
    discretize: bool = True

    def _of_values(
        self, predict: Predict, background: Array, view: Columns, task: Task | None
    ) -> RowAttribution:
        if np.isnan(background).any():
            raise InputError("LIME does not accept missing values; fill them first, or use KernelShap.")
        lime_tabular = require("lime.lime_tabular", extra="baselines")
        regression = task == "regression"
        random = np.random.RandomState(self.seed)
        d = background.shape[1]
        lime = lime_tabular.LimeTabularExplainer(
            background,
            mode="regression" if regression else "classification",
            categorical_features=list(view.levels_),
            discretize_continuous=self.discretize,
            # All features get a weight, so that selecting among them first would only take time.
            feature_selection="none",
            random_state=random,
        )

        def attribute(row: Array, label: int, seed: int) -> Array:
            random.seed(seed)  # lime, its sampler and its discretizer share this generator
            explained = lime.explain_instance(
                row, predict, labels=(label,), num_features=d, num_samples=self.samples
            )
            return in_feature_order(explained.local_exp[1 if regression else label])

        return attribute

    def _of_presence(self, predict: Predict, d: int, label: int, seed: int) -> Array:
        """Fit on random subsets, near ones with more weight, as lime_image does with its segments."""
        lime_base = require("lime.lime_base", extra="baselines")
        random = np.random.RandomState(seed)
        masks = random.randint(0, 2, size=(self.samples, d))
        masks[0] = 1
        # The cosine distance from "all present": 1 - |S| / (sqrt(|S|) sqrt(d)).
        distances = 1 - np.sqrt(masks.sum(axis=1) / d)
        base = lime_base.LimeBase(
            lambda x: np.sqrt(np.exp(-(x**2) / LIME_KERNEL_WIDTH**2)), random_state=random
        )
        weights = base.explain_instance_with_data(
            masks, predict(masks), distances, label, d, feature_selection="none"
        )[1]
        return in_feature_order(weights)


@dataclass(eq=False, repr=False)
class KernelShap(PerturbationMethod):
    """Rank by Kernel SHAP (Lundberg and Lee 2017): Shapley values of P_m(predicted class | x) by regression.

    With more than ten features, shap gives at most ten of them a value (its l1_reg default); the others score
    zero.

    Parameters
    ----------
    background : rows, optional
        Training rows that absent features are averaged over; by default those stored in a fitted view.
    background_rows : int
        Use at most this many background rows. shap warns above 100. Ten k-means centres are about ten times
        faster but found fewer exact sets (0.43 versus 0.75, additive set, 60 rows).
    samples : int or "auto"
        Subsets per explanation; "auto" is the package's default, 2 d + 2048.
    magnitude : bool
        Rank by absolute attributions, as is usual; False ranks by signed attributions.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> def model(X):
    ...     p = 1 / (1 + np.exp(X[:, 2] - 0.1 * X[:, 0]))
    ...     return np.stack([1 - p, p], axis=1)
    >>> KernelShap(model, background=X, progress=False).explain(X[:2], k=1).names
    [['x2'], ['x2']]
    """

    name: ClassVar[str] = "Kernel SHAP"

    _: KW_ONLY
    background_rows: int = 100
    samples: Any = "auto"

    def _of_values(
        self, predict: Predict, background: Array, view: Columns, task: Task | None
    ) -> RowAttribution:
        if len(background) > self.background_rows:
            rng = np.random.default_rng(self.seed)
            background = background[rng.choice(len(background), self.background_rows, replace=False)]
        kernel = require("shap", extra="baselines").KernelExplainer(predict, background)

        def attribute(row: Array, label: int, seed: int) -> Array:
            with global_seed(seed):
                values = kernel.shap_values(row[None], nsamples=self.samples, silent=True)  # (1, d, classes)
            return np.asarray(values).reshape(len(row), -1)[:, label]

        return attribute

    def _of_presence(self, predict: Predict, d: int, label: int, seed: int) -> Array:
        """Compare with the row with all units masked."""
        shap = require("shap", extra="baselines")
        kernel = shap.KernelExplainer(lambda masks: predict(masks)[:, label], np.zeros((1, d)))
        with global_seed(seed):
            values = kernel.shap_values(np.ones((1, d)), nsamples=self.samples, silent=True)
        return np.asarray(values).reshape(d)


def query_masks(black_box: BlackBox, view: View, X: Any, units: Array) -> Predict:
    """Return the model's predictions for masks of the `units` of X, a single row."""

    def predict(masks: Array) -> Array:
        parts = []
        for rows in batches(len(masks), UNIT_BATCH):
            mask = np.zeros((rows.stop - rows.start, view.d), dtype=bool)
            mask[:, units] = masks[rows] > 0.5
            copies = view.take(X, np.zeros(len(mask), dtype=np.int64))
            parts.append(black_box(view.for_model(copies, mask, rng=np.random.default_rng(0))))
        return np.concatenate(parts)

    return predict


def in_feature_order(weights: Iterable[tuple[int, float]]) -> Array:
    """Return (d,) weights from lime's pairs (feature, weight), one for every feature."""
    return np.array([weight for _, weight in sorted(weights)])


def row_seed(seed: int, row: Any) -> int:
    """Return a seed for one row that depends on its content only."""
    content = np.ascontiguousarray(row).tobytes()
    return int(np.random.SeedSequence([seed, crc32(content)]).generate_state(1)[0])


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """Seed numpy's global generator, which shap draws from, and restore its state."""
    state = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(state)


@contextmanager
def quiet(logger_name: str) -> Iterator[None]:
    """Suppress log lines below errors."""
    logger = logging.getLogger(logger_name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
