"""Sessions: order, quotas with concurrent raters, one answer per task, undo, coming back, closing."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from studies import answer_all, joined, small_study

from l2x.apps.study import _session as session
from l2x.apps.study._session import give_answer, next_task, undo
from l2x.apps.study._study import Rater, Study
from l2x.errors import InputError, StudyError


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return small_study(tmp_path / "a.study")


def shown(study: Study, rater: Rater) -> list[tuple[str, int, int]]:
    with study.store.reading() as db:
        rows = db.execute(
            "SELECT kind, item, method FROM tasks WHERE rater = ? ORDER BY position", (rater.rater,)
        )
        return [tuple(row) for row in rows]


def test_practice_then_items_of_all_methods_with_checks_among_them(study: Study) -> None:
    rater = joined(study)
    assert answer_all(study, rater) == 1 + 6 + 1
    tasks = shown(study, rater)
    assert [kind for kind, _, _ in tasks].count("check") == 1
    assert tasks[0][0] == "practice"
    items = [(item, method) for kind, item, method in tasks if kind == "item"]
    assert sorted(item for item, _ in items) == list(range(6))  # nobody sees a review twice
    assert Counter(method for _, method in items) == {0: 2, 1: 2, 2: 2}
    assert next_task(study, rater) is None


def test_orders_are_random_and_recorded(tmp_path: Path) -> None:
    study = small_study(tmp_path / "a.study", items=24, per_rater=24, raters=9, checks=0)
    orders = []
    for _ in range(4):
        rater = joined(study)
        answer_all(study, rater)
        orders.append(tuple(item for kind, item, _ in shown(study, rater) if kind == "item"))
    assert len(set(orders)) == 4
    assert all(order != tuple(sorted(order)) for order in orders)


def test_quotas_are_filled_evenly_and_never_exceeded(study: Study) -> None:
    for _ in range(9):  # six would do: 6 items, 3 methods, 2 answers each
        answer_all(study, joined(study))
    assert [(given, wanted) for _, given, wanted in study.quotas()] == [(12, 12)] * 3
    counts = Counter((a.item, a.method) for a in study.answers(simulated=False) if a.item is not None)
    assert set(counts.values()) == {2}
    assert len(counts) == 18


def test_fifty_raters_request_tasks_at_once(tmp_path: Path) -> None:
    study = small_study(tmp_path / "a.study", items=7, practice=0, checks=0, per_rater=7)
    raters = [joined(study) for _ in range(50)]
    with ThreadPoolExecutor(50) as pool:
        tasks = list(pool.map(lambda rater: next_task(study, rater), raters))
    assert sum(task is not None for task in tasks) == 7 * 3 * 2  # exactly the quotas
    with study.store.reading() as db:
        assert all(row[0] == 2 for row in db.execute("SELECT people FROM cells"))


def test_fifty_raters_in_several_connections(tmp_path: Path) -> None:
    small_study(tmp_path / "a.study", items=7, practice=0, checks=0).close()

    def some(number: int) -> int:
        with Study(tmp_path / "a.study") as study:
            return sum(next_task(study, joined(study)) is not None for _ in range(10))

    with ThreadPoolExecutor(5) as pool:
        assert sum(pool.map(some, range(5))) == 7 * 3 * 2


def test_a_repeated_request_is_the_same_answer(study: Study) -> None:
    rater = joined(study)
    task = next_task(study, rater)
    assert task is not None
    for _ in range(3):
        give_answer(study, rater, task.position, task.attempt, 1)
    with pytest.raises(StudyError, match="already has an answer"):
        give_answer(study, rater, task.position, task.attempt, 0)
    with study.store.reading() as db:
        assert db.execute("SELECT count(*) FROM answers").fetchone()[0] == 1


def test_undo_reopens_the_last_task_and_keeps_the_answer(study: Study) -> None:
    rater = joined(study)
    for _ in range(3):
        task = next_task(study, rater)
        assert task is not None
        give_answer(study, rater, task.position, task.attempt, 0)
    waiting = next_task(study, rater)
    assert waiting is not None
    assert waiting.undoable == (2, 0)
    undo(study, rater, 2, 0)
    undo(study, rater, 2, 0)  # a repeated request
    again = next_task(study, rater)
    assert again is not None
    assert (again.position, again.attempt, again.undoable) == (2, 1, None)
    with pytest.raises(StudyError, match="Only the last answer"):
        undo(study, rater, 1, 0)
    # A request that was on its way since before the undo changes nothing.
    give_answer(study, rater, 2, 0, 0)
    assert next_task(study, rater) == again
    give_answer(study, rater, 2, 1, None)
    assert next_task(study, rater) is not None
    with study.store.reading() as db:
        kept = db.execute(
            "SELECT attempt, choice, undone IS NULL FROM answers WHERE position = 2 ORDER BY attempt"
        ).fetchall()
    assert [tuple(row) for row in kept] == [(0, 0, 0), (1, None, 1)]
    assert [a.choice for a in study.answers(simulated=False) if a.place == 1] == [None]


def test_coming_back_shows_the_same_task_and_measures_from_then(study: Study) -> None:
    rater = joined(study)
    task = next_task(study, rater)
    assert task is not None
    with study.store.writing() as db:
        db.execute("UPDATE tasks SET shown = shown - 1000")
    assert next_task(study, rater) == task
    give_answer(study, rater, task.position, task.attempt, 1)
    with study.store.reading() as db:
        assert db.execute("SELECT seconds FROM answers").fetchone()[0] < 500


def test_abandoned_tasks_go_to_other_raters_and_a_late_answer_cannot_exceed_a_quota(tmp_path: Path) -> None:
    study = small_study(tmp_path / "a.study", items=1, raters=1, practice=0, checks=0, methods=("ours",))
    away, other, third = (joined(study) for _ in range(3))
    left = next_task(study, away)
    assert left is not None
    assert next_task(study, other) is None  # reserved
    with study.store.writing() as db:
        db.execute("UPDATE tasks SET shown = ?", (time.time() - 2000,))
    taken = next_task(study, other)
    assert taken is not None
    give_answer(study, other, taken.position, taken.attempt, 1)
    with pytest.raises(StudyError, match="another rater"):
        give_answer(study, away, left.position, left.attempt, 0)
    assert next_task(study, away) is None
    assert next_task(study, third) is None
    assert [a.choice for a in study.answers(simulated=False)] == [1]


def test_a_released_task_that_is_still_needed_is_reopened(tmp_path: Path) -> None:
    study = small_study(tmp_path / "a.study", items=2, raters=1, practice=0, checks=0, methods=("ours",))
    away, other = joined(study), joined(study)
    left = next_task(study, away)
    assert left is not None
    with study.store.writing() as db:
        db.execute("UPDATE tasks SET shown = ?", (time.time() - 2000,))
    assert next_task(study, other) is not None  # releases it, and gets one of the two
    with study.store.reading() as db:
        items = {row[0]: row[1] for row in db.execute("SELECT rater, item FROM tasks")}
    again = next_task(study, away)
    if items[away.rater] == items[other.rater]:  # the same item: the rater who was away gets a new one
        assert again is not None
        assert again.position == 1
    else:
        assert again == left


def test_a_rater_cannot_answer_tasks_that_were_not_shown(study: Study) -> None:
    rater, other = joined(study), joined(study)
    next_task(study, other)
    with pytest.raises(InputError, match="no task 0"):
        give_answer(study, rater, 0, 0, 1)
    task = next_task(study, rater)
    assert task is not None
    with pytest.raises(InputError, match="There is no answer 2"):
        give_answer(study, rater, task.position, task.attempt, 2)
    with pytest.raises(StudyError, match="out of date"):
        give_answer(study, rater, task.position, 7, 1)
    assert session.answered(study, rater) == 0


def test_a_closed_study_accepts_only_repeated_requests(study: Study) -> None:
    rater = joined(study)
    task = next_task(study, rater)
    assert task is not None
    give_answer(study, rater, task.position, task.attempt, 1)
    waiting = next_task(study, rater)
    assert waiting is not None
    study.set_closed(True)
    give_answer(study, rater, task.position, task.attempt, 1)  # acknowledged before
    for attempt in (
        lambda: give_answer(study, rater, waiting.position, waiting.attempt, 1),
        lambda: undo(study, rater, task.position, task.attempt),
        lambda: next_task(study, rater),
    ):
        with pytest.raises(StudyError, match="closed"):
            attempt()
    study.set_closed(False)
    give_answer(study, rater, waiting.position, waiting.attempt, 1)


def test_feedback_follows_practice_alone(study: Study) -> None:
    rater = joined(study)
    practice = next_task(study, rater)
    assert practice is not None
    assert practice.practice
    assert practice.feedback is None
    give_answer(study, rater, practice.position, practice.attempt, 0)
    first = next_task(study, rater)
    assert first is not None
    assert first.feedback == (0, 1)
    give_answer(study, rater, first.position, first.attempt, 0)
    second = next_task(study, rater)
    assert second is not None
    assert second.feedback is None
