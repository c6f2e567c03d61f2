"""How a view reads a table on disk: which columns, which of them as text, and what it selects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch

from l2x.errors import InputError
from l2x.features.columns import Columns
from l2x.features.texts import TextView
from l2x.features.view import View


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
