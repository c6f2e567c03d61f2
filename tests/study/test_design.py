"""Latin squares, balance within raters and across them, and draws that repeat."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l2x.apps.study._design import Design, latin_square
from l2x.errors import InputError


def design(methods: int = 4, **changed: int) -> Design:
    settings = {"classes": 2, "raters": 3, "per_rater": 12, "practice": 2, "checks": 3, "seed": 5} | changed
    return Design(methods=methods, **settings)


@given(st.integers(1, 9), st.integers(0, 2**32))
def test_each_symbol_stands_once_in_every_row_and_column(n: int, seed: int) -> None:
    square = latin_square(n, np.random.default_rng(seed))
    assert (np.sort(square, axis=0) == np.arange(n)[:, None]).all()
    assert (np.sort(square, axis=1) == np.arange(n)).all()


def test_methods_are_balanced_within_each_rater_and_at_each_place() -> None:
    plan = design()
    shown = np.array([[plan.method_at(rater, index) for index in range(12)] for rater in range(8)])
    for rater in shown:
        assert np.bincount(rater).tolist() == [3, 3, 3, 3]
    for group in (shown[:4], shown[4:]):
        assert (np.sort(group, axis=0) == np.arange(4)[:, None]).all()
    # Mixed at random: neither the raters nor the blocks of one rater have one order.
    assert len({tuple(row) for row in shown}) == 8
    assert len({tuple(row[i : i + 4]) for row in shown for i in (0, 4, 8)}) > 12


def test_checks_are_within_the_session_never_first_and_differ_between_raters() -> None:
    plan = design(checks=3, per_rater=20)
    found = [plan.checks_of(rater) for rater in range(30)]
    for checks in found:
        assert len(checks) == 3
        assert all(1 <= place < plan.length and expected in (0, 1) for place, expected in checks.items())
    assert len({tuple(checks) for checks in found}) > 20
    assert design(checks=0).checks_of(0) == {}


def test_the_same_seed_gives_the_same_plan_and_stand_ins_have_their_own() -> None:
    def orders(seed: int, *, simulated: bool = False) -> list[int]:
        return [design(seed=seed).method_at(0, i, simulated=simulated) for i in range(40)]

    assert orders(1) == orders(1) != orders(2)
    assert orders(1) != orders(1, simulated=True)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"raters": 0}, "raters is 0"), ({"classes": 1}, "two classes"), ({"checks": -1}, "cannot be negative")],
)
def test_what_cannot_be_is_refused(wrong: dict[str, int], said: str) -> None:
    with pytest.raises(InputError, match=said):
        design(**wrong)
