"""Results: checked by hand on a small study, and never of people and stand-ins together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from studies import answer_all, joined, small_study

from l2x.apps.study._results import results
from l2x.apps.study._session import give_answer, next_task
from l2x.apps.study._simulation import simulate
from l2x.errors import InputError


def test_by_hand(tmp_path: Path) -> None:
    """Three raters who always say "positive", as the model does of every other item."""
    with small_study(tmp_path / "a.study", raters=1) as study:
        for _ in range(3):
            answer_all(study, joined(study), 1)
        found = results(study, draws=50)
    assert (found.raters, found.answers, found.simulated, found.careless) == (3, 18, False, [])
    for one in found.methods:
        assert (one.items, one.answers) == (6, 6)
        assert one.accuracy.value == one.careful.value == one.single == 0.5
        assert (one.neutral, one.posthoc, one.judge) == (0, 1, 0.5)
        assert one.confusion.tolist() == [[0, 3, 0], [0, 3, 0]]
        assert one.seconds >= 0
    assert [d.difference.value for d in found.differences] == [0, 0, 0]
    assert sum(part.answers for part in found.learning) == 18
    records = found.to_records()
    assert [record["method"] for record in records] == ["ours", "theirs", "whole"]
    assert records[0]["human_accuracy"] == 0.5
    assert records[0]["simulated"] is False


def test_undecided_items_count_as_not_agreed(tmp_path: Path) -> None:
    with small_study(tmp_path / "a.study", methods=("ours",), raters=2) as study:
        answer_all(study, joined(study), 0)
        answer_all(study, joined(study), 1)
        (one,) = results(study, draws=20).methods
    assert one.accuracy.value == 0
    assert one.confusion[:, -1].tolist() == [3, 3]
    assert one.single == 0.5


def test_careless_raters_are_named_and_left_out(tmp_path: Path) -> None:
    with small_study(tmp_path / "a.study", methods=("ours",), raters=3, checks=3) as study:
        for wrong in (False, False, True):
            rater = joined(study)
            while (task := next_task(study, rater)) is not None:
                words = "" if task.content is None else task.content["phrases"][0]
                right = int(words in ("great", "lovely", "superb")) if task.told is None else task.told
                give_answer(study, rater, task.position, task.attempt, 1 - right if wrong else right)
        found = results(study, draws=50)
    assert [(one.number, one.passed, one.checks) for one in found.careless] == [(2, 0, 3)]
    assert found.methods[0].careful.value == 1
    assert found.methods[0].single == pytest.approx(2 / 3)
    assert found.methods[0].alpha < 1


def test_people_and_stand_ins_are_never_counted_together(tmp_path: Path) -> None:
    with small_study(tmp_path / "a.study") as study:
        with pytest.raises(InputError, match="no answers of people yet"):
            results(study)
        simulate(study, raters=3)
        with pytest.raises(InputError, match="no answers of people yet"):
            results(study)
        before = results(study, simulated=True, draws=20)
        answer_all(study, joined(study), 0)
        assert results(study, draws=20).answers == 6
        after = results(study, simulated=True, draws=20)
    assert before.to_records() == after.to_records()
    assert np.isnan(after.methods[0].seconds)  # nobody took any time
    assert all(record["simulated"] for record in after.to_records())
