"""Rows of a table: objects by column name, or lists in the order of the columns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from l2x._base.arrays import Array
from l2x.apps.serve._rows import Problem, RowError, RowFormat, description, row_format
from l2x.errors import ArtifactError, InputError, MissingExtraError, require, some
from l2x.explainer import Explainer
from l2x.explanation import Effects, Scale
from l2x.export import MOST_EFFECTS, onnx_bytes
from l2x.features import Columns, Levels

ABSENT = object()


@dataclass(frozen=True)
class Number:
    """A column of finite numbers; range, mean and `whole` describe the training rows."""

    name: str
    may_miss: bool
    low: float
    high: float
    whole: bool
    mean: float

    def expected(self) -> str:
        """Describe what a cell may be."""
        return "a number"

    def checked(self, value: Any) -> Any:
        """Return a value as a float, or None if it is not a finite number."""
        if type(value) is float:
            return value if math.isfinite(value) else None
        try:
            return float(value) if type(value) is int else None
        except OverflowError:
            return None

    def series(self, cells: Sequence[Any]) -> Array:
        """Return checked cells as a column of a pandas frame."""
        return np.array(cells, dtype=np.float64)

    def typical(self) -> Any:
        """Return the cell of a typical row: the mean."""
        return round(self.mean) if self.whole else self.mean

    def takes(self) -> dict[str, Any]:
        """Return the column's part of the explainer's description."""
        numbers = {"range": [self.low, self.high], "whole": self.whole, "typical": self.mean}
        return {"name": self.name, "type": "number", "missing": self.may_miss, **numbers}

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of a cell."""
        return {"type": ["number", "null"] if self.may_miss else "number"}


@dataclass(frozen=True)
class Category:
    """A column of categories, known ones or others of their type; 1, 1.0 and "1" are the same category."""

    name: str
    may_miss: bool
    levels: Levels

    def checked(self, value: Any) -> Any:
        """Return a value in the type of the training rows, or None if it has another type."""
        if not isinstance(value, str | int | float):
            return None
        text = _text(value)
        if text in self._known:
            return self._known[text]
        if self._type is str:
            return text
        if self._type is float and not isinstance(value, str | bool) and math.isfinite(value):
            return value
        return None

    def seen(self, cell: Any) -> bool:
        """Return whether the category of a checked cell was in the training rows."""
        return cell is None or _text(cell) in self._known

    def text(self, cell: Any) -> str:
        """Return a checked cell as the ONNX graph reads it: empty if missing."""
        return "" if cell is None else _text(cell) or "\N{SYMBOL FOR NULL}"  # no category is an empty text

    def expected(self) -> str:
        """Describe what a cell may be."""
        what = {str: "a text", float: "a number", bool: "true or false"}[self._type]
        return f"{what} such as {some([repr(value) for value in self.levels.values[:5]])}"

    @cached_property
    def _known(self) -> dict[str, Any]:
        return {_text(value): value for value in self.levels.values}

    @cached_property
    def _type(self) -> type:
        values = self.levels.values
        if values and all(isinstance(value, bool) for value in values):
            return bool
        numbers = bool(values) and all(isinstance(value, int | float) for value in values)
        return float if numbers else str

    def series(self, cells: Sequence[Any]) -> Any:
        """Return checked cells as a column of a pandas frame, in the type of the training rows."""
        if self._type is float:
            return np.array(cells, dtype=np.float64)
        dtype = object if None in cells or self._type is bool else "str"
        return pd.Series(list(cells), dtype=dtype).infer_objects()

    def typical(self) -> Any:
        """Return the cell of a typical row: the most frequent category."""
        return self.levels.values[0] if self.levels.values else None

    def takes(self) -> dict[str, Any]:
        """Return the column's part of the explainer's description."""
        categories = list(self.levels.values)
        return {"name": self.name, "type": "category", "missing": self.may_miss, "categories": categories}

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of a cell."""
        kinds = {str: ["string", "number", "boolean"], float: ["number"], bool: ["boolean"]}[self._type]
        return {"type": [*kinds, *["null"] * self.may_miss], "examples": list(self.levels.values[:5])}


Column = Number | Category


def checked_cell(column: Column, value: Any) -> Any:
    """Return the value of a cell in the type of its column; raise a RowError if it is invalid."""
    if value is None and column.may_miss:
        return None
    cell = None if value is ABSENT else column.checked(value)
    if cell is None:
        given = "nothing" if value is ABSENT else description(value)
        expected = column.expected() + (" or null" if column.may_miss else "")
        raise RowError(Problem(given, expected, column.name))
    return cell


def _text(value: str | float) -> str:
    """Return the text by which categories are compared, as in `Levels`."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, int) or value.is_integer() else repr(value)


