"""The form of one row: fields made from what the explainer takes, and the row that they stand for."""

from __future__ import annotations

import base64
import binascii
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from l2x.apps.serve._refusals import ServiceError
from l2x.apps.serve._served import Served
from l2x.display import plain, png
from l2x.features import Patches

# How finely a slider divides the range of a column.
STEPS = 200


class Form(ABC):
    """Fields by name, as browsers send them: `k`, and what the row is made of."""

    kind: str

    def __init__(self, served: Served) -> None:
        self._served, self.takes = served, served.description["takes"]

    def fields(self) -> dict[str, str]:
        """Of an ordinary row."""
        return {"k": str(self._served.explainer.k)} | self._fields(self._served.reader.example())

    def k(self, fields: Mapping[str, str]) -> int:
        given = fields.get("k", "")
        if not given.isascii() or not given.isdigit():
            raise ServiceError(422, "invalid_form", "k must be a whole number.")
        return self._served.k(int(given[:9]))

    @abstractmethod
    def row(self, fields: Mapping[str, str]) -> Any:
        """The row as a client of the API would send it."""

    @abstractmethod
    def _fields(self, row: Any) -> dict[str, str]: ...


class TableForm(Form):
    """Column c is the field c<c>: a number, or the position of a category. Empty: missing."""

    kind = "table"

    def row(self, fields: Mapping[str, str]) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for c, column in enumerate(self.takes["columns"]):
            given = fields.get(f"c{c}", "").strip()
            if not given or f"m{c}" in fields:
                if not column["missing"]:
                    raise ServiceError(422, "invalid_form", f"'{column['name']}' is empty.")
                row[column["name"]] = None
            elif column["type"] == "number":
                row[column["name"]] = _number(given, column["name"])
            else:
                row[column["name"]] = _category(given, column)
        return row

    def _fields(self, row: Any) -> dict[str, str]:
        fields = {}
        for c, column in enumerate(self.takes["columns"]):
            value = row[column["name"]]
            if column["type"] == "category":
                fields[f"c{c}"] = "" if value is None else str(column["categories"].index(value))
            else:
                fields[f"c{c}"] = f"{value:.6g}" if isinstance(value, float) else str(value)
        return fields

    @staticmethod
    def slider(column: Mapping[str, Any]) -> dict[str, float]:
        """min, max and step of a column's slider."""
        low, high = column["range"]
        if column["whole"]:
            return {"min": int(low), "max": int(high), "step": 1}
        # A round step, so that the slider's numbers are short.
        step = 10.0 ** np.floor(np.log10((high - low) / STEPS)) if high > low else 1.0
        return {
            "min": float(f"{np.floor(low / step) * step:.10g}"),
            "max": float(f"{np.ceil(high / step) * step:.10g}"),
            "step": float(f"{step:.3g}"),
        }


class TextForm(Form):
    kind = "text"

    def row(self, fields: Mapping[str, str]) -> str:
        return fields.get("text", "").replace("\r\n", "\n")

    def _fields(self, row: Any) -> dict[str, str]:
        return {"text": row}


class ImageForm(Form):
    """The field `pixels` holds red, green and blue bytes of every pixel, row by row, in base64."""

    kind = "image"

    @property
    def size(self) -> tuple[int, int]:
        height, width = self.takes["shape"][-2:]
        return height, width

    def row(self, fields: Mapping[str, str]) -> str:
        height, width = self.size
        try:
            content = base64.b64decode(fields.get("pixels", ""), validate=True)
            colours = np.frombuffer(content, dtype=np.uint8).reshape(height, width, 3)
        except (binascii.Error, ValueError):
            raise ServiceError(422, "invalid_form", f"Expected {width} x {height} pixels.") from None
        return base64.b64encode(png(colours / 255)).decode()

    def _fields(self, row: Any) -> dict[str, str]:
        view = cast(Patches, self._served.explainer.features_)
        colours = np.rint(plain(view, np.array(row)) * 255).astype(np.uint8)
        return {"pixels": base64.b64encode(colours.tobytes()).decode()}


def form_of(served: Served) -> Form:
    kinds = {form.kind: form for form in (TableForm, TextForm, ImageForm)}
    return kinds[served.description["takes"]["kind"]](served)


def _number(given: str, name: str) -> float:
    try:
        return float(given)
    except ValueError:
        raise ServiceError(422, "invalid_form", f"'{name}' must be a number, not '{given[:24]}'.") from None


def _category(given: str, column: Mapping[str, Any]) -> Any:
    categories = column["categories"]
    if not given.isascii() or not given.isdigit() or len(given) > 9 or int(given) >= len(categories):
        raise ServiceError(422, "invalid_form", f"'{column['name']}' has no such category.")
    return categories[int(given)]
