"""Tables in: arrays, and pandas, polars or pyarrow frames; what their columns hold; cells replaced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from narwhals.exceptions import DuplicateError
from scipy.sparse import issparse

from l2x._base.arrays import Array, tensor_to_array
from l2x.errors import InputError, some

CATEGORICAL = (nw.String, nw.Categorical, nw.Enum, nw.Boolean, nw.Object)


def native(X: Any) -> Any:
    """X as a two-dimensional numeric array or a data frame; it may have no rows."""
    X = tensor_to_array(X)
    if isinstance(X, np.ndarray | list | tuple):
        return _array(X)
    if issparse(X):
        raise InputError("A sparse table is not supported; pass X.toarray().")
    try:
        frame = nw.from_native(X, eager_only=True)
        shape = len(frame), len(frame.columns)
    except DuplicateError as error:
        raise named_twice(X) from error
    except TypeError as error:
        if hasattr(X, "__array__"):
            return _array(X)
        lazy = isinstance(nw.from_native(X, pass_through=True), nw.LazyFrame)
        hint = "; pass X.collect()" if lazy else ""
        raise InputError(
            f"Expected an array or a pandas, polars or pyarrow table, got {type(X).__name__}{hint}."
        ) from error
    if not isinstance(frame, nw.DataFrame):
        raise InputError(f"Expected a table, got {type(X).__name__}.")
    if not shape[1]:
        raise _no_columns(shape)
    if nested := [name for name in frame.columns if isinstance(name, tuple)]:
        raise InputError(
            f"The table's columns have names in several levels, such as {nested[0]}; give each one name: "
            "X.columns = ['_'.join(map(str, name)) for name in X.columns]."
        )
    if len({str(name) for name in frame.columns}) < shape[1]:  # 1 and '1' are one name in a file
        raise named_twice(X)
    return X


def _array(X: Any) -> Array:
    """X as a two-dimensional array of numbers."""
    array = None
    try:
        array = np.asarray(X)
        array = array if array.dtype.kind in "fiubc" else array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise _no_numbers(array, error) from error
    if array.dtype.kind == "c":
        raise InputError("Complex data not supported: the table holds complex numbers.")
    if array.ndim != 2:
        hint = {
            1: " Reshape your data: for one row pass x[None, :].",
            3: " For images pass features=l2x.Patches(size=4).",
            4: " For images pass features=l2x.Patches(size=4).",
        }.get(array.ndim, "")
        raise InputError(f"Expected a table (rows, columns), got an array of shape {array.shape}.{hint}")
    if not array.shape[1]:
        raise _no_columns(array.shape)
    return array


def _no_columns(shape: tuple[int, ...]) -> InputError:
    return InputError(f"The table is empty: 0 feature(s) (shape={shape}) while a minimum of 1 is required.")


def named_twice(X: Any) -> InputError:
    names = [str(name) for name in (X.column_names if isinstance(X, pa.Table) else X.columns)]
    twice = [name for name, times in Counter(names).items() if times > 1]
    return InputError(
        f"The table has more than one column named {some(list(map(repr, twice)))}; rename or drop them, so "
        "that each name stands for one column."
    )


def _no_numbers(array: Array | None, error: Exception) -> InputError:
    """Texts, or a table with cells that are not numbers."""
    if array is not None and array.ndim == 1 and all(isinstance(text, str) for text in array.tolist()):
        return InputError(
            f"X holds texts, such as {str(array[0])!r}: to explain words or sentences pass "
            "features=l2x.Words() or features=l2x.Sentences(); a table with columns of texts must be a data "
            "frame."
        )
    if array is not None and array.ndim == 1:
        return InputError("X is one row, or one column: pass a table, such as frame.iloc[[0]] for a row.")
    return InputError(
        f"The table holds values that are not numbers: {error}. A table with columns of texts must be a data "
        "frame."
    )


def column_index(column: str | int, names: Sequence[str | int], asked_by: str) -> int:
    """The position of a column given by name or position; `asked_by` says in the error who named it."""
    if not isinstance(column, bool):  # which is an integer, too
        if column in names:  # pandas' names may be integers
            return names.index(column)
        if isinstance(column, int | np.integer) and 0 <= column < len(names):
            return int(column)
    raise InputError(f"{asked_by} names the column {column!r}; the table's columns are {some(names)}.")


def is_categorical(name: str, dtype: Any) -> bool:
    """Whether a frame's column holds categories (text, category, boolean) and not numbers."""
    if dtype.is_numeric():
        return False
    if isinstance(dtype, CATEGORICAL):
        return True
    raise not_taken(name, dtype)


def not_taken(name: str, kind: Any) -> InputError:
    """The error for a column of dates, lists and the like."""
    if isinstance(kind, nw.Unknown):
        return InputError(
            f"Column '{name}' is of a type that Columns does not read; turn it into numbers or text, or drop "
            "it. Sparse columns of pandas: X.sparse.to_dense()."
        )
    return InputError(
        f"Column '{name}' is {kind}; Columns takes numbers and categories. "
        "Turn it into numbers or text, or drop it."
    )


