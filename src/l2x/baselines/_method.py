"""What every baseline has in common: one verb, three properties, and the way from rows to an Explanation."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from l2x._base.arrays import Array
from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.features import View, checked_k, fitted_view, selectable_units
from l2x.model import BlackBox, query


class Method(BaseEstimator):  # type: ignore[misc]
    """A way to explain, with the columns of the paper's Table 1; options are the fields of a dataclass.

    needs_training : it learns from unlabelled inputs before it can explain
    additive : it describes the model near an input as a sum over features
    model_agnostic : it only asks the model for answers

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
    magnitude: bool = False  # features are ranked by the absolute values of their scores

    def explain(self, X: Any, k: int) -> Explanation:
        """The k features that matter most in each row."""
        view = self._view(X)
        X = view.check(X)
        k = checked_k(view, k)
        scores = self._scores(view, X, k)
        if self.magnitude:
            scores = np.abs(scores)
        allowed = selectable_units(view, X)
        if allowed is not None:
            scores = np.where(allowed, scores, -np.inf)
        return Explanation(scores, k, view.names_, inputs=X, view=view)

    def _view(self, X: Any) -> View:
        return fitted_view(self.features, X)

    def _scores(self, view: View, X: Any, k: int) -> Array:
        """(n, d) scores of the features of checked rows."""
        raise NotImplementedError


def predicted_class(black_box: BlackBox, view: View, X: Any) -> Array:
    """Which of the model's answers to explain in each row, (n,): the class with the highest probability."""
    answers = query(black_box, view, X)
    if black_box.task == "regression" and answers.shape[1] > 1:
        raise InputError(
            f"{black_box.name} predicts {answers.shape[1]} means at once; explain one of them at a time, "
            "with a callable that returns it alone."
        )
    return np.asarray(answers.argmax(axis=1))
