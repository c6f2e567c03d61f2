"""Predictions on disk: checksums, batches in any order, and files that are something else."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from toy_models import one_column

import l2x
from l2x.files._predictions import (
    Labelled,
    equal_batches,
    prediction_batch,
    read_predictions,
    row_checksums,
    values_of,
)
from l2x.files._tables import sample_rows
from l2x.model import Part

X = np.random.default_rng(0).normal(size=(300, 3))


def test_a_sample_is_that_of_the_table(tmp_path: Path) -> None:
    l2x.label(one_column, X, tmp_path / "a.parquet", progress=False)
    table = pa.table({f"x{j}": X[:, j] for j in range(3)})
    rows = sample_rows(table.to_batches(max_chunksize=37), 50, seed=5)
    predictions = read_predictions(tmp_path / "a.parquet", rows=50, seed=5)
    predictions.check(rows)
    assert np.array_equal(predictions.values, one_column(rows.to_pandas().to_numpy()))


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(l2x.errors.InputError, match="There is no file"):
        read_predictions(tmp_path / "a.parquet")
    pd.DataFrame({"prediction_0": [1.0]}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(l2x.errors.InputError, match="predictions of"):
        read_predictions(tmp_path / "b.parquet")


@settings(deadline=None)
@given(cuts=st.lists(st.integers(1, 299), max_size=6, unique=True), order=st.randoms())
def test_batches_in_any_order_make_the_same_rows(cuts: list[int], order: object) -> None:
    checksums, values = row_checksums(X), one_column(X)
    edges = [0, *sorted(cuts), 300]
    batches = [prediction_batch(a, checksums[a:b], values[a:b]) for a, b in pairwise(edges)]
    order.shuffle(batches)  # type: ignore[attr-defined]
    found = list(equal_batches(Labelled(batches).in_order(300), size=64))
    assert [len(batch) for batch in found] == [64, 64, 64, 64, 44]
    assert np.array_equal(values_of(pa.Table.from_batches(found)), values)


def test_rows_are_labelled_where_a_batch_covers_them() -> None:
    checksums, values = row_checksums(X), one_column(X)
    labelled = Labelled([prediction_batch(10, checksums[10:20], values[10:20])])
    assert np.flatnonzero(labelled.stored(Part(0, X, X))).tolist() == list(range(10, 20))
    assert labelled.stored(Part(15, X[15:18], X[15:18])).all()
    assert not labelled.stored(Part(20, X[20:30], X[20:30])).any()
    with pytest.raises(l2x.errors.InputError, match="Row 12 is not the row"):
        labelled.stored(Part(12, X[13:14], X[13:14]))


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
