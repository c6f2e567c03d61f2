"""A study: its settings and plan, its raters and their secret links, and their answers."""

from __future__ import annotations

import hmac
import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from l2x._base.arrays import Array
from l2x.apps.study import _store as store
from l2x.display import Content
from l2x.errors import InputError

SECRET_BYTES = 16  # 128 bits: links cannot be guessed
NICKNAME_LENGTH = 40
CONSENT = (
    "You will see parts of inputs of a computer model, and say what you think the model predicted.\n\n"
    "Taking part is voluntary, and you can stop at any time by closing the page. Your answers, and the time "
    "that each takes, are stored without your name and used for research."
)
# First elements of random seeds, so that no two kinds of draws share a stream.
_SQUARES, _CHECKS, _ITEMS = 0, 1, 2


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What raters are asked, how many there are, and what they are shown; fixed when the study is made.

    Who is shown what follows from the seed and the rater's number, so that a study can be planned, repeated
    and audited. What was shown in the end is recorded in the study's file.

    Attributes
    ----------
    items : int
        Number of inputs that raters see.
    raters : int
        Number of answers that each item gets under each method: its quota.
    per_rater : int
        Number of items that one rater answers, at most.
    practice : int
        Number of tasks with feedback at the beginning; they do not count.
    checks : int
        Number of attention checks: tasks that name the class to choose.
    k : int, optional
        Number of features shown; by default that of the explainer.
    patience : float
        Seconds after which a task without an answer is given to another rater.
    seed : int
        Seed of the items, the methods and their order.
    title, question, consent : str
        Texts of the pages; paragraphs of the consent are separated by an empty line.
    neutral : str
        Name of the answer that counts for no class.
    classes : tuple of str
        Names of the classes; by default those of the model.
    methods : tuple of str
        Names of the methods. `new` sets this, `kind` and `selected`.
    kind : str
        Kind of inputs: "text", "table" or "image".
    selected : str
        What raters see: "10 words of a text".
    """

    items: int = 500
    raters: int = 5
    per_rater: int = 100
    practice: int = 3
    checks: int = 3
    k: int | None = None
    patience: float = 1800.0
    seed: int = 0
    title: str = ""
    question: str = "What did the model predict?"
    consent: str = CONSENT
    neutral: str = "cannot tell"
    classes: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    kind: str = "table"
    selected: str = ""

    def __post_init__(self) -> None:
        for name, least in (("items", 1), ("raters", 1), ("per_rater", 1), ("practice", 0), ("checks", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name} = {getattr(self, name)}; choose at least {least}.")
        if len(self.classes) == 1:
            raise InputError(f"A study needs at least two classes, but there is only {self.classes[0]!r}.")
        for what, names in (("class", self.classes), ("method", self.methods)):
            if twice := [name for name in names if names.count(name) > 1]:
                raise InputError(f"Two {what} names are {twice[0]!r}; rename one.")

    @property
    def length(self) -> int:
        """Return the number of tasks of a whole session after practice: items and checks."""
        return self.per_rater + self.checks

    def label(self, choice: int | None) -> str:
        """Return the name of an answer: the class `choice`, or the neutral answer if it is None."""
        return self.neutral if choice is None else self.classes[choice]

    def method_at(self, rater: int, index: int, *, simulated: bool = False) -> int:
        """Return the method of the `rater`'s item number `index`; `simulated` raters have their own order.

        With m methods, every m items of a rater show each method once, and so do every m raters at the same
        place: they are the rows of a Latin square, which is drawn for each group of raters and places.
        """
        block, place = divmod(index, len(self.methods))
        group, row = divmod(rater, len(self.methods))
        rng = np.random.default_rng([self.seed, _SQUARES, simulated, group, block])
        return int(latin_square(len(self.methods), rng)[row, place])

    def checks_of(self, rater: int, *, simulated: bool = False) -> dict[int, int]:
        """Return {place in the session: class to choose} of a `rater`'s attention checks.

        The first task is never a check. People and `simulated` raters are numbered separately.
        """
        rng = np.random.default_rng([self.seed, _CHECKS, simulated, rater])
        places = 1 + rng.choice(self.length - 1, min(self.checks, self.length - 1), replace=False)
        return {int(place): int(rng.integers(len(self.classes))) for place in np.sort(places)}

    def item_draw(self, rater: int, position: int, *, simulated: bool = False) -> np.random.Generator:
        """Return the generator that chooses among items that need equally many answers.

        Each `rater`, `simulated` or not, has its own at every `position` of the session.
        """
        return np.random.default_rng([self.seed, _ITEMS, simulated, rater, position])


def latin_square(n: int, rng: np.random.Generator) -> Array:
    """Return an (n, n) array with each of 0 .. n - 1 once in every row and column, in random order.

    >>> latin_square(3, np.random.default_rng(0)).sum(axis=0).tolist()
    [3, 3, 3]
    """
    cyclic = np.add.outer(rng.permutation(n), rng.permutation(n)) % n
    return np.asarray(rng.permutation(n)[cyclic])


@dataclass(frozen=True)
class Cell:
    """An item under a method: what raters see, and the classes that model and evaluator predict from it."""

    content: Content
    posthoc: int | None = None
    evaluator: int | None = None


@dataclass(frozen=True)
class Item:
    """An input: its row in the data, the class that the model predicts, and one cell per method."""

    row: int
    prediction: int
    cells: Sequence[Cell]


@dataclass(frozen=True)
class Lesson:
    """A worked example or a practice task, with the class that the model predicts."""

    content: Content
    prediction: int


@dataclass(frozen=True)
class Rater:
    """A person, or a simulated rater.

    Attributes
    ----------
    rater : int
        Key in the study's file.
    token : str
        The secret part of the rater's link.
    number : int
        Number among people or among simulated raters, from 0.
    nickname : str
        Empty if none was given.
    simulated, consented, started : bool
        Whether a program rates, and how far a person is.
    """

    rater: int
    token: str
    number: int
    nickname: str
    simulated: bool
    consented: bool
    started: bool

    @property
    def name(self) -> str:
        """Return the nickname, or a number."""
        return self.nickname or f"rater {self.number + 1}"


@dataclass(frozen=True)
class Progress:
    """One rater's progress: answered items, answered and passed checks, and when they were last seen."""

    rater: Rater
    answered: int
    checks: int
    passed: int
    last: float | None


