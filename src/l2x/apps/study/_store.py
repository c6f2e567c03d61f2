"""The study's file: one SQLite database; an answer is on disk before it is acknowledged.

Constraints of the database rule out: more answers to a cell (an item under a method) than its quota, one item
twice for the same rater, two answers to one task, a simulated rater who becomes a person.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from l2x.errors import InputError, WriteError

APPLICATION = 0x6C327853  # "l2xS": distinguishes a study from other databases
VERSION = 1
# Seconds that a writer waits for another process, such as `l2x study simulate` while the site runs.
WAIT = 30.0

SCHEMA = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE items (
    item INTEGER PRIMARY KEY,
    row INTEGER NOT NULL,                -- in the data that the items were drawn from
    prediction INTEGER NOT NULL          -- the class that the model predicts for the whole input
) STRICT;
CREATE TABLE cells (
    item INTEGER NOT NULL REFERENCES items,
    method INTEGER NOT NULL,
    content TEXT NOT NULL,               -- what raters see, as JSON
    posthoc INTEGER,                     -- the class that the model predicts from the selected features
    evaluator INTEGER,                   -- the class that the evaluator predicts from them
    quota INTEGER NOT NULL,
    people INTEGER NOT NULL DEFAULT 0 CHECK (people BETWEEN 0 AND quota),      -- tasks open or answered
    simulated INTEGER NOT NULL DEFAULT 0 CHECK (simulated BETWEEN 0 AND quota),
    PRIMARY KEY (item, method)
) STRICT, WITHOUT ROWID;
CREATE TABLE lessons (                   -- worked examples, then practice; never counted
    lesson INTEGER PRIMARY KEY,
    purpose TEXT NOT NULL CHECK (purpose IN ('example', 'practice')),
    content TEXT NOT NULL,
    prediction INTEGER NOT NULL
) STRICT;
CREATE TABLE raters (
    rater INTEGER PRIMARY KEY,
    token TEXT NOT NULL UNIQUE,          -- the secret part of the rater's link
    number INTEGER NOT NULL,             -- among people, or among simulated raters, from 0
    nickname TEXT NOT NULL,
    simulated INTEGER NOT NULL CHECK (simulated IN (0, 1)),
    joined REAL NOT NULL,
    consented REAL,
    started REAL,                        -- instructions read
    UNIQUE (simulated, number)
) STRICT;
CREATE TRIGGER raters_keep_their_kind BEFORE UPDATE OF simulated ON raters
BEGIN SELECT RAISE(ABORT, 'a simulated rater stays simulated'); END;
CREATE TABLE tasks (
    rater INTEGER NOT NULL REFERENCES raters,
    position INTEGER NOT NULL,           -- in the order in which this rater was shown them, from 0
    kind TEXT NOT NULL CHECK (kind IN ('practice', 'item', 'check')),
    item INTEGER,
    method INTEGER,
    lesson INTEGER REFERENCES lessons,
    expected INTEGER,                    -- the class to choose, in a check
    state TEXT NOT NULL CHECK (state IN ('open', 'answered', 'released')),
    attempt INTEGER NOT NULL DEFAULT 0,  -- how many answers were undone
    shown REAL NOT NULL,                 -- when it was last shown
    PRIMARY KEY (rater, position),
    UNIQUE (rater, item),
    FOREIGN KEY (item, method) REFERENCES cells
) STRICT, WITHOUT ROWID;
CREATE INDEX open_tasks ON tasks (shown) WHERE state = 'open';
CREATE TABLE answers (
    rater INTEGER NOT NULL,
    position INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    choice INTEGER,                      -- a class; NULL is "cannot tell"
    seconds REAL,                        -- from the last time that the task was shown
    given REAL NOT NULL,
    undone REAL,
    PRIMARY KEY (rater, position, attempt),
    FOREIGN KEY (rater, position) REFERENCES tasks
) STRICT, WITHOUT ROWID;
"""


