"""Texts: each row is a string."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from l2x.features.texts import Texts, TextView
from l2x.serve.rows.reader import CellError, Reader, kind_of, reader_of

EXAMPLE_WORDS = 8


class TextReader(Reader):
    def __init__(self, view: TextView) -> None:
        self.view = view

    def _row(self, row: Any, unseen: Counter[str]) -> str:
        if type(row) is not str:
            raise CellError(kind_of(row), "a text")
        return row

    def inputs(self, cells: Sequence[Any]) -> Texts:
        return self.view.check(list(cells))

    def shown(self, inputs: Texts, cells: Sequence[Any], row: int, index: int) -> dict[str, Any]:
        start, end = inputs.tokens.spans[row, index].tolist()
        return {"name": cells[row][start:end], "span": [start, end]}

    def example(self) -> str:
        return " ".join(self.view.vocabulary_[2 : 2 + EXAMPLE_WORDS])

    def takes(self) -> dict[str, Any]:
        known = {"length": self.view.length, "vocabulary": len(self.view.vocabulary_)}
        return {"kind": "text", "unit": self.view.unit} | known

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}


@reader_of.register
def _(view: TextView) -> Reader:
    return TextReader(view)