@dataclass(frozen=True)
class Answer:
    """An answer to an item or to a check; `item`, `row` and `method` are None in checks."""

    number: int  # the rater's, among people or among simulated raters
    place: int  # in the rater's session, after practice, from 0
    item: int | None
    row: int | None
    method: int | None
    expected: int  # the class that the model predicts; in a check, the class to choose
    choice: int | None
    seconds: float | None
    given: float


class Study:
    """An open study file; threads and processes may share the file.

    Parameters
    ----------
    path : str or Path
        A file that `l2x.apps.study.new` or `l2x study new` made.

    Attributes
    ----------
    settings : Settings
    organiser_token, join_token : str
        Secret parts of the organiser's link and of the link to join.

    >>> Study("nowhere.study")
    Traceback (most recent call last):
    l2x.errors.InputError: There is no study 'nowhere.study'; make one with `l2x study new`.
    """

    def __init__(self, path: str | Path) -> None:
        self.store = store.Store(path)
        stored = self.store.setting("settings")
        for name in ("classes", "methods"):  # JSON has no tuples
            stored[name] = tuple(stored[name])
        self.settings = Settings(**stored)
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
        """Write a new study to `path` and open it; `l2x.apps.study.new` makes one from an explainer and data.

        `settings` fix the methods and quotas, `items` are rated, and `examples` and `practice` introduce the
        task.
        """
        for item in items:
            if len(item.cells) != len(settings.methods):
                raise InputError(f"An item has {len(item.cells)} cells for {len(settings.methods)} methods.")
        if len(practice) != settings.practice:
            raise InputError(
                f"practice = {settings.practice}, but {len(practice)} practice tasks were given."
            )
        lessons = [("example", one) for one in examples] + [("practice", one) for one in practice]
        links = {name: secrets.token_urlsafe(SECRET_BYTES) for name in ("organiser", "join")}
        stored = {"settings": asdict(replace(settings, items=len(items))), "links": links}
        cells = [(i, m, cell) for i, item in enumerate(items) for m, cell in enumerate(item.cells)]
        store.create(
            path,
            settings=[(name, json.dumps(value)) for name, value in stored.items()],
            items=[(i, item.row, item.prediction) for i, item in enumerate(items)],
            cells=[
                (i, m, json.dumps(cell.content), cell.posthoc, cell.evaluator, settings.raters, 0, 0)
                for i, m, cell in cells
            ],
            lessons=[(i, to, json.dumps(one.content), one.prediction) for i, (to, one) in enumerate(lessons)],
        )
        return cls(path)

    def backup(self, path: str | Path) -> None:
        """Copy the study, with all answers so far, to a new file at `path`, also while it is served."""
        self.store.backup(path)

    def close(self) -> None:
        """Close the file."""
        self.store.close()

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Raters and links

    def invite(self, nickname: str = "", *, simulated: bool = False) -> Rater:
        """Add a person, or a `simulated` rater, with this `nickname` and a secret link."""
        nickname = " ".join(nickname.split())
        if len(nickname) > NICKNAME_LENGTH or not nickname.isprintable():
            raise InputError(f"A nickname has at most {NICKNAME_LENGTH} letters and no control characters.")
        token = secrets.token_urlsafe(SECRET_BYTES)
        with self.store.writing() as db:
            taken = "SELECT count(*) FROM raters WHERE simulated = ?"
            number = db.execute(taken, (simulated,)).fetchone()[0]
            db.execute(
                "INSERT INTO raters (token, number, nickname, simulated, joined) VALUES (?, ?, ?, ?, ?)",
                (token, number, nickname, simulated, time.time()),
            )
        rater = self.rater(token)
        assert rater is not None
        return rater

    def rater(self, token: str) -> Rater | None:
        """Return the rater whose link has this `token`, if there is one."""
        with self.store.reading() as db:
            row = db.execute("SELECT * FROM raters WHERE token = ?", (token,)).fetchone()
        return None if row is None else _rater(row)

    def is_organiser(self, token: str) -> bool:
        """Return whether the token belongs to the organiser's link."""
        return hmac.compare_digest(token.encode(), self.organiser_token.encode())

    def may_join(self, token: str) -> bool:
        """Return whether the token belongs to the link to join."""
        return hmac.compare_digest(token.encode(), self.join_token.encode())

    def consent(self, rater: Rater) -> None:
        """Record that the rater has agreed to take part."""
        self._mark(rater, "consented")

    def start(self, rater: Rater) -> None:
        """Record that the rater has read the instructions."""
        self._mark(rater, "started")

    def _mark(self, rater: Rater, column: str) -> None:
        update = f"UPDATE raters SET {column} = coalesce({column}, ?) WHERE rater = ?"
        with self.store.writing() as db:
            db.execute(update, (time.time(), rater.rater))

    @property
    def closed(self) -> bool:
        """Return whether the study accepts no answers."""
        return bool(self.store.setting("closed"))

    def set_closed(self, closed: bool) -> None:
        """Set whether the study is `closed`: it then accepts no answers."""
        self.store.set("closed", closed)

    # Contents and answers

    def examples(self) -> list[Lesson]:
        """Return the worked examples of the instructions."""
        with self.store.reading() as db:
            rows = db.execute("SELECT * FROM lessons WHERE purpose = 'example' ORDER BY lesson").fetchall()
        return [Lesson(json.loads(row["content"]), row["prediction"]) for row in rows]

    def items(self) -> list[Item]:
        """Return every item, with its cells in the order of the methods."""
        with self.store.reading() as db:
            items = db.execute("SELECT * FROM items ORDER BY item").fetchall()
            rows = db.execute("SELECT * FROM cells ORDER BY item, method").fetchall()
        cells: dict[int, list[Cell]] = {row["item"]: [] for row in items}
        for row in rows:
            cells[row["item"]].append(Cell(json.loads(row["content"]), row["posthoc"], row["evaluator"]))
        return [Item(row["row"], row["prediction"], cells[row["item"]]) for row in items]

    def quotas(self, *, simulated: bool = False) -> list[tuple[str, int, int]]:
        """Return for each method its name, the answers of people or `simulated` raters, and its quota."""
        with self.store.reading() as db:
            quotas = dict(map(tuple, db.execute("SELECT method, sum(quota) FROM cells GROUP BY method")))
            answered = db.execute(
                "SELECT method, count(*) FROM tasks JOIN raters USING (rater)"
                " WHERE state = 'answered' AND kind = 'item' AND simulated = ? GROUP BY method",
                (simulated,),
            )
            given = dict(map(tuple, answered))
        names = enumerate(self.settings.methods)
        return [(name, given.get(method, 0), quotas.get(method, 0)) for method, name in names]

    def progress(self, *, simulated: bool = False) -> list[Progress]:
        """Return the progress of every person, or of every `simulated` rater."""
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
        """Return the answers to items and checks that were not undone, of people or of simulated raters.

        No function returns both together.
        """
        with self.store.reading() as db:
            rows = db.execute(
                "SELECT number, position - ? AS place, tasks.item, items.row, method,"
                " coalesce(items.prediction, expected) AS expected, choice, seconds, given"
                " FROM answers JOIN tasks USING (rater, position, attempt) JOIN raters USING (rater)"
                " LEFT JOIN items USING (item)"
                " WHERE simulated = ? AND state = 'answered' AND kind != 'practice'"
                " ORDER BY number, position",
                (self.settings.practice, simulated),
            ).fetchall()
        return [Answer(*row) for row in rows]


def _rater(row: Any) -> Rater:
    consented, started = (row[name] is not None for name in ("consented", "started"))
    return Rater(
        row["rater"], row["token"], row["number"], row["nickname"], bool(row["simulated"]), consented, started
    )
