"""Queries: batches keep pace, no row is queried twice, errors name their rows, and limits hold."""

from __future__ import annotations

import threading
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_models import one_column

import l2x
from l2x.files._predictions import Labelled, prediction_batch, row_checksums
from l2x.learning.networks import recipes_of
from l2x.model._black_box import BlackBox
from l2x.model._querying import (
    FIRST_ROWS,
    GROWTH,
    REMOTE,
    Memory,
    Pace,
    Part,
    announce,
    check_enough,
    checked_queries,
    default_queries,
    outcome,
    per_call,
    query_parts,
    rows_within,
    without_reserve,
    workers,
)
from l2x.model._transformers import Scores

X = np.random.default_rng(0).normal(size=(100, 3))


def blocks(size: int) -> list[Part]:
    return [Part(start, X[start : start + size], X[start : start + size]) for start in range(0, 100, size)]


@settings(deadline=None)
@given(size=st.integers(1, 100), known=st.lists(st.booleans(), min_size=100, max_size=100))
def test_exactly_the_rows_without_an_prediction_are_queried(size: int, known: list[bool]) -> None:
    rows = np.flatnonzero(known)
    runs = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1) if len(rows) else []
    checksums = row_checksums(X)
    labelled = Labelled(prediction_batch(run[0], checksums[run], one_column(X[run])) for run in runs)
    queried: dict[int, np.ndarray] = {}

    def store(part: Part, predictions: np.ndarray) -> None:
        for i, prediction in enumerate(predictions):
            assert part.first + i not in queried
            queried[part.first + i] = prediction

    total = query_parts(BlackBox(one_column), blocks(size), store, most=16, stored=labelled.stored)
    assert total == 100
    assert sorted(queried) == np.flatnonzero(~np.array(known)).tolist()
    assert all(np.array_equal(prediction, one_column(X[[row]])[0]) for row, prediction in queried.items())


def test_predictions_made_next_to_an_error_are_stored() -> None:
    second = threading.Event()

    def model(part: np.ndarray) -> np.ndarray:
        if part[0, 0] == X[0, 0]:
            second.wait(10)
            raise ConnectionError("gone")
        second.set()
        return one_column(part)

    stored: list[int] = []
    with pytest.raises(l2x.errors.BlackBoxError, match=r"Rows 0 to 7: .*gone"):
        query_parts(
            BlackBox(model, in_flight=2), blocks(100), lambda part, _: stored.append(part.first), most=8
        )
    assert stored[0] == 8


def test_predictions_of_another_width() -> None:
    def model(part: np.ndarray) -> np.ndarray:
        width = 2 if part[0, 0] == X[0, 0] else 3
        return np.full((len(part), width), 1 / width)

    with pytest.raises(l2x.errors.BlackBoxError, match=r"returned \[2, 3\] columns in different batches"):
        query_parts(BlackBox(model), blocks(10), lambda part, predictions: None, most=8)


@pytest.mark.parametrize("name", ["texts", "detach"])
def test_every_column_is_queried_about_whatever_its_name(name: str) -> None:
    frame = pd.DataFrame(X, columns=["a", name, "c"])
    predictions = np.zeros((100, 2))

    def model(part: pd.DataFrame) -> np.ndarray:
        assert list(part.columns) == ["a", name, "c"]
        return one_column(part.to_numpy())

    def store(part: Part, output: np.ndarray) -> None:
        predictions[part.first : part.first + len(part)] = output

    query_parts(BlackBox(model), [Part(0, frame, frame)], store, most=16)
    assert np.array_equal(predictions, one_column(X))


@settings(deadline=None)
@given(most=st.integers(1, 10_000), per_row=st.floats(1e-7, 10), overhead=st.floats(0, 2))
def test_batches_come_to_last_about_a_second(most: int, per_row: float, overhead: float) -> None:
    pace = Pace(most)
    assert pace.rows == min(FIRST_ROWS, most)
    for _ in range(12):
        before = pace.rows
        pace.took(before, overhead + per_row * before)
        assert 1 <= pace.rows <= min(most, GROWTH * before)
    if not overhead:
        assert pace.rows in (1, most) or 0.4 <= pace.rows * per_row <= 1.01


def test_a_short_rest_of_a_block_does_not_slow_the_pace() -> None:
    pace = Pace(8192)
    for _ in range(5):
        pace.took(pace.rows, 0.001)
    assert pace.rows == 8192
    pace.took(3, 0.0001)
    assert pace.rows == 8192


TEN = np.random.default_rng(0).normal(size=(10, 3))


@pytest.mark.parametrize("in_flight", [1, 3])
def test_predictions_come_with_their_time(in_flight: int) -> None:
    names = []

    def model(part: np.ndarray) -> np.ndarray:
        names.append(threading.current_thread().name)
        return one_column(part)

    with workers(BlackBox(model, in_flight=in_flight)) as (submit, at_a_time):
        output, seconds = outcome(submit(TEN))
    assert at_a_time == in_flight
    assert np.array_equal(output, one_column(TEN))
    assert seconds > 0
    assert names[0].startswith("l2x-query") == (in_flight > 1)


def test_an_interruption_goes_straight_through() -> None:
    def model(part: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), workers(BlackBox(model)) as (submit, _):
        submit(TEN)


def test_a_model_that_does_not_travel() -> None:
    lock = threading.Lock()

    def model(part: np.ndarray) -> np.ndarray:
        with lock:
            return one_column(part)

    with (
        pytest.raises(l2x.errors.InputError, match="cannot be sent to another process"),
        workers(BlackBox(model), 2),
    ):
        pass


