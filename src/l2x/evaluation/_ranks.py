"""Against known truth: where do the truly relevant features stand in the ranking?"""

from __future__ import annotations

import numpy as np

from l2x._base.arrays import Array
from l2x._base.ranking import ranked
from l2x.errors import InputError
from l2x.explanation import Explanation


def median_rank(explanation: Explanation, truth: Array) -> Array:
    """The paper's metric, section 4.1: for each row the median rank of its truly relevant features.

    Parameters
    ----------
    explanation : of n rows; all its scores count, not only the k best
    truth : (n, d) booleans, the truly relevant features, at least one in each row

    Returns
    -------
    (n,) ranks, which start at 1; with t relevant features the optimum is (t + 1) / 2. It is lenient (ranks
    1, 2, 3, 9 have the optimal median 2.5), so report `exact_sets` beside it.

    >>> e = Explanation(np.array([[3.0, 2.0, 1.0, 0.0]]), k=2, feature_names=list("abcd"))
    >>> median_rank(e, np.array([[True, False, True, False]])).tolist()
    [2.0]
    """
    truth = _checked(explanation, truth)
    ranks = np.empty(explanation.scores.shape)
    np.put_along_axis(ranks, ranked(explanation.scores), np.arange(1.0, truth.shape[1] + 1)[None], axis=1)
    return np.asarray(np.nanmedian(np.where(truth, ranks, np.nan), axis=1))


def exact_sets(explanation: Explanation, truth: Array) -> float:
    """The share of rows whose k selected features are exactly the truly relevant ones.

    explanation : what was selected
    truth : (n, d) booleans, the truly relevant features

    Returns
    -------
    A share, between 0 and 1.

    >>> e = Explanation(np.array([[3.0, 2.0, 1.0, 0.0]] * 2), k=2, feature_names=list("abcd"))
    >>> exact_sets(e, np.array([[True, True, False, False], [True, False, True, False]]))
    0.5
    """
    return float(exact_rows(explanation, truth).mean())


def true_positive_rate(explanation: Explanation, truth: Array) -> float:
    """The share of the truly relevant features that are selected; mean over rows.

    explanation : what was selected
    truth : (n, d) booleans, the truly relevant features

    Returns
    -------
    A share, between 0 and 1.

    >>> e = Explanation(np.array([[3.0, 2.0, 1.0, 0.0]]), k=1, feature_names=list("abcd"))
    >>> true_positive_rate(e, np.array([[True, True, False, False]]))
    0.5
    """
    return float(true_positive_rows(explanation, truth).mean())


def false_discovery_rate(explanation: Explanation, truth: Array) -> float:
    """The share of the selected features that are not truly relevant; mean over rows.

    explanation : what was selected
    truth : (n, d) booleans, the truly relevant features

    Returns
    -------
    A share, between 0 and 1.

    >>> e = Explanation(np.array([[3.0, 2.0, 1.0, 0.0]]), k=2, feature_names=list("abcd"))
    >>> false_discovery_rate(e, np.array([[True, False, True, False]]))
    0.5
    """
    return float(false_discovery_rows(explanation, truth).mean())


def exact_rows(explanation: Explanation, truth: Array) -> Array:
    """(n,) booleans: each row's set is exactly the true one."""
    return np.asarray((explanation.mask == _checked(explanation, truth)).all(axis=1))


def true_positive_rows(explanation: Explanation, truth: Array) -> Array:
    """(n,) true-positive rate of each row."""
    truth = _checked(explanation, truth)
    return np.asarray((explanation.mask & truth).sum(axis=1) / truth.sum(axis=1))


def false_discovery_rows(explanation: Explanation, truth: Array) -> Array:
    """(n,) false-discovery rate of each row."""
    wrong = (explanation.mask & ~_checked(explanation, truth)).sum(axis=1)
    return np.asarray(wrong / np.maximum(explanation.mask.sum(axis=1), 1))


def _checked(explanation: Explanation, truth: Array) -> Array:
    truth = np.asarray(truth, dtype=bool)
    if truth.shape != explanation.scores.shape:
        raise InputError(f"truth has shape {truth.shape}, the explanation {explanation.scores.shape}.")
    if not truth.any(axis=1).all():
        raise InputError(f"Row {int(np.argmin(truth.any(axis=1)))} of truth has no relevant feature.")
    return truth
