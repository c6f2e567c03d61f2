"""For tests of the service: explainers with their models, a real server, a client."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from golden import cases

import l2x

GOLDEN = Path(__file__).parent / "golden"
# One explainer for every kind of view, trained by tests/golden.
KINDS = ("columns", "regression", "frame", "groups", "words", "sentences", "patches")
MODELS = {name: model for name, (_, _, model, _) in cases.problems().items()}
# Seconds that a start may take if many processes share a core; no test asserts times.
PATIENCE = 200.0
# What a client may see if a worker is killed; never a wrong row.
LOST = (OSError, http.client.HTTPException, json.JSONDecodeError)


def file_of(kind: str) -> Path:
    return GOLDEN / f"{kind}-surrogate.l2x"


def name_of(kind: str) -> str:
    return file_of(kind).stem


def rows_of(kind: str, n: int | None = None) -> tuple[list[Any], Any]:
    """Return rows as a client sends them, and the same rows as `explain` accepts them."""
    X = cases.problems()[kind][1]
    X = X if n is None else X[:n]
    if kind in ("frame", "groups"):
        records = json.loads(X.to_json(orient="records", double_precision=15))
        # to_json rounds, so that the frame gets the numbers that are sent
        return records, X.assign(
            **{name: np.array([row[name] for row in records], dtype=float) for name in ("age", "income")}
        )
    return (X if isinstance(X, list) else X.tolist()), X


def service(*kinds: str, models: bool = True, **settings: Any) -> Any:
    """Return the application that serves these kinds."""
    from l2x.apps.serve import Settings, create_app

    given = {name_of(kind): MODELS[kind] for kind in kinds} if models else {}
    return create_app([file_of(kind) for kind in kinds], given, Settings(**settings))


@contextmanager
def live(app: Any, **options: Any) -> Iterator[str]:
    """Run a real server on a free port, in a thread of this process; yield its address."""
    import uvicorn

    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, **options))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        bound.close()


@dataclass
class Client:
    """A connection that is kept alive, and opened again if the server has closed it."""

    address: str
    headers: dict[str, str] = field(default_factory=dict)
    timeout: float = 60

    def __post_init__(self) -> None:
        host, _, port = self.address.removeprefix("http://").partition(":")
        self._connection = http.client.HTTPConnection(host, int(port), timeout=self.timeout)

    def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the status, and the JSON or the bytes of the response."""
        sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        try:
            self._connection.request(method, path, sent, self.headers)
            response = self._connection.getresponse()
            content = response.read()
        except BaseException:
            self._connection.close()
            raise
        self.response_headers = dict(response.getheaders())
        is_json = "json" in response.getheader("content-type", "")
        return response.status, json.loads(content) if is_json and content else content

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def explain(self, kind: str, rows: list[Any], **more: Any) -> tuple[int, Any]:
        return self("POST", f"/v1/explainers/{name_of(kind)}/explain", {"rows": rows, **more})


@contextmanager
def served(
    *arguments: str, cwd: Path | None = None, stderr: Any = subprocess.DEVNULL, descriptors: int | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start `l2x serve` in a process of its own; yield the process and its address when it is ready.

    `descriptors` limits the files and connections that the process may open.
    """
    command = [sys.executable, "-m", "l2x.apps.cli", "serve", *arguments, "--port", "0"]
    if descriptors is not None:
        command = ["bash", "-c", f'ulimit -n {descriptors}; exec "$@"', "bash", *command]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=cwd)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("serving"), line
        address = line.split()[1]
        wait_until_ready(address)
        yield process, address
    finally:
        process.terminate()
        process.wait(180)
        process.stdout.close()


def wait_until_ready(address: str, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with Client(address, timeout=5) as client:
                if client("GET", "/health/ready")[0] == 200:
                    return
        except LOST:
            time.sleep(0.1)
    raise AssertionError("the service did not get ready")


def expected(
    kind: str, X: Any, k: int | None = None, *, model: bool = True
) -> list[list[tuple[int, str, float]]]:
    """Return what `explain` returns in this process: per row (index, name, score), best first.

    With the model, selections are polished, as those of a service that has it.
    """
    predictions = l2x.as_black_box(MODELS[kind])(X) if model else None
    explanation = l2x.load(file_of(kind)).explain(X, k=k, predictions=predictions)
    return [
        [(feature["index"], feature["name"], feature["score"]) for feature in row["features"]]
        for row in explanation.to_dict()
    ]


def check_rows(found: list[Any], wanted: list[list[tuple[int, str, float]]]) -> None:
    """Check for the same features in the same order; scores may differ by rounding."""
    assert len(found) == len(wanted)
    for row, features in zip(found, wanted, strict=True):
        assert [(f["index"], f["name"]) for f in row["features"]] == [(i, name) for i, name, _ in features]
        np.testing.assert_allclose(
            [f["score"] for f in row["features"]], [score for *_, score in features], rtol=1e-4, atol=1e-5
        )
