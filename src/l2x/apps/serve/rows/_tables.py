"""Rows of a table: objects by column name, or lists in the order of the columns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from l2x._base.arrays import Array
from l2x.apps.serve.rows._cells import Category, Column, Number
from l2x.apps.serve.rows._reader import CellError, Reader, kind_of, reader_of
from l2x.errors import some
from l2x.features import Columns


class TableReader(Reader):
    def __init__(self, view: Columns) -> None:
        self.view = view
        self.names = [str(name) for name in view.column_names_]
        gaps = set(view.cells_.gaps)
        low, high = training_range(view)
        whole = (view.background_ == np.rint(view.background_)) | np.isnan(view.background_)
        self.columns: list[Column] = []
        for c, name in enumerate(self.names):
            if c in view.levels_:
                self.columns.append(Category(name, c in gaps, view.levels_[c]))
            else:
                about = (float(low[c]), float(high[c]), bool(whole[:, c].all()), float(view.scaling_.mean[c]))
                self.columns.append(Number(name, c in gaps, *about))
        self._categories = [
            (c, column) for c, column in enumerate(self.columns) if isinstance(column, Category)
        ]
        self._plain = not self._categories and not gaps

    def _row(self, row: Any, unseen: Counter[str]) -> list[Any]:
        given = self._in_order(row)
        if self._plain and set(map(type, given)) == {float} and math.isfinite(sum(given)):
            return given  # the usual case, without a call for every cell
        cells = [column.cell(value) for column, value in zip(self.columns, given, strict=True)]
        for c, column in self._categories:
            if not column.seen(cells[c]):
                unseen[column.name] += 1
        return cells

    def _in_order(self, row: Any) -> list[Any]:
        if type(row) is dict:
            try:
                return [row[name] for name in self.names]
            except KeyError as missing:
                raise self.columns[self.names.index(missing.args[0])].absent() from None
        if type(row) is list and len(row) == len(self.names):
            return row
        columns = some([f"'{name}'" for name in self.names])
        raise CellError(kind_of(row), f"an object with {columns}, or a list of {len(self.names)} cells")

    def _wrongs(self, row: Any) -> list[CellError]:
        if type(row) is not dict and (type(row) is not list or len(row) != len(self.names)):
            return super()._wrongs(row)
        found = []
        for c, column in enumerate(self.columns):
            try:
                if type(row) is dict and column.name not in row:
                    raise column.absent()
                column.cell(row[column.name] if type(row) is dict else row[c])
            except CellError as wrong:
                found.append(wrong)
        return found

    def inputs(self, cells: Sequence[Any]) -> Any:
        if not self._categories or not self.view.has_names_:
            return np.array(cells, dtype=np.float64)  # None becomes NaN
        by_column = zip(self.columns, zip(*cells, strict=True), strict=True)
        return pa.Table.from_arrays([column.arrow(cell) for column, cell in by_column], names=self.names)

    def numbers(self, cells: Sequence[Any]) -> Array:
        """What the view's `numbers` makes of `inputs`, in a fraction of the time for a few rows."""
        if self._categories:
            numbers = [column.number for column in self.columns]
            cells = [[number(cell) for number, cell in zip(numbers, row, strict=True)] for row in cells]
        return np.array(cells, dtype=np.float64)  # None becomes NaN

    def for_model(self, cells: Sequence[Any]) -> Any:
        if not self.view.has_names_:
            return self.inputs(cells)
        if not self._categories:
            return pd.DataFrame(np.array(cells, dtype=np.float64), columns=list(self.view.column_names_))
        by_column = zip(self.columns, zip(*cells, strict=True), strict=True)
        frame = pd.DataFrame({c: column.for_model(cell) for c, (column, cell) in enumerate(by_column)})
        return frame.set_axis(list(self.view.column_names_), axis=1)

    def shown(self, inputs: Any, cells: Sequence[Any], row: int, index: int) -> dict[str, Any]:
        name = str(self.view.names_[index])
        if self.view.group_ is None:
            return {"name": name, "value": cells[row][index]}
        return {"name": name, "value": {self.names[c]: cells[row][c] for c in self._members[index]}}

    @cached_property
    def _members(self) -> list[list[int]]:
        """The columns of each feature."""
        group = self.view.group_
        assert group is not None
        return [np.flatnonzero(group == feature).tolist() for feature in range(self.view.d)]

    def example(self) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for column in self.columns:
            if isinstance(column, Number):
                row[column.name] = round(column.typical) if column.whole else column.typical
            elif isinstance(column, Category):
                row[column.name] = column.levels.values[0] if column.levels.values else None
        return row

    def takes(self) -> dict[str, Any]:
        return {"kind": "table", "columns": [column.takes() for column in self.columns]}

    def schema(self) -> dict[str, Any]:
        cells = {column.name: column.schema() for column in self.columns}
        by_name = {"type": "object", "properties": cells, "required": self.names}
        length = {"minItems": len(self.names), "maxItems": len(self.names)}
        return {"anyOf": [by_name, {"type": "array", "items": {}, **length}]}


def training_range(view: Columns) -> tuple[Array, Array]:
    """The lowest and highest number of each column in training, (d,), as far as the file remembers them.

    Quantiles are kept in the networks' units, cut off at some deviations; without them there are only the
    rows kept for resampling.
    """
    held = np.ma.masked_invalid(view.background_)
    low, high = held.min(axis=0).filled(0.0), held.max(axis=0).filled(0.0)
    numeric = [c for c in range(len(view.column_names_)) if c not in view.levels_]
    if len(view.edges_) > 1 and numeric:
        centre, scale = (view.scaling_.centre, view.scaling_.scale) if view.standardize else (0.0, 1.0)
        ends = np.zeros((2, len(low)))
        ends[:, numeric] = view.edges_[[0, -1]]
        ends = ends * scale + centre
        low[numeric] = np.minimum(low, ends[0])[numeric]
        high[numeric] = np.maximum(high, ends[1])[numeric]
    return low, high


@reader_of.register
def _(view: Columns) -> Reader:
    return TableReader(view)
