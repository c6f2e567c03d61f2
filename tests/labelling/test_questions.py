"""The loop: what is answered is not asked, and what is answered beside an error is kept."""

from __future__ import annotations

import threading

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_models import one_column

import l2x
from l2x.files._predictions import Answered, answer_batch, row_checksums
from l2x.model._black_box import BlackBox
from l2x.model._querying import Part, ask_about

X = np.random.default_rng(0).normal(size=(100, 3))


def blocks(size: int) -> list[Part]:
    return [Part(start, X[start : start + size], X[start : start + size]) for start in range(0, 100, size)]


@settings(deadline=None)
@given(size=st.integers(1, 100), known=st.lists(st.booleans(), min_size=100, max_size=100))
def test_exactly_the_rows_without_an_answer_are_asked(size: int, known: list[bool]) -> None:
    rows = np.flatnonzero(known)
    runs = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1) if len(rows) else []
    checksums = row_checksums(X)
    answered = Answered(answer_batch(run[0], checksums[run], one_column(X[run])) for run in runs)
    asked: dict[int, np.ndarray] = {}

    def keep(part: Part, answers: np.ndarray) -> None:
        for i, answer in enumerate(answers):
            assert part.first + i not in asked
            asked[part.first + i] = answer

    total = ask_about(BlackBox(one_column), blocks(size), keep, most=16, known=answered.known)
    assert total == 100
    assert sorted(asked) == np.flatnonzero(~np.array(known)).tolist()
    assert all(np.array_equal(answer, one_column(X[[row]])[0]) for row, answer in asked.items())


def test_what_is_answered_beside_an_error_is_kept() -> None:
    second = threading.Event()

    def model(part: np.ndarray) -> np.ndarray:
        if part[0, 0] == X[0, 0]:
            second.wait(10)
            raise ConnectionError("gone")
        second.set()
        return one_column(part)

    kept: list[int] = []
    with pytest.raises(l2x.BlackBoxError, match=r"Rows 0 to 7: .*gone"):
        ask_about(BlackBox(model, in_flight=2), blocks(100), lambda part, _: kept.append(part.first), most=8)
    assert kept[0] == 8


def test_answers_of_another_width() -> None:
    def model(part: np.ndarray) -> np.ndarray:
        width = 2 if part[0, 0] == X[0, 0] else 3
        return np.full((len(part), width), 1 / width)

    with pytest.raises(l2x.BlackBoxError, match=r"returned \[2, 3\] columns in different batches"):
        ask_about(BlackBox(model), blocks(10), lambda part, answers: None, most=8)


@pytest.mark.parametrize("name", ["texts", "detach"])
def test_every_column_is_asked_about_whatever_its_name(name: str) -> None:
    frame = pd.DataFrame(X, columns=["a", name, "c"])
    answers = np.zeros((100, 2))

    def model(part: pd.DataFrame) -> np.ndarray:
        assert list(part.columns) == ["a", name, "c"]
        return one_column(part.to_numpy())

    def keep(part: Part, said: np.ndarray) -> None:
        answers[part.first : part.first + len(part)] = said

    ask_about(BlackBox(model), [Part(0, frame, frame)], keep, most=16)
    assert np.array_equal(answers, one_column(X))
