"""The base class of all methods: one verb, and the way from scores to an Explanation."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from l2x._base.arrays import Array
from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.features import View, checked_k, fitted_view, selectable_units
from l2x.model import BlackBox, query


class Method(BaseEstimator):  # type: ignore[misc]
    """A method behind `explain(X, k)`; a subclass is a dataclass whose fields are its options.

    Attributes
    ----------
    name : str
        The name that is printed.
    needs_training, additive, model_agnostic : bool
        Columns of Table 1: whether `fit` has to see unlabelled inputs first, whether the method describes
        the model near an input as a sum over features, and whether it only queries the model.
    model : object
        The model being explained, in any form that `l2x.as_black_box` takes.
    features : View, optional
        What one feature is; default `Columns()`, fitted on the explained rows. Pass the same fitted view
        (`explainer.features_`) to all methods that are compared, so that all metrics mask features in
        the same way.
    magnitude : bool
        Whether to rank features by the absolute values of their scores.
    seed : int
        Seed of what the method draws.
    progress : bool
        Whether to show a progress bar.

    Examples
    --------
    >>> class First(Method):
    ...     name = "the first features"
    ...
    ...     def _scores(self, view, X, k):
    ...         return np.tile(np.arange(view.d, 0, -1.0), (len(X), 1))
    >>> First().explain(np.zeros((1, 4)), k=2).names
    [['x0', 'x1']]
    """

    name: ClassVar[str]
    needs_training: ClassVar[bool] = False
    additive: ClassVar[bool] = False
    model_agnostic: ClassVar[bool] = True

    features: View | None = None
    magnitude: bool = False

    @classmethod
    def options(cls) -> set[str]:
        """Return the names of the options: "surrogate" is one if the method needs a surrogate."""
        return set(inspect.signature(cls).parameters)

    def explain(self, X: Any, k: int) -> Explanation:
        """Select the k most important features of each row of X."""
        view = self._view(X)
        X = view.check(X)
        k = checked_k(view, k)
        scores = self._scores(view, X, k)
        if self.magnitude:
            scores = np.abs(scores)
        selectable = selectable_units(view, X)
        if selectable is not None:
            scores = np.where(selectable, scores, -np.inf)
        return Explanation(scores, k, view.names_, inputs=X, view=view)

    def _view(self, X: Any) -> View:
        return fitted_view(self.features, X)

    def _scores(self, view: View, X: Any, k: int) -> Array:
        """Return the (n, d) scores of the features of checked rows."""
        raise NotImplementedError


def predicted_class(black_box: BlackBox, view: View, X: Any) -> Array:
    """Return the predicted class of each row, (n,), which is the output to explain."""
    predictions = query(black_box, view, X)
    if black_box.task == "regression" and predictions.shape[1] > 1:
        raise InputError(
            f"{black_box.name} predicts {predictions.shape[1]} values at once; explain one of them at a "
            "time, with a callable that returns it alone."
        )
    return np.asarray(predictions.argmax(axis=1))
