"""Arrays: batches of rows, rows of any kind of table, and features ranked by score."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from numbers import Integral
from typing import Any

import narwhals as nw
import numpy as np

Array = np.ndarray[Any, Any]
# Ways to select rows: one index, a slice, indices, or a boolean mask.
Rows = int | slice | Array | list[int] | list[bool]

# Scores that are sorted at a time: about what a processor's cache holds.
CACHED_CELLS = 1 << 17
# Up to this many scores, argsort is faster than making the integers of `_sortable`.
FEW_CELLS = 1 << 10


def batches(n: int, size: int) -> Iterator[slice]:
    """Yield consecutive slices that cover n rows."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def is_whole(number: Any, *, least: int = 1) -> bool:
    """Return whether this is an integer, not a boolean, of at least `least`.

    >>> is_whole(3), is_whole(0), is_whole(0, least=0), is_whole(2.0), is_whole(True)
    (True, False, True, False, False)
    """
    return isinstance(number, Integral) and not isinstance(number, bool) and int(number) >= least


def only_numbers(nested: Any) -> bool:
    """Return whether lists, nested or not, contain nothing but numbers: no booleans, texts or None.

    >>> only_numbers([[0.5, 1], [2.0]]), only_numbers([["0.5"]]), only_numbers([True]), only_numbers(1.0)
    (True, False, False, False)
    """
    return isinstance(nested, list) and all(
        only_numbers(part) if isinstance(part, list) else type(part) in (int, float) for part in nested
    )


def is_tensor(X: Any) -> bool:
    """Return whether X is a torch tensor, without importing torch.

    The type decides, not attributes: a pandas column named `detach` is an attribute of its frame, too.
    """
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(X, torch.Tensor)


def tensor_to_array(X: Any) -> Any:
    """Return a torch tensor as a numpy array, and anything else unchanged."""
    return X.detach().cpu().numpy() if is_tensor(X) else X


def row_indices(rows: Rows, n: int) -> slice | Array:
    """Return the selected rows, out of n, as a slice with step 1 or as an array of non-negative indices.

    Every kind of input accepts these two; not all accept masks, negative steps and lists.

    >>> row_indices(-1, 5), row_indices([True, False, True], 3), row_indices(slice(None, None, -2), 5)
    (slice(4, 5, None), array([0, 2]), array([4, 2, 0]))
    """
    if isinstance(rows, int | np.integer):
        if not -n <= rows < n:
            raise IndexError(f"row {rows} of an explanation of {n} rows")
        return slice(int(rows) % n, int(rows) % n + 1)
    if isinstance(rows, slice) and rows.step in (None, 1):
        return rows
    indices = np.array(np.arange(n)[rows], order="C", ndmin=1)  # a copy: tensors take no negative strides
    if indices.ndim != 1:
        raise IndexError(f"rows are one index, a slice, a list or a mask, not {rows!r}")
    return indices


def take(inputs: Any, rows: slice | Array) -> Any:
    """Return the inputs at `rows`, a result of `row_indices`, in an object of the same kind."""
    given = nw.from_native(inputs, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(given, nw.DataFrame | nw.Series):
        return given[rows].to_native()
    if isinstance(rows, slice) or hasattr(inputs, "shape"):  # an array or a tensor
        return inputs[rows]
    return [inputs[i] for i in rows]


def cells(inputs: Any, row: int) -> list[Any]:
    """Return the cells of one row of a table; an empty list if the inputs are not a table."""
    frame = nw.from_native(inputs, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return list(frame.row(row))
    # Rows of a list may be texts or lists of cells.
    if not isinstance(inputs, np.ndarray) and not is_tensor(inputs):
        return []
    if inputs.ndim > 2:  # images
        return []
    row_of_cells = inputs[row].tolist()
    return row_of_cells if isinstance(row_of_cells, list) else [row_of_cells]


def labels(inputs: Any) -> Any:
    """Return the index of a pandas frame, or of the series that held texts; None for other inputs."""
    # A list has a method called index.
    return inputs.index if hasattr(inputs, "iloc") else getattr(inputs, "labels", None)


def ranked(scores: Array) -> Array:
    """Return feature indices (n, d) from the highest to the lowest score; ties go to the lower index.

    >>> ranked(np.array([[0.5, 2.0, 0.5]])).tolist()
    [[1, 0, 2]]
    """
    return np.argsort(-scores, axis=1, kind="stable")


def best(scores: Array, k: int) -> Array:
    """Return indices (n, k) of the k highest scores of each row, as `ranked`, but faster for float32."""
    if scores.dtype != np.float32 or scores.size <= FEW_CELLS:
        return ranked(scores)[:, :k]
    chosen = np.empty((len(scores), k), dtype=np.int64)
    for rows in batches(len(scores), max(1, CACHED_CELLS // scores.shape[1])):
        keys = _sortable(scores[rows])
        keys.sort(axis=1)
        chosen[rows] = keys[:, :k] & 0xFFFF_FFFF
    return chosen


def above_rest(scores: Array, mask: Array) -> Array:
    """Return scores (n, d) minus the best unselected score of the row.

    If every selectable feature is selected, the lowest selected score is subtracted. Features that may not be
    selected (score -inf) stay at -inf.

    >>> above_rest(np.array([[3.0, 1.0, 2.5]]), np.array([[True, False, True]])).tolist()
    [[2.0, 0.0, 1.5]]
    """
    rest = np.where(mask, -np.inf, scores).max(axis=1)
    bar = np.where(rest > -np.inf, rest, np.where(mask, scores, np.inf).min(axis=1))
    return np.asarray(scores - bar[:, None])


def _sortable(scores: Array) -> Array:
    """Return integers (n, d) that sort like float32 scores, highest first, with the feature in the low half.

    The bits of a positive float, read as an integer, grow with it; those of a negative float fall. numpy
    sorts integers several times faster than it finds the indices of the largest floats.
    """
    scores = scores + np.float32(0)  # turns -0 into 0
    if np.isnan(scores.min()):
        scores[np.isnan(scores)] = -np.float32(np.nan)  # sorts below -inf
    bits = scores.view(np.int32)
    high = ~(bits ^ (bits >> 31 & 0x7FFF_FFFF))
    return high.astype(np.int64) << 32 | np.arange(scores.shape[1])
