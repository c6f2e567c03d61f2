"""Rows of a JSON request: checked, and turned into the inputs of explainer and model."""

from __future__ import annotations

import base64
import binascii
import io
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, singledispatch
from typing import Any, Generic, TypeVar

import numpy as np

from l2x._base.arrays import Array
from l2x.apps.serve._requests import MAX_DETAILS, ServiceError, invalid_rows
from l2x.display import patch_rectangles
from l2x.errors import InputError, require
from l2x.features import Passages, Patches, Texts, TextView, View

AnyView = TypeVar("AnyView", bound=View)

EXAMPLE_WORDS = 8
# Maximum number of characters in a request: these take a few seconds, in which no other text is explained.
MAX_CHARACTERS = 2_000_000
# How Pillow opens a PNG file, by number of channels.
MODES = {1: "L", 3: "RGB", 4: "RGBA"}


@dataclass(frozen=True)
class Problem:
    """What is wrong with a row, or with one of its cells if `column` is given."""

    given: str
    expected: str
    column: str | None = None


class RowError(Exception):
    """A row that cannot be used, with all its problems."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__()
        self.problems = problems


@dataclass(frozen=True)
class ParsedRows:
    """Checked rows of one request."""

    cells: list[Any]  # per row, its cells in the order of the columns, a text, or an array
    unseen: Counter[str] = field(default_factory=Counter)  # rows with a category that is new, by column

    def __len__(self) -> int:
        return len(self.cells)


class RowFormat(ABC, Generic[AnyView]):
    """How the rows of one fitted view look in JSON."""

    def __init__(self, view: AnyView) -> None:
        self.view = view

    def parse(self, rows: Sequence[Any]) -> ParsedRows:
        """Return the checked rows; raise an error that lists each invalid row and column."""
        parsed = ParsedRows([])
        details: list[dict[str, Any]] = []
        for number, row in enumerate(rows):
            try:
                parsed.cells.append(self._row(row, parsed.unseen))
            except RowError as error:
                details += [{"row": number, **vars(problem)} for problem in error.problems]
                if len(details) >= MAX_DETAILS:
                    break
        if details:
            raise invalid_rows(details)
        return parsed

    @property
    @abstractmethod
    def values(self) -> int:
        """Return how many values of JSON a row has."""

    @abstractmethod
    def _row(self, row: Any, unseen: Counter[str]) -> Any:
        """Return the checked cells of one row and count unseen categories; raise a RowError."""

    @abstractmethod
    def inputs(self, cells: Sequence[Any]) -> Any:
        """Return checked rows, of one request or of several, as `explain` and the model accept them."""

    @abstractmethod
    def feature(self, inputs: Any, cells: Sequence[Any], row: int, index: int) -> dict[str, Any]:
        """Return the name of a selected feature, and its value or its position in the input."""

    @abstractmethod
    def example(self) -> Any:
        """Return a typical row as a client would send it."""

    @abstractmethod
    def takes(self) -> dict[str, Any]:
        """Return what rows consist of, for the explainer's description and the form of the playground."""

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of one row."""


@singledispatch
def row_format(view: View) -> RowFormat[Any]:
    """Return the format of a view's rows: by default nested lists of numbers that `view.check` accepts."""
    return ArrayRows(view)


