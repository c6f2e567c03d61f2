"""Texts: each row is a string."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from l2x.apps.serve._refusals import ServiceError
from l2x.apps.serve.rows._reader import CellError, Parsed, Reader, kind_of, reader_of
from l2x.features import Texts, TextView

EXAMPLE_WORDS = 8
# Characters of one request: these take some seconds, in which nobody else's texts are explained.
MOST_CHARACTERS = 2_000_000


class TextReader(Reader):
    def __init__(self, view: TextView) -> None:
        self.view = view

    def parse(self, rows: Sequence[Any]) -> Parsed:
        parsed = super().parse(rows)
        characters = sum(map(len, parsed.cells))
        if characters > MOST_CHARACTERS:
            raise ServiceError(
                413,
                "too_large",
                f"{characters:,} characters of text; a request has at most {MOST_CHARACTERS:,}.",
            )
        return parsed

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
