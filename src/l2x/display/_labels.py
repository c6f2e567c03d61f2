"""Names, values and shares as short texts on one line."""

from __future__ import annotations

from typing import Any

import numpy as np

from l2x._base.arrays import cells
from l2x.explanation import Explanation

NAME_LENGTH = 36
VALUE_LENGTH = 16


def values_of(explanation: Explanation, row: int) -> list[str]:
    """The d values of a row as short texts, not escaped; empty where features are not cells of a table."""
    values = cells(explanation.inputs, row)
    d = len(explanation.feature_names)
    # Features need not be cells: groups of columns, the patches of an image, the words of a text.
    return [cell_text(cell) for cell in values] if len(values) == d else [""] * d


def how_many(explanation: Explanation) -> str:
    """The features of a row: "3", or "up to 3" where rows have sizes of their own."""
    return f"{explanation.k}" if explanation.sizes is None else f"up to {explanation.k}"


def size_text(explanation: Explanation) -> str:
    """The same as it stands in titles: "k = 3", or "k up to 3"."""
    return f"k {'=' if explanation.sizes is None else 'up to'} {explanation.k}"


def cell_text(cell: Any) -> str:
    """A cell as it is read: four digits of a float.

    >>> cell_text(1.23456789), cell_text(12), cell_text("red")
    ('1.235', '12', 'red')
    """
    return f"{cell:.4g}" if isinstance(cell, float | np.floating) else str(cell)


def with_value(name: object, value: str) -> str:
    """A feature's name beside its value, if it has one: "age = 42".

    >>> with_value("age", "42"), with_value("row 2, column 3", "")
    ('age = 42', 'row 2, column 3')
    """
    return f"{name} = {value}" if value else str(name)


def label(name: object, value: str = "") -> str:
    """The same for the label of a bar or a line: name and value shortened."""
    return with_value(shortened(name), shortened(value, VALUE_LENGTH))


def shortened(text: object, length: int = NAME_LENGTH) -> str:
    """The text on one line: no line breaks, no control characters, the middle left out where it is long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    if len(line) <= length:
        return line
    tail = (length - 1) // 3
    return f"{line[: length - 1 - tail]}…{line[-tail:]}"


def percent(share: float) -> str:
    """A rounded percentage; "<1%" and ">99%" near the ends.

    >>> percent(0.256), percent(0.001), percent(0.999), percent(1.0)
    ('26%', '<1%', '>99%', '100%')
    """
    if 0 < share < 0.005:
        return "<1%"
    if 0.995 <= share < 1:
        return ">99%"
    return f"{share:.0%}"


def count(number: int, noun: str) -> str:
    """
    >>> count(1, "row"), count(1200, "text")
    ('1 row', '1,200 texts')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"
