"""Perturbation methods, for any model that can be asked: LIME and Kernel SHAP, by their authors' packages."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from l2x.baselines.method import Method, explained, predicted_class
from l2x.baselines.units import AskMasks, ask_masks, global_seed, lime_units, shap_units, unit_seed
from l2x.blackbox import BlackBox, as_black_box
from l2x.data import ask
from l2x.errors import InputError, require
from l2x.explanation import Explanation
from l2x.features.columns import Columns
from l2x.features.fitted import fitted_view
from l2x.features.matrix import as_columns
from l2x.features.view import View, checked_k
from l2x.foundations.arrays import Array
from l2x.foundations.progress import progress_bar

# (row, its predicted class, a seed) -> (d,) attributions.
RowAttribution = Callable[[Array, int, int], Array]


class PerturbationMethod(Method):
    """What the two have in common: they take one row at a time, and draw from a seed made of the row itself,
    so that the explanation of a row depends neither on its position nor on the rows around it."""

    name: ClassVar[str]
    additive: ClassVar[bool] = True

    model: Any
    background: Any
    features: View | None
    magnitude: bool
    seed: int
    progress: bool

    def explain(self, X: Any, k: int) -> Explanation:
        """The k features with the largest attributions to the predicted class in each row."""
        black_box = as_black_box(self.model)
        view = fitted_view(self.features, X if self.background is None else self.background)
        columns = as_columns(view)
        if columns is None:
            return self._explain_units(black_box, view, X, k)
        background = self._background(columns)
        X = view.check(X)
        checked_k(view, k)
        view.encode(X)  # names the row and column of a missing value
        classes = predicted_class(black_box, ask(black_box, view, X, progress=False))
        attribution = self._attribution(
            black_box, lambda matrix: black_box(columns.table(X, matrix)), background, list(columns.levels_)
        )
        matrix = columns.numbers(X)
        scores = np.empty(matrix.shape)
        with progress_bar(f"explaining by {self.name}", len(X), visible=self.progress) as advance:
            for i, row in enumerate(matrix):
                scores[i] = attribution(row, int(classes[i]), unit_seed(self.seed, row))
                advance(i + 1, f"{black_box.rows:,} rows asked")
        return explained(view, X, scores, k, magnitude=self.magnitude)

    @abstractmethod
    def _attribution(
        self,
        black_box: BlackBox,
        predict: Callable[[Array], Array],
        background: Array,
        categorical: Sequence[int],
    ) -> RowAttribution:
        """What explains one row; `predict` takes arrays (of codes, in the `categorical` columns), whatever
        table the model wants."""

    def _explain_units(self, black_box: BlackBox, view: View, X: Any, k: int) -> Explanation:
        """The same for patches or words, each present or removed as the view says."""
        X = view.check(X)
        k = checked_k(view, k)
        classes = predicted_class(black_box, ask(black_box, view, X, progress=False))
        scores = np.zeros((len(X), view.d))
        with (
            progress_bar(f"explaining by {self.name}", len(X), visible=self.progress) as advance,
            quiet("shap"),
        ):
            for i, label in enumerate(classes):
                row = view.take(X, slice(i, i + 1))
                x = view.encode(row, first_row=i)  # names the position of a missing value
                allowed = view.selectable(x)
                units = np.arange(view.d) if allowed is None else np.flatnonzero(allowed[0].numpy())
                seed = unit_seed(self.seed, x[0] if hasattr(X, "columns") else X[i])
                answers = ask_masks(black_box, view, row, units)
                if len(units):
                    scores[i, units] = self._unit_attribution(answers, len(units), int(label), seed)
                advance(i + 1, f"{black_box.rows:,} rows asked")
        return explained(view, X, scores, k, magnitude=self.magnitude)

    @abstractmethod
    def _unit_attribution(self, answers: AskMasks, d: int, label: int, seed: int) -> Array:
        """Attributions of the d units of one row to the class `label`."""

    def _background(self, view: Columns) -> Array:
        if self.background is not None:
            rows = view.check(self.background)
            return view.numbers(rows)
        if self.features is None or not hasattr(self.features, "names_"):
            raise InputError(
                f"{self.name} needs rows to draw from; pass background=X_train, or features= a fitted view."
            )
        return np.asarray(view.background_, dtype=np.float64)


class Lime(PerturbationMethod):
    """LIME for tables (Ribeiro et al. 2016): weights of a linear model fitted around the row.

    Parameters
    ----------
    background : training rows
        Their quartiles and moments say how to perturb; by default the rows that a fitted view kept.
    samples : int
        Perturbed rows per explanation; 5,000 is the package's default.
    discretize : bool
        Fit on "in the same quartile or not" (the package's default) instead of on the values.
    magnitude : bool
        Rank by absolute weights, as the package does; False ranks by the sign too.

    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> def model(X):
    ...     p = 1 / (1 + np.exp(X[:, 2] - 0.1 * X[:, 0]))
    ...     return np.stack([1 - p, p], axis=1)
    >>> Lime(model, background=X, progress=False).explain(X[:2], k=1).names
    [['x2'], ['x2']]
    """

    name = "LIME"

    def __init__(
        self,
        model: Any,
        *,
        background: Any = None,
        features: View | None = None,
        samples: int = 5000,
        discretize: bool = True,
        magnitude: bool = True,
        seed: int = 0,
        progress: bool = True,
    ) -> None:
        self.model = model
        self.background = background
        self.features = features
        self.samples = samples
        self.discretize = discretize
        self.magnitude = magnitude
        self.seed = seed
        self.progress = progress

    def _attribution(
        self,
        black_box: BlackBox,
        predict: Callable[[Array], Array],
        background: Array,
        categorical: Sequence[int],
    ) -> RowAttribution:
        if np.isnan(background).any():
            raise InputError("LIME takes no missing values; fill them first, or use KernelShap.")
        lime_tabular = require("lime.lime_tabular", extra="baselines")
        regression = black_box.task == "regression"
        random = np.random.RandomState(self.seed)
        d = background.shape[1]
        lime = lime_tabular.LimeTabularExplainer(
            background,
            mode="regression" if regression else "classification",
            categorical_features=categorical,
            discretize_continuous=self.discretize,
            # All features are kept, so that choosing among them first would change nothing but the time.
            feature_selection="none",
            random_state=random,
        )

        def attribute(row: Array, label: int, seed: int) -> Array:
            random.seed(seed)  # lime, its sampler and its discretizer share this generator
            found = lime.explain_instance(
                row, predict, labels=(label,), num_features=d, num_samples=self.samples
            )
            weights = np.zeros(d)
            for feature, weight in found.local_exp[1 if regression else label]:
                weights[feature] = weight
            return weights

        return attribute

    def _unit_attribution(self, answers: AskMasks, d: int, label: int, seed: int) -> Array:
        return lime_units(answers, d, label, samples=self.samples, seed=seed)


class KernelShap(PerturbationMethod):
    """Kernel SHAP (Lundberg and Lee 2017): Shapley values of P_m(predicted class | x) by weighted regression.

    Parameters
    ----------
    background : training rows
        What a missing feature is averaged over; by default the rows that a fitted view kept.
    background_rows : int
        At most this many of them, drawn by the seed. 100 is where shap begins to warn; ten k-means centres
        are about ten times faster but found fewer exact sets (.43 against .75, additive set, 60 rows).
    samples : int or "auto"
        Subsets per explanation; "auto" is the package's default, 2 d + 2048.
    magnitude : bool
        Rank by absolute attributions, as is usual; False ranks by the sign too.

    With more than ten features shap itself keeps ten (its l1_reg default); the others score zero.
    """

    name = "Kernel SHAP"

    def __init__(
        self,
        model: Any,
        *,
        background: Any = None,
        features: View | None = None,
        background_rows: int = 100,
        samples: Any = "auto",
        magnitude: bool = True,
        seed: int = 0,
        progress: bool = True,
    ) -> None:
        self.model = model
        self.background = background
        self.features = features
        self.background_rows = background_rows
        self.samples = samples
        self.magnitude = magnitude
        self.seed = seed
        self.progress = progress

    def _attribution(
        self,
        black_box: BlackBox,
        predict: Callable[[Array], Array],
        background: Array,
        categorical: Sequence[int],
    ) -> RowAttribution:
        shap = require("shap", extra="baselines")
        if len(background) > self.background_rows:
            rng = np.random.default_rng(self.seed)
            background = background[rng.choice(len(background), self.background_rows, replace=False)]
        with quiet("shap"):
            kernel = shap.KernelExplainer(predict, background)

        def attribute(row: Array, label: int, seed: int) -> Array:
            with quiet("shap"), global_seed(seed):
                values = kernel.shap_values(row[None], nsamples=self.samples, silent=True)  # (1, d, classes)
            return np.asarray(values).reshape(len(row), -1)[:, label]

        return attribute

    def _unit_attribution(self, answers: AskMasks, d: int, label: int, seed: int) -> Array:
        return shap_units(answers, d, label, samples=self.samples, seed=seed)


@contextmanager
def quiet(logger_name: str) -> Iterator[None]:
    """No log lines below errors for a while."""
    logger = logging.getLogger(logger_name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
