"""The file: constraints of the database, and writing as a whole or not at all."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from studies import joined, small_study

from l2x.apps.study._session import give_answer, next_task
from l2x.apps.study._study import Study
from l2x.errors import InputError, WriteError


def test_answers_are_on_disk_before_a_commit_returns(tmp_path: Path) -> None:
    with small_study(tmp_path / "a.study") as study, study.store.reading() as db:
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert db.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL
        assert db.execute("PRAGMA foreign_keys").fetchone()[0] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.study"]  # closed: one file is the whole study


@pytest.mark.parametrize(
    "wrong",
    [
        "UPDATE cells SET people = quota + 1",
        "UPDATE cells SET people = -1",
        "UPDATE raters SET simulated = 1",
        # One review twice for the same rater, under another method.
        "INSERT INTO tasks SELECT rater, 99, kind, item, (method + 1) % 3, lesson, expected, state, attempt,"
        " shown FROM tasks WHERE item IS NOT NULL",
        "INSERT INTO answers VALUES (77, 0, 0, 1, 1.0, 1.0, NULL)",  # nobody's
        "UPDATE tasks SET kind = 'other'",
    ],
)
def test_the_database_itself_refuses(tmp_path: Path, wrong: str) -> None:
    with small_study(tmp_path / "a.study", practice=0) as study:
        next_task(study, joined(study))
        with pytest.raises(sqlite3.IntegrityError), study.store.writing() as db:
            db.execute(wrong)
        with study.store.reading() as db:
            assert db.execute("SELECT count(*) FROM tasks").fetchone()[0] == 1


def test_a_failed_block_is_rolled_back(tmp_path: Path) -> None:
    with small_study(tmp_path / "a.study") as study:

        def fail() -> None:
            with study.store.writing() as db:
                db.execute("DELETE FROM lessons")
                study.store.set("closed", True)  # part of the outer block
                raise RuntimeError("the power went")

        with pytest.raises(RuntimeError):
            fail()
        assert len(study.examples()) == 2
        assert not study.closed


def test_files_that_are_not_studies(tmp_path: Path) -> None:
    (tmp_path / "text.study").write_text("hello " * 1000)
    sqlite3.connect(tmp_path / "other.study").execute("CREATE TABLE t (x)").connection.close()
    for name in ("text.study", "other.study"):
        with pytest.raises(InputError, match="is not a study"):
            Study(tmp_path / name)
    with pytest.raises(InputError, match="There is no study"):
        Study(tmp_path / "missing.study")
    small_study(tmp_path / "a.study").close()
    db = sqlite3.connect(tmp_path / "a.study")
    db.execute("PRAGMA user_version = 2")
    db.close()
    with pytest.raises(InputError, match="another version"):
        Study(tmp_path / "a.study")


def test_a_study_is_never_overwritten(tmp_path: Path) -> None:
    small_study(tmp_path / "a.study").close()
    before = (tmp_path / "a.study").read_bytes()
    with pytest.raises(InputError, match="never overwritten"):
        small_study(tmp_path / "a.study")
    assert (tmp_path / "a.study").read_bytes() == before
    with pytest.raises(WriteError, match="no folder"):
        small_study(tmp_path / "nowhere" / "a.study")
    assert [path.name for path in tmp_path.iterdir()] == ["a.study"]


def answer_some(study: Study, n: int) -> None:
    rater = joined(study)
    for _ in range(n):
        task = next_task(study, rater)
        assert task is not None
        give_answer(study, rater, task.position, task.attempt, 1)


def test_a_backup_has_the_answers_of_the_write_ahead_log(tmp_path: Path) -> None:
    with small_study(tmp_path / "a.study", practice=0) as study:
        answer_some(study, 5)
        shutil.copy(tmp_path / "a.study", tmp_path / "copied.study")
        study.backup(tmp_path / "b.study")
        answer_some(study, 1)
        with Study(tmp_path / "b.study") as copy, Study(tmp_path / "copied.study") as copied:
            assert sum(progress.answered + progress.checks for progress in copy.progress()) == 5
            assert not copied.progress()  # why there is `backup`
            assert copy.join_token == study.join_token
        with pytest.raises(InputError, match=r"b\.study"):  # never overwritten
            study.backup(tmp_path / "b.study")
        with pytest.raises(WriteError, match="nowhere"):
            study.backup(tmp_path / "nowhere" / "b.study")
        if Path("/proc/self").exists():  # a folder in which even root makes no files
            with pytest.raises(WriteError, match=r"/proc/b\.study"):
                study.backup("/proc/b.study")
    assert {path.name for path in tmp_path.iterdir()} == {"a.study", "b.study", "copied.study"}


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_study_is_named(tmp_path: Path, share: float) -> None:
    path = tmp_path / "a.study"
    small_study(path).close()
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match=r"a\.study' is truncated or damaged"):
        Study(path)


def test_a_study_with_damaged_pages_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.study"
    small_study(path).close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.study' is truncated or damaged"):
        Study(path)
