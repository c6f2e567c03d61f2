"""kill -9 at random moments while raters answer over HTTP: no acknowledged answer is lost or counted twice.

L2X_KILLS=100 is the long version.
"""

from __future__ import annotations

import http.client
import multiprocessing
import os
import random
import re
import socket
import threading
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlencode

import pytest
from studies import joined, serve_file, small_study

from l2x.apps.study._study import Study

KILLS = int(os.environ.get("L2X_KILLS", "5"))
RATERS = 20
ITEMS = 150 + 30 * KILLS  # more than can be answered meanwhile


class Server:
    """A process that serves the study, on a port that stays the same."""

    def __init__(self, path: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        # Imported once, in a process that then forks: a new server is there at once.
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["l2x.apps.study._site"])
        self.path = path

    def start(self) -> None:
        self.process = self.context.Process(target=serve_file, args=(str(self.path), self.port))
        self.process.start()
        while True:
            assert self.process.is_alive()
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)

    def kill(self) -> None:
        self.process.kill()  # SIGKILL
        self.process.join()


class Answering(threading.Thread):
    """A rater who answers until stopped, repeats what was not acknowledged, and remembers what was."""

    def __init__(self, port: int, token: str, stop: threading.Event, seed: int) -> None:
        super().__init__()
        self.port, self.link, self.stop, self.rng = port, f"/r/{token}", stop, random.Random(seed)
        self.acknowledged: dict[tuple[int, int], int | None] = {}
        self.repeated = 0
        self.finished = False
        self.refused: list[int] = []

    def request(self, verb: str, path: str, fields: dict[str, str] | None = None) -> tuple[int, str]:
        """Until there is an answer: the connection may break before or after something is stored."""
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
            try:
                connection.request(verb, path, None if fields is None else urlencode(fields))
                response = connection.getresponse()
                return response.status, response.read().decode()
            except (OSError, http.client.HTTPException):
                self.repeated += 1
                time.sleep(0.02)
            finally:
                connection.close()

    def run(self) -> None:
        while not self.stop.is_set():
            status, page = self.request("GET", self.link)
            found = re.search(
                r'name="position" value="(\d+)">\s*<input[^>]*name="attempt" value="(\d+)"', page
            )
            if status != 200 or found is None:
                self.finished = "Thank you" in page
                self.refused += [] if self.finished else [status]
                return
            choice = self.rng.choice(["0", "1", "neutral"])
            fields = {"position": found[1], "attempt": found[2], "choice": choice}
            status, _ = self.request("POST", f"{self.link}/answer", fields)
            if status != 303:
                self.refused.append(status)
                return
            key = int(found[1]), int(found[2])
            assert key not in self.acknowledged
            self.acknowledged[key] = None if choice == "neutral" else int(choice)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_acknowledged_answer_is_lost_or_counted_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.study"
    with small_study(path, items=ITEMS, per_rater=ITEMS, raters=4, checks=5) as study:
        raters = [joined(study) for _ in range(RATERS)]
    server, stop, rng = Server(path), threading.Event(), random.Random(0)
    server.start()
    threads = [Answering(server.port, rater.token, stop, i) for i, rater in enumerate(raters)]

    def given() -> int:
        return sum(len(thread.acknowledged) for thread in threads)

    for thread in threads:
        thread.start()
    try:
        for _ in range(KILLS):
            wanted = given() + rng.randint(0, 40)  # on a busy machine raters answer slowly
            while given() < wanted:
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.05))
            server.kill()
            server.start()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        server.kill()

    print(f"{KILLS} kills, {given()} answers, {sum(t.repeated for t in threads)} requests repeated")
    assert all(not thread.refused for thread in threads)
    assert given() > 5 * KILLS
    assert sum(thread.repeated for thread in threads) >= KILLS  # the kills were felt
    with Study(path) as study, study.store.reading() as db:
        stored = {
            (row["rater"], row["position"], row["attempt"]): row["choice"]
            for row in db.execute("SELECT * FROM answers")
        }
        tasks = db.execute("SELECT * FROM tasks WHERE kind = 'item'").fetchall()
        taken = {(row["item"], row["method"]): row["people"] for row in db.execute("SELECT * FROM cells")}
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    for rater, thread in zip(raters, threads, strict=True):
        mine = {key[1:]: choice for key, choice in stored.items() if key[0] == rater.rater}
        assert thread.acknowledged == mine  # every thread ended after an acknowledgement
        assert sorted(position for position, _ in mine) == list(range(len(mine)))  # one answer to each task
    assert {cell: count for cell, count in taken.items() if count} == Counter(
        (row["item"], row["method"]) for row in tasks
    )
    assert max(taken.values()) <= 4
    seen = Counter((row["rater"], row["item"]) for row in tasks)
    assert max(seen.values()) == 1
