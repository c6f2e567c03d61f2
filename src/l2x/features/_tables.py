"""Tables: what they may be, the categories and gaps of their columns, and their cells as numbers and back.

A table is a two-dimensional array of numbers, or a pandas, polars or pyarrow frame. `Cells` remembers what
the training rows held: numbers, or categories, which become codes.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import torch
from narwhals.exceptions import DuplicateError
from scipy.sparse import issparse
from torch import Tensor

from l2x._base.arrays import Array, tensor_to_array
from l2x.errors import InputError, some
from l2x.features._view import shared_tensor

CATEGORICAL = (nw.String, nw.Categorical, nw.Enum, nw.Boolean, nw.Object)
# The code of a category that the training rows did not have.
UNSEEN = -1.0
# A text that no column of categories holds, for rows that are made up.
NEW_CATEGORY = "\N{WHITE SQUARE} unseen"
# A column with more categories than this, all of them distinct, is an identifier.
IDENTIFIERS = 100
# Torch reads these types; for integers, half and extended precision, and swapped bytes a copy is made.
READ_BY_TORCH = (np.dtype(np.float32), np.dtype(np.float64))


def native(X: Any) -> Any:
    """Return X as a two-dimensional numeric array or a data frame, which may have no rows.

    Raises
    ------
    InputError
        If X is not a table, has no columns, or has names that do not identify its columns.
    """
    X = tensor_to_array(X)
    if isinstance(X, np.ndarray | list | tuple):
        return _array(X)
    if issparse(X):
        raise InputError("A sparse table is not supported; pass X.toarray().")
    try:
        frame = nw.from_native(X, eager_only=True)
        shape = len(frame), len(frame.columns)
    except DuplicateError as error:
        raise duplicate_names(X) from error
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
            f"Columns have names in several levels, such as {nested[0]}; give each column one name: "
            "X.columns = ['_'.join(map(str, name)) for name in X.columns]."
        )
    if len({str(name) for name in frame.columns}) < shape[1]:  # 1 and '1' are one name in a file
        raise duplicate_names(X)
    return X


def _array(X: Any) -> Array:
    """Return X as a two-dimensional array of numbers."""
    array = None
    try:
        array = np.asarray(X)
        array = array if array.dtype.kind in "fiubc" else array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise _not_numbers(array, error) from error
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


def duplicate_names(X: Any) -> InputError:
    """Return the error for a table with equal column names."""
    names = [str(name) for name in (X.column_names if isinstance(X, pa.Table) else X.columns)]
    twice = [name for name, times in Counter(names).items() if times > 1]
    return InputError(
        f"The table has more than one column named {some(list(map(repr, twice)))}; rename or drop "
        "columns, so that each name identifies one column."
    )


def _not_numbers(array: Array | None, error: Exception) -> InputError:
    """Return the error for texts, or for a table with cells that are not numbers."""
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


def column_index(column: str | int, names: Sequence[str | int], option: str) -> int:
    """Return the position of a column that an option gives by name or position."""
    if not isinstance(column, bool):  # which is an integer, too
        if column in names:  # names in pandas may be integers
            return names.index(column)
        if isinstance(column, int | np.integer) and 0 <= column < len(names):
            return int(column)
    raise InputError(f"{option} names the column {column!r}; the table's columns are {some(names)}.")


def is_categorical(name: str, dtype: Any) -> bool:
    """Return whether a frame's column holds categories (text, category, boolean) and not numbers."""
    if dtype.is_numeric():
        return False
    if isinstance(dtype, CATEGORICAL):
        return True
    raise _unsupported(name, dtype)


def _unsupported(name: str, kind: Any) -> InputError:
    """Return the error for a column of dates, lists and the like."""
    hint = "turn it into numbers or text, or drop it"
    if isinstance(kind, nw.Unknown):
        return InputError(
            f"Column '{name}' has a type that Columns does not read; {hint}. For sparse columns of pandas: "
            "X.sparse.to_dense()."
        )
    return InputError(f"Column '{name}' is {kind}; Columns reads numbers and categories: {hint}.")


def is_missing(value: Any) -> bool:
    """Return whether a cell is None, NaN or another missing value of pandas."""
    return bool(pd.isna(value))


def replaced(column: Any, values: Sequence[Any], chosen: Array) -> Any:
    """Return a series of the same type: cell i is `values[chosen[i]]`, or as before if chosen[i] is -1."""
    if column.dtype.is_integer():
        values = [value if is_missing(value) else round(value) for value in values]
    own, fill = _alike(column, [None if is_missing(value) else value for value in values])
    both = nw.concat([own.to_frame(), fill.to_frame()], how="vertical")
    index = np.where(chosen < 0, np.arange(len(chosen)), len(own) + chosen)
    return both[:, 0][index]


