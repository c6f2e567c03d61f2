"""A hostile day: bodies that are costly to parse, silent connections, other sites, models that talk."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import select
import signal
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from service import MODELS, Client, file_of, live, name_of, rows_of, served, service
from starlette.testclient import TestClient

from l2x.apps.serve import Settings, create_app, log_to_stderr
from l2x.apps.serve._requests import SMALL_BODY, outside_loop, values_in
from l2x.errors import InputError
from l2x.learning import checked_share

TOKEN = "correct-horse-battery"
EXPLAIN = f"/v1/explainers/{name_of('frame')}/explain"


class Measured:
    """An application, and the processor time of the thread with its event loop."""

    def __init__(self, app: Any) -> None:
        self.app, self.thread = app, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.thread = threading.get_ident()
        await self.app(scope, receive, send)

    def seconds(self) -> float:
        return time.clock_gettime(time.pthread_getcpuclockid(self.thread))


# Forms


@pytest.mark.parametrize("path", ["/login", f"/playground/{name_of('frame')}/result"])
def test_a_long_form_is_refused_before_it_is_parsed(path: str) -> None:
    app = Measured(service("frame", models=False, token=TOKEN))
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/x-www-form-urlencoded"}
    with live(app) as address, Client(address, headers) as client:
        client("GET", "/health/live")
        before = app.seconds()
        assert client("POST", path, b"a&" * 7_000_000)[0] == 413
        # Parsing took 12 s.
        assert app.seconds() - before < 1


@pytest.mark.parametrize("path", ["/login", f"/playground/{name_of('frame')}"])
def test_a_form_with_many_fields_is_refused(path: str) -> None:
    with TestClient(service("frame", models=False, token=TOKEN)) as client:
        headers = {
            "Authorization": f"Bearer {TOKEN}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        reply = client.post(path, content=b"a&" * 1500, headers=headers)
        assert (reply.status_code, reply.json()["error"]["code"]) == (413, "too_many_fields")


def test_a_form_that_is_not_text_is_a_wrong_token() -> None:
    with TestClient(service("frame", models=False, token=TOKEN)) as client:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        assert client.post("/login", content=b"token=\xff%ff", headers=headers).status_code == 401


@pytest.mark.parametrize("kind", ["words", "patches", "columns"])
def test_forms_may_be_as_long_as_their_rows(kind: str) -> None:
    rows, _ = rows_of(kind, 1)
    with TestClient(service(kind, models=False)) as client:
        text = "A good film, שלום. " * 8000
        fields = {"words": {"text": text}, "columns": {"numbers": json.dumps(rows[0])}}.get(kind, {})
        reply = client.post(f"/playground/{name_of(kind)}/result", data={"k": "1"} | fields)
        assert reply.status_code == 200


# JSON


def test_the_number_of_values_is_known_before_parsing() -> None:
    assert values_in(b'{"rows": [[1, 2], {"a": "x, [y", "b": "\\", {"}]}') == 7
    assert values_in(b'["\\\\", 1, "\\\\\\",", [2]]') == 5


@pytest.mark.parametrize("unit", [b"[],", b"[[[]]],", b"0,"])
def test_a_body_with_too_many_values_is_refused_before_it_is_parsed(unit: bytes) -> None:
    app = Measured(service("frame", models=False))
    body = b'{"rows": [' + unit * (9_400_000 // len(unit)) + b"0]}"
    with live(app) as address, Client(address, {"Content-Type": "application/json"}) as client:
        client("GET", "/health/live")
        before, process = app.seconds(), time.process_time()
        status, reply = client("POST", EXPLAIN, body)
        assert (status, reply["error"]["code"]) == (413, "too_many_values")
        assert app.seconds() - before < 0.3  # parsing `[],` took 0.7 s
        assert time.process_time() - process < 0.6


def test_as_many_rows_as_allowed_are_not_too_many_values() -> None:
    rows, _ = rows_of("frame", 1)
    wide = rows[0] | {f"other {i}": i for i in range(60)}
    with TestClient(service("frame", models=False)) as client:
        assert client.post(EXPLAIN, json={"rows": [wide] * 1000}).status_code == 200
        assert client.post(EXPLAIN, json={"rows": rows * 1001}).json()["error"]["code"] == "too_many_rows"


def test_large_bodies_are_parsed_outside_of_the_event_loop() -> None:
    here = threading.get_ident()
    assert asyncio.run(outside_loop(SMALL_BODY, threading.get_ident)) == here
    assert asyncio.run(outside_loop(SMALL_BODY + 1, threading.get_ident)) != here


# What clients get back


@pytest.mark.parametrize(
    "wrong",
    ["x" * 1_000_000, [[1] * 1000] * 100, 10**400, 10**9999],
    ids=["text", "lists", "number", "digits"],
)
def test_a_wrong_option_is_not_repeated_whole(wrong: Any) -> None:
    text = f"1{'0' * 9999}" if wrong == 10**9999 else json.dumps(wrong)
    with TestClient(service("frame", models=False)) as client:
        row = json.dumps(rows_of("frame", 1)[0])
        for option in ("k", "keep"):
            reply = client.post(EXPLAIN, content=f'{{"rows": {row}, "{option}": {text}}}')
            assert reply.status_code in (400, 422)
            assert len(reply.content) < 1000
    with pytest.raises(InputError) as refused:  # the explainer above has no sizes
        checked_share(wrong)
    assert len(str(refused.value)) < 200


def test_a_long_id_is_refused() -> None:
    with TestClient(service("regression")) as client:
        tensor = {"name": "x", "shape": [1, 5], "datatype": "FP64", "data": [0.0] * 5}
        path = f"/v2/models/{name_of('regression')}/infer"
        assert client.post(path, json={"id": "a" * 100, "inputs": [tensor]}).json()["id"] == "a" * 100
        assert client.post(path, json={"id": "a" * 1_000_000, "inputs": [tensor]}).status_code == 422


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/metrics", "/", "/docs", EXPLAIN])
def test_head_is_get_without_a_body(path: str) -> None:
    with live(service("frame")) as address, Client(address) as client:
        status, content = client("GET", path)
        length = client.response_headers["content-length"]
        if path == "/metrics":  # which counts requests
            length = ""
        assert client("HEAD", path) == (status, b"")
        if length:
            assert client.response_headers["content-length"] == length
        assert status == (405 if path == EXPLAIN else 200), content


@pytest.mark.parametrize("wrong", [["0.5", "0.5"], [True, False], [None, 1.0], "0.5"])
def test_predictions_must_be_numbers(wrong: Any, tmp_path: Path) -> None:
    import l2x

    plan = l2x.TrainingPlan.quick().with_steps(value=2, selector=2)
    X = rows_of("columns")[1]
    explainer = l2x.Explainer(
        MODELS["columns"], 2, objective="surrogate", uses_prediction=True, training=plan
    ).fit(X)
    file = explainer.save(tmp_path / "aware.l2x")
    with TestClient(create_app([file])) as client:
        body = {"rows": X[:1].tolist(), "predictions": [[0.5, 0.5]]}
        assert client.post("/v1/explainers/aware/explain", json=body).status_code == 200
        reply = client.post("/v1/explainers/aware/explain", json=body | {"predictions": [wrong]})
        assert (reply.status_code, reply.json()["error"]["code"]) == (422, "invalid_body")


# Other sites


def test_only_known_hosts_are_answered() -> None:
    hosts = ("localhost", "127.0.0.1", "[::1]", "models.example")
    with TestClient(create_app([file_of("frame")], settings=Settings(hosts=hosts))) as client:
        for host in ("localhost:8000", "127.0.0.1", "[::1]:8000", "Models.Example:443", "localhost."):
            assert client.get("/v1/explainers", headers={"Host": host}).status_code == 200, host
        for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8000", "", "[::2]"):
            reply = client.get("/v1/explainers", headers={"Host": host})
            assert (reply.status_code, reply.json()["error"]["code"]) == (400, "unknown_host"), host
            assert client.get("/health/live", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://testserver:9000"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_requests_of_other_sites_are_refused(headers: dict[str, str]) -> None:
    body = {"rows": rows_of("frame", 1)[0]}
    with TestClient(service("frame", models=False)) as client:
        host = {"Host": "testserver:8000"}
        reply = client.post(EXPLAIN, json=body, headers=headers | host)
        assert (reply.status_code, reply.json()["error"]["code"]) == (403, "other_site")
        assert client.get("/", headers=headers | host).status_code == 200  # a link
        own = {"Origin": "http://testserver:8000", "Sec-Fetch-Site": "same-origin"}
        assert client.post(EXPLAIN, json=body, headers=own | host).status_code == 200
        behind = {"Origin": "https://testserver:8443", "Host": "testserver"}  # nginx's $host has no port
        assert client.post(EXPLAIN, json=body, headers=behind).status_code == 200


@pytest.mark.parametrize("path", [EXPLAIN, f"{EXPLAIN}.arrow", "/login", f"/playground/{name_of('frame')}"])
def test_other_media_types_are_refused(path: str) -> None:
    with TestClient(service("frame", models=False)) as client:
        for wrong in ("text/plain", "multipart/form-data; boundary=x", "nonsense"):
            reply = client.post(path, content=b"{}", headers={"Content-Type": wrong})
            assert (reply.status_code, reply.json()["error"]["code"]) == (415, "wrong_media_type")
        assert client.post(path, content=b"").status_code != 415


def test_json_needs_no_media_type_but_no_other() -> None:
    content = json.dumps({"rows": rows_of("frame", 1)[0]})
    with TestClient(service("frame", models=False)) as client:
        for right in ("application/json", "Application/JSON; charset=utf-8", "application/ld+json"):
            assert client.post(EXPLAIN, content=content, headers={"Content-Type": right}).status_code == 200
        assert client.post(EXPLAIN, content=content).status_code == 200
        form = {"Content-Type": "application/x-www-form-urlencoded"}  # curl -d
        reply = client.post(EXPLAIN, content=content, headers=form)
        assert reply.status_code == 415
        assert "application/json" in reply.json()["error"]["message"]


# The log


@pytest.fixture
def restored_logging() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("", "l2x.apps.serve", "uvicorn")]
    before = [(logger, logger.handlers, logger.level, logger.propagate) for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        yield
    for logger, handlers, level, propagate in before:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


@pytest.mark.usefixtures("restored_logging")
def test_warnings_and_messages_of_a_model_are_logged_without_their_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log_to_stderr()
    warnings.warn("income=81234", RuntimeWarning, stacklevel=1)
    logging.getLogger("model").warning("income=%s", 81234)
    logging.warning("income=81234")
    try:
        raise ValueError("income=81234")
    except ValueError:
        logging.getLogger("model").exception("income=81234")
    written = capsys.readouterr().err
    assert "8123" not in written
    lines = [json.loads(line) for line in written.splitlines()]
    assert [line["event"] for line in lines] == ["warning", *["message"] * 3]
    assert lines[0]["category"] == "RuntimeWarning"
    assert all(line["where"].startswith("test_hostile.py:") for line in lines)
    assert [line.get("logger") for line in lines] == [None, "model", "root", "model"]


# Connections


@contextmanager
def guarded(seconds: float, most: int) -> Iterator[str]:
    """Serve with a guard that is less patient."""
    from l2x.apps.serve._connections import Guarded

    class Impatient(Guarded):  # type: ignore[misc, valid-type]
        head_seconds = read_seconds = seconds
        most_connections = most

    with live(service("frame", models=False), http=Impatient) as address:
        yield address


def connected(address: str) -> socket.socket:
    host, _, port = address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def closed(connection: socket.socket) -> bool:
    """Wait until the server closes a connection; return False if it sends a response with status 200."""
    content = b""
    try:
        while piece := connection.recv(65536):
            content += piece
    except ConnectionResetError:
        pass
    return b" 200 " not in content


HALF = b"GET /health/live HTTP/1.1\r\nHost: x\r\nX-Half:"
WHOLE = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"


def test_silent_and_half_connections_are_closed_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "l2x.apps.serve")
    with guarded(0.2, 1000) as address, ExitStack() as stack:
        silent, half, later = (stack.enter_context(connected(address)) for _ in range(3))
        half.sendall(HALF)
        later.sendall(WHOLE)
        assert b" 200 " in later.recv(65536)
        later.sendall(HALF)  # half a head on a connection that has served a request
        assert all(closed(connection) for connection in (silent, half, later))
        with Client(address) as client:
            assert client("GET", "/health/live")[0] == 200

        def lines() -> list[dict[str, Any]]:
            return [r.fields for r in caplog.records if r.getMessage() == "connections closed"]  # type: ignore[attr-defined]

        deadline = time.monotonic() + 60
        while sum(line["count"] for line in lines()) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert {line["reason"] for line in lines()} == {"no request within 0.2 s"}
        assert sum(line["count"] for line in lines()) == 3


def test_requests_in_progress_are_not_closed() -> None:
    rows, _ = rows_of("frame", 1)
    body = json.dumps({"rows": rows}).encode()
    head = f"POST {EXPLAIN} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with guarded(0.2, 1000) as address, connected(address) as connection:
        connection.sendall(head)
        time.sleep(0.6)  # a body has a time limit of its own
        connection.sendall(body)
        assert b" 200 " in connection.recv(65536)


def no_reading(address: str) -> socket.socket:
    """Return a connection that requests more than the buffers of both sides hold, and reads none of it."""
    host, _, port = address.removeprefix("http://").partition(":")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(0.2)
    connection.connect((host, int(port)))
    with suppress(OSError):  # the server reads no further requests either
        connection.sendall(b"GET /static/playground/playground.js HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
    return connection


BODY = f"POST {EXPLAIN} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n".encode()


@pytest.mark.parametrize("sent", [b"", HALF, BODY], ids=["silent", "half", "body"])
def test_connections_that_stall_lock_nobody_out(sent: bytes) -> None:
    with guarded(60, 20) as address, ExitStack() as stack:
        stalled = [stack.enter_context(connected(address)) for _ in range(100)]
        for connection in stalled:
            with suppress(OSError):  # it may be closed already
                connection.sendall(sent)
        with Client(address) as client:
            assert client("GET", "/health/live")[0] == 200
        for _ in range(40):  # each makes room
            stack.enter_context(connected(address))
        readable = select.select(stalled, [], [], 1)[0]
        assert len(readable) > 70


def test_connections_that_are_used_stay_if_there_is_no_room() -> None:
    with guarded(60, 20) as address, ExitStack() as stack, connected(address) as used:
        for _ in range(50):
            used.sendall(WHOLE)
            assert b" 200 " in used.recv(65536)
            stack.enter_context(connected(address))


def test_clients_that_do_not_read_are_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "l2x.apps.serve")
    with guarded(0.5, 1000) as address, no_reading(address) as connection:
        deadline = time.monotonic() + 60
        while not stalled(caplog) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert stalled(caplog) == {"nothing read within 0.5 s"}
        connection.settimeout(60)
        with suppress(ConnectionResetError):
            while connection.recv(1 << 20):
                pass


def stalled(caplog: pytest.LogCaptureFixture) -> set[str]:
    lines = [r.fields for r in caplog.records if r.getMessage() == "connections closed"]  # type: ignore[attr-defined]
    return {line["reason"] for line in lines}


LONG = {
    "address": (b"GET /", b"a" * 4096),
    "header": (b"GET / HTTP/1.1\r\nHost: x\r\nX: ", b"a" * 4096),
    "headers": (b"GET / HTTP/1.1\r\nHost: x\r\n", b"X: y\r\n" * 1000),
    "trailers": (
        b"POST /login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        b"X: y\r\n" * 1000,
    ),
    "behind a request": (BODY + b"{" * 9 + b"GET / HTTP/1.1\r\nX: ", b"a" * 4096),
}


def test_bodies_are_no_heads_under_either_parser() -> None:
    from uvicorn.protocols.http.h11_impl import H11Protocol

    from l2x.apps.serve._connections import Guard, Guarded

    class Pure(Guard, H11Protocol):  # type: ignore[misc]
        """What uvicorn uses without httptools."""

    body = {"rows": rows_of("frame", 1)[0], "k": " " * 500_000}
    for protocol in (Guarded, Pure):
        with (
            live(service("frame", models=False), http=protocol) as address,
            Client(address, {"Content-Type": "application/json"}) as client,
        ):
            assert client("POST", EXPLAIN, body)[0] == 422
            assert client("GET", "/health/live")[0] == 200


@pytest.mark.parametrize("kind", LONG)
def test_a_head_without_end_is_refused(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """200 MB of headers took 1.4 GiB of memory, and held the event loop for 4 s."""
    caplog.set_level(logging.INFO, "l2x.apps.serve")
    start, more = LONG[kind]
    with guarded(60, 1000) as address, connected(address) as connection:
        connection.sendall(start)
        sent = 0
        with suppress(ConnectionResetError, BrokenPipeError):
            while sent < 50_000_000:
                connection.sendall(more)
                sent += len(more)
        # What is sent meanwhile is in the buffers of both sockets.
        assert sent < 50_000_000
        deadline = time.monotonic() + 60
        while not stalled(caplog) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert stalled(caplog) == {"a head of more than 65,536 bytes"}
        with Client(address) as client:
            assert client("GET", "/health/live")[0] == 200


SLOW = """
import os, time, warnings, numpy as np
def model(X):
    warnings.warn(f"income={X.ravel()[0]}")
    time.sleep(float(os.environ["SLEEP"]))
    return np.full((len(X), 2), 0.5)
