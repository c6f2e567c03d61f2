"""A study: its settings, its raters and their secret links, and what was answered."""

from __future__ import annotations

import hmac
import json
import secrets
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from l2x.apps.study import _store as store
from l2x.apps.study._content import Content
from l2x.apps.study._design import Design
from l2x.errors import InputError

SECRET_BYTES = 16  # 128 bits: guessing a link is hopeless
NICKNAME_LENGTH = 40


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is asked, and how; fixed when the study is made."""

    title: str
    question: str
    classes: tuple[str, ...]
    neutral: str  # the answer that counts for no class
    methods: tuple[str, ...]
    kind: str  # of inputs: "text", "table" or "image"
    selected: str  # what raters see, in words: "ten words of a review"
    raters: int
    per_rater: int
    practice: int
    checks: int
    seed: int
    consent: str
    patience: float  # seconds after which a task that nobody answers is given to somebody else

    def __post_init__(self) -> None:
        for what, names in (("class", self.classes), ("method", self.methods)):
            if twice := [name for name in names if names.count(name) > 1]:
                raise InputError(f"Two {what} names are {twice[0]!r}; give each its own.")

    @cached_property
    def design(self) -> Design:
        return Design(
            len(self.methods), len(self.classes), self.raters, self.per_rater, self.practice, self.checks,
            self.seed,
        )  # fmt: skip

    def label(self, choice: int | None) -> str:
        """An answer in words."""
        return self.neutral if choice is None else self.classes[choice]


@dataclass(frozen=True)
class Cell:
    """An item under a method: what raters see, and what model and judge say of it."""

    content: Content
    posthoc: int | None = None
    judge: int | None = None


@dataclass(frozen=True)
class Item:
    """An input: its row in the data, the model's class for it, and a cell for each method, in their order."""

    row: int
    answer: int
    cells: Sequence[Cell]


@dataclass(frozen=True)
class Lesson:
    """A worked example, or a task to practise on, with the model's class."""

    content: Content
    answer: int


@dataclass(frozen=True)
class Rater:
    """A person, or a stand-in for one."""

    rater: int
    token: str
    number: int
    nickname: str
    simulated: bool
    consented: bool
    started: bool

    @property
    def name(self) -> str:
        """What the organiser reads: the nickname, or a number."""
        return self.nickname or f"rater {self.number + 1}"


@dataclass(frozen=True)
class Progress:
    """How far one rater is: items answered, checks passed of those answered, and when last seen."""

    rater: Rater
    answered: int
    checks: int
    passed: int
    last: float | None


@dataclass(frozen=True)
class Answer:
    """One answer that counts, or one to a check; `item` and `method` are None in checks."""

    rater: int
    number: int  # the rater's, among people or among simulated raters
    place: int  # in the rater's session, after practice, from 0
    item: int | None
    row: int | None
    method: int | None
    model: int  # the model's class; of a check, the class that was told
    choice: int | None
    seconds: float | None
    given: float


