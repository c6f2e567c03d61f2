"""TreeSHAP (Lundberg et al. 2020): exact Shapley values of a tree ensemble, read off its trees."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from l2x._base.arrays import Array
from l2x.baselines._method import Method, predicted_class
from l2x.errors import require
from l2x.features import View, check_table
from l2x.model import as_black_box


@dataclass(eq=False, repr=False)
class TreeShap(Method):
    """By the package shap, for LightGBM, XGBoost, CatBoost and scikit-learn's forests.

    Parameters
    ----------
    model : the fitted ensemble; absent features are averaged along the paths of its own training rows
    features : Columns or ColumnGroups, fitted or not; Shapley values of a group are summed
    magnitude : bool
        Rank by absolute values, as is usual; False ranks by what speaks for the predicted class.

    Values are of the ensemble's raw score (for classes, log-odds), as is usual for it.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> forest = RandomForestClassifier(10, random_state=0).fit(X, X[:, 1] > 0)
    >>> TreeShap(forest).explain(X[:2], k=1).names
    [['x1'], ['x1']]
    """

    name: ClassVar[str] = "TreeSHAP"
    additive: ClassVar[bool] = True
    model_agnostic: ClassVar[bool] = False

    model: Any
    _: KW_ONLY
    features: View | None = None
    magnitude: bool = True

    def _scores(self, view: View, X: Any, k: int) -> Array:
        shap = require("shap", extra="baselines")
        check_table(view, self.name)
        black_box = as_black_box(self.model)
        classes = predicted_class(black_box, view, X)
        values = np.asarray(shap.TreeExplainer(self.model)(X).values)  # (n, columns) or (n, columns, classes)
        return view.units(torch.from_numpy(_of_class(values, classes, black_box.task))).numpy()


def _of_class(values: Array, classes: Array, task: str | None) -> Array:
    """(n, d) values for the predicted class; of two classes there may only be the second's."""
    if values.ndim == 3:
        return np.asarray(np.take_along_axis(values, classes[:, None, None], axis=2)[:, :, 0])
    return values if task == "regression" else np.where(classes[:, None] == 1, values, -values)