"""


@pytest.mark.slow
def test_after_sigterm_workers_accept_no_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with one worker, clients that come too late are refused at once, while others get their response."""
    (tmp_path / "slow_model.py").write_text(SLOW)
    monkeypatch.setenv("SLEEP", "4")
    file = str(file_of("columns").resolve())
    log = (tmp_path / "log").open("w")
    with (
        log,
        served(file, "--model", "slow_model:model", "--workers", "2", cwd=tmp_path, stderr=log) as (
            process,
            address,
        ),
    ):
        found: list[int] = []

        def ask() -> None:
            with Client(address) as client:
                found.append(client.explain("columns", [[81234.5] * 5])[0])

        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        refused = False
        while process.poll() is None and not refused:
            try:
                connected(address).close()
                time.sleep(0.05)
            except ConnectionRefusedError:
                refused = process.poll() is None
        assert refused, "the service accepted connections until it ended"
        thread.join(180)
        assert found == [200]
    text = (tmp_path / "log").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert "warning" in {line["event"] for line in lines}
    assert "81234" not in text


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits file descriptors by a shell")
def test_a_thousand_silent_connections_with_few_file_descriptors() -> None:
    with (
        served(str(file_of("frame")), descriptors=256) as (_, address),
        ExitStack() as stack,
    ):
        for _ in range(400):
            stack.enter_context(connected(address))
        with Client(address, timeout=60) as client:
            assert client("GET", "/health/live")[0] == 200
