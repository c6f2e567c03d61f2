"""Columns of a table, each one feature: numbers and categories, with or without missing cells."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Literal, Self, get_args

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from sklearn.base import clone
from torch import Tensor

from l2x._base.arrays import Array
from l2x.errors import ArtifactError, InputError, some
from l2x.features._table_input import MaskedTable, Scaling, TableInput, quantiles
from l2x.features._tables import UNSEEN, Cells, Levels, column_index, is_categorical, native
from l2x.features._view import Measurement, TableLayout, View, shared_tensor

Masking = Literal["mean", "median", "zero", "resample"]
Missing = Literal["auto", "allow", "error"]
Groups = Mapping[str, Sequence[str | int]]

# Fidelity is reported under these: a mean alone may be a value that no row has.
REPORTED_MASKINGS: tuple[Masking, ...] = ("mean", "median", "resample")
# Rows to resample from: enough for a smooth average, few enough for an artifact.
BACKGROUND_ROWS = 512
# Quantiles are computed on this many rows, or on fewer in a wide table, whose sample must fit into memory.
QUANTILE_ROWS, FEWEST_QUANTILE_ROWS, QUANTILE_CELLS = 100_000, 10_000, 20_000_000
# Bins of all columns together: in a wider table, each column has fewer.
MOST_BINS = 1 << 16
# Noise of `jitter`, in standard deviations of a column.
JITTER = 0.05
# How often `sample` leaves out a cell that may be missing, and makes up a category.
SAMPLED_GAPS, SAMPLED_UNSEEN = 0.05, 0.02
# From this many features on, `fit` warns.
MANY = 5000


@dataclass(eq=False, repr=False)
class Columns(View):
    """One feature per column: numbers, or categories in text, category and boolean columns of a data frame.

    Parameters
    ----------
    names : sequence of str, optional
        Names for the columns of an array; a data frame has its own.
    standardize : bool
        Give the networks (x - mean) / standard deviation, so that an unselected value (zero) is the mean.
        False passes x unchanged, as in the paper, whose data are standard Gaussian.
    bins : int
        How finely the predictor sees a value: in addition to x, its position between this many quantiles
        (piecewise-linear encoding, Gorishniy et al. 2022), all of it zero if the column is not selected.
        Models with thresholds need it; 0 gives x alone, as in the paper. Beyond 4,096 columns there are
        fewer bins.
    masking : "median", "mean", "zero" or "resample"
        What the black box gets instead of an unselected value: the column's training median, its mean, zero,
        or the value of a random training row. The median looks like data where a mean does not: if 91 % of
        capital gains are 0, their mean is 1,070. For categories, all but "resample" are the most frequent
        category. Columns of a frame keep their type; a mean of integers is rounded.
    categorical : sequence of names or positions
        Columns of numbers that are codes of categories.
    max_categories : int
        This many categories of a column, the most frequent, have their own vector; the others share one.
    missing : "auto", "allow" or "error"
        "auto" allows missing cells in data frames, where they are ordinary, and not in arrays, where NaN is
        more often a mistake. A column may have missing cells later if it had some in training.
    groups : mapping of names to columns, optional
        Columns, by name or position, that are selected together as one feature, such as
        `{"income": ["salary", "bonus"]}`; a column in no group is a feature of its own. See `ColumnGroups`.

    >>> Columns().fit(np.arange(6.0).reshape(3, 2)).names_
    ['x0', 'x1']
    """

    unit: ClassVar[str] = "column"

    names: Sequence[str] | None = None
    _: KW_ONLY
    standardize: bool = True
    bins: int = 16
    masking: Masking = "median"
    categorical: Sequence[str | int] = ()
    max_categories: int = 64
    missing: Missing = "auto"
    groups: Groups | None = None

    def fit(self, X: Any) -> Self:
        """Learn names, categories, gaps, means and quantiles from the training rows X; return self."""
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
        background = rng.choice(len(matrix), min(len(matrix), BACKGROUND_ROWS), replace=False)
        self._set_background(matrix[background])
        columns = matrix.shape[1]
        rows = min(len(matrix), QUANTILE_ROWS, max(FEWEST_QUANTILE_ROWS, QUANTILE_CELLS // columns))
        sample = matrix[rng.choice(len(matrix), rows, replace=False)]
        self.scaling_ = Scaling.of(matrix, sample, categorical=list(self.levels_))
        numbers = self._standard(torch.from_numpy(sample)).numpy()[:, self._numeric()]
        self._set_edges(quantiles(numbers, np.linspace(0, 1, self._affordable_bins() + 1)))
        if self.d >= MANY:
            warnings.warn(
                f"The table has {self.d:,} features and {len(matrix):,} rows: training takes long, and finds "
                "less than among few features. Drop columns that the model does not use, or group columns: "
                "l2x.ColumnGroups({'name': [...], ...}).",
                stacklevel=2,
            )
        return self

    def check(self, X: Any) -> Any:
        """Return the table with its columns in the order of fitting; see `View.check`."""
        # Streams, and single rows, skip narwhals, which would take most of the time.
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
        """Return rows of a checked table; see `View.take`."""
        if isinstance(X, pa.Table) and isinstance(rows, slice):  # streams again
            start, stop, step = rows.indices(len(X))
            if step == 1:
                return X.slice(start, max(0, stop - start))
        if isinstance(X, np.ndarray):
            return X[rows]
        if isinstance(rows, slice) and rows.indices(len(X)) == (0, len(X), 1):
            return X  # copying a frame takes time
        return nw.from_native(X, eager_only=True)[rows].to_native()

    def encode(self, X: Any, *, first_row: int = 0) -> Tensor:
        """Return (n, columns): standardised numbers, codes or UNSEEN, NaN; see `View.encode`."""
        return self.encode_numbers(self.cells_.numbers(X, first_row=first_row))

    def encode_numbers(self, matrix: Array) -> Tensor:
        """Return what `encode` makes of a table whose `numbers` are this matrix."""
        standard = self._standard(shared_tensor(matrix))
        return standard.to(torch.float32, memory_format=torch.contiguous_format)

    def mask(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return what predictors read: see `MaskedTable`."""
        masked: Tensor = self.masked_.to(x.device)(x, mask)
        return masked

    def selectable(self, x: Tensor) -> Tensor | None:
        """Exclude columns and groups that were missing in every training row; see `View.selectable`."""
        return None if self.empty_ is None else (~self.empty_).to(x.device).expand(x.shape[0], -1)

    def for_model(self, X: Any, mask: Array | None = None, *, rng: np.random.Generator | None = None) -> Any:
        """Return the table, with unselected cells replaced according to `masking`; see `View.for_model`."""
        if mask is None:
            return X
        if self.group_ is not None:
            mask = mask[:, self.group_]
        n = len(mask)
        if self.masking == "resample":
            rng = rng or np.random.default_rng(0)
            chosen = rng.integers(len(self.background_), size=n)
            return self.cells_.filled(X, mask, self.background_, chosen)
        return self.cells_.filled(X, mask, self._usual(mask.shape[1])[None], np.zeros(n, dtype=np.int64))

    def _usual(self, columns: int) -> Array:
        """Return the value of each column that replaces unselected cells, (columns,)."""
        if self.masking == "zero":
            return np.zeros(columns)
        return self.scaling_.mean if self.masking == "mean" else self.medians_

    def reported_maskings(self) -> tuple[str | None, ...]:
        """Return mean, median and resampling, and the view's own first; see `View.reported_maskings`."""
        return tuple(dict.fromkeys((self.masking, *REPORTED_MASKINGS)))

    def units(self, parts: Tensor) -> Tensor:
        """Return scores of columns summed over groups; see `View.units`."""
        if self.group_ is None:
            return super().units(parts)
        if parts.shape[1:] != (len(self.group_),):
            raise InputError(
                f"Attributions of shape {tuple(parts.shape)} do not fit {len(self.group_)} columns."
            )
        sums = parts.new_zeros(len(parts), self.d)
        return sums.index_add(1, torch.from_numpy(self.group_).to(parts.device), parts)

    def numbers(self, X: Any) -> Array:
        """Return a checked table X as (n, columns) float64: values, codes of categories, NaN if missing."""
        return np.ascontiguousarray(self.cells_.numbers(X), dtype=np.float64)

    @property
    def levels_(self) -> Mapping[int, Levels]:
        """Return the categories of each categorical column, by its position."""
        return self.cells_.levels

    @property
    def has_distances(self) -> bool:
        """Return whether all columns hold numbers, none of them missing."""
        return not self.levels_ and not self.cells_.gaps

    def sample(self, n: int, rng: np.random.Generator) -> Any:
        """Return n rows whose cells are drawn, each on its own, from training rows; see `View.sample`.

        A few cells are missing, where the training rows had missing cells, and a few hold new categories.
        They come as a pandas frame, or as an array if the view was fitted on an array.
        """
        rows = rng.integers(len(self.background_), size=(n, len(self.column_names_)))
        matrix = np.take_along_axis(self.background_, rows, axis=0).astype(np.float64)
        draws, column = rng.random(matrix.shape), np.arange(len(self.column_names_))
        matrix[(draws < SAMPLED_GAPS) & np.isin(column, self.cells_.gaps)] = np.nan
        new = [c for c, levels in self.levels_.items() if levels.can_be_unseen]
        matrix[(draws > 1 - SAMPLED_UNSEEN) & np.isin(column, new)] = UNSEEN
        columns = [self.cells_.made_up(matrix[:, c], c) for c in range(len(self.column_names_))]
        if not self.has_names_:
            return np.array(columns, dtype=np.float64).T
        return pd.DataFrame(dict(enumerate(columns))).set_axis(self.column_names_, axis=1)

    def jitter(self, X: Any, rng: np.random.Generator) -> Any:
        """Return a table with noise on every number, but not on categories; see `View.jitter`."""
        matrix = self.numbers(X)
        noise = JITTER * self.scaling_.scale * rng.standard_normal(matrix.shape)
        return self.cells_.with_numbers(X, matrix + noise)

    def measurements(self, X: Any) -> list[Measurement]:
        """Return all columns; see `View.measurements`."""
        matrix = self.numbers(X)
        return [
            Measurement(str(name), matrix[:, c], c in self.levels_)
            for c, name in enumerate(self.column_names_)
        ]

    def unseen(self, x: Tensor) -> dict[str, int]:
        """Return, by column, how many encoded rows have a new category; see `View.unseen`."""
        if not self.levels_:
            return {}
        columns = self.cells_.frequent[0].to(x.device)
        counts = (x.index_select(1, columns) == UNSEEN).sum(dim=0).tolist()
        return {self.column_names_[c]: count for c, count in zip(self.levels_, counts, strict=True) if count}

    def table_layout(self) -> TableLayout:
        """Return the layout of the columns of fitting; see `View.table_layout`."""
        if not hasattr(self, "names_"):
            return TableLayout()
        # Names that are integers in pandas are texts in a file.
        names = [str(name) for name in self.column_names_]
        texts = {
            position: levels.values
            for position, levels in self.levels_.items()
            if all(isinstance(value, str) for value in levels.values)
        }
        return TableLayout(columns=names, named=self.has_names_, categories=texts)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what `fit` learned; see `View.state`."""
        levels = {str(c): [list(levels.values), levels.frequent] for c, levels in self.levels_.items()}
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
        """Set what `state` returned; see `View.restore`."""
        self._check_options()
        self._set_names(list(learned["names"]), bool(learned["has_names"]))
        self._check_shapes(arrays, categories=len(learned["levels"]))
        levels = {int(c): Levels(*level) for c, level in learned["levels"].items()}
        self.cells_ = Cells(self.column_names_, levels, learned["gaps"])
        self._set_empty(learned["empty"])
        self.scaling_ = Scaling(arrays["mean"], arrays["centre"], arrays["scale"])
        self._set_background(arrays["background"])
        self._set_edges(arrays["edges"])
        return self

    def _affordable_bins(self) -> int:
        return min(self.bins, max(1, MOST_BINS // len(self.column_names_)))

    def _check_shapes(self, arrays: dict[str, Array], *, categories: int) -> None:
        """Check that arrays have the sizes that a file declares, before networks of that size are built."""
        columns = len(self.column_names_)
        expected: dict[str, tuple[int, ...]] = {name: (columns,) for name in ("mean", "centre", "scale")}
        expected |= {"background": (len(arrays["background"]), columns)}
        expected |= {"edges": (self._affordable_bins() + 1, columns - categories)}
        for name, shape in expected.items():
            if arrays[name].shape != shape:
                raise ArtifactError(f"view.{name} has the shape {arrays[name].shape}; expected {shape}.")

    def _set_names(self, columns: list[str], named: bool) -> None:
        """Set the columns' names, whether a frame brought them, and the features that the columns make up."""
        self.column_names_, self.has_names_ = columns, named
        self.names_ = columns
        self.group_: Array | None = None  # (columns,) the feature of each column
        if self.groups:
            self.names_, self.group_ = grouped(columns, self.groups)

    def _set_background(self, rows: Array) -> None:
        """Set the rows to resample from, and their medians: for numbers a value that occurs, not a mean."""
        self.background_ = rows
        self.medians_ = quantiles(rows, (0.5,), method="inverted_cdf")[0]
        self.medians_[list(self.levels_)] = 0.0  # the most frequent category

    def _set_empty(self, columns: list[int]) -> None:
        """Set the columns without a single training value, and the features with only such columns."""
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
        if self.masking not in get_args(Masking):
            choices = "'mean', 'median', 'zero' or 'resample'"
            raise InputError(f"masking is {self.masking!r}; choose {choices}.")
        if self.missing not in ("auto", "allow", "error"):
            raise InputError(f"missing is {self.missing!r}; choose 'auto', 'allow' or 'error'.")

    def _standard(self, matrix: Tensor) -> Tensor:
        standard = self.scaling_.standard(matrix) if self.standardize else matrix
        if not self.levels_:
            return standard
        columns, frequent = self.cells_.frequent  # rare categories share the code after the frequent ones
        return standard.index_copy(1, columns, matrix.index_select(1, columns).minimum(frequent))

    def _set_edges(self, edges: Array) -> None:
        """Set the quantiles of each numeric column, (bins + 1, columns), and the modules that read them."""
        self.edges_ = edges
        self.inputs_: TableInput | None = None
        if self.levels_ or self.cells_.gaps:
            categories = [(c, levels.vectors) for c, levels in self.levels_.items()]
            self.inputs_ = TableInput(self._numeric(), self.cells_.gaps, categories)
        self.masked_ = MaskedTable(edges, len(self.column_names_), inputs=self.inputs_, group=self.group_)

    def _numeric(self) -> list[int]:
        return [c for c in range(len(self.column_names_)) if c not in self.levels_]

    def _categorical(self, X: Any) -> list[int]:
        """Return the positions of the columns that hold categories."""
        named = [column_index(column, self.column_names_, "categorical") for column in self.categorical]
        if isinstance(X, np.ndarray):
            return sorted(named)
        schema = nw.from_native(X, eager_only=True).schema
        typed = [c for c, (name, dtype) in enumerate(schema.items()) if is_categorical(name, dtype)]
        return sorted({*typed, *named})

    def _names_of(self, X: Any) -> tuple[list[str], bool]:
        """Return the names of the columns, and whether they came with the table."""
        if not isinstance(X, np.ndarray):
            return list(nw.from_native(X, eager_only=True).columns), True
        d = X.shape[1]
        if self.names is None:
            return [f"x{i}" for i in range(d)], False
        if len(self.names) != d:
            raise InputError(f"{len(self.names)} names were given for a table of {d} columns.")
        return [str(name) for name in self.names], False

    def _has_my_names(self, X: Any) -> bool:
        """Return whether the columns of a frame have the names that were given for those of an array."""
        return {str(name) for name in nw.from_native(X, eager_only=True).columns} == set(self.column_names_)

    def _in_order(self, X: Any) -> Any:
        """Return the frame with its columns checked by name and put in the order of fitting."""
        frame = nw.from_native(X, eager_only=True)
        if frame.columns == self.column_names_:
            return X
        # Names that are integers in pandas are texts in a file.
        given = {str(name): name for name in frame.columns}
        wanted = [str(name) for name in self.column_names_]
        missing = [name for name in wanted if name not in given]
        extra = [name for name in given if name not in wanted]
        if missing or extra:
            problems = {"missing": missing, "not expected": extra}
            parts = [f"{kind}: {some(names)}" for kind, names in problems.items() if names]
            raise InputError(f"The table's columns are not those of fitting ({'; '.join(parts)}).")
        return frame.select([nw.col(given[name]) for name in wanted]).to_native()


