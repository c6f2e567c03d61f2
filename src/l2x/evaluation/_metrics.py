"""Metrics for selections: agreement with known truth, stability, and which words are selected."""

from __future__ import annotations

from collections import Counter

import numpy as np

from l2x._base.arrays import Array, ranked
from l2x.errors import InputError
from l2x.explanation import Explanation


def median_rank(explanation: Explanation, truth: Array) -> Array:
    """Return the median rank of the truly relevant features of each row, the metric of section 4.1.

    Parameters
    ----------
    explanation : Explanation
        Explanations of n rows; all scores count, not only the k best.
    truth : array of bool, (n, d)
        The truly relevant features, at least one in each row.

    Returns
    -------
    array, (n,)
        Ranks start at 1; with t relevant features the optimum is (t + 1) / 2. The metric is lenient (ranks
        1, 2, 3, 9 have the optimal median 2.5), so report `exact_sets` as well.

    Examples
    --------
    >>> e = Explanation(np.array([[3.0, 2.0, 1.0, 0.0]]), k=2, feature_names=list("abcd"))
    >>> median_rank(e, np.array([[True, False, True, False]])).tolist()
    [2.0]
    """
    truth = _checked(explanation, truth)
    ranks = np.empty(explanation.scores.shape)
    np.put_along_axis(ranks, ranked(explanation.scores), np.arange(1.0, truth.shape[1] + 1)[None], axis=1)
    return np.asarray(np.nanmedian(np.where(truth, ranks, np.nan), axis=1))


def exact_sets(explanation: Explanation, truth: Array) -> Array:
    """Return whether the selected features of each row are exactly the truly relevant ones.

    Parameters
    ----------
    explanation, truth : Explanation, array of bool, (n, d)
        As for `median_rank`.

    Returns
    -------
    array of bool, (n,)
        The mean is the share of rows with the exact set.

    Examples
    --------
    >>> e = Explanation(np.array([[3.0, 2.0, 1.0, 0.0]] * 2), k=2, feature_names=list("abcd"))
    >>> exact_sets(e, np.array([[True, True, False, False], [True, False, True, False]])).tolist()
    [True, False]
    """
    return np.asarray((explanation.mask == _checked(explanation, truth)).all(axis=1))


def true_positive_rate(explanation: Explanation, truth: Array) -> Array:
    """Return the share of each row's truly relevant features that are selected.

    Parameters
    ----------
    explanation, truth : Explanation, array of bool, (n, d)
        As for `median_rank`.

    Returns
    -------
    array, (n,)
        Shares between 0 and 1.

    Examples
    --------
    >>> e = Explanation(np.array([[3.0, 2.0, 1.0, 0.0]]), k=1, feature_names=list("abcd"))
    >>> true_positive_rate(e, np.array([[True, True, False, False]])).tolist()
    [0.5]
    """
    truth = _checked(explanation, truth)
    return np.asarray((explanation.mask & truth).sum(axis=1) / truth.sum(axis=1))


def false_discovery_rate(explanation: Explanation, truth: Array) -> Array:
    """Return the share of each row's selected features that are not truly relevant.

    Parameters
    ----------
    explanation, truth : Explanation, array of bool, (n, d)
        As for `median_rank`.

    Returns
    -------
    array, (n,)
        Shares between 0 and 1.

    Examples
    --------
    >>> e = Explanation(np.array([[3.0, 2.0, 1.0, 0.0]]), k=2, feature_names=list("abcd"))
    >>> false_discovery_rate(e, np.array([[True, False, True, False]])).tolist()
    [0.5]
    """
    wrong = (explanation.mask & ~_checked(explanation, truth)).sum(axis=1)
    return np.asarray(wrong / np.maximum(explanation.mask.sum(axis=1), 1))


def _checked(explanation: Explanation, truth: Array) -> Array:
    truth = np.asarray(truth, dtype=bool)
    if truth.shape != explanation.scores.shape:
        raise InputError(f"truth has the shape {truth.shape}; expected {explanation.scores.shape}.")
    if not truth.any(axis=1).all():
        raise InputError(f"Row {int(np.argmin(truth.any(axis=1)))} of truth has no relevant feature.")
    return truth


def jaccard(explanation: Explanation, other: Explanation) -> Array:
    """Return how far two explanations of the same rows overlap: shared features over all selected ones.

    Parameters
    ----------
    explanation, other : Explanation
        Explanations of the same n rows, such as with two seeds.

    Returns
    -------
    array, (n,)
        1 for equal sets, 0 for disjoint ones. Two random sets of k among d features overlap by about
        k / (2 d - k).

    Raises
    ------
    InputError
        If they differ in rows or features.

    Examples
    --------
    >>> e = Explanation(np.array([[3.0, 2.0, 1.0, 0.0]]), k=2, feature_names=list("abcd"))
    >>> other = Explanation(np.array([[3.0, 1.0, 2.0, 0.0]]), k=2, feature_names=list("abcd"))
    >>> jaccard(e, other).round(3).tolist()
    [0.333]
    """
    if explanation.mask.shape != other.mask.shape:
        shapes = f"{explanation.mask.shape} and {other.mask.shape}"
        raise InputError(f"The explanations have the shapes {shapes}; expected the same rows and features.")
    return overlap(explanation.mask, other.mask)


def overlap(mask: Array, other: Array) -> Array:
    """Return the `jaccard` index of (n, d) masks, row by row."""
    both, either = (mask & other).sum(axis=1), (mask | other).sum(axis=1)
    return np.asarray(both / np.maximum(either, 1))


def collapse(explanation: Explanation) -> Array:
    """Return which share of each row's selection is among the k features that are selected most often.

    Parameters
    ----------
    explanation : Explanation
        Explanations of many rows.

    Returns
    -------
    array, (n,)
        If the mean is 1, every row has the same set: the explanations then show nothing about single rows.

    Examples
    --------
    >>> same = Explanation(np.array([[2.0, 1.0, 0.0]] * 3), k=1, feature_names=list("abc"))
    >>> collapse(same).tolist()
    [1.0, 1.0, 1.0]
    """
    often = np.zeros(explanation.mask.shape[1], dtype=bool)
    often[np.argsort(-explanation.mask.mean(axis=0), kind="stable")[: explanation.k]] = True
    selected = np.maximum(explanation.mask.sum(axis=1), 1)
    return np.asarray((explanation.mask & often).sum(axis=1) / selected)


def distinct_sets(explanation: Explanation) -> int:
    """Return the number of different sets."""
    return len(np.unique(np.packbits(explanation.mask, axis=1), axis=0))


def selected_words(explanation: Explanation) -> Counter[str]:
    """Count how often each word was selected, in lower case.

    Parameters
    ----------
    explanation : Explanation
        Explanations of texts, with words as features.

    Returns
    -------
    Counter
        {word: number of times over all rows}; `.most_common(20)` lists the most frequent.

    Raises
    ------
    InputError
        If the features are not words.

    Examples
    --------
    >>> from l2x.features import Words
    >>> view = Words(length=4).fit(["a good film"])
    >>> scores = np.array([[0.1, 2.0, 1.0, -np.inf]])
    >>> inputs = view.check(["a Good film"])
    >>> selected_words(Explanation(scores, 2, view.names_, inputs=inputs, view=view)).most_common()
    [('good', 1), ('film', 1)]
    """
    if explanation.view is None or explanation.inputs is None or explanation.view.unit != "word":
        raise InputError("The features of this explanation are not words: fit with features=l2x.Words().")
    return Counter(word.lower() for words in explanation.names for word in words)
