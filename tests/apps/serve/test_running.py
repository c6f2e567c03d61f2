"""The service as a process: killed workers, SIGTERM, ports that are taken.

L2X_KILLS=20 kills as often as `docs/how-to/serve.md` describes.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from service import LOST, PATIENCE, Client, check_rows, expected, file_of, rows_of, served, wait_until_ready

from l2x.apps.serve import _running as running
from l2x.apps.serve._running import Dedicated, bind
from l2x.errors import InputError

KILLS = int(os.environ.get("L2X_KILLS", "2"))


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """Return the worker processes, without the helper of multiprocessing that tracks resources."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    lines = {}
    for child in children:
        with suppress(FileNotFoundError, ProcessLookupError):  # it was killed in the meantime
            lines[int(child)] = Path(f"/proc/{child}/cmdline").read_bytes()
    return [child for child, line in lines.items() if b"spawn_main" in line]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_killed_workers_are_restarted_and_no_row_is_wrong() -> None:
    rows, X = rows_of("frame")
    wanted = expected("frame", X, model=False)
    stop = threading.Event()
    wrong: list[Any] = []
    right, lost = [0], [0]

    def ask(address: str, seed: int) -> None:
        rng = random.Random(seed)
        client = Client(address, timeout=30)
        while not stop.is_set():
            chosen = [rng.randrange(len(rows)) for _ in range(rng.randrange(1, 4))]
            try:
                status, reply = client.explain("frame", [rows[row] for row in chosen])
            except LOST:
                lost[0] += 1
                time.sleep(0.02)
                continue
            try:
                assert status == 200
                check_rows(reply["rows"], [wanted[row] for row in chosen])
                right[0] += 1
            except AssertionError:
                wrong.append((status, reply))
        client.__exit__()

    with served(str(file_of("frame")), "--workers", "2") as (process, address):
        threads = [threading.Thread(target=ask, args=[address, seed]) for seed in range(4)]
        for thread in threads:
            thread.start()
        rng = random.Random(0)
        for kill in range(KILLS):
            time.sleep(rng.random() * 0.5)
            before = workers_of(process)
            # Every fourth time no worker is left.
            victims = before if kill % 4 == 1 else [rng.choice(before)]
            for victim in victims:
                os.kill(victim, signal.SIGKILL)
            deadline = time.monotonic() + PATIENCE
            while len(set(workers_of(process)) - set(victims)) < 2 and time.monotonic() < deadline:
                time.sleep(0.1)
            wait_until_ready(address)
            count, deadline = right[0], time.monotonic() + PATIENCE
            while right[0] == count and time.monotonic() < deadline:  # it responds again
                time.sleep(0.05)
            assert right[0] > count
        stop.set()
        for thread in threads:
            thread.join()
        assert not wrong, wrong[:2]
        assert right[0] > KILLS
        with Client(address) as client:
            text = client("GET", "/metrics")[1].decode()
        assert 'l2x_rows_total{explainer="frame-surrogate"}' in text
    print(f"{KILLS} kills: {right[0]} right responses, {lost[0]} lost, 0 wrong")


SLOW = """
import time, numpy as np
def model(X):
    time.sleep(1.0)
    return np.full((len(X), 2), 0.5)
"""


@pytest.mark.slow
def test_sigterm_finishes_requests_in_progress(tmp_path: Path) -> None:
    (tmp_path / "slow_model.py").write_text(SLOW)
    file = str(file_of("columns").resolve())
    with served(file, "--model", "slow_model:model", cwd=tmp_path) as (process, address):
        found: list[tuple[int, Any]] = []

        def ask() -> None:
            with Client(address) as client:
                found.append(client.explain("columns", [[1.0] * 5]))

        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        thread.join(180)
        assert [status for status, _ in found] == [200]
        assert found[0][1]["rows"][0]["prediction"] == [0.5, 0.5]
        assert process.wait(180) in (0, 128 + signal.SIGTERM)


def test_a_dedicated_process_is_set_up_for_serving(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []
    monkeypatch.setattr(running, "log_to_stderr", lambda: done.append("log"))
    monkeypatch.setattr(torch, "set_num_threads", lambda number: done.append(number))
    monkeypatch.setattr(gc, "freeze", lambda: done.append("freeze"))
    assert Dedicated(lambda: done.append("made") or "the app")() == "the app"
    assert done == ["log", 1, "made", "freeze"]  # loaded objects are frozen


def test_a_port_that_is_taken_is_reported() -> None:
    with bind("127.0.0.1", 0) as first:
        first.listen()
        port = first.getsockname()[1]
        with pytest.raises(InputError, match=f"127.0.0.1:{port}"):
            bind("127.0.0.1", port)
    with pytest.raises(InputError, match=r"no\.such\.host\.invalid"):
        bind("no.such.host.invalid", 0)
