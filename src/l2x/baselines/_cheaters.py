"""Deliberate cheaters: selections that look faithful and explain nothing; a report card has to flag them.

The three kinds are those of Puli, Nguyen and Ranganath (2024), "Explanations that reveal all through the
definition of encoding". In each the index set says something that the selected values do not.
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
class ByPosition(Method):
    """One set of features for each predicted class, drawn by the seed: the index set is the answer, and the
    values do not matter. Sets of different classes share as few features as there is room for.

    >>> from l2x.datasets import synthetic
    >>> data = synthetic("switch", 50, seed=0)
    >>> masks = ByPosition(data.model).explain(data.X, k=5).mask
    >>> len(np.unique(masks, axis=0))  # two classes, two sets
    2
    """

    name: ClassVar[str] = "Cheats by position"

    model: Any
    _: KW_ONLY
    features: View | None = None
    seed: int = 0

    def _scores(self, view: View, X: Any, k: int) -> Array:
        codes = _codes(query(as_black_box(self.model), view, X))
        order = np.random.default_rng(self.seed).permutation(view.d)
        # Class c starts k features after class c - 1; the earlier in its turn, the higher the score.
        scores = np.empty((codes.max() + 1, view.d))
        for c, row in enumerate(scores):
            row[np.roll(order, -c * k)] = np.arange(view.d, 0, -1.0)
        return scores[codes]


@dataclass(eq=False, repr=False)
class ByPrediction(Method):
    """Whatever looks like the answer: each feature is scored by log q(ŷ | x_i), ŷ the model's own answer.
    What speaks against it is left out, so that the selection always agrees with the prediction.

    Parameters
    ----------
    value : Conditional
        What a feature says alone: `explainer.q_`, a judge, or `data.model.conditional()`.

    >>> from l2x.datasets import synthetic
    >>> data = synthetic("switch", 5, seed=0)
    >>> ByPrediction(data.model.conditional(rows=20)).explain(data.X, k=5).mask.sum(axis=1).tolist()
    [5, 5, 5, 5, 5]
    """

    name: ClassVar[str] = "Cheats by prediction"

    value: Conditional
    _: KW_ONLY
    features: View | None = None

    def _scores(self, view: View, X: Any, k: int) -> Array:
        answers = self.value.answers(X)
        # The answer as it is seen, not its probabilities: what speaks against it counts as wrong.
        seen = np.eye(answers.shape[1])[answers.argmax(axis=1)] if answers.shape[1] > 1 else answers
        return single_values(self.value, X, seen, view.d)


@dataclass(eq=False, repr=False)
class ByMarginal(Method):
    """The choice of a sound method without the feature that the choice depends on: what decides which other
    features matter, but says little by itself (control flow), is never shown.

    Parameters
    ----------
    base : anything with explain(X, k)
        The sound method.
    value : Conditional
        Tells on training rows what a feature says alone.
    hidden : int, optional
        The feature that is never selected. By default the one that `base` selects often though it says little
        alone: the highest share of rows times one minus its value relative to the most telling feature.

    >>> from l2x.baselines import OracleExplainer
    >>> from l2x.datasets import synthetic
    >>> data = synthetic("xor", 40, seed=0)
    >>> q = data.model.conditional(rows=20)
    >>> cheat = ByMarginal(OracleExplainer(q), q).fit(data.X, k=2)
    >>> cheat.explain(data.X[:3], k=2).mask.sum(axis=1).tolist()
    [2, 2, 2]
    """

    name: ClassVar[str] = "Cheats by marginal"
    needs_training: ClassVar[bool] = True

    base: Any
    value: Conditional
    _: KW_ONLY
    hidden: int | None = None

    def fit(self, X: Any, k: int) -> Self:
        """Find what to hide, on training rows."""
        selection = self.base.explain(X, k)
        answers = self.value.answers(X)
        d = selection.mask.shape[1]
        nothing = self.value.log_q(X, np.zeros((len(selection), d), dtype=bool), answers).mean()
        alone = np.maximum(single_values(self.value, X, answers, d).mean(axis=0) - nothing, 0)
        quiet = 1 - alone / max(alone.max(), 1e-12)
        found = int(np.argmax(selection.mask.mean(axis=0) * quiet))
        self.hidden_ = found if self.hidden is None else self.hidden
        return self

    def explain(self, X: Any, k: int) -> Explanation:
        """What `base` would select if the hidden feature were not there."""
        if not hasattr(self, "hidden_"):
            raise NotFittedError("This ByMarginal is not fitted yet; call fit(X, k) first.")
        selection: Explanation = self.base.explain(X, k)
        scores = np.array(selection.scores, dtype=float)
        scores[:, self.hidden_] = -np.inf
        return replace(selection, scores=scores)


def single_values(value: Conditional, X: Any, answers: Array, d: int) -> Array:
    """log q(y | x_i) of each feature alone, (n, d)."""
    each = np.eye(d, dtype=bool)
    return np.stack([value.log_q(X, np.tile(one, (len(X), 1)), answers) for one in each], axis=1)


def _codes(answers: Array) -> Array:
    """The class of each row; for regression whether the answer is above the median."""
    if answers.shape[1] > 1:
        return np.asarray(answers.argmax(axis=1))
    return np.asarray(answers[:, 0] > np.median(answers[:, 0])).astype(int)
