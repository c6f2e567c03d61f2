"""How much of a selection depends on the row, on the seed, on noise, and on the model."""

from __future__ import annotations

import numpy as np

from l2x._base.arrays import Array
from l2x.errors import InputError
from l2x.explanation import Explanation


def jaccard(explanation: Explanation, other: Explanation) -> Array:
    """Overlap of two selections of the same n rows: shared features over all that either selects.

    explanation, other : of the same rows, such as by two seeds

    Returns
    -------
    (n,) values, 1 for the same set, 0 for disjoint ones. Two random sets of k among d features overlap by
    about k / (2 d - k).

    Raises
    ------
    InputError
        If they differ in rows or features.

    >>> e = Explanation(np.array([[3.0, 2.0, 1.0, 0.0]]), k=2, feature_names=list("abcd"))
    >>> other = Explanation(np.array([[3.0, 1.0, 2.0, 0.0]]), k=2, feature_names=list("abcd"))
    >>> jaccard(e, other).round(3).tolist()
    [0.333]
    """
    if explanation.mask.shape != other.mask.shape:
        raise InputError(
            f"Explanations of {explanation.mask.shape} and {other.mask.shape} (rows, features) "
            "cannot be compared."
        )
    return overlap(explanation.mask, other.mask)


def overlap(mask: Array, other: Array) -> Array:
    """`jaccard` of (n, d) masks."""
    both, either = (mask & other).sum(axis=1), (mask | other).sum(axis=1)
    return np.asarray(both / np.maximum(either, 1))


def collapse(explanation: Explanation) -> Array:
    """How much of a selection is the same for all rows: the share of it that is among the k features which
    are selected most often.

    explanation : of many rows

    Returns
    -------
    (n,) values. If their mean is 1, every row has the same set: then the explanations say nothing about
    single rows.

    >>> same = Explanation(np.array([[2.0, 1.0, 0.0]] * 3), k=1, feature_names=list("abc"))
    >>> collapse(same).tolist()
    [1.0, 1.0, 1.0]
    """
    often = np.zeros(explanation.mask.shape[1], dtype=bool)
    often[np.argsort(-explanation.mask.mean(axis=0), kind="stable")[: explanation.k]] = True
    selected = np.maximum(explanation.mask.sum(axis=1), 1)
    return np.asarray((explanation.mask & often).sum(axis=1) / selected)


def distinct_sets(explanation: Explanation) -> int:
    """How many different sets occur."""
    return len(np.unique(np.packbits(explanation.mask, axis=1), axis=0))
