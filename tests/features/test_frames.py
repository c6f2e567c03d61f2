"""Tables in: whatever can be one, refused by name if not; cells replaced without changing a column's type."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import torch

import l2x
from l2x.features._frames import column_index, frame_of, is_categorical, native, replaced

CELLS = {"a": [1.0, 2.0, 3.0], "b": ["x", "y", None]}
FRAMES: dict[str, Any] = {
    "pandas": pd.DataFrame(CELLS),
    "polars": pl.DataFrame(CELLS),
    "pyarrow": pa.table(CELLS),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames_stay_as_they_are(name: str) -> None:
    assert native(FRAMES[name]) is FRAMES[name]


NUMBERS: dict[str, Any] = {
    "lists": [[1, 2], [3, 4]],
    "booleans": ((True, False),),
    "a tensor": torch.ones(2, 3, requires_grad=True),
    "objects that are numbers": np.eye(2, dtype=object),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_what_holds_numbers_becomes_an_array(name: str) -> None:
    array = native(NUMBERS[name])
    assert isinstance(array, np.ndarray)
    assert array.ndim == 2
    assert array.dtype.kind in "fiub"


REFUSED: dict[str, tuple[Any, str]] = {
    "text": ("a text", "Expected an array or a pandas, polars or pyarrow table, got str"),
    "one row": ([1, 2, 3], r"got an array of shape \(3,\). .* for one row pass x\[None, :\]"),
    "images": (np.zeros((2, 8, 8)), r"For images pass features=l2x.Patches\(size=4\)"),
    "no columns": (pd.DataFrame(index=[0, 1]), r"The table is empty: 0 feature\(s\) \(shape=\(2, 0\)\)"),
    "words in an array": (np.array([["a", "b"]]), "not numbers: .* of texts must be a data frame"),
    "texts": (["a good film", "a bad one"], r"holds texts, such as 'a good film': .* features=l2x.Words\(\)"),
    "a column of texts": (pd.Series(["good", "bad"]), r"holds texts, .* features=l2x.Words\(\)"),
    "one name twice": (
        pd.DataFrame([[1, 2, 3]], columns=list("aba")),
        "more than one column named 'a'; rename",
    ),
    "one name twice in Arrow": (pa.table([[1], [2]], names=["a", "a"]), "more than one column named 'a'"),
    "a number and its text": (
        pd.DataFrame([[1, 2]], columns=[1, "1"]),
        "more than one column named '1'; rename",
    ),
    "a row": (pd.DataFrame({"a": [1], "b": ["x"]}).iloc[0], r"such as frame.iloc\[\[0\]\]"),
    "a query": (pl.LazyFrame(CELLS), r"got LazyFrame; pass X.collect\(\)"),
    "complex": (np.ones((2, 2), dtype=complex), "Complex data not supported"),
    "sparse": (scipy.sparse.eye(3), r"A sparse table is not supported; pass X.toarray\(\)"),
    "a column": (pd.Series([1.0, 2.0]), "Expected a"),
    "names in levels": (
        pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])),
        r"names in several levels, such as \('a', 'b'\); give each one name",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_a_table_is_refused_with_advice(name: str) -> None:
    table, message = REFUSED[name]
    with pytest.raises(l2x.InputError, match=message):
        native(table)


def test_a_column_by_name_or_position() -> None:
    assert column_index("b", ["a", "b"], "Columns") == 1
    assert column_index(0, ["a", "b"], "Columns") == 0
    assert column_index(7, [5, 7], "Columns") == 1  # a name that is an integer comes before a position
    for unknown in ("c", 2, -1, True):
        with pytest.raises(l2x.InputError, match=rf"drop= names the column {unknown!r}; .* columns are a, b"):
            column_index(unknown, ["a", "b"], "drop=")


def test_which_types_are_categories() -> None:
    assert [is_categorical("c", dtype) for dtype in (nw.Float64(), nw.Int8(), nw.Decimal())] == [False] * 3
    assert all(is_categorical("c", dtype) for dtype in (nw.String(), nw.Categorical(), nw.Boolean()))
    with pytest.raises(l2x.InputError, match="Column 'c' is Date; Columns takes numbers and categories"):
        is_categorical("c", nw.Date())


COLUMNS: dict[str, Any] = {
    "pandas float": pd.Series([1.0, 2.0, 3.0]),
    "pandas integer": pd.Series([1, 2, 3]),
    "pandas nullable": pd.Series([1, 2, 3], dtype="Int32"),
    "polars": pl.Series("s", [1, 2, 3], dtype=pl.UInt8),
    "pyarrow": pa.chunked_array([[1, 2, 3]], pa.int16()),
    "decimal": pa.chunked_array([[1, 2, 3]], pa.decimal128(10, 2)),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_replaced_cells_keep_the_type_and_the_others_stay(name: str) -> None:
    """Cell i is values[chosen[i]], or its own where that is -1; in a column of integers, rounded."""
    column = nw.from_native(COLUMNS[name], series_only=True)
    new = replaced(column, [7.4, 9.0], np.array([-1, 0, 1]))
    assert new.dtype == column.dtype
    expected = [1, 7.4 if name in ("pandas float", "decimal") else 7, 9]
    assert [float(cell) for cell in new.to_list()] == expected


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["x", "y", "x"], dtype="category"),
        pd.Series([True, False, True]),
        pl.Series(["x", "y", "x"], dtype=pl.Enum(["x", "y"])),
        pa.chunked_array([["x", "y", "x"]], pa.large_string()),
    ],
    ids=["pandas categories", "pandas booleans", "polars enum", "pyarrow text"],
)
def test_categories_that_a_column_lacks_and_missing_cells_can_be_put_into_it(column: Any) -> None:
    column = nw.from_native(column, series_only=True)
    first = column.to_list()[0]
    other = False if first is True else "z"
    new = replaced(column, [other, None], np.array([-1, 0, 1]))
    assert new.to_list()[:2] == [first, other]
    assert pd.isna(new.to_list()[2])


def test_a_frame_of_columns_has_the_index_of_the_rows_that_it_replaces() -> None:
    X = pd.DataFrame(CELLS, index=[10, 20, 30])
    columns = list(nw.from_native(X).iter_columns())
    assert frame_of(columns[::-1], X).index.tolist() == [10, 20, 30]
    assert len(frame_of([column[:2] for column in columns], X)) == 2
    frame = FRAMES["polars"]
    assert frame_of(list(nw.from_native(frame).iter_columns()), frame).equals(frame)


def test_sparse_columns_of_pandas_are_named() -> None:
    frame = pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 0.0, 1.0]), "b": [1.0, 2.0, 3.0]})
    with pytest.raises(l2x.InputError, match=r"Column 'a' is of a type .* X.sparse.to_dense\(\)"):
        l2x.Columns().fit(frame)


@pytest.mark.parametrize("name", ["detach", "tocsr", "texts", "columns", "column_names"])
def test_a_column_may_have_the_name_of_an_attribute(name: str) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], name: [3.0, 4.0]})
    assert native(frame) is frame
    twice = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "a", name])
    with pytest.raises(l2x.InputError, match=r"named 'a';"):
        native(twice)
