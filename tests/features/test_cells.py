"""Cells become numbers and numbers cells: there and back is the same table."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import l2x
from l2x.features._cells import IDENTIFIERS, Cells
from l2x.features._frames import UNSEEN

N = 60
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "colour": RNG.choice(["red", "green", "blue"], N, p=[0.6, 0.3, 0.1]),
        "member": RNG.random(N) < 0.3,
        "age": RNG.integers(18, 80, N),
        "income": np.where(RNG.random(N) < 0.2, np.nan, RNG.normal(size=N)),
    }
)
NAMES = list(FRAME.columns)
TABLES: dict[str, Any] = {
    "pandas": FRAME,
    "polars": pl.from_pandas(FRAME),
    "pyarrow": pa.Table.from_pandas(FRAME, preserve_index=False),
}


def learned(
    X: Any = FRAME, categorical: tuple[int, ...] = (0, 1), most: int = 10
) -> tuple[Cells, np.ndarray]:
    names = NAMES if not isinstance(X, np.ndarray) else [f"x{i}" for i in range(X.shape[1])]
    return Cells.of(X, names, categorical, most=most, missing=True)


@pytest.mark.parametrize("name", TABLES)
def test_numbers_are_values_and_codes_by_frequency(name: str) -> None:
    cells, matrix = learned(TABLES[name])
    assert list(cells.levels[0].values) == ["red", "green", "blue"]
    assert matrix[:, 0].tolist() == [["red", "green", "blue"].index(colour) for colour in FRAME["colour"]]
    assert np.array_equal(matrix[:, 2], FRAME["age"])
    assert cells.gaps == [3]
    assert np.array_equal(cells.numbers(TABLES[name]), matrix, equal_nan=True)


@pytest.mark.parametrize("name", TABLES)
def test_there_and_back_is_the_same_table(name: str) -> None:
    cells, matrix = learned(TABLES[name])
    back = nw.from_native(cells.table(TABLES[name], matrix), eager_only=True).to_pandas()
    assert back["colour"].tolist() == FRAME["colour"].tolist()
    assert back["member"].tolist() == FRAME["member"].tolist()
    assert np.allclose(back["income"].astype(float), FRAME["income"], equal_nan=True)
    assert type(cells.table(TABLES[name], matrix)) is type(TABLES[name])


def test_an_array_with_a_column_of_codes() -> None:
    X = np.column_stack([RNG.choice([10.0, 20.0], N, p=[0.2, 0.8]), RNG.normal(size=N)])
    cells, matrix = learned(X, categorical=(0,))
    assert set(matrix[:, 0]) == {0.0, 1.0}
    assert np.array_equal(cells.table(X, matrix), X)
    assert np.array_equal(cells.with_numbers(X, matrix + 1)[:, 0], X[:, 0])


def test_unseen_categories_have_a_code_and_come_out_missing() -> None:
    cells, _ = learned()
    new = FRAME.head(2).assign(colour=["violet", None])
    with pytest.raises(
        l2x.InputError, match="Row 1, column 'colour' is nan: the training rows had no missing"
    ):
        cells.numbers(new)
    matrix = cells.numbers(new.head(1))
    assert matrix[0, 0] == UNSEEN
    assert cells.table(new.head(1), matrix)["colour"].isna().all()
    assert cells.with_numbers(new.head(1), matrix)["colour"].tolist() == ["violet"]


@pytest.mark.parametrize("name", TABLES)
def test_filled_keeps_the_selected_cells_and_every_type(name: str) -> None:
    table = TABLES[name]
    cells, matrix = learned(table)
    mask, chosen = RNG.random((N, 4)) < 0.5, RNG.integers(0, N, N)
    filled = cells.filled(table, mask, matrix, chosen)
    assert nw.from_native(filled, eager_only=True).schema == nw.from_native(table, eager_only=True).schema
    expected = np.where(mask, matrix, matrix[chosen])
    assert np.allclose(cells.numbers(filled), expected, equal_nan=True)


def test_all_numbers_are_read_at_once_and_the_result_is_the_same() -> None:
    """Frames of numbers only, and Arrow tables of float64, take short cuts."""
    X = RNG.normal(size=(N, 3))
    tables = [pd.DataFrame(X), pl.DataFrame(X), pa.table({str(i): X[:, i] for i in range(3)})]
    for table in tables:
        cells = Cells(["a", "b", "c"], {}, [])
        assert np.array_equal(cells.numbers(table), X)
        kept = cells.filled(table, np.eye(N, 3, dtype=bool), np.zeros((1, 3)), np.zeros(N, dtype=int))
        assert np.array_equal(cells.numbers(kept), np.where(np.eye(N, 3), X, 0))


BAD: dict[str, tuple[Any, str]] = {
    "infinite": (
        np.array([[1.0, 2.0], [np.inf, 1.0]]),
        r"Row 7, column 'a' is inf: fill or drop missing and infinite values first\.$",
    ),
    "missing in an array": (np.array([[1.0, np.nan]]), r"Row 6, .*Columns\(missing='allow'\)"),
    "missing in a frame": (
        pd.DataFrame({"a": [None], "b": [1.0]}, dtype=float),
        "had no missing values there",
    ),
    "text among numbers": (
        pd.DataFrame({"a": ["x"], "b": [1.0]}),
        r"Row 6, column 'a' is 'x', but .* numbers there",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_cell_is_named_with_what_to_do(name: str) -> None:
    table, message = BAD[name]
    with pytest.raises(l2x.InputError, match=message):
        Cells(["a", "b"], {}, []).numbers(table, first_row=6)


def test_a_text_among_numbers_makes_no_categories_in_silence() -> None:
    numbers = [f"{i / 8}" for i in range(2 * IDENTIFIERS)]
    numbers[17] = "?"
    with pytest.raises(
        l2x.InputError, match=r"Row 17, column 'a' is '\?', and most others there are numbers"
    ):
        Cells.of(pd.DataFrame({"a": numbers}), ["a"], [0], most=10, missing=True)
    twice = pd.DataFrame({"a": numbers * 2})
    with pytest.warns(UserWarning, match=r"Row 17, column 'a' is '\?'.* They are read as categories; if"):
        Cells.of(twice, ["a"], [0], most=10, missing=True)


def test_what_cannot_be_a_category() -> None:
    many = pd.DataFrame({"id": [f"n{i}" for i in range(IDENTIFIERS + 1)]})
    with pytest.raises(l2x.InputError, match="'id' is another category in each of the 101 rows"):
        Cells.of(many, ["id"], [0], most=10, missing=True)
    with pytest.raises(l2x.InputError, match=r"Column 'l' is list<.*>; Columns takes numbers and categories"):
        Cells.of(pa.table({"l": [[1], [2]]}), ["l"], [0], most=10, missing=True)
    cells, _ = learned()
    lists = pa.table({"colour": [["red"]], "member": [True], "age": [20], "income": [1.0]})
    with pytest.raises(l2x.InputError, match=r"'colour' is list<.*>, but the training rows had categories"):
        cells.numbers(lists)


def test_whole_numbers_with_gaps() -> None:
    frame = pd.DataFrame({"a": pd.Series([1, None, 3], dtype="Int64")})
    view = l2x.Columns().fit(frame)
    assert np.array_equal(view.numbers(frame)[:, 0], [1.0, np.nan, 3.0], equal_nan=True)


def test_a_text_in_a_column_of_numbers_is_named_with_its_row() -> None:
    cells = [str(number / 7) for number in range(IDENTIFIERS + 50)]
    cells[60] = "12,5"
    with pytest.raises(l2x.InputError, match=r"Row 60, column 'price' is '12,5', and most others .* numbers"):
        l2x.Columns().fit(pd.DataFrame({"price": cells, "b": 1.0}))