def _alike(column: Any, values: list[Any]) -> tuple[Any, Any]:
    """Return the column, in a type that also holds all `values`, and the values as a series of that type."""
    own, name = column.to_native(), column.name
    if hasattr(own, "iloc"):  # pandas: a categorical type has fixed categories, numpy's have no missing value
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
        categories = column.dtype.categories
        new = [value for value in values if value is not None and value not in categories]
        column = column.cast(nw.Enum([*categories, *new]))
    return column, nw.new_series(name, values, column.dtype, backend=column.implementation)


def frame_of(columns: Sequence[Any], X: Any) -> Any:
    """Return series as a frame of the library of X, with the index of X if it has as many rows."""
    frame = nw.from_dict({column.name: column for column in columns}).to_native()
    same = hasattr(X, "iloc") and len(X) == len(frame)
    return frame.set_axis(X.index, axis=0) if same else frame


@dataclass(frozen=True)
class Levels:
    """The categories of a column in the training rows."""

    values: Sequence[Any]  # every category, the most frequent first, as plain Python
    frequent: (
        int  # this many have their own vector in the networks; the rest share one, unseen ones have none
    )

    @classmethod
    def of(cls, cells: pa.Array, most: int) -> Levels:
        """Return the categories of a column, of which at most `most` have their own vector."""
        counted = pc.value_counts(cells.drop_null())
        values, counts = counted.field("values").to_pylist(), counted.field("counts").to_pylist()
        ranked = sorted(zip(values, counts, strict=True), key=lambda pair: (-pair[1], str(pair[0])))
        return cls([value for value, _ in ranked], min(most, len(ranked)))

    @property
    def vectors(self) -> int:
        """Return the number of vectors: one per frequent category, and one that the rest share."""
        return min(self.frequent + 1, len(self.values))

    @property
    def can_be_unseen(self) -> bool:
        """Return whether another category is possible: not for booleans, nor without any category."""
        return len(self.values) > 0 and not isinstance(self.values[0], bool)

    def codes(self, cells: pa.Array) -> Array:
        """Return the position of each cell in `values`: UNSEEN for new categories, NaN for missing cells."""
        if pa.types.is_dictionary(cells.type):
            per_value = np.append(self.codes(cells.dictionary), np.nan)
            return np.asarray(per_value[pc.fill_null(cells.indices.cast(pa.int64()), -1).to_numpy()])
        position = pc.index_in(_keys(cells), value_set=self._known)
        codes = pc.fill_null(position, int(UNSEEN)).to_numpy(zero_copy_only=False).astype(np.float64)
        codes[pc.is_null(cells).to_numpy(zero_copy_only=False)] = np.nan
        return np.asarray(codes)

    @cached_property
    def code_of_text(self) -> dict[str, float] | None:
        """Return the code of each category, or None if some categories are not texts."""
        if not all(isinstance(value, str) for value in self.values):
            return None
        return {value: float(code) for code, value in enumerate(self.values)}

    @property
    def texts(self) -> list[str]:
        """Return the categories as texts, by which cells of other files are compared with them."""
        return list(self._known.to_pylist())

    @cached_property
    def _known(self) -> pa.Array:
        return _keys(pa.array(list(self.values)))


def _keys(cells: pa.Array) -> pa.Array:
    """Return categories as texts, so that 1, 1.0 and "1" in another file are one category."""
    text = cells.cast(pa.string())
    if not pa.types.is_floating(cells.type):
        return text
    # Arrow writes large floats as 1e+10, unlike integers.
    whole = pc.and_(pc.equal(pc.floor(cells), cells), pc.less_equal(pc.abs(cells), 2.0**53))
    return pc.if_else(whole, pc.if_else(whole, cells, 0.0).cast(pa.int64()).cast(pa.string()), text)


def arrow_cells(column: Any) -> pa.Array:
    """Return a column (a narwhals series or an array) as one Arrow array, with NaN as missing."""
    try:
        if isinstance(column, np.ndarray):
            return pa.array(column, from_pandas=True)
        cells = column.to_arrow()
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # objects of several types
        return pa.array([None if is_missing(cell) else str(cell) for cell in column.to_list()], pa.string())
    return cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells


