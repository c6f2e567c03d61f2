"""Which input column each output of a scikit-learn transformer comes from: groups for one-hot columns."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import narwhals as nw
import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from l2x._base.arrays import Array
from l2x.errors import InputError
from l2x.features._frames import (
    UNSEEN,
    Levels,
    arrow_cells,
    can_be_levels,
    frame_of,
    is_categorical,
    not_taken,
    replaced,
)
from l2x.features._view import shared_tensor

Groups = dict[str, list[int]]


def transformed_groups(transformer: Any) -> Groups:
    """Input column -> indices of the columns made from it, for a fitted OneHotEncoder, ColumnTransformer,
    or a Pipeline of which one step is such; other steps must keep the columns."""
    groups = _groups(transformer, [str(name) for name in getattr(transformer, "feature_names_in_", [])])
    if groups is None:
        raise InputError(
            f"{type(transformer).__name__} has no fitted one-hot encoder whose columns can be followed; "
            "name the groups: ColumnGroups({'colour': [...]})."
        )
    return groups


def _groups(transformer: Any, inputs: Sequence[str]) -> Groups | None:
    """None where the outputs cannot be followed back to single columns."""
    if hasattr(transformer, "steps"):
        found = [_groups(step, inputs) for _, step in transformer.steps]
        return next((groups for groups in found if groups is not None), None)
    if not hasattr(transformer, "n_features_in_"):
        return None
    inputs = inputs or [f"x{i}" for i in range(transformer.n_features_in_)]
    if hasattr(transformer, "transformers_"):
        return _column_transformer(transformer, inputs)
    return _one_hot(transformer, inputs) if hasattr(transformer, "drop_idx_") else None


def _one_hot(encoder: Any, inputs: Sequence[str]) -> Groups:
    """Outputs come column by column: one per category, all infrequent ones together, less the dropped."""
    groups: Groups = {}
    start = 0
    rare = getattr(encoder, "infrequent_categories_", [None] * len(inputs))
    dropped = [None] * len(inputs) if encoder.drop_idx_ is None else encoder.drop_idx_
    for name, categories, few, drop in zip(inputs, encoder.categories_, rare, dropped, strict=True):
        width = len(categories) - (0 if few is None else len(few) - 1) - (drop is not None)
        if width:
            groups[name] = list(range(start, start + width))
        start += width
    return groups


def _column_transformer(transformer: Any, inputs: Sequence[str]) -> Groups:
    """The parts' groups side by side; a part that cannot be followed is one group of its name."""
    groups: Groups = {}
    for part, step, columns in transformer.transformers_:
        span = transformer.output_indices_[part]
        width = span.stop - span.start
        own = _named(columns, inputs)
        inside = _groups(step, own) if hasattr(step, "get_params") else None
        if inside is None or sum(map(len, inside.values())) != width:
            alike = width == len(own)
            inside = {n: [i] for i, n in enumerate(own)} if alike else {str(part): list(range(width))}
        for name, indices in inside.items():
            if indices:
                groups.setdefault(name, []).extend(span.start + i for i in indices)
    return groups


def _named(columns: Any, inputs: Sequence[str]) -> list[str]:
    """Names of columns that were given by name, position, slice or mask."""
    if isinstance(columns, str):
        return [columns]
    if not isinstance(columns, slice) and all(isinstance(column, str) for column in columns):
        return list(columns)
    return [str(name) for name in np.atleast_1d(np.asarray(inputs, dtype=object)[columns])]


# Standardised values beyond this are cut off; Gaussian columns never get there.
LIMIT = 10.0
# A standard deviation this many times what the quartiles say is the work of a few outliers.
OUTLIERS = 10.0
# Of a Gaussian: the distance between the quartiles in standard deviations.
QUARTILES = 1.349


