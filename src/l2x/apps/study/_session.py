"""A rater's session: the next task, an answer, undoing the last one, coming back.

Every step is one transaction. A repeated request is the same answer: it names the task and the attempt that
it was made for, and the second time changes nothing.
"""

from __future__ import annotations

import json
import sqlite3
import time
from dataclasses import dataclass

from l2x.apps.study._content import Content
from l2x.apps.study._study import Rater, Study
from l2x.errors import InputError, StudyError

Row = sqlite3.Row


@dataclass(frozen=True)
class Task:
    """What a rater is shown; nothing in it tells the method.

    Attributes
    ----------
    position, attempt : name this task in the answer to it
    content : of an item or of a task to practise on; None in a check
    told : in a check, the class to choose
    done, of : answered so far and planned, of practice or of the session
    undoable : position and attempt of the last answer, if it can be undone
    feedback : after practice, what the rater said and what the model said
    """

    position: int
    attempt: int
    practice: bool
    content: Content | None
    told: int | None
    done: int
    of: int
    undoable: tuple[int, int] | None
    feedback: tuple[int | None, int] | None


def next_task(study: Study, rater: Rater) -> Task | None:
    """The task that is open, or a new one; None if there is nothing left to do for this rater."""
    with study.store.writing() as db:
        if _closed(db):
            raise StudyError("This study is closed: it takes no more answers.")
        _release(db, time.time() - study.settings.patience, rater)
        found = _open(db, rater) or _reopened(db, rater) or _offered(db, study, rater)
        if found is None:
            return None
        db.execute(
            "UPDATE tasks SET shown = ? WHERE rater = ? AND position = ?",
            (time.time(), rater.rater, found["position"]),
        )
        return _task(db, study, rater, found)


