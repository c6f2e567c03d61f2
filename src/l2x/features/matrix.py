"""Tables whose features are their columns, as matrices of numbers: for methods that were made for those."""

from __future__ import annotations

from torch import Tensor

from l2x.errors import InputError
from l2x.features.categories import UNSEEN
from l2x.features.columns import Columns
from l2x.features.texts import TextView
from l2x.features.view import View


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
