"""Features by score: the best k, all in order, and how far each stands above those that are not selected."""

from __future__ import annotations

import math

import numpy as np

from l2x._base.arrays import Array

# Scores sorted at a time: what a processor's cache holds.
CACHED_CELLS = 1 << 17
# Up to here argsort takes less time than the integers that would make it fast.
FEW_CELLS = 1 << 10
# And up to here Python's own sort takes less than numpy's calls do: 50 of some 300 µs of a served row.
A_ROW = 100


def ranked(scores: Array) -> Array:
    """(n, d) feature indices from the best to the worst; stable, so ties go to the lower index.

    >>> ranked(np.array([[0.5, 2.0, 0.5]])).tolist()
    [[1, 0, 2]]
    """
    return np.argsort(-scores, axis=1, kind="stable")


def best(scores: Array, k: int) -> Array:
    """(n, k) indices of the k largest scores of each row: the first k of `ranked`, but faster for float32."""
    if scores.dtype != np.float32 or scores.size <= FEW_CELLS:
        return ranked(scores)[:, :k]
    chosen = np.empty((len(scores), k), dtype=np.int64)
    at_once = max(1, CACHED_CELLS // scores.shape[1])
    for start in range(0, len(scores), at_once):
        rows = slice(start, start + at_once)
        keys = _sortable(scores[rows])
        keys.sort(axis=1)
        chosen[rows] = keys[:, :k] & 0xFFFF_FFFF
    return chosen


def best_with_scores(scores: Array, k: int) -> tuple[list[list[int]], list[list[float]]]:
    """`best`, and the scores of these features, as lists.

    >>> best_with_scores(np.array([[0.5, 2.0, 0.5]]), 2)
    ([[1, 0]], [[2.0, 0.5]])
    """
    rows: list[list[float]] = scores.tolist() if scores.size <= A_ROW else []
    if not rows or any(math.isnan(sum(row)) for row in rows):  # Python's sort leaves a NaN where it stands
        indices = best(scores, k)
        return indices.tolist(), np.take_along_axis(scores, indices, axis=1).tolist()
    chosen = [sorted(range(len(row)), key=row.__getitem__, reverse=True)[:k] for row in rows]
    return chosen, [[row[i] for i in of_row] for row, of_row in zip(rows, chosen, strict=True)]


def above_rest(scores: Array, mask: Array) -> Array:
    """(n, d) scores, less the best score that was not selected in that row.

    Where every selectable feature is selected, less the lowest selected score. Features that may not be
    selected (score -inf) stay at -inf.

    >>> above_rest(np.array([[3.0, 1.0, 2.5]]), np.array([[True, False, True]])).tolist()
    [[2.0, 0.0, 1.5]]
    """
    rest = np.where(mask, -np.inf, scores).max(axis=1)
    bar = np.where(rest > -np.inf, rest, np.where(mask, scores, np.inf).min(axis=1))
    return np.asarray(scores - bar[:, None])


def _sortable(scores: Array) -> Array:
    """(n, d) integers that sort as float32 scores do, the largest first, with the feature in the low half.

    The bits of a positive float grow with it as an integer's do, those of a negative one fall. numpy sorts
    integers several times faster than it finds the indices of the largest floats.
    """
    scores = scores + np.float32(0)  # turns -0 into 0
    if np.isnan(scores.min()):
        scores[np.isnan(scores)] = -np.float32(np.nan)  # sorts below -inf
    bits = scores.view(np.int32)
    high = ~(bits ^ (bits >> 31 & 0x7FFF_FFFF))
    return high.astype(np.int64) << 32 | np.arange(scores.shape[1])
