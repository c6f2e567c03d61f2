"""Rows of inputs of any kind: the same rows, in an object of the same kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from l2x._base.arrays import cells, labels, row_indices, take

FRAME = pd.DataFrame({"a": np.arange(5.0), "b": list("vwxyz")}, index=list("ABCDE"))
KINDS: dict[str, Any] = {
    "array": np.arange(10.0).reshape(5, 2),
    "tensor": torch.arange(10.0).reshape(5, 2),
    "images": np.arange(20).reshape(5, 2, 2),
    "list": [[i, str(i)] for i in range(5)],
    "tuple": tuple("vwxyz"),
    "pandas": FRAME,
    "polars": pl.from_pandas(FRAME),
    "pyarrow": pa.Table.from_pandas(FRAME, preserve_index=False),
    "pandas series": FRAME["b"],
    "polars series": pl.Series(FRAME["b"]),
}
SELECTORS = (
    st.slices(5)
    | st.integers(-5, 4)
    | st.lists(st.integers(-5, 4), max_size=8)
    | st.lists(st.integers(-5, 4), max_size=8).map(lambda rows: np.array(rows, dtype=np.int64))
    | st.lists(st.booleans(), min_size=5, max_size=5)
    | st.lists(st.booleans(), min_size=5, max_size=5).map(np.array)
)


def as_lists(inputs: Any) -> list[Any]:
    """Rows as plain Python."""
    if isinstance(inputs, list | tuple):
        return list(inputs)
    if isinstance(inputs, pd.Series | pl.Series):
        return list(inputs.to_list())
    if isinstance(inputs, pd.DataFrame | pl.DataFrame | pa.Table):
        frame = inputs if isinstance(inputs, pd.DataFrame) else inputs.to_pandas()
        return list(frame.to_numpy().tolist())
    return list(inputs.tolist())


@pytest.mark.parametrize("kind", KINDS)
@given(rows=SELECTORS)
def test_any_rows_of_any_kind(kind: str, rows: Any) -> None:
    inputs = KINDS[kind]
    chosen = take(inputs, row_indices(rows, 5))
    everything = as_lists(inputs)
    assert as_lists(chosen) == [everything[i] for i in np.atleast_1d(np.arange(5)[rows])]
    assert isinstance(chosen, type(inputs) if kind != "tuple" else list | tuple)


def test_pandas_keeps_its_index() -> None:
    assert labels(take(FRAME, row_indices([3, 0], 5))).tolist() == ["D", "A"]
    assert labels(["a", "list", "has an index()"]) is None


def test_rows_that_are_not_there() -> None:
    with pytest.raises(IndexError, match="row 5 of an explanation of 5 rows"):
        row_indices(5, 5)
    for rows in ([5], [True, False], None, (1, 2), "a", [[1, 2]]):
        with pytest.raises(IndexError):
            row_indices(rows, 5)  # type: ignore[arg-type]


def test_cells_of_tables_only() -> None:
    assert cells(KINDS["array"], 1) == cells(KINDS["tensor"], 1) == [2.0, 3.0]
    assert cells(np.arange(3), 1) == [1]
    for kind in ("pandas", "polars", "pyarrow"):
        assert cells(KINDS[kind], 1) == [1.0, "w"]
    for kind in ("list", "tuple", "pandas series", "polars series"):
        assert cells(KINDS[kind], 1) == []


def test_a_column_may_be_called_detach() -> None:
    assert cells(pd.Series([1.0, 2.0], index=["detach", "b"]), 0) == []
    assert cells(pd.DataFrame({"detach": [1.0]}), 0) == [1.0]
