"""A fitted view from whatever the caller has, and what may be selected in its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from l2x.features.columns import Columns
from l2x.features.view import View
from l2x.foundations.arrays import Array, batches


def fitted_view(features: View | None, X: Any) -> View:
    """`features` as it is if it was fitted (`explainer.features_`), otherwise a copy fitted on the rows X;
    `Columns()` if there is none.

    >>> fitted_view(None, np.zeros((3, 2))).names_
    ['x0', 'x1']
    """
    if features is not None and hasattr(features, "names_"):
        return features
    view: View = clone(features or Columns())
    return view.fit(X)


def selectable_units(view: View, X: Any) -> Array | None:
    """(n, d) booleans: what may be selected in checked rows; None where that is everything."""
    if view.selectable(view.encode(view.take(X, slice(0, 1)))) is None:
        return None
    parts = [
        view.selectable(view.encode(view.take(X, rows)))
        for rows in batches(len(X), view.recipes.rows_at_once)
    ]
    return np.concatenate([part.numpy() for part in parts if part is not None])