class Store:
    """A connection to the file that threads share, one at a time."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise InputError(f"There is no study '{self.path}'; make one with `l2x study new`.")
        _check_header(self.path)
        self._lock = threading.RLock()
        with self._readable():
            self._db = _connected(self.path, check=True)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Begin a transaction, which is on disk after the block, or rolled back; nested blocks join it."""
        with self._lock, self._readable():
            if self._db.in_transaction:
                yield self._db
                return
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Read a single state of the file, even if others write at the same time."""
        with self._lock, self._readable():
            nested = self._db.in_transaction
            if not nested:
                self._db.execute("BEGIN")
            try:
                yield self._db
            finally:
                if not nested:
                    self._db.execute("COMMIT")

    def setting(self, name: str) -> Any:
        """Return a value of the table of settings; None if it is not set."""
        with self.reading() as db:
            row = db.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row["value"])

    def set(self, name: str, value: Any) -> None:
        """Store a value in the table of settings."""
        with self.writing() as db:
            db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, json.dumps(value)))

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Name the file in an error about its content."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            kind = getattr(error, "sqlite_errorname", None)
            if type(error) is sqlite3.DatabaseError and kind in (None, "SQLITE_CORRUPT", "SQLITE_NOTADB"):
                raise InputError(
                    f"'{self.path}' is truncated or damaged ({error}); restore a copy, which "
                    "`l2x study backup` makes."
                ) from error
            raise

    def backup(self, path: str | Path) -> None:
        """Copy the study to a new file, while others may write; a copy of the file alone can miss answers.

        Raises
        ------
        InputError
            If `path` exists.
        WriteError
            If the copy cannot be written, for example because the disk is full.
        """
        path = Path(path)
        check_new(path)
        try:
            self._copy_to(path)
        except sqlite3.OperationalError as error:
            raise WriteError(f"Cannot copy '{self.path}' to '{path}': {error}.") from error

    def _copy_to(self, path: Path) -> None:
        temporary = path.with_name(f".{path.name}.new")
        temporary.unlink(missing_ok=True)
        copy = sqlite3.connect(temporary, isolation_level=None)
        try:
            with self._lock, self._readable():
                self._db.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file is the whole study
            copy.close()
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.rename(path)
        except BaseException:
            copy.close()
            temporary.unlink(missing_ok=True)
            raise

    def close(self) -> None:
        """Close the connection; after the last one is closed, the study is a single file."""
        with self._lock:
            self._db.close()


def create(path: str | Path, **tables: Sequence[tuple[Any, ...]]) -> None:
    """Write a new file with the rows of each table, as a whole or not at all."""
    path = Path(path)
    check_new(path)
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    db = _connected(temporary)
    try:
        db.executescript(SCHEMA)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("BEGIN IMMEDIATE")
        for name, rows in tables.items():
            for row in rows:
                db.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
        db.execute("COMMIT")
        db.close()
        temporary.rename(path)
    except BaseException:
        db.close()
        temporary.unlink(missing_ok=True)
        raise


def check_new(path: Path) -> None:
    """Raise an error if no study can be written to `path`, before anything is computed."""
    if path.exists():
        raise InputError(f"'{path}' exists; a study is never overwritten. Choose another name.")
    if not path.parent.is_dir():
        raise WriteError(f"Cannot write '{path}': there is no folder '{path.parent}'.")


def _check_header(path: Path) -> None:
    """Raise an error unless the first bytes, which hold application and version, are those of a study."""
    with path.open("rb") as file:
        header = file.read(100)
    version, application = (int.from_bytes(header[start : start + 4], "big") for start in (60, 68))
    if not header.startswith(b"SQLite format 3\0") or application != APPLICATION:
        raise InputError(f"'{path}' is not a study.")
    if version != VERSION:
        raise InputError(f"'{path}' was made by another version of l2x.")


def _connected(path: Path, *, check: bool = False) -> sqlite3.Connection:
    """Open a file; with `check`, raise a DatabaseError if pages are missing or damaged."""
    # Autocommit: transactions begin and end where the code sets them.
    db = sqlite3.connect(path, timeout=WAIT, isolation_level=None, check_same_thread=False)
    db.row_factory = sqlite3.Row
    try:
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        if check:
            db.execute("PRAGMA journal_mode = WAL")
            problem = db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if problem != "ok":
                raise sqlite3.DatabaseError(" ".join(problem.split()))
    except BaseException:
        db.close()
        raise
    return db
