"""Checksums of rows: equal for equal cells in any kind of table, different for different ones."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from l2x.files._predictions import row_checksums

FRAME = pd.DataFrame(
    {"n": [1, 2, 3], "x": [0.1, np.nan, -0.0], "city": ["Oslo", None, "Bergen"], "on": [True, False, True]}
)


def test_every_kind_of_table_has_the_same() -> None:
    expected = row_checksums(FRAME)
    assert len(set(expected.tolist())) == 3
    csv = pd.read_csv(io.StringIO(FRAME.to_csv(index=False)))
    category = FRAME.astype({"city": "category", "n": float})
    for same in (csv, category, pa.Table.from_pandas(FRAME), pl.from_pandas(FRAME), FRAME.convert_dtypes()):
        assert np.array_equal(row_checksums(same), expected), type(same)


def test_arrays_tensors_and_texts() -> None:
    images = np.random.default_rng(0).normal(size=(4, 3, 3)).astype(np.float32)
    expected = row_checksums(images)
    assert np.array_equal(row_checksums(torch.from_numpy(images)), expected)
    assert np.array_equal(row_checksums(images.reshape(4, 9).astype(np.float64)), expected)
    texts = ["a", "b", "a"]
    found = row_checksums(texts)
    assert found[0] == found[2] != found[1]
    assert np.array_equal(row_checksums(pd.Series(texts)), found)
    assert np.array_equal(row_checksums(pd.DataFrame({"text": texts})), found)


@settings(deadline=None)
@given(
    table=arrays.arrays(np.float64, (3, 4), elements=st.floats(-10, 10, width=32)),
    row=st.integers(0, 2),
    column=st.integers(0, 3),
)
def test_one_cell_changes_its_row_and_no_other(table: np.ndarray, row: int, column: int) -> None:
    changed = table.copy()
    changed[row, column] += 1
    assert np.flatnonzero(row_checksums(table) != row_checksums(changed)).tolist() == [row]


def test_the_order_of_columns_counts() -> None:
    assert row_checksums(np.array([[1.0, 2.0]])) != row_checksums(np.array([[2.0, 1.0]]))


@pytest.mark.parametrize(
    ("rows", "expected"), [([[1.0, 2.5]], 12961925264871449353), ([["Oslo"]], 7485819071267270249)]
)
def test_files_hold_them_so_they_never_change(rows: list[list[object]], expected: int) -> None:
    assert int(row_checksums(np.array(rows))[0]) == expected


@pytest.mark.parametrize("name", ["texts", "detach", "columns"])
def test_the_names_of_columns_do_not_count(name: str) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], name: ["x", "x"]})
    assert np.array_equal(row_checksums(frame), row_checksums(frame.set_axis(["a", "b"], axis=1)))
    column = pd.Series(["x", "y"])
    assert np.array_equal(row_checksums(column.set_axis([name, "b"])), row_checksums(column))
