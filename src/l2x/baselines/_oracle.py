"""Theorem 1's optimal explainer, exactly: by trying every subset."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from l2x._base.arrays import Array
from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.features import View
from l2x.learning import BITS, Conditional

# More subsets than this take too long to be of use.
MOST_SUBSETS = 20_000


@dataclass(frozen=True)
class Oracle:
    """The best subset of each row under a value.

    explanation : the subsets; within a row every selected feature has score 1, every other 0
    log_q : (n,) their values, in nats
    ties : (n,) how many subsets are as good as the best within `tolerance` nats
    value, X, answers : what they were found with

    >>> from l2x.datasets import synthetic
    >>> data = synthetic("xor", 5, seed=0)
    >>> oracle(data.model.conditional(rows=200), data.X, k=2).explanation.names[0]
    ['x0', 'x1']
    """

    explanation: Explanation
    log_q: Array
    ties: Array
    value: Conditional
    X: Any
    answers: Array

    def gap_rows(self, explanation: Explanation) -> Array:
        """(n,) bits that an explanation of the same rows loses against the optimum."""
        theirs = self.value.log_q(self.X, explanation.mask, self.answers)
        return np.asarray((self.log_q - theirs) * BITS)

    def gap(self, explanation: Explanation) -> float:
        """Bits that an explanation of the same rows loses against the optimum, mean over rows."""
        return float(self.gap_rows(explanation).mean())


def oracle(
    value: Conditional, X: Any, k: int, *, responses: Array | None = None, tolerance: float = 1e-6
) -> Oracle:
    """E*(x) = argmin_S E_m[-log P(Y | x_S) | x], Theorem 1, by enumeration.

    Parameters
    ----------
    value : what stands for P_m(y | x_S): `data.model.conditional()` for the synthetic sets (exact),
        `explainer.q_`, or a judge
    X : (n, d), a table; at most 20,000 subsets of its columns are tried
    k : how many features a subset has
    responses : (n, outputs), the model's answers for X, if they are known; otherwise the value asks the model
    tolerance : nats within which two subsets are equally good, for `ties`

    Returns
    -------
    An `Oracle`: the best `.explanation`, its `.log_q` and `.ties` row by row, `.gap(other)`.

    Raises
    ------
    InputError
        If there are too many subsets to try, or fewer than k features.

    >>> from l2x.datasets import synthetic
    >>> data = synthetic("xor", 20, seed=0)
    >>> best = oracle(data.model.conditional(rows=200), data.X, k=2)
    >>> best.gap(best.explanation)
    0.0
    """
    # A q that was fitted knows what its features are, such as groups of columns.
    view: View | None = getattr(value, "view", None)
    names = [f"x{i}" for i in range(np.shape(X)[-1])] if view is None else view.names_
    _check_size(X, len(names), k)
    n, d = len(X), len(names)
    answers = value.answers(X) if responses is None else np.asarray(responses)
    subsets = np.array([np.isin(np.arange(d), subset) for subset in combinations(range(d), k)])
    values = np.stack(
        [value.log_q(X, np.tile(subset, (n, 1)), answers) for subset in subsets]
    )  # (subsets, n)
    best = values.max(axis=0)
    explanation = Explanation(subsets[values.argmax(axis=0)].astype(float), k, names)
    return Oracle(explanation, best, (values >= best - tolerance).sum(axis=0), value, X, answers)


def _check_size(X: Any, d: int, k: int) -> None:
    """Whether every subset of the d features can be tried."""
    if np.ndim(X) != 2:
        raise InputError(
            "The oracle tries every subset of a table's columns; for texts and images there are too many: "
            "l2x.baselines.GreedySearch searches among them."
        )
    if not 1 <= k <= d:
        raise InputError(f"k = {k} but there are {d} features; choose k between 1 and {d}.")
    if comb(d, k) > MOST_SUBSETS:
        raise InputError(
            f"There are {comb(d, k):,} subsets of {k} out of {d} features; "
            f"the oracle tries at most {MOST_SUBSETS:,}."
        )
