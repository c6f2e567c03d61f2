"""Which kind of input a view reads, for whoever shows, asks for or writes inputs of each kind differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from torch import Tensor

from l2x._base.arrays import Array, batches
from l2x.errors import InputError
from l2x.features._columns import Columns
from l2x.features._frames import UNSEEN
from l2x.features._patches import Patches
from l2x.features._texts import TextView
from l2x.features._view import View

Kind = Literal["table", "text", "image"]


def kind_of(view: View) -> Kind:
    """A view of one's own counts as a table: rows of features with names."""
    if isinstance(view, TextView):
        return "text"
    return "image" if isinstance(view, Patches) else "table"


def unit_of(view: View) -> str:
    """What one feature is called: a word, a sentence, a patch, a column."""
    if isinstance(view, TextView):
        return view.unit
    return {"image": "patch", "table": "column"}[kind_of(view)]


def fitted_view(features: View | None, X: Any) -> View:
    """`features` as it is if it was fitted (`explainer.features_`), otherwise a copy fitted on the rows X;
    `Columns()` if there is none.

    >>> fitted_view(None, np.zeros((3, 2))).names_
    ['x0', 'x1']
    """
    if features is not None and hasattr(features, "names_"):
        return features
    view: View = clone(features or Columns())
    return view.fit(X)


def selectable_units(view: View, X: Any) -> Array | None:
    """(n, d) booleans: what may be selected in checked rows; None where that is everything."""
    if view.selectable(view.encode(view.take(X, slice(0, 1)))) is None:
        return None
    parts = [view.selectable(view.encode(view.take(X, rows))) for rows in batches(len(X), view.rows_at_once)]
    return np.concatenate([part.numpy() for part in parts if part is not None])


def as_columns(view: View) -> Columns | None:
    """The view where each feature is one column of a table; None for groups of columns, words, patches."""
    return view if isinstance(view, Columns) and not view.groups else None


def named_columns(view: View) -> list[str] | None:
    """The columns' names that a data frame brought; None for arrays and other kinds of inputs."""
    if not isinstance(view, Columns) or not view.has_names_:
        return None
    return [str(name) for name in view.column_names_]


def check_table(view: View, method: str) -> None:
    """The method is for tables, whose columns may be grouped."""
    if not isinstance(view, Columns):
        raise InputError(f"{method} explains columns, not {type(view).__name__}.")


def has_distances(view: View) -> bool:
    """Whether differences between encoded inputs mean something: not those of categories, gaps, or ids."""
    if isinstance(view, Columns):
        return not view.levels_ and not view.cells_.gaps
    return not isinstance(view, TextView)


def unseen(view: View, x: Tensor) -> dict[str, int]:
    """Per column, how many encoded rows have a category that the training rows did not have."""
    if not isinstance(view, Columns) or not view.levels_:
        return {}
    counts = (x[:, [*view.levels_]] == UNSEEN).sum(dim=0).tolist()
    return {view.column_names_[c]: count for c, count in zip(view.levels_, counts, strict=True) if count}


@dataclass(frozen=True)
class TableReading:
    """What a view asks of a table.

    Attributes
    ----------
    units : what it selects, in the plural: "columns", "words", "sentences"
    one_text : whether it reads a single column of texts, whose name is free; the rest is then empty
    columns : names of the columns that it was fitted on, in their order; None before fitting
    named : whether those names came with the training rows; where they did not, columns go by position
    categories : categories of the columns, by position, whose cells are read as text, whatever they look like
    """

    units: str
    one_text: bool = False
    columns: Sequence[str] | None = None
    named: bool = True
    categories: Mapping[int, Sequence[str]] = field(default_factory=dict)


@singledispatch
def reading_of(view: View) -> TableReading:
    """How `view`, fitted or not, reads a table. A new kind of view that can: `reading_of.register`."""
    raise InputError(f"{type(view).__name__} cannot read a table on disk; pass the inputs as an array.")


@reading_of.register
def _of_texts(view: TextView) -> TableReading:
    return TableReading(units=f"{view.unit}s", one_text=True)


@reading_of.register
def _of_columns(view: Columns) -> TableReading:
    if not hasattr(view, "names_"):
        return TableReading(units="columns")
    # Names that are integers in pandas are texts in a file.
    names = [str(name) for name in view.column_names_]
    texts = {
        position: levels.values
        for position, levels in view.levels_.items()
        if all(isinstance(value, str) for value in levels.values)
    }
    return TableReading(units="columns", columns=names, named=view.has_names_, categories=texts)


# In standard deviations of a column, and as a share of the brightest pixel.
OF_COLUMNS = 0.05
OF_PIXELS = 0.02


@singledispatch
def jitter(view: View, X: Any, rng: np.random.Generator) -> Any:
    """Checked inputs with a little noise; None where there is no such thing, as for texts."""
    return None


@jitter.register
def _(view: Columns, X: Any, rng: np.random.Generator) -> Any:
    matrix = view.numbers(X)
    noise = OF_COLUMNS * view.scaling_.scale * rng.standard_normal(matrix.shape)
    return view.cells_.with_numbers(X, matrix + noise)  # there is nothing between two categories


@jitter.register
def _(view: Patches, X: Any, rng: np.random.Generator) -> Any:
    noisy = X + OF_PIXELS * view.scale_ * rng.standard_normal(X.shape, dtype=np.float32)
    if X.dtype.kind not in "iub":
        return noisy.astype(X.dtype)
    limits = np.iinfo(X.dtype) if X.dtype.kind != "b" else np.iinfo(np.uint8)
    return np.clip(np.rint(noisy), limits.min, limits.max).astype(X.dtype)
