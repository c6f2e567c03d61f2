"""The contract between rows of a request and a fitted view."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

from l2x.apps.serve._refusals import MOST_DETAILS, bad_rows
from l2x.errors import InputError
from l2x.features import View


class CellError(Exception):
    """A row, or a cell, that cannot be used; `expected` says what can."""

    def __init__(self, given: str, expected: str, column: str | None = None) -> None:
        super().__init__()
        self.given, self.expected, self.column = given, expected, column

    def at(self, row: int) -> dict[str, Any]:
        return {"row": row, "column": self.column, "given": self.given, "expected": self.expected}


@dataclass(frozen=True)
class Parsed:
    """Checked rows of one request.

    cells : per row its cells in the order of the columns; a text; or an image
    unseen : {column: rows with a category that the training rows did not have}
    """

    cells: list[Any]
    unseen: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.cells)


class Reader(ABC):
    """How one fitted view reads rows of requests."""

    def parse(self, rows: Sequence[Any]) -> Parsed:
        """The rows, or a problem that says which row and column, and what was expected."""
        unseen: Counter[str] = Counter()
        try:
            return Parsed([self._row(row, unseen) for row in rows], unseen)
        except CellError:
            pass
        details: list[dict[str, Any]] = []
        for number, row in enumerate(rows):
            details += [wrong.at(number) for wrong in self._wrongs(row)]
            if len(details) >= MOST_DETAILS:
                break
        raise bad_rows(details)

    @abstractmethod
    def _row(self, row: Any, unseen: Counter[str]) -> Any:
        """The checked cells of one row; raises CellError."""

    def _wrongs(self, row: Any) -> list[CellError]:
        """Everything that is wrong with a row."""
        try:
            self._row(row, Counter())
        except CellError as wrong:
            return [wrong]
        return []

    @abstractmethod
    def inputs(self, cells: Sequence[Any]) -> Any:
        """Checked rows, of one request or of many, as `explain` takes them."""

    def for_model(self, cells: Sequence[Any]) -> Any:
        """The same in the form that models know, as the view's `for_model` takes them."""
        return self.inputs(cells)

    @abstractmethod
    def shown(self, inputs: Any, cells: Sequence[Any], row: int, index: int) -> dict[str, Any]:
        """What an answer says of a selected feature besides index and score: its name, and where it is."""

    @abstractmethod
    def example(self) -> Any:
        """A row that is as ordinary as can be, as a client would send it."""

    @abstractmethod
    def takes(self) -> dict[str, Any]:
        """What rows are made of, for the explainer's description and the playground's form."""

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """JSON Schema of one row."""


@singledispatch
def reader_of(view: View) -> Reader:
    """A new kind of view that can be served: `reader_of.register`."""
    raise InputError(f"{type(view).__name__} cannot be served: nothing says how its rows look in JSON.")


def kind_of(value: Any) -> str:
    """What a client sent, in a few words, never the whole of it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"the number {value:.6g}" if abs(value) < 1e300 else "a number too large"
    if isinstance(value, str):
        return f"the text '{value[:24]}{'…' if len(value) > 24 else ''}'"
    return f"a list of {len(value)}" if isinstance(value, list) else "an object"
