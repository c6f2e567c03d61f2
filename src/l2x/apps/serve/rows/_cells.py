"""Cells of one column: numbers, or categories in the type that the training rows had."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from l2x._base.arrays import Array
from l2x.apps.serve.rows._reader import CellError, kind_of
from l2x.errors import some
from l2x.features import UNSEEN, Levels


@dataclass(frozen=True)
class Column(ABC):
    """What one column takes; `gap` says whether a cell may be null."""

    name: str
    gap: bool

    def cell(self, value: Any) -> Any:
        """The value as the explainer takes it; raises CellError."""
        if value is None and self.gap:
            return None
        checked = self._checked(value)
        if checked is None:
            raise self._wrong(kind_of(value))
        return checked

    def absent(self) -> CellError:
        """A row does not have this column."""
        return self._wrong("nothing")

    def _wrong(self, given: str) -> CellError:
        return CellError(given, self._expected() + (" or null" if self.gap else ""), self.name)

    @abstractmethod
    def _expected(self) -> str:
        """What a cell may be, in words."""

    @abstractmethod
    def _checked(self, value: Any) -> Any:
        """The value in its own type, or None."""

    @abstractmethod
    def number(self, cell: Any) -> float | None:
        """What stands for a checked cell in `Cells.numbers`; None for a gap."""

    @abstractmethod
    def arrow(self, cells: Sequence[Any]) -> pa.Array: ...

    @abstractmethod
    def for_model(self, cells: Sequence[Any]) -> Any:
        """A column of a pandas frame."""

    @abstractmethod
    def takes(self) -> dict[str, Any]: ...

    @abstractmethod
    def schema(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Number(Column):
    """Finite numbers; low and high are those of the training rows, not limits."""

    low: float
    high: float
    whole: bool
    typical: float

    def _expected(self) -> str:
        return "a number"

    def _checked(self, value: Any) -> Any:
        if type(value) is float:
            return value if math.isfinite(value) else None
        try:
            return float(value) if type(value) is int else None
        except OverflowError:
            return None

    def number(self, cell: Any) -> float | None:
        value: float | None = cell
        return value

    def arrow(self, cells: Sequence[Any]) -> pa.Array:
        return pa.array(cells, pa.float64())

    def for_model(self, cells: Sequence[Any]) -> Array:
        return np.array(cells, dtype=np.float64)

    def takes(self) -> dict[str, Any]:
        limits = {"range": [self.low, self.high], "whole": self.whole, "typical": self.typical}
        return {"name": self.name, "type": "number", "missing": self.gap} | limits

    def schema(self) -> dict[str, Any]:
        return {"type": ["number", "null"] if self.gap else "number"}


@dataclass(frozen=True)
class Category(Column):
    """One of the training rows' categories, or another of their type; 1, 1.0 and "1" are one category."""

    levels: Levels

    def _checked(self, value: Any) -> Any:
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
        """Whether the training rows had this category."""
        return cell is None or _text(cell) in self._known

    def _expected(self) -> str:
        what = {str: "a text", float: "a number", bool: "true or false"}[self._type]
        return f"{what} such as {some([repr(value) for value in self.levels.values[:5]])}"

    def number(self, cell: Any) -> float | None:
        return None if cell is None else self._codes.get(_text(cell), UNSEEN)

    @cached_property
    def _codes(self) -> dict[str, float]:
        return {_text(value): float(code) for code, value in enumerate(self.levels.values)}

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

    def arrow(self, cells: Sequence[Any]) -> pa.Array:
        kind = {str: pa.string(), float: pa.float64(), bool: pa.bool_()}[self._type]
        return pa.array(cells, kind)

    def for_model(self, cells: Sequence[Any]) -> Any:
        if self._type is float:
            return np.array(cells, dtype=np.float64)
        return pd.Series(
            list(cells), dtype=object if None in cells or self._type is bool else "str"
        ).infer_objects()

    def takes(self) -> dict[str, Any]:
        categories = {"categories": list(self.levels.values)}
        return {"name": self.name, "type": "category", "missing": self.gap} | categories

    def schema(self) -> dict[str, Any]:
        kinds = {str: ["string", "number", "boolean"], float: ["number"], bool: ["boolean"]}[self._type]
        return {"type": [*kinds, *["null"] * self.gap], "examples": list(self.levels.values[:5])}


def _text(value: str | float) -> str:
    """What categories are compared by, as in `Levels`."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, int) or value.is_integer() else repr(value)
