"""Servers that are slow on purpose, never stop sending, or ask for patience without end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from flawed_server import Flawed, serving

import l2x
from l2x.model import _endpoint as module
from l2x.model._endpoint import Endpoint

X = np.zeros((2, 3))
GOOD = json.dumps({"predictions": [[0.5, 0.5]] * 2}).encode()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT", 0.001)
    monkeypatch.delenv("L2X_TOKEN", raising=False)


@contextmanager
def raw_server(reply: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve connections by a function that gets the socket after the request arrived."""
    listening = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def one(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65536)
            reply(connection)

    def accept() -> None:
        while not stop.is_set():
            with suppress(OSError):
                connection, _ = listening.accept()
                threading.Thread(target=one, args=[connection], daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1/models/m"
    finally:
        stop.set()
        listening.close()


def drips(start: bytes, drop: bytes) -> Callable[[socket.socket], None]:
    def reply(connection: socket.socket) -> None:
        connection.sendall(start)
        while True:
            connection.sendall(drop)
            time.sleep(0.05)

    return reply


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("start", "drop"),
    [
        (HEAD + b"Content-Length: 100000\r\n\r\n", b" "),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (HEAD, b"X-Slow: 1\r\n"),
        (HEAD + b"X-Slow: ", b"1"),
    ],
    ids=["body", "chunks", "headers", "header"],
)
def test_the_time_limit_is_for_the_whole_attempt(start: bytes, drop: bytes) -> None:
    with raw_server(drips(start, drop)) as url:
        endpoint = Endpoint(url, timeout=0.5, attempts=2)
        with pytest.raises(l2x.errors.BlackBoxError, match=r"2 attempts.*Timeout"):
            endpoint(X)


@pytest.mark.timeout(60)
def test_a_slow_reply_within_the_time_limit_is_read() -> None:
    def reply(connection: socket.socket) -> None:
        connection.sendall(HEAD + f"Content-Length: {len(GOOD)}\r\n\r\n".encode())
        for byte in GOOD:
            connection.sendall(bytes([byte]))
            time.sleep(0.02)

    with raw_server(reply) as url:
        assert Endpoint(url, timeout=30, attempts=1)(X).shape == (2, 2)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("status", [b"200 OK", b"400 Bad Request"])
def test_a_reply_without_end_is_given_up(status: bytes) -> None:
    def reply(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 " + status + b"\r\n\r\n")
        while True:
            connection.sendall(b" " * 65536)

    with raw_server(reply) as url:
        wanted = "more than 1,000,000 bytes" if status == b"200 OK" else "400 Bad Request"
        with pytest.raises(l2x.errors.BlackBoxError, match=wanted):
            Endpoint(url, timeout=30, attempts=1, max_reply=1_000_000)(X)


@pytest.mark.slow
def test_ctrl_c_ends_a_process_that_waits_for_a_reply(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "a.csv", np.zeros((20, 2)), delimiter=",", header="a,b", comments="")
    asked = threading.Event()

    def reply(connection: socket.socket) -> None:
        asked.set()
        drips(HEAD + b"Content-Length: 100000\r\n\r\n", b" ")(connection)

    with raw_server(reply) as url:
        command = ["-m", "l2x.apps.cli", "label", url, "a.csv", "-o", "p.parquet", "--timeout", "600"]
        process = subprocess.Popen([sys.executable, *command], cwd=tmp_path, stderr=subprocess.DEVNULL)
        try:
            assert asked.wait(120)
            process.send_signal(signal.SIGINT)
            process.wait(60)
        finally:
            process.kill()
            process.wait(60)
    assert process.returncode in (1, 130)


# Retry-After


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "after", ["86400", "inf", "1e999", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"]
)
def test_a_server_that_asks_for_too_much_patience_is_given_up(after: str) -> None:
    with serving(Flawed(lambda number: 503, retry_after=after)) as server:
        with pytest.raises(l2x.errors.BlackBoxError, match=r"503.*Retry-After asks to wait .* at most 600 s"):
            Endpoint(server.url)(X)
        assert len(server.requests) == 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize("after", ["nan", "-5", "soon", "", "Fri, 99 Foo 0000"])
def test_a_retry_after_that_means_nothing_is_ignored(after: str) -> None:
    with serving(Flawed(lambda number: 503 if number == 0 else None, retry_after=after)) as server:
        assert Endpoint(server.url)(X).shape == (2, 2)


@pytest.mark.timeout(60)
def test_a_long_wait_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHORT_RETRY_AFTER", 0.05)
    with (
        serving(Flawed(lambda number: 503 if number == 0 else None, retry_after="0.1")) as server,
        pytest.warns(UserWarning, match=r"127\.0\.0\.1.* asks to wait"),
    ):
        Endpoint(server.url)(X)


# Predictions


@pytest.mark.parametrize(
    "wrong", [[["0.5", "0.5"]], [[True, False]], [[None, 1]], "0.5", [{"a": 1}], 3, [[10**400, 0]]]
)
def test_only_numbers_are_predictions(wrong: object) -> None:
    content = json.dumps({"predictions": wrong}).encode()

    def reply(connection: socket.socket) -> None:
        connection.sendall(HEAD + f"Content-Length: {len(content)}\r\n\r\n".encode() + content)

    with raw_server(reply) as url, pytest.raises(l2x.errors.BlackBoxError, match="without predictions"):
        Endpoint(url, attempts=1)(X)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "gzip, gzip, gzip, gzip, gzip, gzip"])
def test_a_reply_that_cannot_be_decompressed_is_an_error_of_the_model(coding: str) -> None:
    head = HEAD + f"Content-Encoding: {coding}\r\nContent-Length: {len(GOOD)}\r\n\r\n".encode()

    def reply(connection: socket.socket) -> None:
        connection.sendall(head + GOOD)

    with raw_server(reply) as url, pytest.raises(l2x.errors.BlackBoxError, match=r"127\.0\.0\.1"):
        Endpoint(url, attempts=1)(X)


def test_options_of_version_2_are_refused_for_version_1() -> None:
    with pytest.raises(l2x.errors.InputError, match="/v2/models/"):
        Endpoint("https://host/v1/models/m", output="predict_proba")
    assert os.environ.get("L2X_TOKEN") is None