class TableRows(RowFormat[Columns]):
    """Rows of a table: objects by column name, in which unknown keys are ignored, or lists of cells."""

    def __init__(self, view: Columns) -> None:
        super().__init__(view)
        self.names = [str(name) for name in view.column_names_]
        low, high = training_range(view)
        whole = (view.background_ == np.rint(view.background_)) | np.isnan(view.background_)
        self.columns: list[Column] = []
        for c, name in enumerate(self.names):
            may_miss = c in view.cells_.gaps
            if c in view.levels_:
                self.columns.append(Category(name, may_miss, view.levels_[c]))
            else:
                numbers = (float(low[c]), float(high[c]), bool(whole[:, c].all()))
                self.columns.append(Number(name, may_miss, *numbers, float(view.scaling_.mean[c])))
        columns = list(enumerate(self.columns))
        self._numeric = [c for c, column in columns if isinstance(column, Number)]
        self._categories = [(c, column) for c, column in columns if isinstance(column, Category)]

    @property
    def values(self) -> int:
        """Return the number of columns; see `RowFormat.values`."""
        return len(self.columns)

    def _row(self, row: Any, unseen: Counter[str]) -> list[Any]:
        values = self._in_order(row)
        cells: list[Any] = []
        problems: list[Problem] = []
        for column, value in zip(self.columns, values, strict=True):
            try:
                cells.append(checked_cell(column, value))
            except RowError as error:
                problems += error.problems
        if problems:
            raise RowError(*problems)
        for c, category in self._categories:
            if not category.seen(cells[c]):
                unseen[category.name] += 1
        return cells

    def _in_order(self, row: Any) -> list[Any]:
        """Return the cells of a row in the order of the columns."""
        if type(row) is dict:
            return [row.get(name, ABSENT) for name in self.names]
        if type(row) is list and len(row) == len(self.names):
            return row
        columns = some([f"'{name}'" for name in self.names])
        expected = f"an object with {columns}, or a list of {len(self.names)} cells"
        raise RowError(Problem(description(row), expected))

    def inputs(self, cells: Sequence[Any]) -> Any:
        """Return a pandas frame, or an array if the view was fitted on one; see `RowFormat.inputs`."""
        if not self.view.has_names_:
            return np.array(cells, dtype=np.float64)  # None becomes NaN
        if not self._categories:
            frame = pd.DataFrame(np.array(cells, dtype=np.float64))
        else:
            by_column = zip(self.columns, zip(*cells, strict=True), strict=True)
            frame = pd.DataFrame({c: column.series(part) for c, (column, part) in enumerate(by_column)})
        return frame.set_axis(list(self.view.column_names_), axis=1)

    def feed(self, cells: Sequence[Any]) -> dict[str, Array]:
        """Return checked rows as the inputs of the ONNX graph: `numbers`, and `categories` as texts."""
        if not self._categories:
            return {"numbers": np.array(cells, dtype=np.float64)}
        texts = [[column.text(row[c]) for c, column in self._categories] for row in cells]
        feed = {"categories": np.array(texts, dtype=object)}
        if self._numeric:
            feed["numbers"] = np.array([[row[c] for c in self._numeric] for row in cells], dtype=np.float64)
        return feed

    def feature(self, inputs: Any, cells: Sequence[Any], row: int, index: int) -> dict[str, Any]:
        """Return a column or a group of columns with its value; see `RowFormat.feature`."""
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
        """Return means and most frequent categories; see `RowFormat.example`."""
        return {column.name: column.typical() for column in self.columns}

    def takes(self) -> dict[str, Any]:
        """Return all columns; see `RowFormat.takes`."""
        return {"kind": "table", "columns": [column.takes() for column in self.columns]}

    def schema(self) -> dict[str, Any]:
        """Return the schema of an object or a list; see `RowFormat.schema`."""
        cells = {column.name: column.schema() for column in self.columns}
        by_name = {"type": "object", "properties": cells, "required": self.names}
        length = {"minItems": len(self.names), "maxItems": len(self.names)}
        return {"anyOf": [by_name, {"type": "array", "items": {}, **length}]}


