"""Columns of a table, each one feature: numbers and categories, with or without missing cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, get_args

import narwhals as nw
import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from l2x.errors import InputError, some
from l2x.features.categories import UNSEEN, Levels
from l2x.features.cells import Cells
from l2x.features.frames import is_categorical, native, place_of
from l2x.features.scaling import Scaling
from l2x.features.view import View, as_tensor
from l2x.foundations.arrays import Array
from l2x.networks.columns import ColumnPredictor, ColumnSelector, TableInput

Removal = Literal["mean", "zero", "resample"]
Missing = Literal["auto", "allow", "error"]

# Rows kept to resample from: enough for a smooth average, small enough to travel in an artifact.
BACKGROUND_ROWS = 512
QUANTILE_ROWS = 100_000
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

    @property
    def removals(self) -> tuple[str, ...]:
        return get_args(Removal)

    def fit(self, X: Any) -> Self:
        self._check_options()
        X = native(X)
        self.names_, self.has_names_ = self._names_of(X)
        missing = self.missing == "allow" or (self.missing == "auto" and not isinstance(X, np.ndarray))
        self.cells_, matrix = Cells.of(
            X, self.names_, self._categorical_places(X), most=self.max_categories, missing=missing
        )
        rng = np.random.default_rng(0)
        self.background_ = matrix[rng.choice(len(matrix), min(len(matrix), BACKGROUND_ROWS), replace=False)]
        sample = matrix[rng.choice(len(matrix), min(len(matrix), QUANTILE_ROWS), replace=False)]
        self.scaling_ = Scaling.of(matrix, sample, categorical=list(self.levels_))
        self._set_edges(self._quantiles(sample))
        return self

    def check(self, X: Any) -> Any:
        if isinstance(X, pa.Table) and len(X) and X.column_names == self.names_:
            return X  # the streamed case, without the time that narwhals takes
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
        if isinstance(X, pa.Table) and isinstance(rows, slice):  # the streamed case again
            start, stop, step = rows.indices(len(X))
            if step == 1:
                return X.slice(start, max(0, stop - start))
        return X[rows] if isinstance(X, np.ndarray) else nw.from_native(X, eager_only=True)[rows].to_native()

    def encode(self, X: Any, *, first_row: int = 0) -> Tensor:
        """(n, d): standardised numbers, codes of categories (UNSEEN for new ones), NaN for missing cells."""
        return as_tensor(self._standard(self.cells_.numbers(X, first_row=first_row)))

    def mask(self, x: Tensor, mask: Tensor) -> Tensor:
        if self.inputs_ is None:
            return self._piecewise(x, mask)
        inputs = self.inputs_.to(x.device)
        numbers, selected = x[:, inputs.numeric], mask[:, inputs.numeric]
        # A missing number is all zeros but for its own slot.
        masked = self._piecewise(numbers.nan_to_num(0.0), selected * ~numbers.isnan())
        return torch.cat([masked, inputs.slots(x) * mask[:, inputs.slot_columns()]], dim=1)

    def remove(self, X: Any, mask: Array, *, rng: np.random.Generator | None = None) -> Any:
        n = len(mask)
        if self.removal == "resample":
            rng = rng or np.random.default_rng(0)
            chosen = rng.integers(len(self.background_), size=n)
            return self.cells_.filled(X, mask, self.background_, chosen)
        usual = np.zeros(self.d) if self.removal == "zero" else self.scaling_.mean
        return self.cells_.filled(X, mask, usual[None], np.zeros(n, dtype=np.int64))

    def numbers(self, X: Any) -> Array:
        """A checked table as (n, d) float64: values as they are, codes of categories, NaN for missing."""
        return np.ascontiguousarray(self.cells_.numbers(X), dtype=np.float64)

    def table(self, X: Any, matrix: Array) -> Any:
        """The inverse of `numbers`: a table of the library of X."""
        return self.cells_.table(X, matrix)

    @property
    def levels_(self) -> Mapping[int, Levels]:
        """The categories of each categorical column, by its place."""
        return self.cells_.levels

    def unseen(self, x: Tensor) -> dict[str, int]:
        """Per column, how many encoded rows have a category that the training rows had not."""
        counts = {self.names_[place]: int((x[:, place] == UNSEEN).sum()) for place in self.levels_}
        return {name: count for name, count in counts.items() if count}

    def jitter(self, X: Any, rng: np.random.Generator) -> Any:
        matrix = self.numbers(X)
        noise = JITTER * self.scaling_.scale * rng.standard_normal(matrix.shape)
        return self.cells_.with_numbers(X, matrix + noise)  # there is nothing between two categories

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
            "gaps": self.cells_.gaps,
        }
        return learned, self.scaling_.arrays() | {"background": self.background_, "edges": self.edges_}

    def restore(self, learned: dict[str, Any], arrays: dict[str, Array]) -> Self:
        self.names_, self.has_names_ = list(learned["names"]), bool(learned["has_names"])
        levels = {int(place): Levels(*level) for place, level in learned["levels"].items()}
        self.cells_ = Cells(self.names_, levels, learned["gaps"])
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
        if not self.cells_.gaps and numeric:
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
        if not self.levels_ and not self.cells_.gaps:
            return None
        numeric = [place for place in range(self.d) if place not in self.levels_]
        categories = [(place, levels.vectors) for place, levels in self.levels_.items()]
        return TableInput(numeric, self.cells_.gaps, categories)

    def _piecewise(self, numbers: Tensor, selected: Tensor) -> Tensor:
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
        # What is an integer in pandas is a text in a file.
        given, wanted = {str(name): name for name in frame.columns}, [str(name) for name in self.names_]
        missing = [name for name in wanted if name not in given]
        extra = [name for name in given if name not in wanted]
        if missing or extra:
            parts = [f"missing: {some(missing)}"] * bool(missing) + [f"not expected: {some(extra)}"] * bool(
                extra
            )
            raise InputError(f"The table's columns are not those of fitting ({'; '.join(parts)}).")
        return frame.select([nw.col(given[name]) for name in wanted]).to_native()