@dataclass(eq=False, repr=False, kw_only=True)
class ColumnGroups(Columns):
    """`Columns` whose features are groups of columns; a column in no group is a feature of its own.

    Parameters
    ----------
    groups : mapping of names to columns
        Columns by name or position, such as `{"income": ["salary", "bonus"]}`.
    names, standardize, bins, masking, categorical, max_categories, missing
        See `Columns`.

    >>> view = ColumnGroups({"place": [0, 2]}).fit(np.arange(6.0).reshape(2, 3))
    >>> view.names_
    ['place', 'x1']
    """

    groups: Groups = field(kw_only=False)
    names: Sequence[str] | None = None

    @classmethod
    def from_transformer(cls, transformer: Any, **options: Any) -> ColumnGroups:
        """Group the outputs of a transformer by input column, so that one-hot columns are one feature.

        The transformer is a fitted scikit-learn OneHotEncoder, ColumnTransformer, or a Pipeline with one of
        them; its other steps must keep the columns. Further `options` are those of the constructor.
        """
        return cls(transformed_groups(transformer), **options)


def fitted_view(features: View | None, X: Any) -> View:
    """Return `features` if it is fitted, otherwise a copy fitted on X; `Columns()` if it is None.

    >>> fitted_view(None, np.zeros((3, 2))).names_
    ['x0', 'x1']
    """
    if features is not None and hasattr(features, "names_"):
        return features
    view: View = clone(features or Columns())
    return view.fit(X)