row_format.register(Columns, TableRows)


class TableGraph:
    """Score rows of a table by the explainer's ONNX graph, and compute their effects if the graph has them.

    The graph takes about a quarter of the time that `explain` takes for a row of numbers, and a thirtieth if
    there are categories. It selects the same features; scores agree to float32 rounding.
    """

    def __init__(self, content: bytes, rows: TableRows, scale: Scale) -> None:
        onnxruntime: Any = require("onnxruntime", extra="onnx")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self._rows, self._scale = rows, scale
        names = [output.name for output in self._session.get_outputs()]
        self.effects = "effects" in names
        self._names = [name for name in names if name != "mask"]
        # Without it, a graph computes effects that nobody asked for.
        self._needed = onnxruntime.RunOptions()
        self._needed.only_execute_path_to_fetches = True

    def __call__(
        self,
        cells: Sequence[Any],
        k: int,
        outputs: Sequence[int | None] | None = None,
    ) -> tuple[Array, Array, Effects | None]:
        """Return the indices (n, k) of the best features of checked rows, the scores (n, d), and effects.

        Effects are for the explainer's own k. `outputs` are the classes that they refer to; without it there
        are none. They add up to the surrogate's prediction.
        """
        feed = self._rows.feed(cells) | {"k": np.array([k])}
        if outputs is None:
            indices, scores = self._session.run(["indices", "scores"], feed, self._needed)
            return indices, scores, None
        found = dict(zip(self._names, self._session.run(self._names, feed), strict=True))
        chosen = chosen_outputs(outputs, found["prediction"], regression=self._scale == "value")
        effects = np.take_along_axis(found["effects"], chosen[:, None, None], axis=2)[..., 0]
        base, alone, without, prediction = (
            np.take_along_axis(part, chosen[:, None], axis=1)[:, 0]
            for part in (found["base"], found["alone"], found["without"], found["prediction"])
        )
        rest = prediction - base - effects.sum(axis=1)
        every = Effects(base, effects, rest, prediction, alone, without, None, chosen, self._scale)
        return found["indices"], found["scores"], every


def chosen_outputs(outputs: Sequence[int | None], predictions: Array, *, regression: bool) -> Array:
    """Return what the effects of each row refer to; None is the predicted class, or the first value."""
    default = np.zeros(len(predictions), dtype=np.int64) if regression else predictions.argmax(axis=1)
    return np.array([default[i] if output is None else output for i, output in enumerate(outputs)])


def table_graph(explainer: Explainer, rows: RowFormat[Any], *, effects: bool = True) -> TableGraph | None:
    """Return the graph of an explainer, or None if it must be explained by torch.

    That is the case for other views than tables, for prediction-aware explainers, without the packages of the
    extra `onnx`, and for tables that ONNX cannot express. With `effects`, it has effects if k is small.
    """
    if not isinstance(rows, TableRows) or explainer.uses_prediction:
        return None
    effects = effects and explainer.k <= MOST_EFFECTS and bool(explainer.surrogate_.surrogate.networks)
    scale: Scale = "value" if explainer.classes_ is None else "probability"
    try:
        return TableGraph(onnx_bytes(explainer, effects=effects), rows, scale)
    except (MissingExtraError, InputError, ArtifactError):
        return None


def training_range(view: Columns) -> tuple[Array, Array]:
    """Return the lowest and the highest number of each column, (columns,), as far as the file holds them.

    Quantiles are stored in the networks' units, clipped at a few standard deviations. Without quantiles, the
    range is that of the rows stored for resampling.
    """
    rows = np.ma.masked_invalid(view.background_)
    low, high = rows.min(axis=0).filled(0.0), rows.max(axis=0).filled(0.0)
    numeric = [c for c in range(len(view.column_names_)) if c not in view.levels_]
    if len(view.edges_) > 1 and numeric:
        centre, scale = (view.scaling_.centre, view.scaling_.scale) if view.standardize else (0.0, 1.0)
        ends = np.zeros((2, len(low)))
        ends[:, numeric] = view.edges_[[0, -1]]
        ends = ends * scale + centre
        low[numeric] = np.minimum(low, ends[0])[numeric]
        high[numeric] = np.maximum(high, ends[1])[numeric]
    return low, high
