"""Small studies for tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn

from l2x.apps.study._session import give_answer, next_task
from l2x.apps.study._study import Cell, Item, Lesson, Rater, Settings, Study

SETTINGS = Settings(
    title="Which film?",
    question="What did the model predict?",
    classes=("negative", "positive"),
    neutral="cannot tell",
    methods=("ours", "theirs", "whole"),
    kind="text",
    selected="2 words of a text",
    raters=2,
    per_rater=6,
    practice=1,
    checks=1,
    seed=0,
    consent="You may stop at any time.\n\nAnswers are stored.",
    patience=1800.0,
)
GOOD, BAD = ("great", "lovely", "superb"), ("awful", "dull", "poor")


def text(*phrases: str) -> dict[str, Any]:
    return {"kind": "text", "phrases": list(phrases)}


def small_study(path: Path, *, items: int = 6, **changed: Any) -> Study:
    """Make a study of reviews whose words reveal the prediction, except under the method "theirs"."""
    settings = replace(SETTINGS, **changed)

    def item(i: int) -> Item:
        answer = i % 2
        words = (GOOD if answer else BAD)[i % 3], f"film{i}"
        shown = {"theirs": text(f"thing{i}"), "whole": text(f"It is {words[0]}, this {words[1]}")}
        cells = [
            Cell(shown.get(name, text(*words)), posthoc=answer, evaluator=1) for name in settings.methods
        ]
        return Item(100 + i, answer, cells)

    examples = [Lesson(text("a wonderful film"), 1), Lesson(text("a boring film"), 0)]
    practice = [Lesson(text(f"practice{i}"), 1) for i in range(settings.practice)]
    return Study.create(path, settings, [item(i) for i in range(items)], examples=examples, practice=practice)


def joined(study: Study, nickname: str = "") -> Rater:
    """Invite a rater who has read the instructions."""
    rater = study.invite(nickname)
    study.consent(rater)
    study.start(rater)
    found = study.rater(rater.token)
    assert found is not None
    return found


def answer_all(study: Study, rater: Rater, choice: int | None = 1) -> int:
    """Give the same answer to every item, and the right one to checks; return the number of answers."""
    given = 0
    while (task := next_task(study, rater)) is not None:
        give_answer(
            study, rater, task.position, task.attempt, choice if task.expected is None else task.expected
        )
        given += 1
    return given


def serve_file(path: str, port: int) -> None:
    """Serve a study; the target of a server process."""
    from l2x.apps.serve import run
    from l2x.apps.study._site import site

    with Study(path) as study:
        run(lambda: site(study), host="127.0.0.1", port=port)


@contextmanager
def served(study: Study) -> Iterator[str]:
    """Serve the site in a thread; yield its address."""
    from l2x.apps.study._site import site

    config = uvicorn.Config(site(study), port=0, log_level="warning", access_log=False)
    socket, server = config.bind_socket(), uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
