"""A rater's session: the next task, an answer, undoing the last answer, coming back.

Every step is one transaction. An answer names its task and attempt: a repeated request changes nothing.
"""

from __future__ import annotations

import json
import sqlite3
import time
from dataclasses import dataclass

from l2x.apps.study._study import Rater, Study
from l2x.display import Content
from l2x.errors import InputError, StudyError

Row = sqlite3.Row


@dataclass(frozen=True)
class Task:
    """What a rater is shown; it does not reveal the method. Position and attempt identify it in an answer."""

    position: int
    attempt: int
    practice: bool
    content: Content | None  # of an item or of a practice task; None in a check
    expected: int | None  # in a check, the class to choose
    done: int  # answered tasks, of practice or of the session
    of: int  # planned tasks
    undoable: tuple[int, int] | None  # position and attempt of the last answer, if it can be undone
    feedback: tuple[int | None, int] | None  # after practice: the rater's answer, the model's prediction


def next_task(study: Study, rater: Rater) -> Task | None:
    """Return the open task or a new one; None if nothing is left to do for this rater."""
    with study.store.writing() as db:
        _check_open(db)
        _release(db, time.time() - study.settings.patience, rater)
        row = _open(db, rater) or _reopened(db, rater) or _offered(db, study, rater)
        if row is None:
            return None
        db.execute(
            "UPDATE tasks SET shown = ? WHERE rater = ? AND position = ?",
            (time.time(), rater.rater, row["position"]),
        )
        return _task(db, study, rater, row)


def give_answer(
    study: Study,
    rater: Rater,
    position: int,
    attempt: int,
    choice: int | None,
    *,
    seconds: float | None = None,
) -> None:
    """Record an answer; it is on disk when this returns. A choice of None is "cannot tell".

    `seconds` is by default the time since the task was last shown; simulated raters have none.
    """
    if choice is not None and not 0 <= choice < len(study.settings.classes):
        raise InputError(f"There is no answer {choice}; choose one of those that are shown.")
    with study.store.writing() as db:
        task = _task_at(db, rater, position)
        if _repeats(db, rater, position, attempt, choice):
            return
        _check_open(db)
        if attempt != task["attempt"]:
            raise StudyError("This page is out of date; load it again.")
        if task["state"] == "released" and not _take_back(db, rater, task):
            raise StudyError(
                "While you were away, this task was given to another rater; go on with the next."
            )
        now = time.time()
        if seconds is None and not rater.simulated:
            seconds = max(0.0, now - task["shown"])
        db.execute(
            "INSERT INTO answers (rater, position, attempt, choice, seconds, given)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (rater.rater, position, attempt, choice, seconds, now),
        )
        _set_state(db, rater, position, "answered")


def _repeats(db: sqlite3.Connection, rater: Rater, position: int, attempt: int, choice: int | None) -> bool:
    """Return whether this answer is stored already; raise a StudyError if another one is."""
    stored = db.execute(
        "SELECT choice FROM answers WHERE rater = ? AND position = ? AND attempt = ?",
        (rater.rater, position, attempt),
    ).fetchone()
    if stored is not None and stored["choice"] != choice:
        raise StudyError("This task already has an answer; undo it to give another.")
    return stored is not None


def undo(study: Study, rater: Rater, position: int, attempt: int) -> None:
    """Undo the last answer: it stays in the file, marked as undone, and its task is open again."""
    with study.store.writing() as db:
        task = _task_at(db, rater, position)
        if attempt < task["attempt"]:
            return  # a repeated request
        _check_open(db)
        if _undoable(db, rater) != (position, attempt):
            raise StudyError("Only the last answer can be undone.")
        db.execute(
            "UPDATE answers SET undone = ? WHERE rater = ? AND position = ? AND attempt = ?",
            (time.time(), rater.rater, position, attempt),
        )
        db.execute(
            "UPDATE tasks SET state = 'open', attempt = attempt + 1 WHERE rater = ? AND position = ?",
            (rater.rater, position),
        )


def answered(study: Study, rater: Rater) -> int:
    """Return the number of items and checks that the rater has answered."""
    with study.store.reading() as db:
        return _count(db, rater, "kind != 'practice' AND state = 'answered'")


