"""Columns of a table, each one feature: numbers and categories, with or without missing cells."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, Self

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

from l2x._base.arrays import Array
from l2x.errors import ArtifactError, InputError, some
from l2x.features._cells import Cells, Scaling, quantiles
from l2x.features._frames import Levels, column_index, is_categorical, native
from l2x.features._table_input import MaskedTable, TableInput
from l2x.features._view import View, shared_tensor

Removal = Literal["mean", "zero", "resample"]
Missing = Literal["auto", "allow", "error"]
Groups = Mapping[str, Sequence[str | int]]

# Rows kept to resample from: enough for a smooth average, small enough to travel in an artifact.
BACKGROUND_ROWS = 512
# Quantiles are those of this many rows, or fewer in a wide table, whose sample would not fit into memory.
QUANTILE_ROWS, FEWEST_QUANTILE_ROWS, QUANTILE_CELLS = 100_000, 10_000, 20_000_000
# Bins of all columns together: with more columns, each has fewer.
MOST_BINS = 1 << 16
# Columns from which on `fit` says that there are many.
MANY = 5000


@dataclass(eq=False, repr=False)
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
        How finely the predictor sees a value: besides x itself, its position between this many quantiles
        (piecewise-linear encoding, Gorishniy et al. 2022), all of it zero when the column is not selected.
        Models with thresholds need it; 0 gives x alone, as in the paper. Beyond 4,096 columns there are
        fewer.
    removal : "mean", "zero" or "resample"
        What the black box sees in place of an unselected value: the column's training mean, zero,
        or the value of a random training row. Categories have neither mean nor zero: there the first two
        are the most frequent category. Columns of a frame keep their type; a mean of integers is rounded.
    categorical : sequence of names or positions
        Columns of numbers that are codes of categories.
    max_categories : int
        This many categories of a column, the most frequent, get a vector of their own; the others share one.
    missing : "auto", "allow" or "error"
        "auto" takes missing cells in data frames, where they are ordinary, and not in arrays, where a NaN is
        more often a mistake. A column may miss when explaining if it did so in some training row.
    groups : {"income": ["salary", "bonus"], ...}, optional
        Columns, by name or position, that are selected together as one feature; a column in no group is a
        feature by itself. `ColumnGroups` is another name for it.

    >>> Columns().fit(np.arange(6.0).reshape(3, 2)).names_
    ['x0', 'x1']
    """

    names: Sequence[str] | None = None
    _: KW_ONLY
    standardize: bool = True
    bins: int = 16
    removal: Removal = "mean"
    categorical: Sequence[str | int] = ()
    max_categories: int = 64
    missing: Missing = "auto"
    groups: Groups | None = None

    def fit(self, X: Any) -> Self:
        self._check_options()
        X = native(X)
        if not len(X):
            raise InputError("The table is empty: it has no rows.")
        self._set_names(*self._names_of(X))
        missing = self.missing == "allow" or (self.missing == "auto" and not isinstance(X, np.ndarray))
        self.cells_, matrix = Cells.of(
            X, self.column_names_, self._categorical(X), most=self.max_categories, missing=missing
        )
        self._set_empty(np.flatnonzero(np.isnan(matrix).all(axis=0)).tolist())
        rng = np.random.default_rng(0)
        self.background_ = matrix[rng.choice(len(matrix), min(len(matrix), BACKGROUND_ROWS), replace=False)]
        columns = matrix.shape[1]
        rows = min(len(matrix), QUANTILE_ROWS, max(FEWEST_QUANTILE_ROWS, QUANTILE_CELLS // columns))
        sample = matrix[rng.choice(len(matrix), rows, replace=False)]
        self.scaling_ = Scaling.of(matrix, sample, categorical=list(self.levels_))
        numbers = self._standard(torch.from_numpy(sample)).numpy()[:, self._numeric()]
        bins = self._affordable_bins(columns)
        self._set_edges(quantiles(numbers, np.linspace(0, 1, bins + 1)))
        if self.d >= MANY:
            warnings.warn(
                f"The table has {self.d:,} features and {len(matrix):,} rows: learning will take long, and "
                "find less than among few. Drop columns that the model does not use, or select groups of "
                "them: l2x.ColumnGroups({'name': [...], ...}).",
                stacklevel=2,
            )
        return self

    def check(self, X: Any) -> Any:
        # The streamed case, and a row at a time, without the time that narwhals takes.
        if isinstance(X, pa.Table) and X.column_names == self.column_names_:
            return X
        if isinstance(X, pd.DataFrame) and X.columns.tolist() == self.column_names_:
            return X
        X = native(X)
        if not isinstance(X, np.ndarray) and (self.has_names_ or self._has_my_names(X)):
            return self._in_order(X)
        if X.shape[1] != len(self.column_names_):
            raise InputError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{len(self.column_names_)} features as input: {some(self.column_names_)}."
            )
        return X

    def take(self, X: Any, rows: Any) -> Any:
        if isinstance(X, pa.Table) and isinstance(rows, slice):  # the streamed case again
            start, stop, step = rows.indices(len(X))
            if step == 1:
                return X.slice(start, max(0, stop - start))
        if isinstance(X, np.ndarray):
            return X[rows]
        if isinstance(rows, slice) and rows.indices(len(X)) == (0, len(X), 1):
            return X  # frames take their time to copy a row
        return nw.from_native(X, eager_only=True)[rows].to_native()

    def encode(self, X: Any, *, first_row: int = 0) -> Tensor:
        """(n, columns): standardised numbers, codes of categories (UNSEEN for new ones), NaN for gaps."""
        return self.encode_numbers(self.cells_.numbers(X, first_row=first_row))

    def encode_numbers(self, matrix: Array) -> Tensor:
        """What `encode` makes of the `numbers` of a table."""
        standard = self._standard(shared_tensor(matrix))
        return standard.to(torch.float32, memory_format=torch.contiguous_format)

    def mask(self, x: Tensor, mask: Tensor) -> Tensor:
        masked: Tensor = self.masked_.to(x.device)(x, mask)
        return masked

    def selectable(self, x: Tensor) -> Tensor | None:
        """All but columns, or groups of them, that were missing in every training row: they say nothing."""
        return None if self.empty_ is None else (~self.empty_).to(x.device).expand(len(x), -1)

    def for_model(self, X: Any, mask: Array | None = None, *, rng: np.random.Generator | None = None) -> Any:
        if mask is None:
            return X
        if self.group_ is not None:
            mask = mask[:, self.group_]
        n = len(mask)
        if self.removal == "resample":
            rng = rng or np.random.default_rng(0)
            chosen = rng.integers(len(self.background_), size=n)
            return self.cells_.filled(X, mask, self.background_, chosen)
        usual = np.zeros(mask.shape[1]) if self.removal == "zero" else self.scaling_.mean
        return self.cells_.filled(X, mask, usual[None], np.zeros(n, dtype=np.int64))

    def units(self, parts: Tensor) -> Tensor:
        if self.group_ is None:
            return super().units(parts)
        if parts.shape[1:] != (len(self.group_),):
            raise InputError(
                f"Attributions of shape {tuple(parts.shape)} do not fit {len(self.group_)} columns."
            )
        sums = parts.new_zeros(len(parts), self.d)
        return sums.index_add(1, torch.from_numpy(self.group_).to(parts.device), parts)

    def numbers(self, X: Any) -> Array:
        """A checked table as (n, columns) float64: values, codes of categories, NaN where missing."""
        return np.ascontiguousarray(self.cells_.numbers(X), dtype=np.float64)

    @property
    def levels_(self) -> Mapping[int, Levels]:
        """The categories of each categorical column, by its index."""
        return self.cells_.levels

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        levels = {str(c): [list(levels.values), levels.kept] for c, levels in self.levels_.items()}
        learned = {
            "names": self.column_names_,
            "has_names": self.has_names_,
            "levels": levels,
            "gaps": self.cells_.gaps,
            "empty": self.empty_columns_,
        }
        scaling = {name: getattr(self.scaling_, name) for name in ("mean", "centre", "scale")}
        return learned, scaling | {"background": self.background_, "edges": self.edges_}

    def restore(self, learned: dict[str, Any], arrays: dict[str, Array]) -> Self:
        self._check_options()
        self._set_names(list(learned["names"]), bool(learned["has_names"]))
        self._check_shapes(arrays, categories=len(learned["levels"]))
        levels = {int(c): Levels(*level) for c, level in learned["levels"].items()}
        self.cells_ = Cells(self.column_names_, levels, learned["gaps"])
        self._set_empty(learned.get("empty", []))  # which older files do not have
        self.scaling_ = Scaling(arrays["mean"], arrays["centre"], arrays["scale"])
        self.background_ = arrays["background"]
        self._set_edges(arrays["edges"])
        return self

    def _affordable_bins(self, columns: int) -> int:
        return min(self.bins, max(1, MOST_BINS // columns))

    def _check_shapes(self, arrays: dict[str, Array], *, categories: int) -> None:
        """What a file declares must be what it holds, before networks of that size are built."""
        columns = len(self.column_names_)
        expected: dict[str, tuple[int, ...]] = {name: (columns,) for name in ("mean", "centre", "scale")}
        expected |= {"background": (len(arrays["background"]), columns)}
        # Files of before wide tables had fewer bins.
        edges = self.bins if len(arrays["edges"]) == self.bins + 1 else self._affordable_bins(columns)
        expected |= {"edges": (edges + 1, columns - categories)}
        for name, shape in expected.items():
            if arrays[name].shape != shape:
                raise ArtifactError(f"view.{name} has the shape {arrays[name].shape}; expected {shape}.")

    def _set_names(self, columns: list[str], known: bool) -> None:
        """The columns' names, whether a frame brought them, and the features that the columns make up."""
        self.column_names_, self.has_names_ = columns, known
        self.names_ = columns
        self.group_: Array | None = None  # (columns,) the feature of each column
        if self.groups:
            self.names_, self.group_ = grouped(columns, self.groups)

    def _set_empty(self, columns: list[int]) -> None:
        """Columns without a single training value, and the features that consist of such columns alone."""
        self.empty_columns_ = columns
        self.empty_: Tensor | None = None  # (d,)
        if columns:
            filled = np.ones(len(self.column_names_), dtype=bool)
            filled[columns] = False
            owner = np.arange(self.d) if self.group_ is None else self.group_
            empty = np.bincount(owner, weights=filled, minlength=self.d) == 0
            if empty.all():
                raise InputError("Every cell of the table is missing: there is nothing to explain with.")
            self.empty_ = torch.from_numpy(empty) if empty.any() else None

    def _check_options(self) -> None:
        if self.removal not in ("mean", "zero", "resample"):
            raise InputError(f"removal is {self.removal!r}; choose 'mean', 'zero' or 'resample'.")
        if self.missing not in ("auto", "allow", "error"):
            raise InputError(f"missing is {self.missing!r}; choose 'auto', 'allow' or 'error'.")

    def _standard(self, matrix: Tensor) -> Tensor:
        standard = self.scaling_.standard(matrix) if self.standardize else matrix
        if not self.levels_:
            return standard
        columns, kept = self.cells_.kept  # rare categories share the code after the kept ones
        return standard.index_copy(1, columns, matrix.index_select(1, columns).minimum(kept))

    def _set_edges(self, edges: Array) -> None:
        """Quantiles of each numeric column, (bins + 1, columns), and what networks read with them."""
        self.edges_ = edges
        self.inputs_: TableInput | None = None
        if self.levels_ or self.cells_.gaps:
            categories = [(c, levels.vectors) for c, levels in self.levels_.items()]
            self.inputs_ = TableInput(self._numeric(), self.cells_.gaps, categories)
        self.masked_ = MaskedTable(edges, len(self.column_names_), inputs=self.inputs_, group=self.group_)

    def _numeric(self) -> list[int]:
        return [c for c in range(len(self.column_names_)) if c not in self.levels_]

    def _categorical(self, X: Any) -> list[int]:
        """Indices of the columns that hold categories."""
        named = [column_index(column, self.column_names_, "categorical") for column in self.categorical]
        if isinstance(X, np.ndarray):
            return sorted(named)
        schema = nw.from_native(X, eager_only=True).schema
        found = [c for c, (name, dtype) in enumerate(schema.items()) if is_categorical(name, dtype)]
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

    def _has_my_names(self, X: Any) -> bool:
        """Whether the columns of a frame have the names that were given for those of an array."""
        return {str(name) for name in nw.from_native(X, eager_only=True).columns} == set(self.column_names_)

    def _in_order(self, X: Any) -> Any:
        """The frame with its columns checked by name and put in the order of fitting."""
        frame = nw.from_native(X, eager_only=True)
        if frame.columns == self.column_names_:
            return X
        # What is an integer in pandas is a text in a file.
        given = {str(name): name for name in frame.columns}
        wanted = [str(name) for name in self.column_names_]
        missing = [name for name in wanted if name not in given]
        extra = [name for name in given if name not in wanted]
        if missing or extra:
            found = {"missing": missing, "not expected": extra}
            parts = [f"{kind}: {some(names)}" for kind, names in found.items() if names]
            raise InputError(f"The table's columns are not those of fitting ({'; '.join(parts)}).")
        return frame.select([nw.col(given[name]) for name in wanted]).to_native()


@dataclass(eq=False, repr=False, kw_only=True)
class ColumnGroups(Columns):
    """`Columns` whose features are groups of columns; a column in no group is a feature by itself.

    Parameters
    ----------
    groups : {"income": ["salary", "bonus"], ...}, columns by name or position
    names, standardize, bins, removal, categorical, max_categories, missing : as for `Columns`

    >>> view = ColumnGroups({"place": [0, 2]}).fit(np.arange(6.0).reshape(2, 3))
    >>> view.names_
    ['place', 'x1']
    """

    groups: Groups = field(kw_only=False)
    names: Sequence[str] | None = None

    @classmethod
    def from_transformer(cls, transformer: Any, **options: Any) -> ColumnGroups:
        """The groups of what a fitted scikit-learn ColumnTransformer, OneHotEncoder, or Pipeline that starts
        with one gives out: the one-hot columns of one input column are one feature."""
        from l2x.features._cells import transformed_groups

        return cls(transformed_groups(transformer), **options)


def grouped(columns: Sequence[str], groups: Groups) -> tuple[list[str], Array]:
    """The names of the features that the columns make up, and the feature of each column, (columns,).

    >>> grouped(["x0", "x1", "x2"], {"place": [0, 2]})
    (['place', 'x1'], array([0, 1, 0]))
    """
    owner: dict[int, str] = {}
    for name, members in groups.items():
        if not len(members):
            raise InputError(f"The group '{name}' has no columns.")
        for member in members:
            c = column_index(member, columns, f"The group '{name}'")
            if c in owner:
                raise InputError(f"Column '{columns[c]}' is in two groups, '{owner[c]}' and '{name}'.")
            owner[c] = str(name)
    if clash := [column for c, column in enumerate(columns) if c not in owner and column in groups]:
        raise InputError(f"'{clash[0]}' is the name of a group and of a column outside of it; rename it.")
    features = [owner.get(c, column) for c, column in enumerate(columns)]
    names = list(dict.fromkeys(features))
    return names, np.array([names.index(feature) for feature in features])
