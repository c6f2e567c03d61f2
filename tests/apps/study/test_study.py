"""Settings and plan, raters and links, and what the organiser sees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from studies import SETTINGS, answer_all, joined, small_study, text

from l2x.apps.study import Settings, Study
from l2x.apps.study._study import Cell, Item, latin_square
from l2x.errors import InputError


def test_a_study_comes_back_as_it_was_made(tmp_path: Path) -> None:
    with small_study(tmp_path / "a.study") as study:
        before = study.settings, study.items(), study.examples(), study.organiser_token
    with Study(tmp_path / "a.study") as study:
        assert (study.settings, study.items(), study.examples(), study.organiser_token) == before
    assert before[0] == replace(SETTINGS, items=6)
    assert before[0].label(None) == "cannot tell"


def test_links_are_secret_and_differ(tmp_path: Path) -> None:
    with small_study(tmp_path / "a.study") as study, small_study(tmp_path / "b.study") as other:
        tokens = [study.organiser_token, study.join_token, other.organiser_token, other.join_token]
        tokens += [study.invite().token for _ in range(20)]
        assert len(set(tokens)) == 24
        assert all(len(token) >= 22 for token in tokens)  # 128 bits in base 64
        assert study.is_organiser(study.organiser_token)
        assert not study.is_organiser(study.join_token)
        assert not study.may_join("é")
        assert study.rater("nobody") is None
        assert study.rater(tokens[-1]) is not None


def test_nicknames_are_short_and_plain(tmp_path: Path) -> None:
    with small_study(tmp_path / "a.study") as study:
        assert study.invite("  Anna   Lena ").name == "Anna Lena"
        assert study.invite().name == "rater 2"
        for wrong in ("x" * 41, "bell\x07"):
            with pytest.raises(InputError, match="nickname"):
                study.invite(wrong)


def test_progress_of_everybody(tmp_path: Path) -> None:
    with small_study(tmp_path / "a.study") as study:
        answer_all(study, joined(study, "Anna"))
        joined(study, "Bert")
        anna, bert = study.progress()
        assert (anna.rater.name, anna.answered, anna.checks, anna.passed) == ("Anna", 6, 1, 1)
        assert (bert.answered, bert.checks, bert.last) == (0, 0, None)
        assert study.quotas() == [("ours", 2, 12), ("theirs", 2, 12), ("whole", 2, 12)]


def test_incomplete_studies_are_refused(tmp_path: Path) -> None:
    item = Item(0, 1, [Cell(text("good"))])
    with pytest.raises(InputError, match="1 cells for 3 methods"):
        Study.create(tmp_path / "a.study", SETTINGS, [item])
    with pytest.raises(InputError, match="practice = 1, but 0"):
        Study.create(tmp_path / "a.study", SETTINGS, [])
    with pytest.raises(InputError, match="Two method names are 'a'"):
        replace(SETTINGS, methods=("a", "a"))


def design(**changed: Any) -> Settings:
    numbers = {"raters": 3, "per_rater": 12, "practice": 2, "checks": 3, "seed": 5} | changed
    return Settings(classes=("a", "b"), methods=("p", "q", "r", "s"), **numbers)


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


def test_the_same_seed_gives_the_same_plan_and_simulated_raters_have_their_own() -> None:
    def orders(seed: int, *, simulated: bool = False) -> list[int]:
        return [design(seed=seed).method_at(0, i, simulated=simulated) for i in range(40)]

    assert orders(1) == orders(1) != orders(2)
    assert orders(1) != orders(1, simulated=True)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"items": 0}, "items = 0"),
        ({"raters": 0}, "raters = 0"),
        ({"checks": -1}, "checks = -1"),
        ({"classes": ("one",)}, "two classes.*'one'"),
        ({"classes": ("a", "a")}, "class names are 'a'"),
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Settings(**wrong)