def last_answer(study: Study, rater: Rater) -> tuple[int, int] | None:
    """Return position and attempt of the last answer, if it can be undone."""
    with study.store.reading() as db:
        return _undoable(db, rater)


def _check_open(db: sqlite3.Connection) -> None:
    row = db.execute("SELECT value FROM settings WHERE name = 'closed'").fetchone()
    if row is not None and json.loads(row["value"]):
        raise StudyError("This study is closed: it accepts no more answers.")


def _task_at(db: sqlite3.Connection, rater: Rater, position: int) -> Row:
    task: Row | None = db.execute(
        "SELECT * FROM tasks WHERE rater = ? AND position = ?", (rater.rater, position)
    ).fetchone()
    if task is None:
        raise InputError(f"There is no task {position}; answer the one that is shown.")
    return task


def _set_state(db: sqlite3.Connection, rater: Rater, position: int, state: str) -> None:
    db.execute("UPDATE tasks SET state = ? WHERE rater = ? AND position = ?", (state, rater.rater, position))


def _count(db: sqlite3.Connection, rater: Rater, condition: str) -> int:
    query = f"SELECT count(*) FROM tasks WHERE rater = ? AND {condition}"
    return int(db.execute(query, (rater.rater,)).fetchone()[0])


def _open(db: sqlite3.Connection, rater: Rater) -> Row | None:
    """Return the earliest open task; after undoing there are two."""
    query = "SELECT * FROM tasks WHERE rater = ? AND state = 'open' ORDER BY position LIMIT 1"
    row: Row | None = db.execute(query, (rater.rater,)).fetchone()
    return row


def _taken(rater: Rater) -> str:
    """Return the column of cells that counts raters of this kind; simulated raters have their own quotas."""
    return "simulated" if rater.simulated else "people"


def _release(db: sqlite3.Connection, before: float, rater: Rater) -> None:
    """Release items that other raters left open and last saw before this time."""
    column = _taken(rater)
    left = db.execute(
        "SELECT rater, position, item, method FROM tasks JOIN raters USING (rater)"
        " WHERE state = 'open' AND shown < ? AND kind = 'item' AND rater != ? AND simulated = ?",
        (before, rater.rater, rater.simulated),
    ).fetchall()
    for row in left:
        release = "UPDATE tasks SET state = 'released' WHERE rater = ? AND position = ?"
        db.execute(release, (row["rater"], row["position"]))
        free = f"UPDATE cells SET {column} = {column} - 1 WHERE item = ? AND method = ?"
        db.execute(free, (row["item"], row["method"]))


def _take_back(db: sqlite3.Connection, rater: Rater, task: Row) -> bool:
    """Open a released task again if its cell still needs an answer; return whether it does."""
    column = _taken(rater)
    room = db.execute(
        f"UPDATE cells SET {column} = {column} + 1 WHERE item = ? AND method = ? AND {column} < quota",
        (task["item"], task["method"]),
    )
    if not room.rowcount:
        return False
    _set_state(db, rater, task["position"], "open")
    return True


def _reopened(db: sqlite3.Connection, rater: Rater) -> Row | None:
    """Return a released task of this rater, opened again, if one still needs an answer."""
    query = "SELECT * FROM tasks WHERE rater = ? AND state = 'released' ORDER BY position"
    for task in db.execute(query, (rater.rater,)).fetchall():
        if _take_back(db, rater, task):
            return _task_at(db, rater, task["position"])
    return None


def _offered(db: sqlite3.Connection, study: Study, rater: Rater) -> Row | None:
    """Add and return the rater's next task: practice first, then items with checks among them."""
    settings = study.settings
    position = _count(db, rater, "TRUE")
    checks = settings.checks_of(rater.number, simulated=rater.simulated)
    place = position - settings.practice
    if place < 0:
        lessons = db.execute("SELECT lesson FROM lessons WHERE purpose = 'practice' ORDER BY lesson")
        _insert(db, rater, position, "practice", lesson=lessons.fetchall()[position]["lesson"])
    elif place in checks:
        _insert(db, rater, position, "check", expected=checks[place])
    else:
        done = _count(db, rater, "kind = 'item' AND state != 'released'")
        cell = _needed_cell(db, study, rater, position) if done < settings.per_rater else None
        if cell is None:
            return None
        column = _taken(rater)
        db.execute(f"UPDATE cells SET {column} = {column} + 1 WHERE item = ? AND method = ?", tuple(cell))
        _insert(db, rater, position, "item", item=cell[0], method=cell[1])
    return _task_at(db, rater, position)


