"""The black box is asked within a limit, and about the same subset of a row only once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import l2x
from l2x.asking import PATIENCE, Limit, Memory, check_enough, checked_queries


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


def test_a_limit_is_the_users_or_follows_from_the_time_of_labelling() -> None:
    assert Limit.of(1000, 5.0, calls=10).per_call == 100
    slow, fast = Limit.of(None, 1.0, calls=10), Limit.of(None, 1e-6, calls=10)
    assert slow.rows == 128 <= PATIENCE < 256
    assert fast.rows > 1e8
    assert "1e+03 ms" in slow.reason
    assert Limit.of(None, None, calls=10).rows == 0


@pytest.mark.parametrize("queries", [-1, 1.5, "many", True, 10**400])
def test_a_limit_that_is_no_number_of_rows_is_refused(queries: object) -> None:
    with pytest.raises(l2x.InputError, match=r"queries is .*; expected a number of rows, 0 or more"):
        checked_queries(queries)


def test_a_step_needs_all_subsets_of_one_row() -> None:
    check_enough(None, 100, subsets=4)
    check_enough(400, 100, subsets=4)
    with pytest.raises(l2x.InputError, match=r"only 399 may be asked \(because\)"):
        check_enough(399, 100, subsets=4, reason="because")
