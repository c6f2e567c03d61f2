"""Explanations: exactly k features, best first; frames, dictionaries and slices."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import l2x

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


def test_indexing() -> None:
    explanation = l2x.Explanation(SCORES, 2, NAMES)
    assert explanation.names == [["b", "c"], ["a", "b"]]
    assert len(explanation) == 2
    assert explanation[1].names == explanation[-1].names == [["a", "b"]]
    assert [len(row) for row in explanation] == [1, 1]
    assert explanation[np.array([True, False])].names == [["b", "c"]]
    with pytest.raises(IndexError, match=r"\b2 rows"):
        _ = explanation[2]


N = 6
TABLE = pd.DataFrame(
    {"a": np.arange(N, dtype=float), "b": np.arange(N, dtype=float)[::-1] * 1.5, "c": 2.25},
    index=[f"person {i}" for i in range(N)],
)
KINDS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "array": lambda table: table.to_numpy(),
    "tensor": lambda table: torch.from_numpy(table.to_numpy(copy=True)),
    "list": lambda table: table.to_numpy().tolist(),
    "pandas": lambda table: table,
    "polars": pl.from_pandas,
    "pyarrow": lambda table: pa.Table.from_pandas(table, preserve_index=False),
}
SELECTORS = (
    st.slices(N)
    | st.integers(-N, N - 1)
    | st.lists(st.integers(-N, N - 1), max_size=8)
    | st.lists(st.booleans(), min_size=N, max_size=N).map(np.array)
)


def of_table(X: Any, view: l2x.Columns | None) -> l2x.Explanation:
    """The values of a row are its scores."""
    scores = np.array(X.to_pandas() if hasattr(X, "to_pandas") else X, dtype=float).reshape(-1, 3)
    return l2x.Explanation(scores, 2, NAMES, X if view is None else view.check(X), view)


def of_texts(X: pd.Series, view: l2x.Words) -> l2x.Explanation:
    """The longest words of each text."""
    texts = view.check(X)
    lengths = np.diff(texts.tokens.spans, axis=2)[..., 0]
    return l2x.Explanation(np.where(lengths > 0, lengths, -np.inf), 2, view.names_, texts, view)


def same(one: l2x.Explanation, other: l2x.Explanation) -> bool:
    """Whether everything shown is equal."""
    assert one.scores.tolist() == other.scores.tolist()
    assert one.names == other.names
    assert one.to_html() == other.to_html()
    a, b = one.to_frame(), other.to_frame()
    if hasattr(a, "index"):
        assert a.index.tolist() == b.index.tolist()
    return bool(a.equals(b))


@pytest.mark.parametrize("fitted", [False, True], ids=["alone", "with a view"])
@pytest.mark.parametrize("kind", KINDS)
@given(rows=SELECTORS)
@settings(max_examples=40, deadline=None)
def test_a_slice_explains_these_rows(kind: str, fitted: bool, rows: Any) -> None:
    X = KINDS[kind](TABLE)
    view = l2x.Columns().fit(X) if fitted else None
    chosen = np.atleast_1d(np.arange(N)[rows])
    assume(len(chosen) or view is None)  # a view refuses an empty table
    assert same(of_table(X, view)[rows], of_table(KINDS[kind](TABLE.iloc[chosen]), view))


@given(rows=SELECTORS)
@settings(max_examples=40, deadline=None)
def test_a_slice_of_texts(rows: Any) -> None:
    texts = pd.Series([f"{'long' * i} and {'longer' * (N - i)}" for i in range(N)], index=TABLE.index)
    view = l2x.Words(length=4).fit(texts)
    chosen = np.atleast_1d(np.arange(N)[rows])
    assume(len(chosen))
    assert same(of_texts(texts, view)[rows], of_texts(texts.iloc[chosen], view))


def test_a_slice_of_a_slice_shows_its_own_values() -> None:
    explanation = l2x.Explanation(TABLE.to_numpy(), 1, NAMES, TABLE)[1:][[3, 1]][-1]
    assert explanation.to_frame().index.tolist() == ["person 2"]
    assert explanation.names == [["b"]]
    assert ">4.5<" in explanation.to_html()


def test_unseen_categories_are_counted_in_the_slice(tiny: l2x.TrainingPlan) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"colour": rng.choice(["red", "blue"], 100), "a": rng.normal(size=100)})

    def model(X: pd.DataFrame) -> np.ndarray:
        p = np.where(X["colour"] == "red", 0.9, 0.1)
        return np.stack([1 - p, p], axis=1)

    explainer = l2x.Explainer(model, k=1, training=tiny.with_steps(value=5, selector=5)).fit(frame)
    others = frame.assign(colour=["green", "red", "grey", "blue", "green"] * 20)
    with pytest.warns(UserWarning, match=r"colour \(60 rows\)"):
        explanation = explainer.explain(others)
    assert dict(explanation.unseen) == {"colour": 60}
    assert dict(explanation[:5].unseen) == dict(explanation[:5][[2, 0, 4]].unseen) == {"colour": 3}
    assert not explanation[1].unseen
    by_hand = l2x.Explanation(explanation.scores, 1, explanation.feature_names, unseen={"colour": 60})
    assert by_hand[:5].unseen == {"colour": 60}  # no inputs to count in


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "array"])
def test_the_frame_has_the_library_of_the_input(kind: str) -> None:
    pandas = pd.DataFrame(np.zeros((2, 3)), columns=NAMES, index=["r", "s"])
    inputs = {
        "pandas": pandas,
        "polars": pl.from_pandas(pandas),
        "pyarrow": pa.Table.from_pandas(pandas, preserve_index=False),
        "array": pandas.to_numpy(),
    }[kind]
    frame = l2x.Explanation(SCORES, 1, NAMES, inputs, l2x.Columns().fit(inputs)).to_frame()
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


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(l2x.errors.InputError, match="between 1 and 3"):
        l2x.Explanation(SCORES, 4, NAMES)
    with pytest.raises(l2x.errors.InputError, match=r"2 names.* 3 features"):
        l2x.Explanation(SCORES, 1, ["a", "b"])


def test_no_rows_are_not_drawn() -> None:
    nothing = l2x.Explanation(np.zeros((2, 3)), 1, ["a", "b", "c"])[:0]
    for draw in (nothing.plot, nothing.beeswarm, lambda: nothing.dependence("a")):
        with pytest.raises(l2x.errors.InputError, match="no rows"):
            draw()