@settings(max_examples=50, deadline=None)
@given(
    d=st.integers(1, 12), n=st.integers(1, 60), rounds=st.integers(1, 5),
    slots=st.sampled_from([1, 7, 64, 4096]), seed=st.integers(0, 99),
)  # fmt: skip
def test_remembered_predictions_are_the_right_ones(
    d: int, n: int, rounds: int, slots: int, seed: int
) -> None:
    """However small the table, and however often the same subset comes back."""
    rng = np.random.default_rng(seed)
    memory = Memory(d, seed, slots=slots)
    for _ in range(rounds):
        rows, masks = rng.integers(0, 5, size=n), rng.random((n, d)) < 0.5
        truth = np.stack([rows * 1000.0 + masks @ 2.0 ** np.arange(d), rows], axis=1)
        queried: list[np.ndarray] = []

        def query(
            new: np.ndarray, truth: np.ndarray = truth, queried: list[np.ndarray] = queried
        ) -> np.ndarray:
            queried.append(truth[new])
            return truth[new]

        assert np.array_equal(memory.complete(rows, masks, query), truth)
        new = np.concatenate(queried) if queried else np.empty((0, 2))
        assert len(np.unique(new, axis=0)) == len(new)  # nothing twice in one call


def test_what_was_queried_before_is_not_queried_again() -> None:
    memory = Memory(3, seed=0)
    rows, masks = np.arange(50), np.random.default_rng(0).random((50, 3)) < 0.5
    first = memory.complete(rows, masks, lambda new: new[:, None].astype(float))

    def refuse(new: np.ndarray) -> np.ndarray:
        raise AssertionError(new)

    assert np.array_equal(memory.complete(rows[::-1], masks[::-1], refuse), first[::-1])


@pytest.mark.parametrize(
    ("view", "rows"),
    [(l2x.Columns, 1 << 20), (l2x.Patches, 1 << 19), (l2x.Words, 1 << 18), (l2x.Sentences, 1 << 18)],
)
def test_the_default_limit_is_a_number_of_rows(view: type[l2x.features.View], rows: int) -> None:
    most = recipes_of(view).default_queries(
        view(4).fit(np.zeros((1, 8, 8))) if view is l2x.Patches else view()
    )
    assert default_queries(most, print, brought=False) == rows
    assert default_queries(most, print, brought=True) == 0


def test_a_transformer_has_a_lower_default() -> None:
    assert default_queries(1 << 18, Scores(None, ["bad", "good"]), brought=False) == 1 << 16


def test_small_calls_leave_queries_to_large_ones() -> None:
    """All calls together never exceed the limit, and use it up if they want more."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        calls = [(int(rng.integers(1, 9)), int(rng.integers(1, 50))) for _ in range(4)]
        limit = int(rng.integers(1, 2000))
        each, wanted = per_call(limit, calls), sum(times * rows for times, rows in calls)
        used = sum(times * min(rows, each) for times, rows in calls)
        assert used == pytest.approx(min(limit, wanted))
        assert (each == np.inf) == (wanted <= limit)


def test_a_remote_model_has_a_lower_default() -> None:
    endpoint = l2x.Endpoint("https://models.example/v1/models/churn")
    assert default_queries(1 << 20, endpoint, brought=False) == REMOTE == 1 << 14
    assert default_queries(100, endpoint, brought=False) == 100


def test_training_leaves_some_of_a_default_limit_to_the_self_check() -> None:
    assert [without_reserve(rows) for rows in (0, 7, 1 << 14, 1 << 20)] == [0, 7, 14336, (1 << 20) - 8192]


def test_only_a_time_limit_depends_on_the_time_of_a_row() -> None:
    assert rows_within(1000, 5.0) == rows_within(1000, None) == 1000
    assert rows_within(timedelta(minutes=3), 0.5) == 360
    assert rows_within(timedelta(0), 0.5) == 0
    assert rows_within(timedelta(seconds=1), 0.0) > 10**6


@pytest.mark.parametrize(
    ("queries", "shown"),
    [
        (-1, "-1"),
        (1.5, "1.5"),
        ("many", "'many'"),
        (True, "True"),
        (10**400, "10000"),
        (timedelta(seconds=-1), r"datetime.timedelta\(days=-1"),
        (np.timedelta64(3, "m"), r"np.timedelta64\(3,'m'\)"),
    ],
)
def test_a_limit_that_is_none_is_refused(queries: object, shown: str) -> None:
    with pytest.raises(l2x.errors.InputError, match=f"queries is {shown}"):
        checked_queries(queries)


def test_limits_that_are_accepted() -> None:
    assert checked_queries(None) is None
    assert checked_queries(np.int64(5)) == 5
    assert checked_queries(timedelta(minutes=3)) == timedelta(seconds=180)


def test_a_step_needs_all_subsets_of_one_row() -> None:
    check_enough(400, 100, subsets=4)
    with pytest.raises(l2x.errors.InputError, match="limit is 399"):
        check_enough(399, 100, subsets=4)


@pytest.mark.parametrize(
    ("rows", "seconds_per_row", "shown"),
    [(1000, 0.001, None), (1000, None, None), (1000, 0.02, "20 s"), (65536, 0.05, "55 min")],
)
def test_queries_that_take_long_are_announced(
    rows: int, seconds_per_row: float | None, shown: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    announce(rows, seconds_per_row, visible=True)
    printed = " ".join(capsys.readouterr().err.split())
    assert printed == "" if shown is None else f"{rows:,}" in printed and shown in printed
    announce(rows, seconds_per_row, visible=False)
    assert not capsys.readouterr().err