@dataclass(frozen=True)
class Scaling:
    """Per column the mean (for removal), and centre and scale (for networks); all (d,).

    Centre and scale are mean and standard deviation, or median and quartile distance where a few outliers
    make the deviation meaningless. A category column's mean is its most frequent one, code 0.
    """

    mean: Array
    centre: Array
    scale: Array

    @classmethod
    def of(cls, matrix: Array, sample: Array, *, categorical: Sequence[int]) -> Self:
        """From all rows, the quartiles from a sample of them; NaN cells do not count."""
        if np.isnan(matrix).any():
            held = np.ma.masked_invalid(matrix)
            mean, spread = held.mean(axis=0).filled(0.0), held.std(axis=0).filled(0.0)
        else:
            mean, spread = matrix.mean(axis=0), matrix.std(axis=0)
        # A constant column says nothing: leave it unscaled rather than divide by zero.
        scale = np.where(spread > 1e-12 * (1 + np.abs(mean)), spread, 1.0)
        centre = mean.copy()
        low, middle, high = quantiles(sample, (0.25, 0.5, 0.75))
        usual = (high - low) / QUARTILES
        heavy = (usual > 0) & (spread > OUTLIERS * usual)
        centre[heavy], scale[heavy] = middle[heavy], usual[heavy]
        for c in categorical:
            mean[c], centre[c], scale[c] = 0.0, 0.0, 1.0
        return cls(mean, centre, scale)

    def standard(self, matrix: Tensor) -> Tensor:
        """In torch, as the network that reads it: for a single row numpy's code would first have to come into
        the processor's caches, and then the network's again."""
        centre, scale = self._tensors
        return (matrix - centre).div_(scale).clamp_(-LIMIT, LIMIT)

    @cached_property
    def _tensors(self) -> tuple[Tensor, Tensor]:
        return torch.tensor(self.centre), torch.tensor(self.scale)


def quantiles(sample: Array, shares: Array | Sequence[float]) -> Array:
    """(shares, columns) of the cells that are not missing; zeros for a column of gaps only."""
    if not np.isnan(sample).any():
        return np.quantile(sample, shares, axis=0)
    columns = [column[~np.isnan(column)] for column in sample.T]
    edges = [np.quantile(column, shares) if len(column) else np.zeros(len(shares)) for column in columns]
    return np.stack(edges, axis=1)


# More categories than this, all distinct: an identifier.
IDENTIFIERS = 100
# Of other types - integers, half and extended precision, bytes in the other order - a copy is made.
READ_BY_TORCH = (np.dtype(np.float32), np.dtype(np.float64))


@dataclass(frozen=True)
class Cells:
    """What the training rows said about columns.

    Attributes
    ----------
    names : of the columns
    levels : the categories of each categorical column, by its index
    gaps : indices of the columns that may have missing cells
    """

    names: Sequence[str]
    levels: Mapping[int, Levels]
    gaps: Sequence[int]

    @classmethod
    def of(
        cls, X: Any, names: Sequence[str], categorical: Sequence[int], *, most: int, missing: bool
    ) -> tuple[Cells, Array]:
        """Learned from training rows, and these as numbers: at most `most` categories with a vector of
        their own, and columns with missing cells if that is allowed."""
        levels = {c: _levels(X, c, names[c], most) for c in categorical}
        matrix = cls(names, levels, range(len(names)) if missing else []).numbers(X)
        return cls(names, levels, np.flatnonzero(np.isnan(matrix).any(axis=0)).tolist()), matrix

    def numbers(self, X: Any, *, first_row: int = 0) -> Array:
        """(n, d) floats; NaN only where a column may miss. Errors count rows from `first_row`."""
        matrix = self._of_array(X) if isinstance(X, np.ndarray) else self._of_frame(X, first_row)
        # A finite sum, then every cell is: the usual case, without an array of booleans.
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
    def kept(self) -> tuple[Tensor, Tensor]:
        """The categorical columns, and how many categories of each have a vector of their own."""
        kept = [levels.kept for levels in self.levels.values()]
        return torch.tensor([*self.levels], dtype=torch.long), torch.tensor(kept, dtype=torch.float64)

    def table(self, X: Any, matrix: Array) -> Any:
        """The inverse of `numbers`: a table of the library of X; unseen categories come out missing."""
        if isinstance(X, np.ndarray):
            return self._array(matrix)
        frame = nw.from_native(X, eager_only=True)
        if not self.levels and all(isinstance(name, str) for name in frame.columns):
            return nw.from_numpy(matrix, schema=frame.columns, backend=frame.implementation).to_native()
        columns = enumerate(frame.iter_columns())
        return frame_of([self._series(column, matrix[:, c], c) for c, column in columns], X)

    def with_numbers(self, X: Any, matrix: Array) -> Any:
        """X with the numeric columns of `matrix`; categories stay, unseen ones too."""
        if isinstance(X, np.ndarray):
            array = matrix.copy()
            array[:, list(self.levels)] = X[:, list(self.levels)]
            return array
        frame = nw.from_native(X, eager_only=True)
        columns = [
            column if c in self.levels else self._series(column, matrix[:, c], c)
            for c, column in enumerate(frame.iter_columns())
        ]
        return frame_of(columns, X)

    def filled(self, X: Any, mask: Array, fill: Array, chosen: Array) -> Any:
        """X where the mask, (n, d), holds; elsewhere the cells of row `chosen` (n,) of the numbers `fill`.

        Columns keep their types.
        """
        if isinstance(X, np.ndarray):
            filled = self._array(fill)[chosen]
            if filled.dtype != X.dtype:
                return np.where(mask, X, filled)
            np.copyto(filled, X, where=mask)
            return filled
        frame = nw.from_native(X, eager_only=True)
        schema = frame.schema.items()  # narwhals makes no table of numbers with names that are integers
        if not self.levels and all(dtype == nw.Float64 and isinstance(name, str) for name, dtype in schema):
            return self.table(X, np.where(mask, frame.to_numpy(), fill[chosen]))
        columns = [
            replaced(column, self._values(fill[:, c], c), np.where(mask[:, c], -1, chosen))
            for c, column in enumerate(frame.iter_columns())
        ]
        return frame_of(columns, X)

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
        frame = nw.from_native(X, eager_only=True)
        columns = list(frame.iter_columns())  # frame[name] is a row where names are integers
        # Not of categories, which a frame's schema would have: pandas looks at every cell for that.
        types = {c: column.dtype for c, column in enumerate(columns) if c not in self.levels}
        for c, dtype in types.items():
            if is_categorical(columns[c].name, dtype):
                row, cell = first_text(columns[c])
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

    def _codes(self, column: Any, c: int) -> Array:
        """Codes of the categories; lists and bytes, which are nothing like one, are refused by name."""
        cells = arrow_cells(column)
        try:
            return self.levels[c].codes(cells)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            raise InputError(
                f"Column '{self.names[c]}' is {cells.type}, but the training rows had categories there."
            ) from error

    def _array(self, matrix: Array) -> Array:
        """Numbers with the codes of an array's categorical columns turned back into what they stand for."""
        array = matrix.copy()
        for c in self.levels:
            array[:, c] = self._values(matrix[:, c], c)
        return array

    def _series(self, column: Any, numbers: Array, c: int) -> Any:
        """Numbers, or codes of categories, as a series of the column's name and library."""
        if c not in self.levels:
            return nw.new_series(column.name, numbers, nw.Float64, backend=column.implementation)
        values = list(self.levels[c].values)
        codes = np.where(np.isnan(numbers) | (numbers == UNSEEN), len(values), numbers).astype(np.int64)
        return replaced(column[:0], values + [None] * bool((codes == len(values)).any()), codes)

    def _values(self, numbers: Array, c: int) -> list[Any]:
        """What numbers of a column stand for; None for a missing or unseen category."""
        if c not in self.levels:
            return list(numbers.tolist())
        values = self.levels[c].values
        # a column of gaps only has no categories at all
        return [values[int(code)] if 0 <= code < len(values) else None for code in numbers]


