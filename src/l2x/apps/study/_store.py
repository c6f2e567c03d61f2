"""The study's file: one SQLite database, in which an answer stands before it is acknowledged.

The database itself refuses what must not happen: a cell (an item under a method) over its quota, one review
twice for the same rater, two answers to one task, a simulated rater who becomes a person.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from l2x.errors import InputError, WriteError

APPLICATION = 0x6C327853  # "l2xS": tells a study from other databases
VERSION = 1
# Seconds that a writer waits for another process, such as `l2x study simulate` beside a running site.
WAIT = 30.0

SCHEMA = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE items (
    item INTEGER PRIMARY KEY,
    row INTEGER NOT NULL,                -- in the data that the items were drawn from
    answer INTEGER NOT NULL              -- the model's class for the whole input
) STRICT;
CREATE TABLE cells (
    item INTEGER NOT NULL REFERENCES items,
    method INTEGER NOT NULL,
    content TEXT NOT NULL,               -- what raters see, as JSON
    posthoc INTEGER,                     -- the model's class for the selection alone
    judge INTEGER,                       -- the judge's class for it
    quota INTEGER NOT NULL,
    people INTEGER NOT NULL DEFAULT 0 CHECK (people BETWEEN 0 AND quota),      -- tasks open or answered
    simulated INTEGER NOT NULL DEFAULT 0 CHECK (simulated BETWEEN 0 AND quota),
    PRIMARY KEY (item, method)
) STRICT, WITHOUT ROWID;
CREATE TABLE lessons (                   -- worked examples, then practice; never counted
    lesson INTEGER PRIMARY KEY,
    purpose TEXT NOT NULL CHECK (purpose IN ('example', 'practice')),
    content TEXT NOT NULL,
    answer INTEGER NOT NULL
) STRICT;
CREATE TABLE raters (
    rater INTEGER PRIMARY KEY,
    token TEXT NOT NULL UNIQUE,          -- the secret part of the rater's link
    number INTEGER NOT NULL,             -- among people, or among simulated raters, from 0
    nickname TEXT NOT NULL,
    simulated INTEGER NOT NULL CHECK (simulated IN (0, 1)),
    reader TEXT,                         -- what a simulated rater is
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
    expected INTEGER,                    -- of a check
    state TEXT NOT NULL CHECK (state IN ('open', 'answered', 'released')),
    attempt INTEGER NOT NULL DEFAULT 0,  -- how often an answer was undone
    offered REAL NOT NULL,
    shown REAL NOT NULL,                 -- last time
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
    """A connection to the file, shared by threads: one at a time."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise InputError(f"There is no study '{self.path}'; make one with `l2x study new`.")
        _check_header(self.path)
        self._lock = threading.RLock()
        self._db = _connected(self.path)
        self._db.execute("PRAGMA journal_mode = WAL")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is on disk when the block has ended, or has not happened; a block within a block
        is part of the outer one."""
        with self._lock:
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
        """One state of the file, whatever is written meanwhile."""
        with self._lock:
            nested = self._db.in_transaction
            if not nested:
                self._db.execute("BEGIN")
            try:
                yield self._db
            finally:
                if not nested:
                    self._db.execute("COMMIT")

    def setting(self, name: str) -> Any:
        with self.reading() as db:
            found = db.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return None if found is None else json.loads(found["value"])

    def set(self, name: str, value: Any) -> None:
        with self.writing() as db:
            db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, json.dumps(value)))

    def close(self) -> None:
        """After the last connection is closed, the file alone is the whole study."""
        with self._lock:
            self._db.close()


def create(
    path: str | Path,
    *,
    settings: dict[str, Any],
    items: Sequence[tuple[int, int]],
    cells: Sequence[tuple[int, int, str, int | None, int | None]],
    lessons: Sequence[tuple[str, str, int]],
    quota: int,
) -> Store:
    """A new file, whole or not at all: items (row, answer), cells (item, method, content, posthoc, judge),
    lessons (purpose, content, answer)."""
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
        db.executemany(
            "INSERT INTO settings VALUES (?, ?)",
            [(name, json.dumps(value)) for name, value in settings.items()],
        )
        db.executemany("INSERT INTO items VALUES (?, ?, ?)", [(i, *item) for i, item in enumerate(items)])
        db.executemany(
            "INSERT INTO cells (item, method, content, posthoc, judge, quota) VALUES (?, ?, ?, ?, ?, ?)",
            [(*cell, quota) for cell in cells],
        )
        db.executemany(
            "INSERT INTO lessons VALUES (?, ?, ?, ?)", [(i, *row) for i, row in enumerate(lessons)]
        )
        db.execute("COMMIT")
        db.close()
        temporary.rename(path)
    except BaseException:
        db.close()
        temporary.unlink(missing_ok=True)
        raise
    return Store(path)


def check_new(path: Path) -> None:
    """Fail now rather than after an hour of work, if no study can be made at `path`."""
    if path.exists():
        raise InputError(f"'{path}' exists already; a study is never overwritten. Choose another name.")
    if not path.parent.is_dir():
        raise WriteError(f"Cannot write '{path}': there is no folder '{path.parent}'.")


def _check_header(path: Path) -> None:
    """The first bytes of a database hold its version and whose it is."""
    with path.open("rb") as file:
        header = file.read(100)
    version, application = (int.from_bytes(header[start : start + 4], "big") for start in (60, 68))
    if not header.startswith(b"SQLite format 3\0") or application != APPLICATION:
        raise InputError(f"'{path}' is not a study.")
    if version != VERSION:
        raise InputError(f"'{path}' is a study of a newer l2x.")


def _connected(path: Path) -> sqlite3.Connection:
    # Autocommit: transactions begin and end where the code says so.
    db = sqlite3.connect(path, timeout=WAIT, isolation_level=None, check_same_thread=False)
    db.row_factory = sqlite3.Row
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA foreign_keys = ON")
    return db
