"""Cells of one column, as clients send them and as the training rows had them."""

from __future__ import annotations

from typing import Any

import pytest

from l2x.apps.serve.rows._cells import Category, Number
from l2x.apps.serve.rows._reader import CellError
from l2x.features._frames import Levels

NUMBER = Number("age", False, 0.0, 1.0, False, 0.5)


@pytest.mark.parametrize(("given", "cell"), [(1, 1.0), (1.5, 1.5), (-0.0, 0.0), (10**300, 1e300)])
def test_numbers(given: Any, cell: float) -> None:
    assert NUMBER.cell(given) == cell
    assert isinstance(NUMBER.cell(given), float)


@pytest.mark.parametrize("given", [None, True, "1", [1], {}, float("inf"), float("nan"), 10**400])
def test_what_is_no_number(given: Any) -> None:
    with pytest.raises(CellError) as wrong:
        NUMBER.cell(given)
    assert wrong.value.column == "age"
    assert wrong.value.expected == "a number"
    if given is None:
        assert Number("age", True, 0.0, 1.0, False, 0.5).cell(None) is None


@pytest.mark.parametrize(
    ("levels", "given", "cell", "seen"),
    [
        (["Ulm", "Bonn"], "Ulm", "Ulm", True),
        (["Ulm", "Bonn"], "Köln", "Köln", False),
        (["01234", "5"], 5, "5", True),
        (["true", "b"], True, "true", True),
        ([True, False], False, False, True),
        ([True, False], "true", True, True),
        ([1, 2], 1.0, 1, True),
        ([1, 2], "2", 2, True),
        ([1.5, 2.0], 7, 7, False),
    ],
)
def test_categories_take_the_type_of_the_training_rows(
    levels: list[Any], given: Any, cell: Any, seen: bool
) -> None:
    column = Category("town", False, Levels(levels, len(levels)))
    found = column.cell(given)
    assert found == cell
    assert type(found) is type(cell)
    assert column.seen(found) == seen
    assert column.arrow([found]).to_pylist() == [cell]


@pytest.mark.parametrize(
    ("levels", "given"),
    [(["a"], None), (["a"], ["a"]), ([True], "maybe"), ([True], 7), ([1], "x"), ([1], True), ([], {})],
)
def test_what_is_no_category(levels: list[Any], given: Any) -> None:
    with pytest.raises(CellError):
        Category("town", False, Levels(levels, len(levels))).cell(given)


def test_a_column_of_gaps_only_takes_null() -> None:
    assert Category("town", True, Levels([], 0)).cell(None) is None