def as_columns(view: View) -> Columns | None:
    """Return the view if each feature is one column of a table; None for groups, words and patches."""
    return view if isinstance(view, Columns) and not view.groups else None


def named_columns(view: View) -> list[str] | None:
    """Return the column names of the data frame that the view was fitted on; None for other inputs."""
    if not isinstance(view, Columns) or not view.has_names_:
        return None
    return [str(name) for name in view.column_names_]


def check_table(view: View, method: str) -> None:
    """Raise an InputError unless the view reads columns, grouped or not, as `method` requires."""
    if not isinstance(view, Columns):
        raise InputError(f"{method} explains columns, not {type(view).__name__}.")


def grouped(columns: Sequence[str], groups: Groups) -> tuple[list[str], Array]:
    """Return the names of the features that the columns make up, and the feature of each column, (columns,).

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
        raise InputError(
            f"'{clash[0]}' is the name of a group and of a column outside it; rename one of them."
        )
    features = [owner.get(c, column) for c, column in enumerate(columns)]
    names = list(dict.fromkeys(features))
    return names, np.array([names.index(feature) for feature in features])


def transformed_groups(transformer: Any) -> dict[str, list[int]]:
    """Return, by input column, the positions of the columns that a fitted transformer makes from it.

    See `ColumnGroups.from_transformer`.
    """
    groups = _groups(transformer, [str(name) for name in getattr(transformer, "feature_names_in_", [])])
    if groups is None:
        raise InputError(
            f"{type(transformer).__name__} has no fitted one-hot encoder whose columns can be traced; "
            "give the groups yourself: ColumnGroups({'colour': [...]})."
        )
    return groups


def _groups(transformer: Any, inputs: Sequence[str]) -> dict[str, list[int]] | None:
    """Return None if the outputs cannot be traced back to single columns."""
    if hasattr(transformer, "steps"):
        traced = [_groups(step, inputs) for _, step in transformer.steps]
        return next((groups for groups in traced if groups is not None), None)
    if not hasattr(transformer, "n_features_in_"):
        return None
    inputs = inputs or [f"x{i}" for i in range(transformer.n_features_in_)]
    if hasattr(transformer, "transformers_"):
        return _column_transformer(transformer, inputs)
    return _one_hot(transformer, inputs) if hasattr(transformer, "drop_idx_") else None


def _one_hot(encoder: Any, inputs: Sequence[str]) -> dict[str, list[int]]:
    """Trace outputs, which come by column: one per category, one for infrequent ones, minus dropped ones."""
    groups: dict[str, list[int]] = {}
    start = 0
    rare = getattr(encoder, "infrequent_categories_", [None] * len(inputs))
    dropped = [None] * len(inputs) if encoder.drop_idx_ is None else encoder.drop_idx_
    for name, categories, few, drop in zip(inputs, encoder.categories_, rare, dropped, strict=True):
        width = len(categories) - (0 if few is None else len(few) - 1) - (drop is not None)
        if width:
            groups[name] = list(range(start, start + width))
        start += width
    return groups


def _column_transformer(transformer: Any, inputs: Sequence[str]) -> dict[str, list[int]]:
    """Join the groups of the parts; a part that cannot be traced is one group with its name."""
    groups: dict[str, list[int]] = {}
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
    """Return the names of columns that are given by name, position, slice or mask."""
    if isinstance(columns, str):
        return [columns]
    if not isinstance(columns, slice) and all(isinstance(column, str) for column in columns):
        return list(columns)
    return [str(name) for name in np.atleast_1d(np.asarray(inputs, dtype=object)[columns])]
