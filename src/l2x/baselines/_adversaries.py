"""Adversaries: selections that leak the prediction on purpose, which a report has to flag.

Their post-hoc accuracy may be high although they explain nothing: which features they select reveals more
about the prediction than the selected values do. The three kinds are from Puli, Nguyen and Ranganath (2024),
"Explanations that reveal all through the definition of encoding".
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from l2x._base.arrays import Array
from l2x.baselines._method import Method
from l2x.errors import NotFittedError
from l2x.explanation import Explanation
from l2x.features import View
from l2x.learning import Conditional
from l2x.model import as_black_box, query


@dataclass(eq=False, repr=False)
class PositionLeak(Method):
    """Select a fixed set of features for each predicted class: the positions alone reveal the prediction.

    Sets of different classes share as few features as possible.

    >>> from l2x.datasets import synthetic
    >>> data = synthetic("switch", 50, seed=0)
    >>> masks = PositionLeak(data.model).explain(data.X, k=5).mask
    >>> len(np.unique(masks, axis=0))  # two classes, two sets
    2
    """

    name: ClassVar[str] = "Leaks by position"

    model: Any
    _: KW_ONLY
    features: View | None = None
    seed: int = 0

    def _scores(self, view: View, X: Any, k: int) -> Array:
        classes = _classes(query(as_black_box(self.model), view, X))
        order = np.random.default_rng(self.seed).permutation(view.d)
        # Class c starts k features after class c - 1; earlier features score higher.
        scores = np.empty((classes.max() + 1, view.d))
        for c, row in enumerate(scores):
            row[np.roll(order, -c * k)] = np.arange(view.d, 0, -1.0)
        return scores[classes]


@dataclass(eq=False, repr=False)
class PredictionLeak(Method):
    """Select the features that, each alone, agree best with the prediction: log q(ŷ | x_i).

    Evidence against the prediction is never selected, so that the selection always agrees with it.

    Parameters
    ----------
    surrogate : Conditional
        Evaluates single features: `explainer.surrogate_`, an evaluator, or `data.model.conditional()`.

    Examples
    --------
    >>> from l2x.datasets import synthetic
    >>> data = synthetic("switch", 5, seed=0)
    >>> PredictionLeak(data.model.conditional(rows=20)).explain(data.X, k=5).mask.sum(axis=1).tolist()
    [5, 5, 5, 5, 5]
    """

    name: ClassVar[str] = "Leaks by prediction"

    surrogate: Conditional
    _: KW_ONLY
    features: View | None = None

    def _scores(self, view: View, X: Any, k: int) -> Array:
        predictions = self.surrogate.predictions(X)
        if predictions.shape[1] > 1:  # the predicted class, not its probability
            predictions = np.eye(predictions.shape[1])[predictions.argmax(axis=1)]
        return _single_values(self.surrogate, X, predictions, view.d)


@dataclass(eq=False, repr=False)
class MarginalLeak(Method):
    """Hide the feature on which a sound method's choice depends (control flow).

    The hidden feature decides which others matter, but carries little information alone. The choice of the
    others then reveals its value.

    Parameters
    ----------
    base : object with explain(X, k)
        The sound method.
    surrogate : Conditional
        Evaluates single features on training rows.
    hidden : int, optional
        The feature that is never selected. By default the one that `base` selects often although it carries
        little information alone: the largest share of rows times one minus its value relative to the best
        feature's.

    Examples
    --------
    >>> from l2x.baselines import GreedySearch
    >>> from l2x.datasets import synthetic
    >>> data = synthetic("xor", 40, seed=0)
    >>> base, q = GreedySearch(data.model, progress=False), data.model.conditional(rows=20)
    >>> adversary = MarginalLeak(base, q).fit(data.X, k=2)
    >>> adversary.explain(data.X[:3], k=2).mask.sum(axis=1).tolist()
    [2, 2, 2]
    """

    name: ClassVar[str] = "Leaks by marginal"
    needs_training: ClassVar[bool] = True

    base: Any
    surrogate: Conditional
    _: KW_ONLY
    hidden: int | None = None

    def fit(self, X: Any, k: int) -> Self:
        """Choose the feature to hide from the k features that `base` selects in training rows X."""
        selection = self.base.explain(X, k)
        predictions = self.surrogate.predictions(X)
        d = selection.mask.shape[1]
        nothing = self.surrogate.log_q(X, np.zeros((len(selection), d), dtype=bool), predictions).mean()
        alone = np.maximum(_single_values(self.surrogate, X, predictions, d).mean(axis=0) - nothing, 0)
        quiet = 1 - alone / max(alone.max(), 1e-12)
        default = int(np.argmax(selection.mask.mean(axis=0) * quiet))
        self.hidden_ = default if self.hidden is None else self.hidden
        return self

    def explain(self, X: Any, k: int) -> Explanation:
        """Select features without the hidden one; see `Method.explain`."""
        if not hasattr(self, "hidden_"):
            raise NotFittedError("This MarginalLeak is not fitted yet; call fit(X, k) first.")
        selection: Explanation = self.base.explain(X, k)
        scores = np.array(selection.scores, dtype=float)
        scores[:, self.hidden_] = -np.inf
        return replace(selection, scores=scores)


def _single_values(surrogate: Conditional, X: Any, predictions: Array, d: int) -> Array:
    """Return log q(y | x_i) for each feature alone, (n, d)."""
    single = np.eye(d, dtype=bool)
    return np.stack([surrogate.log_q(X, np.tile(mask, (len(X), 1)), predictions) for mask in single], axis=1)


def _classes(predictions: Array) -> Array:
    """Return the predicted class of each row; for regression, whether it is above the median."""
    if predictions.shape[1] > 1:
        return np.asarray(predictions.argmax(axis=1))
    return np.asarray(predictions[:, 0] > np.median(predictions[:, 0])).astype(int)