def first_text(column: Any) -> tuple[int, Any]:
    """The first cell of a column that is no number, and its row; the first of all where every one is."""
    cells = list(column.to_list() if isinstance(column, nw.Series) else column)
    texts = ((row, cell) for row, cell in enumerate(cells) if not _is_number(cell))
    return next(texts, (0, cells[0] if cells else None))


def _is_number(cell: Any) -> bool:
    """Whether a cell is missing, a number, or the text of one."""
    try:
        return cell is None or (not isinstance(cell, bool) and isinstance(float(cell), float))
    except (TypeError, ValueError):
        return False


def _levels(X: Any, c: int, name: str, most: int) -> Levels:
    column = X[:, c] if isinstance(X, np.ndarray) else nw.from_native(X, eager_only=True)[:, c]
    cells = arrow_cells(column)
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if not can_be_levels(cells.type):
        raise not_taken(name, getattr(cells.type, "extension_name", cells.type))
    levels = Levels.of(cells, most)
    if len(levels.values) <= IDENTIFIERS:
        return levels
    texts = sum(not _is_number(value) for value in levels.values)
    distinct = len(levels.values) == len(cells) - cells.null_count
    if 0 < texts < len(levels.values) // 2:
        row, cell = first_text(column)
        found = f"Row {row}, column '{name}' is {cell!r}, and most others there are numbers"
        remedy = "correct it, or leave it empty if it is missing"
        if distinct:
            raise InputError(f"{found}: {remedy}.")
        warnings.warn(f"{found}. They are read as categories; if they are numbers, {remedy}.", stacklevel=2)
    if distinct:
        raise InputError(
            f"Column '{name}' is another category in each of the {len(cells):,} rows: an identifier "
            "explains nothing; drop it, or turn it into numbers. To explain the words of texts, pass that "
            "column alone and features=l2x.Words()."
        )
    return levels
