"""Stand-ins for people, to test and to plan with: one reads the shown words by a sentiment lexicon, one does
not read at all. They are marked as simulated in the file, for good."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from l2x.apps.study._content import shown_words
from l2x.apps.study._session import Task, give_answer, next_task
from l2x.apps.study._study import Study
from l2x.errors import InputError, require

# A reader says a class if the lexicon's score, between -1 and 1, is at least this far from 0; the first is
# the lexicon's own bound, and readers differ.
BOUNDS = (0.05, 0.3)
# The share of words that a reader overlooks.
OVERLOOKED = 0.1

Reader = Callable[[Task], int | None]


def simulate(study: Study, *, raters: int = 5, careless: int = 0, seed: int = 0) -> int:
    """Let stand-ins answer everything that they are offered; returns how many answers they gave.

    `raters` read by the lexicon, which needs texts and two classes, the second of them the positive one;
    `careless` choose blindly. They have quotas of their own: people's are not touched.

    study : to be answered
    seed : of who overlooks which word

    Returns
    -------
    How many answers they gave.

    Raises
    ------
    InputError
        If there is nobody to simulate.
    """
    if raters < 0 or careless < 0 or not raters + careless:
        raise InputError("There is nobody to simulate; give --raters or --careless.")
    # The careless first: if there is little left to answer, they are not left out.
    readers = [("careless", careless_reader(study))] * careless
    if raters:
        readers += [("lexicon", lexicon_reader(study))] * raters
    before = len(study.progress(simulated=True))
    given = 0
    for i, (kind, make) in enumerate(readers):
        rng = np.random.default_rng([seed, before + i])
        with study.store.writing():  # a whole session at once: nobody waits for each answer
            given += sum(1 for _ in _session(study, kind, make(rng)))
    return given


def lexicon_reader(study: Study) -> Callable[[np.random.Generator], Reader]:
    """A reader who adds up the sentiment of the words, a little inattentively."""
    settings = study.settings
    if settings.kind != "text" or len(settings.classes) != 2:
        raise InputError(
            "The lexicon reads texts of two classes, negative and positive; this study is of "
            f"{settings.kind}s with {len(settings.classes)} classes. Simulate careless raters: --raters 0 "
            "--careless 5."
        )
    analyzer: Any = require("vaderSentiment.vaderSentiment", extra="study").SentimentIntensityAnalyzer()

    def make(rng: np.random.Generator) -> Reader:
        bound = float(rng.uniform(*BOUNDS))

        def read(task: Task) -> int | None:
            if task.content is None:
                return task.told
            words = shown_words(task.content).split()
            noticed = [word for word in words if rng.random() >= OVERLOOKED]
            score = analyzer.polarity_scores(" ".join(noticed))["compound"]
            return None if abs(score) < bound else int(score > 0)

        return read

    return make


def careless_reader(study: Study) -> Callable[[np.random.Generator], Reader]:
    """A rater who picks any of the answers."""
    answers = len(study.settings.classes) + 1

    def make(rng: np.random.Generator) -> Reader:
        def pick(_: Task) -> int | None:
            choice = int(rng.integers(answers))
            return None if choice == answers - 1 else choice

        return pick

    return make


def _session(study: Study, kind: str, read: Reader) -> Iterator[None]:
    """One stand-in's whole session, an item for each answer that counts."""
    rater = study.invite(kind, simulated=True, reader=kind)
    study.consent(rater)
    study.start(rater)
    while (task := next_task(study, rater)) is not None:
        give_answer(study, rater, task.position, task.attempt, read(task))
        if not task.practice and task.content is not None:
            yield
