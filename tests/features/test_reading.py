"""How views read tables: fitted or not, with names or without, numbers, categories and texts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import l2x
from l2x.errors import InputError
from l2x.features._kinds import TableReading, reading_of
from l2x.features._view import View

FRAME = pd.DataFrame({"zip": ["01234", "00501"] * 4, "age": range(8), "branch": [7, 8] * 4})


@pytest.mark.parametrize("view", [l2x.Columns(), l2x.ColumnGroups({"both": ["zip", "age"]})])
def test_before_fitting_the_columns_are_open(view: View) -> None:
    assert reading_of(view) == TableReading(units="columns")


@pytest.mark.parametrize(
    "view",
    [
        l2x.Columns(categorical=["branch"]),
        l2x.ColumnGroups({"both": ["zip", "age"]}, categorical=["branch"]),
    ],
)
def test_columns_and_groups_want_the_columns_of_fitting(view: View) -> None:
    reading = reading_of(view.fit(FRAME))
    assert (reading.columns, reading.named) == (["zip", "age", "branch"], True)
    # Numbers that are codes of categories are still numbers in a file.
    assert {position: sorted(values) for position, values in reading.categories.items()} == {
        0: ["00501", "01234"]
    }
    assert (reading.units, reading.one_text) == ("columns", False)


def test_names_of_an_array_are_not_asked_for() -> None:
    reading = reading_of(l2x.Columns(names=["a", "b"]).fit(np.arange(6.0).reshape(3, 2)))
    assert (reading.columns, reading.named) == (["a", "b"], False)


def test_integer_names_are_texts_in_a_file() -> None:
    frame = pd.DataFrame(np.arange(6.0).reshape(3, 2))
    assert reading_of(l2x.Columns().fit(frame)).columns == ["0", "1"]


@pytest.mark.parametrize(("view", "units"), [(l2x.Words(), "words"), (l2x.Sentences(), "sentences")])
def test_texts_are_one_column_of_any_name(view: View, units: str) -> None:
    expected = TableReading(units=units, one_text=True)
    assert reading_of(view) == reading_of(view.fit(["A good film. It is."])) == expected


def test_images_are_not_in_tables() -> None:
    with pytest.raises(InputError, match="Patches cannot read a table"):
        reading_of(l2x.Patches())