@dataclass(frozen=True)
class Cells:
    """What the training rows held in each column."""

    names: Sequence[str]
    levels: Mapping[int, Levels]  # the categories of each categorical column, by its position
    gaps: Sequence[int]  # positions of the columns that may have missing cells

    @classmethod
    def of(
        cls, X: Any, names: Sequence[str], categorical: Sequence[int], *, most: int, missing: bool
    ) -> tuple[Cells, Array]:
        """Learn from training rows; return the cells, and the rows as numbers.

        `most` is the number of categories of a column that have their own vector; `missing` allows gaps.
        """
        levels = {c: _levels(X, c, names[c], most) for c in categorical}
        matrix = cls(names, levels, range(len(names)) if missing else []).numbers(X)
        return cls(names, levels, np.flatnonzero(np.isnan(matrix).any(axis=0)).tolist()), matrix

    def numbers(self, X: Any, *, first_row: int = 0) -> Array:
        """Return (n, d) floats, with NaN only where a column may miss; errors count rows from `first_row`."""
        matrix = self._of_array(X) if isinstance(X, np.ndarray) else self._of_frame(X, first_row)
        # If the sum is finite, so is every cell: the usual case, without an array of booleans.
        if math.isfinite(shared_tensor(matrix).sum()):
            return matrix
        bad = ~np.isfinite(matrix)
        bad[:, self.gaps] &= ~np.isnan(matrix[:, self.gaps])
        if not bad.any():
            return matrix
        row, column = np.argwhere(bad)[0]
        cell = matrix[row, column]
        hint = "fill or drop missing and infinite values first."
        if np.isnan(cell) and not isinstance(X, np.ndarray):
            hint = "the training rows had no missing values there; fill it, or fit on rows that do."
        elif np.isnan(cell):
            hint += " If the model takes missing values: features=l2x.Columns(missing='allow')."
        raise InputError(f"Row {first_row + row}, column '{self.names[column]}' is {cell}: {hint}")

    @cached_property
    def frequent(self) -> tuple[Tensor, Tensor]:
        """Return the categorical columns, and how many categories of each have their own vector."""
        frequent = [levels.frequent for levels in self.levels.values()]
        return torch.tensor([*self.levels], dtype=torch.long), torch.tensor(frequent, dtype=torch.float64)

    def table(self, X: Any, matrix: Array) -> Any:
        """Invert `numbers`: return a table of the library of X, in which unseen categories are missing."""
        if isinstance(X, np.ndarray):
            return self._array(matrix)
        frame = nw.from_native(X, eager_only=True)
        if not self.levels and all(isinstance(name, str) for name in frame.columns):
            return nw.from_numpy(matrix, schema=frame.columns, backend=frame.implementation).to_native()
        columns = enumerate(frame.iter_columns())
        return frame_of([self._series(column, matrix[:, c], c) for c, column in columns], X)

    def with_numbers(self, X: Any, matrix: Array) -> Any:
        """Return X with the numeric columns of `matrix`; categories stay, unseen ones too."""
        if isinstance(X, np.ndarray):
            array = matrix.copy()
            array[:, list(self.levels)] = X[:, list(self.levels)]
            return array
        columns = enumerate(nw.from_native(X, eager_only=True).iter_columns())
        return frame_of([s if c in self.levels else self._series(s, matrix[:, c], c) for c, s in columns], X)

    def filled(self, X: Any, mask: Array, fill: Array, chosen: Array) -> Any:
        """Return X where the mask (n, d) is True, and elsewhere the cells of rows `chosen` (n,) of `fill`.

        `fill` has numbers as `numbers` returns them. Columns keep their types.
        """
        if isinstance(X, np.ndarray):
            filled = self._array(fill)[chosen]
            if filled.dtype != X.dtype:
                return np.where(mask, X, filled)
            np.copyto(filled, X, where=mask)
            return filled
        if isinstance(X, pd.DataFrame):
            frame = self._filled_pandas(X, mask, fill, chosen)
            if frame is not None:
                return frame
        frame = nw.from_native(X, eager_only=True)
        schema = frame.schema.items()  # narwhals makes no table of numbers with names that are integers
        if not self.levels and all(dtype == nw.Float64 and isinstance(name, str) for name, dtype in schema):
            return self.table(X, np.where(mask, frame.to_numpy(), fill[chosen]))
        columns = [
            replaced(column, self._values(fill[:, c], c), np.where(mask[:, c], -1, chosen))
            for c, column in enumerate(frame.iter_columns())
        ]
        return frame_of(columns, X)

    def _filled_pandas(self, X: pd.DataFrame, mask: Array, fill: Array, chosen: Array) -> pd.DataFrame | None:
        """Return `filled` for a frame with the usual types of pandas; None if a column has another type.

        Training masks rows in every step: this is twenty times as fast as to concatenate and take.
        """
        if not self.levels and (X.dtypes == np.float64).all():
            array = np.where(mask, X.to_numpy(), fill[chosen])
            return pd.DataFrame(array, index=X.index, columns=X.columns, copy=False)
        columns = {}
        for c, name in enumerate(X.columns):
            own, keep = X.iloc[:, c], mask[:, c]
            cells = self._pandas_cells(own, keep, np.where(keep, 0.0, fill[chosen, c]), c)
            if cells is None:
                return None
            columns[name] = cells
        return pd.DataFrame(columns, index=X.index, copy=False)

    def _pandas_cells(self, own: Any, keep: Array, numbers: Array, c: int) -> Any:
        """Return the cells of a column that are kept, and elsewhere what the numbers stand for."""
        kind = own.dtype
        if c not in self.levels:
            whole = kind.kind in "iu"
            if (
                not isinstance(kind, np.dtype)
                or kind.kind not in "fiu"
                or (whole and np.isnan(numbers).any())
            ):
                return None
            return np.where(keep, own.to_numpy(), (np.rint(numbers) if whole else numbers).astype(kind))
        values = [*self.levels[c].values, None]
        codes = np.where(numbers >= 0, numbers, len(values) - 1).astype(np.int64)  # missing or unseen: None
        if isinstance(kind, pd.CategoricalDtype):
            known = dict(zip(kind.categories.tolist(), range(len(kind.categories)), strict=True)) | {None: -1}
            if not all(value in known for value in values):
                return None
            fill = np.array([known[value] for value in values])[codes]
            return pd.Categorical.from_codes(
                np.where(keep, own.array.codes, fill), dtype=kind, validate=False
            )
        if kind != np.dtype(object) and not isinstance(kind, pd.StringDtype):
            return None
        cells = np.where(keep, own.to_numpy(dtype=object), np.array(values, dtype=object)[codes])
        return pd.Series(
            cells, dtype=kind, index=own.index
        )  # pandas would turn an array of objects into texts

    def made_up(self, numbers: Array, c: int) -> list[Any]:
        """Return what numbers of a column stand for, with a new category where the code is UNSEEN."""
        values = self._values(numbers, c)
        if c not in self.levels or not self.levels[c].can_be_unseen:
            return values
        categories = self.levels[c].values
        new = NEW_CATEGORY if isinstance(categories[0], str) else max(categories) + 1
        return [new if code == UNSEEN else value for value, code in zip(values, numbers, strict=True)]

    def _of_array(self, X: Array) -> Array:
        matrix = X if X.dtype in READ_BY_TORCH else X.astype(np.float64)
        if self.levels:
            matrix = matrix.astype(np.float64)
            for c in self.levels:
                matrix[:, c] = self._codes(X[:, c], c)
        return matrix

    def _of_frame(self, X: Any, first_row: int) -> Array:
        if not self.levels and isinstance(X, pa.Table) and set(X.schema.types) == {pa.float64()}:
            # The streamed case: whole columns at once are several times faster than cell by cell.
            return np.stack([column.to_numpy() for column in X.columns]).T
        if isinstance(X, pd.DataFrame) and len(X) == 1 and (cells := self._of_pandas_row(X)) is not None:
            return cells
        if isinstance(X, pa.Table):
            X = self._with_missing_numbers(X)
        frame = nw.from_native(X, eager_only=True)
        columns = list(frame.iter_columns())  # frame[name] is a row if names are integers
        # Only types of numeric columns: for categories, pandas would look at every cell.
        types = {c: column.dtype for c, column in enumerate(columns) if c not in self.levels}
        for c, dtype in types.items():
            if is_categorical(columns[c].name, dtype):
                row, cell = _first_text(columns[c])
                raise InputError(
                    f"Row {first_row + row}, column '{columns[c].name}' is {cell!r}, but the training rows "
                    "had numbers there."
                )
        if not self.levels and all(dtype in (nw.Float64, nw.Float32, nw.Int64) for dtype in types.values()):
            try:
                return np.asarray(frame.to_numpy(), dtype=np.float64)
            except (TypeError, ValueError):  # a nullable type with a missing cell: column by column
                pass
        matrix = np.empty((len(frame), len(columns)))
        for c, column in enumerate(columns):
            if c in self.levels:
                matrix[:, c] = self._codes(column, c)
            else:
                numbers = column if types[c] == nw.Float64 else column.cast(nw.Float64)
                matrix[:, c] = numbers.to_numpy()
        return matrix

    def _of_pandas_row(self, X: pd.DataFrame) -> Array | None:
        """Return the numbers of one row, cell by cell; None unless all cells are plain numbers and texts.

        Going through Arrow, column by column, takes ten times as long.
        """
        numbers = []
        for c, (kind, cell) in enumerate(zip(X.dtypes.tolist(), X.iloc[0].tolist(), strict=True)):
            if c not in self.levels:
                if not isinstance(kind, np.dtype) or kind.kind not in "fiu":
                    return None
                numbers.append(cell)
            elif (codes := self.levels[c].code_of_text) is not None and isinstance(cell, str):
                numbers.append(codes.get(cell, UNSEEN))
            elif codes is not None and (cell is None or cell is pd.NA or cell is np.nan):
                numbers.append(math.nan)
            else:
                return None
        return np.array([numbers], dtype=np.float64)

    def _with_missing_numbers(self, X: pa.Table) -> pa.Table:
        """Return the table with floats in columns of Arrow's type null, in which every cell is missing."""
        for c, field in enumerate(X.schema):
            if pa.types.is_null(field.type) and c not in self.levels:
                X = X.set_column(c, field.name, X.column(c).cast(pa.float64()))
        return X

    def _codes(self, column: Any, c: int) -> Array:
        """Return the codes of the categories of a column; lists and bytes are an InputError."""
        cells = arrow_cells(column)
        try:
            return self.levels[c].codes(cells)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            raise InputError(
                f"Column '{self.names[c]}' is {cells.type}, but the training rows had categories there."
            ) from error

    def _array(self, matrix: Array) -> Array:
        """Return numbers with the codes of categorical columns turned back into the array's values."""
        array = matrix.copy()
        for c in self.levels:
            array[:, c] = self._values(matrix[:, c], c)
        return array

    def _series(self, column: Any, numbers: Array, c: int) -> Any:
        """Return numbers, or codes of categories, as a series of the column's name and library."""
        if c not in self.levels:
            return nw.new_series(column.name, numbers, nw.Float64, backend=column.implementation)
        values = list(self.levels[c].values)
        codes = np.where(np.isnan(numbers) | (numbers == UNSEEN), len(values), numbers).astype(np.int64)
        return replaced(column[:0], values + [None] * bool((codes == len(values)).any()), codes)

    def _values(self, numbers: Array, c: int) -> list[Any]:
        """Return what numbers of a column stand for; None for a missing or unseen category."""
        if c not in self.levels:
            return list(numbers.tolist())
        values = self.levels[c].values  # empty if every cell is missing
        return [values[int(code)] if 0 <= code < len(values) else None for code in numbers]