def _insert(db: sqlite3.Connection, rater: Rater, position: int, kind: str, **about: int) -> None:
    columns = "".join(f", {name}" for name in about)
    db.execute(
        f"INSERT INTO tasks (rater, position, kind, state, shown{columns})"
        f" VALUES (?, ?, ?, 'open', ?{', ?' * len(about)})",
        (rater.rater, position, kind, time.time(), *about.values()),
    )


def _needed_cell(db: sqlite3.Connection, study: Study, rater: Rater, position: int) -> tuple[int, int] | None:
    """Return (item, method) for a new task; None if no item that this rater has not seen needs an answer.

    The method follows from the plan; if it needs no more answers, it is the one this rater has seen least
    often.
    """
    settings = study.settings
    index = _count(db, rater, "kind = 'item'")
    turn = settings.method_at(rater.number, index, simulated=rater.simulated)
    counted = "SELECT method, count(*) FROM tasks WHERE rater = ? AND kind = 'item' GROUP BY method"
    had = dict(map(tuple, db.execute(counted, (rater.rater,))))
    methods = set(range(len(settings.methods)))
    others = sorted(methods - {turn}, key=lambda method: (had.get(method, 0), method))
    column = _taken(rater)
    for method in (turn, *others):
        needed = db.execute(
            f"SELECT item, {column} FROM cells WHERE method = ? AND {column} < quota"
            " AND item NOT IN (SELECT item FROM tasks WHERE rater = ? AND item IS NOT NULL)"
            f" ORDER BY {column}, item",
            (method, rater.rater),
        ).fetchall()
        if needed:
            fewest = [row["item"] for row in needed if row[1] == needed[0][1]]
            rng = settings.item_draw(rater.number, position, simulated=rater.simulated)
            return int(rng.choice(fewest)), method
    return None


def _undoable(db: sqlite3.Connection, rater: Rater) -> tuple[int, int] | None:
    """Return position and attempt of the last answer, unless an undone task is still open."""
    last = db.execute(
        "SELECT position, attempt FROM tasks WHERE rater = ? AND state = 'answered'"
        " ORDER BY position DESC LIMIT 1",
        (rater.rater,),
    ).fetchone()
    waiting = _count(db, rater, "state = 'open' AND attempt > 0")
    return None if last is None or waiting else (last["position"], last["attempt"])


def _task(db: sqlite3.Connection, study: Study, rater: Rater, row: Row) -> Task:
    """Return the task as the rater sees it."""
    settings, practice = study.settings, row["kind"] == "practice"
    content: Content | None = None
    if practice:
        lesson = db.execute("SELECT * FROM lessons WHERE lesson = ?", (row["lesson"],)).fetchone()
        content = json.loads(lesson["content"])
    elif row["kind"] == "item":
        cell = db.execute(
            "SELECT content FROM cells WHERE item = ? AND method = ?", (row["item"], row["method"])
        ).fetchone()
        content = json.loads(cell["content"])
    kind = "kind = 'practice'" if practice else "kind != 'practice'"
    return Task(
        position=row["position"],
        attempt=row["attempt"],
        practice=practice,
        content=content,
        expected=row["expected"],
        done=_count(db, rater, f"{kind} AND state = 'answered'"),
        of=settings.practice if practice else settings.length,
        undoable=_undoable(db, rater),
        feedback=_feedback(db, rater, row["position"]),
    )


def _feedback(db: sqlite3.Connection, rater: Rater, position: int) -> tuple[int | None, int] | None:
    """Return answer and prediction of the task before, if that was practice."""
    before = db.execute(
        "SELECT choice, lessons.prediction FROM tasks JOIN answers USING (rater, position, attempt)"
        " JOIN lessons USING (lesson) WHERE rater = ? AND position = ? AND kind = 'practice'",
        (rater.rater, position - 1),
    ).fetchone()
    return None if before is None else (before["choice"], before["prediction"])