def replaced(column: Any, values: Sequence[Any], chosen: Array) -> Any:
    """A new series of the same type: cell i is `values[chosen[i]]`, or its own where chosen[i] is -1."""
    if column.dtype.is_integer():
        values = [value if is_missing(value) else round(value) for value in values]
    own, fill = _alike(column, [None if is_missing(value) else value for value in values])
    both = nw.concat([own.to_frame(), fill.to_frame()], how="vertical")
    index = np.where(chosen < 0, np.arange(len(chosen)), len(own) + chosen)
    return both[:, 0][index]


def frame_of(columns: Sequence[Any], X: Any) -> Any:
    """Series, side by side, as a frame of the library of X; with its index, if it has as many rows."""
    frame = nw.from_dict({column.name: column for column in columns}).to_native()
    same = hasattr(X, "iloc") and len(X) == len(frame)
    return frame.set_axis(X.index, axis=0) if same else frame


def _alike(column: Any, values: list[Any]) -> tuple[Any, Any]:
    """The column, in a type that holds all `values` too, and the values as a series of that type."""
    own, name = column.to_native(), column.name
    if hasattr(own, "iloc"):  # pandas: a categorical type knows its categories, numpy's know no missing
        if hasattr(own, "cat"):
            own = own.cat.add_categories([v for v in values if v is not None and v not in own.cat.categories])
        elif isinstance(own.dtype, np.dtype) and own.dtype.kind in "iub" and None in values:
            own = own.astype(object if own.dtype.kind == "b" else float)
        fill = type(own)(values, dtype=own.dtype, name=name)
        return nw.from_native(own, series_only=True), nw.from_native(fill, series_only=True)
    if column.implementation.is_pyarrow():  # which has several types of text
        decimal = pa.types.is_decimal(own.type)
        cells = pa.array(values, pa.float64()).cast(own.type) if decimal else pa.array(values, own.type)
        fill = pa.chunked_array([cells])
        return column, nw.from_native(fill, series_only=True).alias(name)
    if isinstance(column.dtype, nw.Enum):  # which may lack a category of the training rows
        known = column.dtype.categories
        column = column.cast(nw.Enum([*known, *(v for v in values if v is not None and v not in known)]))
    return column, nw.new_series(name, values, column.dtype, backend=column.implementation)


def is_missing(value: Any) -> bool:
    return bool(pd.isna(value))


UNSEEN = -1.0


@dataclass(frozen=True)
class Levels:
    """The categories of the training rows.

    Attributes
    ----------
    values : every category, the most frequent first, as plain Python
    kept : this many have a vector of their own in the networks; the rest share one, and unseen ones have none
    """

    values: Sequence[Any]
    kept: int

    @classmethod
    def of(cls, cells: pa.Array, most: int) -> Levels:
        """The levels of a column, at most `most` of them kept."""
        counted = pc.value_counts(cells.drop_null())
        values, counts = counted.field("values").to_pylist(), counted.field("counts").to_pylist()
        ranked = sorted(zip(values, counts, strict=True), key=lambda pair: (-pair[1], str(pair[0])))
        return cls([value for value, _ in ranked], min(most, len(ranked)))

    @property
    def vectors(self) -> int:
        """How many different vectors the networks know: the kept ones, and one that the rest share."""
        return min(self.kept + 1, len(self.values))

    def codes(self, cells: pa.Array) -> Array:
        """The position of each cell in `values`; UNSEEN for others, NaN for missing cells."""
        if pa.types.is_dictionary(cells.type):
            per_value = np.append(self.codes(cells.dictionary), np.nan)
            return np.asarray(per_value[pc.fill_null(cells.indices.cast(pa.int64()), -1).to_numpy()])
        found = pc.index_in(_keys(cells), value_set=self._known)
        codes = pc.fill_null(found, int(UNSEEN)).to_numpy(zero_copy_only=False).astype(np.float64)
        codes[pc.is_null(cells).to_numpy(zero_copy_only=False)] = np.nan
        return np.asarray(codes)

    @property
    def texts(self) -> list[str]:
        """The categories as texts, by which those of other files are compared with them."""
        return list(self._known.to_pylist())

    @cached_property
    def _known(self) -> pa.Array:
        return _keys(pa.array(list(self.values)))


def arrow_cells(column: Any) -> pa.Array:
    """A column (a narwhals series or an array) as one Arrow array, NaN as missing."""
    try:
        if isinstance(column, np.ndarray):
            return pa.array(column, from_pandas=True)
        cells = column.to_arrow()
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # objects of several types
        return pa.array([None if is_missing(cell) else str(cell) for cell in column.to_list()], pa.string())
    return cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells


def can_be_levels(kind: pa.DataType) -> bool:
    """Whether cells of this Arrow type are plain values, which `Levels` and an artifact can hold."""
    types = pa.types
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return bool(text or number or types.is_null(kind))


def _keys(cells: pa.Array) -> pa.Array:
    """What categories are compared by: text, so that 1, 1.0 and "1" of another file are one category."""
    text = cells.cast(pa.string())
    if not pa.types.is_floating(cells.type):
        return text
    # Arrow writes large floats as 1e+10, unlike integers.
    whole = pc.and_(pc.equal(pc.floor(cells), cells), pc.less_equal(pc.abs(cells), 2.0**53))
    return pc.if_else(whole, pc.if_else(whole, cells, 0.0).cast(pa.int64()).cast(pa.string()), text)
