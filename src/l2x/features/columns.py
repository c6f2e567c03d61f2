"""Columns of a table, each one feature: numbers and categories, with or without missing cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self, get_args

import narwhals as nw
import numpy as np
import torch
from torch import Tensor, nn

from l2x.errors import InputError, some
from l2x.features.categories import UNSEEN, Levels, arrow_cells
from l2x.features.frames import floats, frame_of, is_categorical, native, place_of, replaced
from l2x.features.scaling import Scaling
from l2x.features.view import Array, View, as_tensor
from l2x.networks.columns import ColumnPredictor, ColumnSelector, TableInput

Removal = Literal["mean", "zero", "resample"]
Missing = Literal["auto", "allow", "error"]

# Rows kept to resample from: enough for a smooth average, small enough to travel in an artifact.
BACKGROUND_ROWS = 512
QUANTILE_ROWS = 100_000
# A column of more categories than this, no two rows alike, is no category.
IDENTIFIERS = 100
# Small noise, in standard deviations of a column.
JITTER = 0.05


class Columns(View):
    """One feature per column: numbers, or categories of a data frame's text, category and boolean columns.

    Parameters
    ----------
    names : sequence of str, optional
        Names for the columns of an array; a data frame brings its own.
    standardize : bool
        Give the networks (x - mean) / standard deviation, so that "not selected" (zero) is the mean.
        False passes x itself, as the paper does with its standard Gaussian data.
    bins : int
        How finely the predictor sees a value: besides x itself, its place between so many quantiles
        (piecewise-linear encoding, Gorishniy et al. 2022), all of it zero when the column is not selected.
        Models with thresholds need it; 0 gives x alone, as in the paper.
    removal : "mean", "zero" or "resample"
        What the black box sees in place of an unselected value: the column's training mean, zero,
        or the value of a random training row. Categories have neither mean nor zero: there the first two
        are the most frequent category. Columns of a frame keep their type; a mean of integers is rounded.
    categorical : sequence of names or positions
        Columns of numbers that are codes of categories.
    max_categories : int
        So many categories of a column, the most frequent, get a vector of their own; the others share one.
    missing : "auto", "allow" or "error"
        "auto" takes missing cells in data frames, where they are ordinary, and not in arrays, where a NaN is
        more often a mistake. A column may miss when explaining if it did so in some training row.

    >>> Columns().fit(np.arange(6.0).reshape(3, 2)).names_
    ['x0', 'x1']
    """

    # Section 4.1: all layers are of dimension 200, two hidden for the explainer, three for the family.
    paper_selector: ClassVar[dict[str, Any]] = {"hidden": (200, 200), "activation": "relu", "prior": False}
    paper_predictor: ClassVar[dict[str, Any]] = {"hidden": (200, 200, 200), "activation": "relu"}
    removals: ClassVar[tuple[str, ...]] = get_args(Removal)

    def __init__(
        self,
        names: Sequence[str] | None = None,
        *,
        standardize: bool = True,
        bins: int = 16,
        removal: Removal = "mean",
        categorical: Sequence[str | int] = (),
        max_categories: int = 64,
        missing: Missing = "auto",
    ) -> None:
        self.names = names
        self.standardize = standardize
        self.bins = bins
        self.removal = removal
        self.categorical = categorical
        self.max_categories = max_categories
        self.missing = missing

    def fit(self, X: Any) -> Self:
        self._check_options()
        X = native(X)
        self.names_, self.has_names_ = self._names_of(X)
        self.levels_ = {place: self._levels(X, place) for place in self._categorical_places(X)}
        in_frame = not isinstance(X, np.ndarray)
        allowed = self.missing == "allow" or (self.missing == "auto" and in_frame)
        self.gaps_ = list(range(self.d)) if allowed else []
        matrix = self._matrix(X, first_row=0)
        self.gaps_ = np.flatnonzero(np.isnan(matrix).any(axis=0)).tolist()
        rng = np.random.default_rng(0)
        self.background_ = matrix[rng.choice(len(matrix), min(len(matrix), BACKGROUND_ROWS), replace=False)]
        sample = matrix[rng.choice(len(matrix), min(len(matrix), QUANTILE_ROWS), replace=False)]
        self.scaling_ = Scaling.of(matrix, sample, categorical=list(self.levels_))
        self._set_edges(self._quantiles(sample))
        return self

    def check(self, X: Any) -> Any:
        X = native(X)
        if isinstance(X, np.ndarray):
            if X.shape[1] != self.d:
                raise InputError(
                    f"The table has {X.shape[1]} columns, but the explainer was fitted on {self.d}: "
                    f"{some(self.names_)}."
                )
            return X
        return self._in_order(X)

    def take(self, X: Any, rows: Any) -> Any:
        return X[rows] if isinstance(X, np.ndarray) else nw.from_native(X, eager_only=True)[rows].to_native()

    def encode(self, X: Any, *, first_row: int = 0) -> Tensor:
        """(n, d): standardised numbers, codes of categories (UNSEEN for new ones), NaN for missing cells."""
        return as_tensor(self._standard(self._matrix(X, first_row=first_row)))

    def mask(self, x: Tensor, mask: Tensor) -> Tensor:
        numbers, selected = x, mask
        if self.inputs_ is not None:
            numeric = self.inputs_.numeric.to(x.device)
            numbers, selected = x[:, numeric], mask[:, numeric]
            if self.gaps_:  # a missing number is all zeros but for its own slot
                selected = selected * ~numbers.isnan()
                numbers = numbers.nan_to_num(0.0)
        masked = self._spread(numbers, selected)
        if self.inputs_ is None:
            return masked
        inputs = self.inputs_.to(x.device)
        return torch.cat([masked, inputs.slots(x) * mask[:, inputs.slot_columns()]], dim=1)

    def remove(self, X: Any, mask: Array, *, rng: np.random.Generator | None = None) -> Any:
        n = len(mask)
        if self.removal == "resample":
            rng = rng or np.random.default_rng(0)
            fill, chosen = self.background_, rng.integers(len(self.background_), size=n)
        else:
            usual = np.zeros(self.d) if self.removal == "zero" else self.scaling_.mean
            fill, chosen = usual[None], np.zeros(n, dtype=np.int64)
        if isinstance(X, np.ndarray):
            return np.where(mask, X, self._raw(fill)[chosen])
        frame = nw.from_native(X, eager_only=True)
        if not self.levels_ and all(dtype == nw.Float64 for dtype in frame.schema.values()):
            return self.table(X, np.where(mask, frame.to_numpy(), fill[chosen]))
        columns = [
            replaced(frame[name], self._cells(fill[:, place], place), np.where(mask[:, place], -1, chosen))
            for place, name in enumerate(frame.columns)
        ]
        return frame_of(columns, X)

    def numbers(self, X: Any) -> Array:
        """A checked table as (n, d) float64: values as they are, codes of categories, NaN for missing."""
        return np.ascontiguousarray(self._matrix(X, first_row=0), dtype=np.float64)

    def table(self, X: Any, matrix: Array) -> Any:
        """The inverse of `numbers`: a table of the library of X; unseen categories come out missing."""
        if isinstance(X, np.ndarray):
            return self._raw(matrix)
        frame = nw.from_native(X, eager_only=True)
        if not self.levels_:
            return nw.from_numpy(matrix, schema=frame.columns, backend=frame.implementation).to_native()
        columns = [
            self._series(frame[name], matrix[:, place], place) for place, name in enumerate(frame.columns)
        ]
        return frame_of(columns, X)

    def unseen(self, x: Tensor) -> dict[str, int]:
        """Per column, how many encoded rows have a category that the training rows had not."""
        counts = {self.names_[place]: int((x[:, place] == UNSEEN).sum()) for place in self.levels_}
        return {name: count for name, count in counts.items() if count}

    def jitter(self, X: Any, rng: np.random.Generator) -> Any:
        matrix = self.numbers(X)
        noise = JITTER * self.scaling_.scale * rng.standard_normal(matrix.shape)
        noise[:, list(self.levels_)] = 0  # there is nothing between two categories
        return self.table(X, matrix + noise)

    def selector(self, outputs: int, **options: Any) -> nn.Module:
        return ColumnSelector(self.d, **(self.selector_inputs() | options))

    def predictor(self, outputs: int, **options: Any) -> nn.Module:
        return ColumnPredictor(self.d, outputs, width=self.masked_width, **options)

    def selector_inputs(self) -> dict[str, Any]:
        """How a selector reads encoded columns; a new module each time, for it moves with its network."""
        return {"inputs": self._inputs(), "columns": self.d}

    @property
    def masked_width(self) -> int:
        """How many numbers `mask` makes of a row."""
        numeric = self.d - len(self.levels_)
        slots = 0 if self.inputs_ is None else len(self.inputs_.slot_columns())
        return numeric * (1 + self.bins) + slots

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        levels = {place: [list(levels.values), levels.kept] for place, levels in self.levels_.items()}
        learned = {
            "names": self.names_,
            "has_names": self.has_names_,
            "levels": {str(place): level for place, level in levels.items()},
            "gaps": self.gaps_,
        }
        return learned, self.scaling_.arrays() | {"background": self.background_, "edges": self.edges_}

    def restore(self, learned: dict[str, Any], arrays: dict[str, Array]) -> Self:
        self.names_, self.has_names_ = list(learned["names"]), bool(learned["has_names"])
        self.levels_ = {int(place): Levels(*level) for place, level in learned["levels"].items()}
        self.gaps_ = list(learned["gaps"])
        self.scaling_ = Scaling.restored(arrays)
        self.background_ = arrays["background"]
        self._set_edges(arrays["edges"])
        return self

    def _check_options(self) -> None:
        if self.removal not in ("mean", "zero", "resample"):
            raise InputError(f"removal is {self.removal!r}; choose 'mean', 'zero' or 'resample'.")
        if self.missing not in ("auto", "allow", "error"):
            raise InputError(f"missing is {self.missing!r}; choose 'auto', 'allow' or 'error'.")

    def _standard(self, matrix: Array) -> Array:
        standard = self.scaling_.standard(matrix) if self.standardize else matrix
        if not self.levels_:
            return standard
        standard = standard.copy()
        for place, levels in self.levels_.items():  # rare categories share the code after the kept ones
            standard[:, place] = np.minimum(matrix[:, place], levels.kept)
        return standard

    def _quantiles(self, sample: Array) -> Array:
        """(bins + 1, numeric columns) edges of the standardised values; zeros for a column of gaps only."""
        numeric = [place for place in range(self.d) if place not in self.levels_]
        values, shares = self._standard(sample)[:, numeric], np.linspace(0, 1, self.bins + 1)
        if not self.gaps_ and numeric:
            return np.quantile(values, shares, axis=0)
        columns = [column[~np.isnan(column)] for column in values.T]
        edges = [np.quantile(column, shares) if len(column) else np.zeros(len(shares)) for column in columns]
        return np.stack(edges, axis=1) if edges else np.zeros((len(shares), 0))

    def _set_edges(self, edges: Array) -> None:
        """Quantiles of each numeric column, and what `mask` computes with."""
        self.edges_ = edges
        self.lower_ = as_tensor(edges[:-1].T)  # (numeric columns, bins)
        # A bin without width (a value that many rows share) becomes a step.
        self.inverse_width_ = as_tensor(1 / np.maximum(np.diff(edges, axis=0).T, 1e-6))
        self.inputs_ = self._inputs()

    def _inputs(self) -> TableInput | None:
        if not self.levels_ and not self.gaps_:
            return None
        numeric = [place for place in range(self.d) if place not in self.levels_]
        categories = [(place, levels.vectors) for place, levels in self.levels_.items()]
        return TableInput(numeric, self.gaps_, categories)

    def _spread(self, numbers: Tensor, selected: Tensor) -> Tensor:
        """Each number, and its place between the quantiles, zero where it is not selected."""
        if not self.bins:
            return numbers * selected
        lower, inverse_width = self.lower_.to(numbers.device), self.inverse_width_.to(numbers.device)
        place = ((numbers[..., None] - lower) * inverse_width).clamp_(0, 1)
        vectors = torch.cat([numbers[..., None], place - 0.5], dim=-1)  # (n, numeric columns, 1 + bins)
        return (vectors * selected[..., None]).flatten(1)

    def _categorical_places(self, X: Any) -> list[int]:
        named = [place_of(column, self.names_, "categorical") for column in self.categorical]
        if isinstance(X, np.ndarray):
            return sorted(named)
        schema = nw.from_native(X, eager_only=True).schema
        found = [place for place, (name, dtype) in enumerate(schema.items()) if is_categorical(name, dtype)]
        return sorted({*found, *named})

    def _levels(self, X: Any, place: int) -> Levels:
        cells = arrow_cells(_column(X, place))
        levels = Levels.of(cells, self.max_categories)
        if IDENTIFIERS < len(levels.values) == len(cells) - cells.null_count:
            raise InputError(
                f"Column '{self.names_[place]}' is another category in each of the {len(cells):,} rows: an "
                "identifier explains nothing; drop it, or turn it into numbers."
            )
        return levels

    def _raw(self, fill: Array) -> Array:
        """`fill` with codes of an array's categorical columns turned back into its numbers."""
        raw = fill.copy()
        for place in self.levels_:
            raw[:, place] = self._cells(fill[:, place], place)
        return raw

    def _series(self, column: Any, numbers: Array, place: int) -> Any:
        """Numbers, or codes of categories, as a series of the column's name and library."""
        if place not in self.levels_:
            return nw.new_series(column.name, numbers, nw.Float64, backend=column.implementation)
        values = list(self.levels_[place].values)
        codes = np.where(np.isnan(numbers) | (numbers == UNSEEN), len(values), numbers).astype(np.int64)
        return replaced(column[:0], values + [None] * bool((codes == len(values)).any()), codes)

    def _cells(self, fill: Array, place: int) -> list[Any]:
        if place not in self.levels_:
            return list(fill.tolist())
        values = self.levels_[place].values
        return [values[int(code)] if values and code == code else None for code in fill]

    def _names_of(self, X: Any) -> tuple[list[str], bool]:
        if not isinstance(X, np.ndarray):
            return list(nw.from_native(X, eager_only=True).columns), True
        d = X.shape[1]
        if self.names is None:
            return [f"x{i}" for i in range(d)], False
        if len(self.names) != d:
            raise InputError(f"{len(self.names)} names were given for a table of {d} columns.")
        return [str(name) for name in self.names], False

    def _in_order(self, X: Any) -> Any:
        """The frame with its columns checked by name and put in the order of fitting."""
        frame = nw.from_native(X, eager_only=True)
        if frame.columns == self.names_:
            return X
        if not self.has_names_:
            if len(frame.columns) != self.d:
                raise InputError(f"The table has {len(frame.columns)} columns; expected {self.d}.")
            return X
        missing = [name for name in self.names_ if name not in frame.columns]
        extra = [name for name in frame.columns if name not in self.names_]
        if missing or extra:
            parts = [f"missing: {some(missing)}"] * bool(missing) + [f"not expected: {some(extra)}"] * bool(
                extra
            )
            raise InputError(f"The table's columns are not those of fitting ({'; '.join(parts)}).")
        return frame.select(self.names_).to_native()

    def _matrix(self, X: Any, *, first_row: int) -> Array:
        """Numbers and codes of a checked table, (n, d) floats; NaN only where a column may miss."""
        matrix = self._array_matrix(X) if isinstance(X, np.ndarray) else self._frame_matrix(X)
        if np.isfinite(matrix.sum()):  # then every cell is: the usual case, without an array of booleans
            return matrix
        bad = ~np.isfinite(matrix)
        bad[:, self.gaps_] &= ~np.isnan(matrix[:, self.gaps_])
        if bad.any():
            row, column = np.argwhere(bad)[0]
            cell = matrix[row, column]
            hint = "fill or drop missing and infinite values first."
            if np.isnan(cell) and not isinstance(X, np.ndarray):
                hint = "the training rows had no missing values there; fill it, or fit on rows that do."
            elif np.isnan(cell):
                hint += " If the model takes missing values: features=l2x.Columns(missing='allow')."
            raise InputError(f"Row {first_row + row}, column '{self.names_[column]}' is {cell}: {hint}")
        return matrix

    def _array_matrix(self, X: Array) -> Array:
        matrix = X if X.dtype.kind == "f" else X.astype(np.float64)
        if self.levels_:
            matrix = matrix.astype(np.float64)
            for place, levels in self.levels_.items():
                matrix[:, place] = levels.codes(arrow_cells(X[:, place]))
        return matrix

    def _frame_matrix(self, X: Any) -> Array:
        frame = nw.from_native(X, eager_only=True)
        schema = list(frame.schema.items())
        for place, (name, dtype) in enumerate(schema):
            if place not in self.levels_ and is_categorical(name, dtype):
                raise InputError(f"Column '{name}' is {dtype}, but the training rows had numbers there.")
        if not self.levels_ and all(dtype in (nw.Float64, nw.Float32, nw.Int64) for _, dtype in schema):
            try:
                return np.asarray(frame.to_numpy().astype(np.float64))
            except (TypeError, ValueError):  # a nullable type with a missing cell: column by column
                pass
        matrix = np.empty((len(frame), len(schema)))
        for place, (name, _) in enumerate(schema):
            levels, column = self.levels_.get(place), frame[name]
            matrix[:, place] = floats(column) if levels is None else levels.codes(arrow_cells(column))
        return matrix


def _column(X: Any, place: int) -> Any:
    return X[:, place] if isinstance(X, np.ndarray) else nw.from_native(X, eager_only=True)[:, place]