class Study:
    """A study's file, opened. Threads and processes may share the file.

    >>> Study("nowhere.study")
    Traceback (most recent call last):
    l2x.errors.InputError: There is no study 'nowhere.study'; make one with `l2x study new`.
    """

    def __init__(self, path: str | Path) -> None:
        self.store = store.Store(path)
        kept = self.store.setting("settings")
        for name in ("classes", "methods"):  # JSON has no tuples
            kept[name] = tuple(kept[name])
        self.settings = Settings(**kept)
        links = self.store.setting("links")
        self.organiser_token: str = links["organiser"]
        self.join_token: str = links["join"]

    @classmethod
    def create(
        cls,
        path: str | Path,
        settings: Settings,
        items: Sequence[Item],
        *,
        examples: Sequence[Lesson] = (),
        practice: Sequence[Lesson] = (),
    ) -> Study:
        """Write a new study; `l2x.apps.study.new` makes one from an explainer and data."""
        _ = settings.design  # fails now if it cannot be
        for item in items:
            if len(item.cells) != len(settings.methods):
                raise InputError(f"An item has {len(item.cells)} cells for {len(settings.methods)} methods.")
        if len(practice) != settings.practice:
            raise InputError(
                f"{settings.practice} tasks to practise on were announced, {len(practice)} given."
            )
        lessons = [("example", one) for one in examples] + [("practice", one) for one in practice]
        store.create(
            path,
            settings={
                "settings": asdict(settings),
                "links": {name: secrets.token_urlsafe(SECRET_BYTES) for name in ("organiser", "join")},
                "made": time.time(),
            },
            items=[(item.row, item.answer) for item in items],
            cells=[
                (i, method, json.dumps(cell.content), cell.posthoc, cell.judge)
                for i, item in enumerate(items)
                for method, cell in enumerate(item.cells)
            ],
            lessons=[(purpose, json.dumps(one.content), one.answer) for purpose, one in lessons],
            quota=settings.raters,
        ).close()
        return cls(path)

    def close(self) -> None:
        """Close the file."""
        self.store.close()

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Who

    def invite(self, nickname: str = "", *, simulated: bool = False, reader: str | None = None) -> Rater:
        """A new rater with a secret link."""
        nickname = " ".join(nickname.split())
        if len(nickname) > NICKNAME_LENGTH or not nickname.isprintable():
            raise InputError(f"A nickname has at most {NICKNAME_LENGTH} letters, and no control characters.")
        token = secrets.token_urlsafe(SECRET_BYTES)
        with self.store.writing() as db:
            taken = "SELECT count(*) FROM raters WHERE simulated = ?"
            number = db.execute(taken, (simulated,)).fetchone()[0]
            db.execute(
                "INSERT INTO raters (token, number, nickname, simulated, reader, joined)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (token, number, nickname, simulated, reader, time.time()),
            )
        found = self.rater(token)
        assert found is not None
        return found

    def rater(self, token: str) -> Rater | None:
        """Whose link this is."""
        with self.store.reading() as db:
            row = db.execute("SELECT * FROM raters WHERE token = ?", (token,)).fetchone()
        return None if row is None else _rater(row)

    def is_organiser(self, token: str) -> bool:
        """Whether the token of a link is the organiser's."""
        return hmac.compare_digest(token.encode(), self.organiser_token.encode())

    def may_join(self, token: str) -> bool:
        """Whether the token of a link lets its holder join."""
        return hmac.compare_digest(token.encode(), self.join_token.encode())

    def consent(self, rater: Rater) -> None:
        """Note that the rater has agreed to take part."""
        self._mark(rater, "consented")

    def start(self, rater: Rater) -> None:
        """The instructions were read."""
        self._mark(rater, "started")

    def _mark(self, rater: Rater, what: str) -> None:
        with self.store.writing() as db:
            db.execute(
                f"UPDATE raters SET {what} = coalesce({what}, ?) WHERE rater = ?", (time.time(), rater.rater)
            )

    # Open or closed

    @property
    def closed(self) -> bool:
        """Whether it takes no answers."""
        return bool(self.store.setting("closed"))

    def set_closed(self, closed: bool) -> None:
        """A closed study takes no answers; it can be opened again."""
        self.store.set("closed", closed)

    # What is in it

    def examples(self) -> list[Lesson]:
        """The worked examples of the instructions."""
        with self.store.reading() as db:
            rows = db.execute("SELECT * FROM lessons WHERE purpose = 'example' ORDER BY lesson").fetchall()
        return [Lesson(json.loads(row["content"]), row["answer"]) for row in rows]

    def items(self) -> list[Item]:
        """Every item, with what each method shows of it."""
        with self.store.reading() as db:
            items = db.execute("SELECT * FROM items ORDER BY item").fetchall()
            cells = db.execute("SELECT * FROM cells ORDER BY item, method").fetchall()
        found: dict[int, list[Cell]] = {row["item"]: [] for row in items}
        for row in cells:
            found[row["item"]].append(Cell(json.loads(row["content"]), row["posthoc"], row["judge"]))
        return [Item(row["row"], row["answer"], found[row["item"]]) for row in items]

    def quotas(self, *, simulated: bool = False) -> list[tuple[str, int, int]]:
        """Per method how many answers there are, and how many there are to be."""
        with self.store.reading() as db:
            wanted = dict(
                tuple(row) for row in db.execute("SELECT method, sum(quota) FROM cells GROUP BY method")
            )
            given = dict(
                tuple(row)
                for row in db.execute(
                    "SELECT method, count(*) FROM tasks JOIN raters USING (rater)"
                    " WHERE state = 'answered' AND kind = 'item' AND simulated = ? GROUP BY method",
                    (simulated,),
                )
            )
        names = enumerate(self.settings.methods)
        return [(name, given.get(method, 0), wanted.get(method, 0)) for method, name in names]

    def progress(self, *, simulated: bool = False) -> list[Progress]:
        """Every rater, and how far they are."""
        with self.store.reading() as db:
            rows = db.execute(
                "SELECT raters.*, max(shown) AS last,"
                " coalesce(sum(kind = 'item' AND state = 'answered'), 0) AS answered,"
                " coalesce(sum(kind = 'check' AND state = 'answered'), 0) AS checks,"
                " coalesce(sum(kind = 'check' AND state = 'answered' AND choice IS expected), 0) AS passed"
                " FROM raters LEFT JOIN tasks USING (rater)"
                " LEFT JOIN answers USING (rater, position, attempt)"
                " WHERE simulated = ? GROUP BY rater ORDER BY number",
                (simulated,),
            ).fetchall()
        return [
            Progress(_rater(row), row["answered"], row["checks"], row["passed"], row["last"]) for row in rows
        ]

    def answers(self, *, simulated: bool) -> list[Answer]:
        """Answers to items and checks that were not undone, by people or by simulated raters: nothing reads
        both at once."""
        with self.store.reading() as db:
            rows = db.execute(
                "SELECT rater, number, position, tasks.item, items.row, method,"
                " coalesce(items.answer, expected) AS model, choice, seconds, given"
                " FROM answers JOIN tasks USING (rater, position, attempt) JOIN raters USING (rater)"
                " LEFT JOIN items USING (item)"
                " WHERE simulated = ? AND state = 'answered' AND kind != 'practice'"
                " ORDER BY number, position",
                (simulated,),
            ).fetchall()
        practice = self.settings.practice
        return [
            Answer(
                row["rater"], row["number"], row["position"] - practice, row["item"], row["row"],
                row["method"], row["model"], row["choice"], row["seconds"], row["given"],
            )
            for row in rows
        ]  # fmt: skip


def _rater(row: sqlite3.Row | Any) -> Rater:
    return Rater(
        row["rater"],
        row["token"],
        row["number"],
        row["nickname"],
        bool(row["simulated"]),
        row["consented"] is not None,
        row["started"] is not None,
    )
