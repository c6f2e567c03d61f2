"""Explanations: exactly k, best first, frames and dictionaries that others can read."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import l2x
from l2x.features import Columns

NAMES = ["a", "b", "c"]
SCORES = np.array([[0.1, 3.0, 2.0], [1.0, 1.0, 1.0]])


@given(arrays(np.float32, (5, 7), elements=st.integers(-2, 2)), st.integers(1, 7))
def test_exactly_k_whatever_the_ties(scores: np.ndarray, k: int) -> None:
    explanation = l2x.Explanation(scores, k, list("abcdefg"))
    assert (explanation.mask.sum(axis=1) == k).all()
    picked = np.take_along_axis(scores, explanation.indices, axis=1)
    assert (np.diff(picked, axis=1) <= 0).all()  # best first
    worst = picked[:, -1:]
    assert (scores[explanation.mask].reshape(5, k) >= worst).all()
    assert ((scores <= worst) | explanation.mask).all()


def test_views_of_rows() -> None:
    explanation = l2x.Explanation(SCORES, 2, NAMES)
    assert explanation.names == [["b", "c"], ["a", "b"]]
    assert len(explanation) == 2
    assert explanation[1].names == explanation[-1].names == [["a", "b"]]
    assert [len(row) for row in explanation] == [1, 1]
    assert explanation[np.array([True, False])].names == [["b", "c"]]
    with pytest.raises(IndexError, match="row 2 of an explanation of 2 rows"):
        _ = explanation[2]


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "array"])
def test_frame_is_of_the_library_that_came_in(kind: str) -> None:
    pandas = pd.DataFrame(np.zeros((2, 3)), columns=NAMES, index=["r", "s"])
    inputs = {
        "pandas": pandas,
        "polars": pl.from_pandas(pandas),
        "pyarrow": pa.Table.from_pandas(pandas, preserve_index=False),
        "array": pandas.to_numpy(),
    }[kind]
    frame = l2x.Explanation(SCORES, 1, NAMES, inputs, Columns().fit(inputs)).to_frame()
    expected = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table, "array": pd.DataFrame}[
        kind
    ]
    assert isinstance(frame, expected)
    rows = frame if isinstance(frame, pd.DataFrame) else frame.to_pandas()
    assert rows["feature_1"].tolist() == ["b", "a"]
    assert rows["score_1"].tolist() == [3.0, 1.0]
    if kind == "pandas":
        assert frame.index.tolist() == ["r", "s"]


def test_dictionary_is_json() -> None:
    rows = json.loads(json.dumps(l2x.Explanation(SCORES, 1, NAMES).to_dict()))
    assert rows[0] == {"features": [{"index": 1, "name": "b", "score": 3.0}]}


def test_nonsense() -> None:
    with pytest.raises(l2x.InputError, match="choose k between 1 and 3"):
        l2x.Explanation(SCORES, 4, NAMES)
    with pytest.raises(l2x.InputError, match="2 names for scores of 3 features"):
        l2x.Explanation(SCORES, 1, ["a", "b"])
