"""Settings, raters and links, and what the organiser sees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from studies import SETTINGS, answer_all, joined, small_study, text

from l2x.apps.study._study import Cell, Item, Study
from l2x.errors import InputError


def test_a_study_comes_back_as_it_was_made(tmp_path: Path) -> None:
    with small_study(tmp_path / "a.study") as study:
        before = study.settings, study.items(), study.examples(), study.organiser_token
    with Study(tmp_path / "a.study") as study:
        assert (study.settings, study.items(), study.examples(), study.organiser_token) == before
    assert before[0] == SETTINGS
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


def test_what_cannot_be_a_study(tmp_path: Path) -> None:
    item = Item(0, 1, [Cell(text("good"))])
    with pytest.raises(InputError, match="1 cells for 3 methods"):
        Study.create(tmp_path / "a.study", SETTINGS, [item])
    with pytest.raises(InputError, match="1 tasks to practise on were announced, 0 given"):
        Study.create(tmp_path / "a.study", SETTINGS, [])
    with pytest.raises(InputError, match="Two method names are 'a'"):
        replace(SETTINGS, methods=("a", "a"))