def give_answer(
    study: Study,
    rater: Rater,
    position: int,
    attempt: int,
    choice: int | None,
    *,
    seconds: float | None = None,
) -> None:
    """Record an answer; when this returns, it is on disk. A choice of None is "cannot tell".

    `seconds` are measured from when the task was last shown, except for simulated raters, who have none.
    """
    if choice is not None and not 0 <= choice < len(study.settings.classes):
        raise InputError(f"There is no answer {choice}; choose one of those that are shown.")
    with study.store.writing() as db:
        task = _task_at(db, rater, position)
        before = db.execute(
            "SELECT choice FROM answers WHERE rater = ? AND position = ? AND attempt = ?",
            (rater.rater, position, attempt),
        ).fetchone()
        if before is not None:
            if before["choice"] == choice:
                return  # the same request once more
            raise StudyError("This task has an answer already; undo it to give another.")
        if _closed(db):
            raise StudyError("This study is closed: it takes no more answers.")
        if attempt != task["attempt"]:
            raise StudyError("This page is out of date; load it again.")
        if task["state"] == "released" and not _take_back(db, rater, task):
            raise StudyError(
                "While you were away this task was given to somebody else; go on with the next one."
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


def undo(study: Study, rater: Rater, position: int, attempt: int) -> None:
    """Take back the last answer; it stays in the file as undone, and its task is open again."""
    with study.store.writing() as db:
        task = _task_at(db, rater, position)
        if attempt < task["attempt"]:
            return  # the same request once more
        if _closed(db):
            raise StudyError("This study is closed: its answers stay as they are.")
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
    """How many items and checks the rater has answered."""
    with study.store.reading() as db:
        return _count(db, rater, "kind != 'practice' AND state = 'answered'")


def last_answer(study: Study, rater: Rater) -> tuple[int, int] | None:
    """Position and attempt of the last answer, if it can be undone."""
    with study.store.reading() as db:
        return _undoable(db, rater)


def _closed(db: sqlite3.Connection) -> bool:
    found = db.execute("SELECT value FROM settings WHERE name = 'closed'").fetchone()
    return found is not None and bool(json.loads(found["value"]))


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
    """After undoing, two tasks are open: the earlier one first."""
    query = "SELECT * FROM tasks WHERE rater = ? AND state = 'open' ORDER BY position LIMIT 1"
    found: Row | None = db.execute(query, (rater.rater,)).fetchone()
    return found


def _taken(rater: Rater) -> str:
    """The column of cells that counts raters of this kind: stand-ins never use up people's quotas."""
    return "simulated" if rater.simulated else "people"


def _release(db: sqlite3.Connection, before: float, rater: Rater) -> None:
    """Items that were shown so long ago that nobody seems to be there go to others; not this rater's own."""
    column = _taken(rater)
    left = db.execute(
        "SELECT rater, position, item, method FROM tasks JOIN raters USING (rater)"
        " WHERE state = 'open' AND shown < ? AND kind = 'item' AND rater != ? AND simulated = ?",
        (before, rater.rater, rater.simulated),
    ).fetchall()
    for row in left:
        db.execute(
            "UPDATE tasks SET state = 'released' WHERE rater = ? AND position = ?",
            (row["rater"], row["position"]),
        )
        db.execute(
            f"UPDATE cells SET {column} = {column} - 1 WHERE item = ? AND method = ?",
            (row["item"], row["method"]),
        )


def _take_back(db: sqlite3.Connection, rater: Rater, task: Row) -> bool:
    """Open a released task again, if its cell still needs an answer."""
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
    """A task of this rater that was released and is still needed: they have seen it already."""
    query = "SELECT * FROM tasks WHERE rater = ? AND state = 'released' ORDER BY position"
    for task in db.execute(query, (rater.rater,)).fetchall():
        if _take_back(db, rater, task):
            return _task_at(db, rater, task["position"])
    return None


def _offered(db: sqlite3.Connection, study: Study, rater: Rater) -> Row | None:
    """The next task of the rater's own order: practice, then items with checks among them."""
    design = study.settings.design
    position = _count(db, rater, "TRUE")
    checks = design.checks_of(rater.number, simulated=rater.simulated)
    place = position - design.practice
    if place < 0:
        lessons = db.execute("SELECT lesson FROM lessons WHERE purpose = 'practice' ORDER BY lesson")
        _insert(db, rater, position, "practice", lesson=lessons.fetchall()[position]["lesson"])
    elif place in checks:
        _insert(db, rater, position, "check", expected=checks[place])
    else:
        done = _count(db, rater, "kind = 'item' AND state != 'released'")
        cell = _needed_cell(db, study, rater, position) if done < design.per_rater else None
        if cell is None:
            return None
        column = _taken(rater)
        db.execute(f"UPDATE cells SET {column} = {column} + 1 WHERE item = ? AND method = ?", tuple(cell))
        _insert(db, rater, position, "item", item=cell[0], method=cell[1])
    return _task_at(db, rater, position)


def _insert(db: sqlite3.Connection, rater: Rater, position: int, kind: str, **about: int) -> None:
    now = time.time()
    columns = "".join(f", {name}" for name in about)
    db.execute(
        f"INSERT INTO tasks (rater, position, kind, state, offered, shown{columns})"
        f" VALUES (?, ?, ?, 'open', ?, ?{', ?' * len(about)})",
        (rater.rater, position, kind, now, now, *about.values()),
    )


def _needed_cell(db: sqlite3.Connection, study: Study, rater: Rater, position: int) -> tuple[int, int] | None:
    """An item that this rater has not seen, under the method whose turn it is; where that method needs no
    more answers, under the one that this rater has had least."""
    design = study.settings.design
    index = _count(db, rater, "kind = 'item'")
    turn = design.method_at(rater.number, index, simulated=rater.simulated)
    had = dict(
        tuple(row)
        for row in db.execute(
            "SELECT method, count(*) FROM tasks WHERE rater = ? AND kind = 'item' GROUP BY method",
            (rater.rater,),
        )
    )
    others = sorted(set(range(design.methods)) - {turn}, key=lambda method: (had.get(method, 0), method))
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
            rng = design.draws(rater.number, position, simulated=rater.simulated)
            return int(rng.choice(fewest)), method
    return None


def _undoable(db: sqlite3.Connection, rater: Rater) -> tuple[int, int] | None:
    """The last answer, unless one was undone just now."""
    last = db.execute(
        "SELECT position, attempt FROM tasks WHERE rater = ? AND state = 'answered'"
        " ORDER BY position DESC LIMIT 1",
        (rater.rater,),
    ).fetchone()
    waiting = _count(db, rater, "state = 'open' AND attempt > 0")
    return None if last is None or waiting else (last["position"], last["attempt"])


def _task(db: sqlite3.Connection, study: Study, rater: Rater, row: Row) -> Task:
    """The task as the rater sees it."""
    design, practice = study.settings.design, row["kind"] == "practice"
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
        told=row["expected"],
        done=_count(db, rater, f"{kind} AND state = 'answered'"),
        of=design.practice if practice else design.length,
        undoable=_undoable(db, rater),
        feedback=_feedback(db, rater, row["position"]),
    )


def _feedback(db: sqlite3.Connection, rater: Rater, position: int) -> tuple[int | None, int] | None:
    """What was said of the task before, and what the model said, if that was practice."""
    before = db.execute(
        "SELECT choice, lessons.answer FROM tasks JOIN answers USING (rater, position, attempt)"
        " JOIN lessons USING (lesson) WHERE rater = ? AND position = ? AND kind = 'practice'",
        (rater.rater, position - 1),
    ).fetchone()
    return None if before is None else (before["choice"], before["answer"])
