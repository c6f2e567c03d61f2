"""Arrays: batches cover all rows, rows of any kind of input are taken alike, and the best come first."""

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
from hypothesis.extra.numpy import arrays

from l2x._base import arrays as base_arrays
from l2x._base.arrays import (
    above_rest,
    batches,
    best,
    cells,
    is_whole,
    labels,
    ranked,
    row_indices,
    take,
)


@given(n=st.integers(0, 200), size=st.integers(1, 50))
def test_batches_cover_every_row_once(n: int, size: int) -> None:
    slices = list(batches(n, size))
    assert [i for rows in slices for i in range(n)[rows]] == list(range(n))
    assert all(rows.stop - rows.start == size for rows in slices[:-1])
    assert all(0 < rows.stop - rows.start <= size for rows in slices)


@pytest.mark.parametrize("number", [1, np.int64(3), np.uint8(7), 2**80])
def test_whole_numbers(number: object) -> None:
    assert is_whole(number)


@pytest.mark.parametrize("number", [0, -1, 2.0, np.float32(2), True, np.True_, "2", None])
def test_what_is_not_one(number: object) -> None:
    assert not is_whole(number)
    assert is_whole(0, least=0)
    assert not is_whole(-1, least=0)


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


ODD_SCORES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-40, -1e-40, np.inf, -np.inf, np.nan]) | st.floats(
    width=32
)


@given(
    arrays(np.float32, st.tuples(st.integers(1, 5), st.integers(1, 40)), elements=ODD_SCORES),
    st.integers(1, 40),
)
def test_sorted_integers_rank_as_floats_do(scores: np.ndarray, k: int) -> None:
    k = min(k, scores.shape[1])
    for some in (scores, scores.astype(np.float64), scores[:, ::-1]):
        assert best(some, k).tolist() == ranked(some)[:, :k].tolist()


def test_ranking_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_arrays, "CACHED_CELLS", 10)
    scores = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    assert best(scores, 2).tolist() == ranked(scores)[:, :2].tolist()


@given(arrays(np.float32, (4, 6), elements=st.integers(-99, 99), unique=True), st.integers(1, 6))
def test_what_is_selected_stands_above_the_rest(scores: np.ndarray, k: int) -> None:
    mask = np.zeros(scores.shape, dtype=bool)
    np.put_along_axis(mask, best(scores, k), values=True, axis=1)
    above = above_rest(scores, mask)
    assert (np.argsort(above, axis=1) == np.argsort(scores, axis=1)).all()
    if k < 6:
        assert ((above > 0) == mask).all()
        assert (np.where(mask, -np.inf, above).max(axis=1) == 0).all()
    else:
        assert (above.min(axis=1) == 0).all()


def test_a_row_with_nothing_to_select() -> None:
    scores = np.array([[-np.inf, -np.inf], [1.0, -np.inf]])
    above = above_rest(scores, mask=scores > -np.inf)
    assert above.tolist() == [[-np.inf, -np.inf], [0.0, -np.inf]]
