"""Images: nested lists of numbers, or a PNG file in base64."""

from __future__ import annotations

import base64
import binascii
import io
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from l2x._base.arrays import Array
from l2x.apps.serve.rows._reader import CellError, Reader, kind_of, reader_of
from l2x.display import patch_rectangles
from l2x.errors import require
from l2x.features import Patches

# What a PNG file is turned into, by the number of channels.
MODES = {1: "L", 3: "RGB", 4: "RGBA"}


class ImageReader(Reader):
    """A PNG file's white is the brightest training pixel: 255 for bytes."""

    def __init__(self, view: Patches) -> None:
        self.view = view

    def _row(self, row: Any, unseen: Counter[str]) -> Array:
        if type(row) is str:
            return self._of_png(row)
        shape = self.view.image_shape_
        expected = f"numbers in lists of shape {list(shape)}, or a PNG file of that size in base64"
        if type(row) is not list:
            raise CellError(kind_of(row), expected)
        try:
            image = np.array(row)
        except ValueError:
            raise CellError("lists of different lengths", expected) from None
        if image.dtype.kind not in "if":
            raise CellError("lists that hold more than numbers", expected)
        if image.shape != shape:
            raise CellError(f"lists of shape {list(image.shape)}", expected)
        with np.errstate(over="ignore"):
            image = image.astype(np.float32)
        if not np.isfinite(image).all():
            raise CellError("a number too large", expected)
        return image

    def _of_png(self, text: str) -> Array:
        pillow = require("PIL.Image", extra="serve")
        height, width = self.view.image_shape_[-2:]
        expected = f"a PNG file of {width} x {height} pixels in base64"
        try:
            content = base64.b64decode(text.removeprefix("data:image/png;base64,"), validate=True)
            with pillow.open(io.BytesIO(content), formats=["PNG"]) as image:
                if image.size != (width, height):  # before its pixels are unpacked
                    raise CellError(f"a PNG file of {image.size[0]} x {image.size[1]} pixels", expected)
                pixels = np.asarray(image.convert(MODES.get(self.view.channels, "L")), dtype=np.float32)
        except CellError:
            raise
        except (binascii.Error, ValueError, OSError, SyntaxError, pillow.DecompressionBombError):
            raise CellError(f"a text of {len(text)} characters", expected) from None
        channels = pixels.reshape(height, width, -1).transpose(2, 0, 1)
        if len(channels) != self.view.channels:
            raise CellError("a PNG file", f"lists: a PNG file has no {self.view.channels} channels")
        return (channels * np.float32(self.view.scale_ / 255)).reshape(self.view.image_shape_)

    def inputs(self, cells: Sequence[Any]) -> Array:
        return np.stack(cells)

    def shown(self, inputs: Array, cells: Sequence[Any], row: int, index: int) -> dict[str, Any]:
        (rectangle,) = patch_rectangles(self.view, [index])
        return {"name": self.view.names_[index], "rectangle": rectangle}

    def example(self) -> list[Any]:
        image: list[Any] = np.round(self.view.mean_, 4).tolist()
        return image

    def takes(self) -> dict[str, Any]:
        shape, grid = list(self.view.image_shape_), list(self.view.grid_)
        return {"kind": "image", "shape": shape, "patch": self.view.size, "grid": grid} | {
            "range": [0.0, self.view.scale_]
        }

    def schema(self) -> dict[str, Any]:
        nested: dict[str, Any] = {"type": "number"}
        for length in reversed(self.view.image_shape_):
            nested = {"type": "array", "items": nested, "minItems": length, "maxItems": length}
        return {"anyOf": [nested, {"type": "string", "description": "a PNG file in base64"}]}


@reader_of.register
def _(view: Patches) -> Reader:
    return ImageReader(view)