def _first_text(column: Any) -> tuple[int, Any]:
    """Return the row and the value of the first cell that is not a number; the first cell if all are."""
    cells = list(column.to_list() if isinstance(column, nw.Series) else column)
    texts = ((row, cell) for row, cell in enumerate(cells) if not _is_number(cell))
    return next(texts, (0, cells[0] if cells else None))


def _is_number(cell: Any) -> bool:
    """Return whether a cell is missing, a number, or the text of one."""
    try:
        return cell is None or (not isinstance(cell, bool) and isinstance(float(cell), float))
    except (TypeError, ValueError):
        return False


def _levels(X: Any, c: int, name: str, most: int) -> Levels:
    """Return the categories of a column; raise or warn if it holds identifiers, or mostly numbers."""
    column = X[:, c] if isinstance(X, np.ndarray) else nw.from_native(X, eager_only=True)[:, c]
    cells = arrow_cells(column)
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if not _are_plain(cells.type):
        raise _unsupported(name, getattr(cells.type, "extension_name", cells.type))
    levels = Levels.of(cells, most)
    if len(levels.values) <= IDENTIFIERS:
        return levels
    texts = sum(not _is_number(value) for value in levels.values)
    distinct = len(levels.values) == len(cells) - cells.null_count
    if 0 < texts < len(levels.values) // 2:
        row, cell = _first_text(column)
        problem = f"Row {row}, column '{name}' is {cell!r}, and most others there are numbers"
        remedy = "correct it, or leave it empty if it is missing"
        if distinct:
            raise InputError(f"{problem}: {remedy}.")
        warnings.warn(f"{problem}. They are read as categories; if they are numbers, {remedy}.", stacklevel=2)
    if distinct:
        raise InputError(
            f"Column '{name}' has a different category in each of the {len(cells):,} rows: an identifier "
            "explains nothing; drop it, or turn it into numbers. To explain the words of texts, pass that "
            "column alone and features=l2x.Words()."
        )
    return levels


def _are_plain(kind: pa.DataType) -> bool:
    """Return whether cells of this Arrow type are plain values, which `Levels` and an artifact can hold."""
    types = pa.types
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return bool(text or number or types.is_null(kind))