class ArrayRows(RowFormat[AnyView]):
    """Rows of any view: nested lists of numbers, all of one shape."""

    @cached_property
    def _sample(self) -> Array:
        rows = np.asarray(self.view.check(self.view.sample(1, np.random.default_rng(0))), dtype=np.float64)
        row: Array = rows[0]
        return row

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of a row."""
        return tuple(self._sample.shape)

    @property
    def values(self) -> int:
        """Return the number of cells; see `RowFormat.values`."""
        return int(np.prod(self.shape))

    def _expected(self) -> str:
        return f"numbers in lists of shape {list(self.shape)}"

    def _row(self, row: Any, unseen: Counter[str]) -> Array:
        array = self._numbers(row)
        try:
            self.view.check(array[None])
        except InputError as error:
            raise RowError(Problem(description(row), f"a row that the view accepts: {error}")) from None
        return array

    def _numbers(self, row: Any) -> Array:
        """Return nested lists as an array of the right shape."""
        if type(row) is not list:
            raise RowError(Problem(description(row), self._expected()))
        try:
            array = np.array(row)
        except ValueError:
            raise RowError(Problem("lists of different lengths", self._expected())) from None
        if array.dtype.kind not in "if":
            raise RowError(Problem("lists with cells that are not numbers", self._expected()))
        if array.shape != self.shape:
            raise RowError(Problem(f"lists of shape {list(array.shape)}", self._expected()))
        if not np.isfinite(array).all():
            raise RowError(Problem("a number that is too large", self._expected()))
        return array

    def inputs(self, cells: Sequence[Any]) -> Array:
        """Return the rows as one array; see `RowFormat.inputs`."""
        return np.stack(cells)

    def feature(self, inputs: Any, cells: Sequence[Any], row: int, index: int) -> dict[str, Any]:
        """Return the name of a feature; see `RowFormat.feature`."""
        names = self.view.names_in(inputs[row : row + 1], np.array([[index]]))
        return {"name": str(self.view.names_[index] if names is None else names[0][0])}

    def example(self) -> Any:
        """Return a made-up row; see `RowFormat.example`."""
        return np.round(self._sample, 4).tolist()

    def takes(self) -> dict[str, Any]:
        """Return the shape of rows; see `RowFormat.takes`."""
        return {"kind": "array", "shape": list(self.shape)}

    def schema(self) -> dict[str, Any]:
        """Return the schema of nested lists; see `RowFormat.schema`."""
        nested: dict[str, Any] = {"type": "number"}
        for length in reversed(self.shape):
            nested = {"type": "array", "items": nested, "minItems": length, "maxItems": length}
        return nested


class ImageRows(ArrayRows[Patches]):
    """Images: nested lists of numbers, or a PNG file in base64; white is the brightest training pixel."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of an image."""
        return self.view.image_shape_

    def _expected(self) -> str:
        return f"{super()._expected()}, or a PNG file of that size in base64"

    def _row(self, row: Any, unseen: Counter[str]) -> Array:
        if type(row) is str:
            return self._from_png(row)
        with np.errstate(over="ignore"):
            image = self._numbers(row).astype(np.float32)
        if not np.isfinite(image).all():
            raise RowError(Problem("a number that is too large", self._expected()))
        return image

    def _from_png(self, text: str) -> Array:
        pillow = require("PIL.Image", extra="serve")
        height, width = self.view.sides
        expected = f"a PNG file of {width} x {height} pixels in base64"
        try:
            content = base64.b64decode(text.removeprefix("data:image/png;base64,"), validate=True)
            with pillow.open(io.BytesIO(content), formats=["PNG"]) as image:
                if image.size != (width, height):  # checked before the pixels are unpacked
                    given = f"a PNG file of {image.size[0]} x {image.size[1]} pixels"
                    raise RowError(Problem(given, expected))
                pixels = np.asarray(image.convert(MODES.get(self.view.channels, "L")), dtype=np.float32)
        except (binascii.Error, ValueError, OSError, SyntaxError, pillow.DecompressionBombError):
            raise RowError(Problem(f"a text of {len(text)} characters", expected)) from None
        pixels = pixels.reshape(height, width, -1)
        if pixels.shape[2] != self.view.channels:
            raise RowError(
                Problem("a PNG file", f"lists: a PNG file cannot have {self.view.channels} channels")
            )
        if pixels.shape != self.shape:  # channels come first, or there is only one
            pixels = pixels.transpose(2, 0, 1)
        return (pixels * np.float32(self.view.scale_ / 255)).reshape(self.shape)

    def feature(self, inputs: Any, cells: Sequence[Any], row: int, index: int) -> dict[str, Any]:
        """Return the name and rectangle of a patch; see `RowFormat.feature`."""
        (rectangle,) = patch_rectangles(self.view, [index])
        return {"name": self.view.names_[index], "rectangle": rectangle}

    def example(self) -> Any:
        """Return the mean image; see `RowFormat.example`."""
        return np.round(self.view.mean_, 4).tolist()

    def takes(self) -> dict[str, Any]:
        """Return shape, patches and range of images; see `RowFormat.takes`."""
        patches = {"patch": self.view.size, "grid": list(self.view.grid_)}
        return {"kind": "image", "shape": list(self.shape), **patches, "range": [0.0, self.view.scale_]}

    def schema(self) -> dict[str, Any]:
        """Return the schema of lists or a PNG file; see `RowFormat.schema`."""
        return {"anyOf": [super().schema(), {"type": "string", "description": "a PNG file in base64"}]}


