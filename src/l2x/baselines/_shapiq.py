"""Shapley values by the regression approximators of the package shapiq, for any model."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from l2x._base.arrays import Array
from l2x.baselines._perturbation import PerturbationMethod, Predict, RowAttribution
from l2x.errors import InputError, require
from l2x.features import Columns
from l2x.model import Task

Approximator = Literal["KernelSHAP", "kADDSHAP"]


@dataclass(eq=False, repr=False)
class ShapIQ(PerturbationMethod):
    """Rank by Shapley values of P_m(predicted class | x) as approximated by shapiq (Muschalik et al. 2024).

    The game is that of Kernel SHAP: absent columns take the values of background rows, over which the model's
    predictions are averaged; absent words and patches are masked. shapiq samples subsets in pairs, evaluates
    all of the smallest and largest ones that it can afford, and gives every feature a value.

    Parameters
    ----------
    background : rows, optional
        Training rows that absent features are averaged over; by default those stored in a fitted view.
    background_rows : int
        Use at most this many background rows.
    samples : int
        Subsets per explanation; the model is queried for this many times `background_rows`.
    approximator : "KernelSHAP" or "kADDSHAP"
        Which regression: by weighted least squares (Lundberg and Lee 2017), or also with the interactions of
        pairs (Pelegrina et al. 2023).
    magnitude : bool
        Rank by absolute values; False ranks by signed values.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> def model(X):
    ...     p = 1 / (1 + np.exp(X[:, 2] - 0.1 * X[:, 0]))
    ...     return np.stack([1 - p, p], axis=1)
    >>> ShapIQ(model, background=X, progress=False).explain(X[:2], k=1).names
    [['x2'], ['x2']]
    """

    name: ClassVar[str] = "shapiq"

    _: KW_ONLY
    background_rows: int = 20
    samples: int = 500
    approximator: Approximator = "KernelSHAP"

    def _of_values(
        self, predict: Predict, background: Array, view: Columns, task: Task | None
    ) -> RowAttribution:
        if len(background) > self.background_rows:
            rng = np.random.default_rng(self.seed)
            background = background[rng.choice(len(background), self.background_rows, replace=False)]
        m, d = background.shape

        def attribute(row: Array, label: int, seed: int) -> Array:
            def game(present: Array) -> Array:
                rows = np.where(present[:, None], row, background).reshape(-1, d)
                return np.asarray(predict(rows)[:, label].reshape(-1, m).mean(axis=1))

            return self._shapley_values(game, d, seed)

        return attribute

    def _of_presence(self, predict: Predict, d: int, label: int, seed: int) -> Array:
        return self._shapley_values(lambda present: predict(present)[:, label], d, seed)

    def _shapley_values(self, game: Callable[[Array], Array], d: int, seed: int) -> Array:
        """Return the (d,) values of a game: masks (n, d) of present features -> (n,) payoffs."""
        if self.approximator not in get_args(Approximator):
            choices = " or ".join(map(repr, get_args(Approximator)))
            raise InputError(f"approximator is {self.approximator!r}; choose {choices}.")
        approximators = require("shapiq.approximator", extra="baselines")
        if d == 1:
            return np.diff(game(np.array([[False], [True]])))
        found = getattr(approximators, self.approximator)(d, pairing_trick=True, random_state=seed)
        with warnings.catch_warnings():  # if there are fewer subsets than samples
            warnings.filterwarnings("ignore", message="Not all budget is required", category=UserWarning)
            return np.asarray(found.approximate(self.samples, game).get_n_order_values(1))
