"""Arrays, a batch of rows at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from numbers import Integral
from typing import Any

import narwhals as nw
import numpy as np

Array = np.ndarray[Any, Any]


def batches(n: int, size: int) -> Iterator[slice]:
    """Consecutive slices that cover n rows."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def is_whole(number: Any, *, least: int = 1) -> bool:
    """Whether this is a whole number of at least `least`; a boolean is none.

    >>> is_whole(3), is_whole(0), is_whole(0, least=0), is_whole(2.0), is_whole(True)
    (True, False, True, False, False)
    """
    return isinstance(number, Integral) and not isinstance(number, bool) and int(number) >= least


# What selects rows: one index, a slice, indices, or a mask of booleans.
Rows = int | slice | Array | list[int] | list[bool]


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
    """Which of n rows are selected: a slice with step 1, or an array of non-negative indices.

    Every kind of input takes these two; masks, negative steps and lists only some of them do.

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
    """The inputs of `rows`, as `row_indices` gives them, in an object of the same kind."""
    given = nw.from_native(inputs, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(given, nw.DataFrame | nw.Series):
        return given[rows].to_native()
    if isinstance(rows, slice) or hasattr(inputs, "shape"):  # an array or a tensor
        return inputs[rows]
    return [inputs[i] for i in rows]


def cells(inputs: Any, row: int) -> list[Any]:
    """The cells of one row of a table; empty where the inputs are not a table."""
    frame = nw.from_native(inputs, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return list(frame.row(row))
    # Of a list nobody knows whether its rows are texts or lists of cells.
    if not isinstance(inputs, np.ndarray) and not is_tensor(inputs):
        return []
    row_of_cells = inputs[row].tolist()
    return row_of_cells if isinstance(row_of_cells, list) else [row_of_cells]


def labels(inputs: Any) -> Any:
    """The index of a pandas frame, or of the series that texts came in; None for inputs without one."""
    # A list has a method called index.
    return inputs.index if hasattr(inputs, "iloc") else getattr(inputs, "labels", None)
