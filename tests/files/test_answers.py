"""Files of answers: read back as they were, matched with their rows, and told from other files."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_models import one_column

import l2x
from l2x.files._predictions import (
    Answered,
    answer_batch,
    equal_batches,
    read_answers,
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
    answers = read_answers(tmp_path / "a.parquet", rows=50, seed=5)
    answers.check(rows)
    assert np.array_equal(answers.values, one_column(rows.to_pandas().to_numpy()))


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(l2x.InputError, match="There is no file"):
        read_answers(tmp_path / "a.parquet")
    pd.DataFrame({"answer_0": [1.0]}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(l2x.InputError, match="is not a file of answers"):
        read_answers(tmp_path / "b.parquet")


@settings(deadline=None)
@given(cuts=st.lists(st.integers(1, 299), max_size=6, unique=True), order=st.randoms())
def test_batches_in_any_order_make_the_same_rows(cuts: list[int], order: object) -> None:
    checksums, values = row_checksums(X), one_column(X)
    edges = [0, *sorted(cuts), 300]
    batches = [answer_batch(a, checksums[a:b], values[a:b]) for a, b in pairwise(edges)]
    order.shuffle(batches)  # type: ignore[attr-defined]
    found = list(equal_batches(Answered(batches).in_order(300), size=64))
    assert [len(batch) for batch in found] == [64, 64, 64, 64, 44]
    assert np.array_equal(values_of(pa.Table.from_batches(found)), values)


def test_rows_are_answered_where_a_batch_covers_them() -> None:
    checksums, values = row_checksums(X), one_column(X)
    answered = Answered([answer_batch(10, checksums[10:20], values[10:20])])
    assert np.flatnonzero(answered.known(Part(0, X, X))).tolist() == list(range(10, 20))
    assert answered.known(Part(15, X[15:18], X[15:18])).all()
    assert not answered.known(Part(20, X[20:30], X[20:30])).any()
    with pytest.raises(l2x.InputError, match="Row 12 is not the row that was answered"):
        answered.known(Part(12, X[13:14], X[13:14]))