class TextRows(RowFormat[TextView]):
    """Texts: each row is a string."""

    def parse(self, rows: Sequence[Any]) -> ParsedRows:
        """Return the texts, if they are not too long in total; see `RowFormat.parse`."""
        parsed = super().parse(rows)
        characters = sum(map(len, parsed.cells))
        if characters > MAX_CHARACTERS:
            raise ServiceError(
                413,
                "too_large",
                f"{characters:,} characters of text, but a request may have at most {MAX_CHARACTERS:,}.",
            )
        return parsed

    @property
    def values(self) -> int:
        """Return 1, for the text; see `RowFormat.values`."""
        return 1

    def _row(self, row: Any, unseen: Counter[str]) -> str:
        if type(row) is not str:
            raise RowError(Problem(description(row), "a text"))
        return row

    def inputs(self, cells: Sequence[Any]) -> Texts:
        """Return the tokenized texts; see `RowFormat.inputs`."""
        return self.view.check(list(cells))

    def feature(self, inputs: Any, cells: Sequence[Any], row: int, index: int) -> dict[str, Any]:
        """Return a piece of the text and its span of characters; see `RowFormat.feature`."""
        start, end = inputs.tokens.spans[row, index].tolist()
        return {"name": cells[row][start:end], "span": [start, end]}

    def example(self) -> Any:
        """Return frequent words; see `RowFormat.example`."""
        return " ".join(self.view.known_words[:EXAMPLE_WORDS])

    def takes(self) -> dict[str, Any]:
        """Return length and vocabulary; see `RowFormat.takes`."""
        return {"kind": "text", "length": self.view.length, "vocabulary": len(self.view.vocabulary_)}

    def schema(self) -> dict[str, Any]:
        """Return the schema of a string; see `RowFormat.schema`."""
        return {"type": "string"}


class PassageRows(TextRows):
    """Lists of texts: each row is a list of strings."""

    def _row(self, row: Any, unseen: Counter[str]) -> str:
        if type(row) is not list or not all(type(text) is str for text in row):
            raise RowError(Problem(description(row), "a list of texts"))
        (joined,) = self.view.check([row]).texts
        return joined

    def feature(self, inputs: Any, cells: Sequence[Any], row: int, index: int) -> dict[str, Any]:
        """Return a passage; its index is its position in the list; see `RowFormat.feature`."""
        return {"name": cells[row].parts[index]}

    def example(self) -> Any:
        """Return lists of frequent words; see `RowFormat.example`."""
        words = self.view.known_words
        return [" ".join(words[i : i + 3]) for i in range(0, min(len(words), EXAMPLE_WORDS), 3)]

    def takes(self) -> dict[str, Any]:
        """Return also the number of words per passage; see `RowFormat.takes`."""
        return super().takes() | {"kind": "passages", "words": self.view.words}

    def schema(self) -> dict[str, Any]:
        """Return the schema of a list of strings; see `RowFormat.schema`."""
        return {"type": "array", "items": super().schema()}


row_format.register(Patches, ImageRows)
row_format.register(TextView, TextRows)
row_format.register(Passages, PassageRows)


def description(value: Any) -> str:
    """Describe a JSON value in a few words, without quoting long values."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"the number {value:.6g}" if abs(value) < 1e300 else "a number that is too large"
    if isinstance(value, str):
        return f"the text '{value[:24]}{'…' if len(value) > 24 else ''}'"
    return f"a list of {len(value)}" if isinstance(value, list) else "an object"
