"""The black box is asked within a limit, and about the same subset of a row only once."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import l2x
from l2x.learning.networks import recipes_of
from l2x.model._budget import (
    REMOTE,
    Memory,
    announce,
    check_enough,
    checked_queries,
    default_queries,
    rows_within,
    without_reserve,
)


@settings(max_examples=50, deadline=None)
@given(
    d=st.integers(1, 12), n=st.integers(1, 60), rounds=st.integers(1, 5),
    slots=st.sampled_from([1, 7, 64, 4096]), seed=st.integers(0, 99),
)  # fmt: skip
def test_remembered_answers_are_the_right_ones(d: int, n: int, rounds: int, slots: int, seed: int) -> None:
    """However small the table, and however often the same subset comes back."""
    rng = np.random.default_rng(seed)
    memory = Memory(d, seed, slots=slots)
    for _ in range(rounds):
        rows, masks = rng.integers(0, 5, size=n), rng.random((n, d)) < 0.5
        truth = np.stack([rows * 1000.0 + masks @ 2.0 ** np.arange(d), rows], axis=1)
        asked: list[np.ndarray] = []

        def ask(new: np.ndarray, truth: np.ndarray = truth, asked: list[np.ndarray] = asked) -> np.ndarray:
            asked.append(truth[new])
            return truth[new]

        assert np.array_equal(memory.complete(rows, masks, ask), truth)
        new = np.concatenate(asked) if asked else np.empty((0, 2))
        assert len(np.unique(new, axis=0)) == len(new)  # nothing twice in one call


def test_what_was_asked_before_is_not_asked_again() -> None:
    memory = Memory(3, seed=0)
    rows, masks = np.arange(50), np.random.default_rng(0).random((50, 3)) < 0.5
    first = memory.complete(rows, masks, lambda new: new[:, None].astype(float))

    def refuse(new: np.ndarray) -> np.ndarray:
        raise AssertionError(new)

    assert np.array_equal(memory.complete(rows[::-1], masks[::-1], refuse), first[::-1])


@pytest.mark.parametrize(
    ("view", "rows"),
    [(l2x.Columns, 1 << 20), (l2x.Patches, 1 << 19), (l2x.Words, 1 << 16), (l2x.Sentences, 1 << 16)],
)
def test_the_default_limit_is_a_number_of_rows(view: type[l2x.features.View], rows: int) -> None:
    assert default_queries(recipes_of(view).queries, print, brought=False) == rows
    assert default_queries(recipes_of(view).queries, print, brought=True) == 0


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
    with pytest.raises(l2x.InputError, match=f"queries is {shown}"):
        checked_queries(queries)


def test_limits_that_are_accepted() -> None:
    assert checked_queries(None) is None
    assert checked_queries(np.int64(5)) == 5
    assert checked_queries(timedelta(minutes=3)) == timedelta(seconds=180)


def test_a_step_needs_all_subsets_of_one_row() -> None:
    check_enough(400, 100, subsets=4)
    with pytest.raises(l2x.InputError, match="limit is 399"):
        check_enough(399, 100, subsets=4)


@pytest.mark.parametrize(
    ("rows", "seconds_per_row", "shown"),
    [(1000, 0.001, None), (1000, None, None), (1000, 0.02, "20 s"), (65536, 0.05, "55 min")],
)
def test_queries_that_take_long_are_announced(
    rows: int, seconds_per_row: float | None, shown: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    announce(rows, seconds_per_row, visible=True)
    said = " ".join(capsys.readouterr().err.split())
    assert said == "" if shown is None else f"{rows:,}" in said and shown in said
    announce(rows, seconds_per_row, visible=False)
    assert not capsys.readouterr().err
