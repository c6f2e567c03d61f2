"""The service as a whole: explanations as in the process, errors of one shape, and a log without inputs."""

from __future__ import annotations

import gc
import json
import logging
import os
import re
import socket
import threading
import time
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import torch
from service import KINDS, MODELS, Client, check_rows, expected, file_of, live, name_of, rows_of, service
from starlette.testclient import TestClient

import l2x
from l2x.apps.serve import Settings, create_app, run
from l2x.apps.serve._monitoring import JsonLines


@pytest.fixture(scope="module")
def client() -> Any:
    with TestClient(service(*KINDS)) as made:
        yield made


def test_the_process_is_left_as_it_is() -> None:
    def state() -> list[Any]:
        loggers = [logging.getLogger(name) for name in ("", "l2x.apps.serve", "uvicorn")]
        logs = [(logger.level, logger.propagate, [*logger.handlers]) for logger in loggers]
        return [torch.get_num_threads(), gc.get_freeze_count(), dict(os.environ), logging.logThreads, logs]

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        before = state()
        with TestClient(service("columns")) as client:
            assert client.get("/health/ready").status_code == 200
            assert state() == before
        assert state() == before
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [None, 1, 2])
def test_responses_agree_with_explain(client: TestClient, kind: str, k: int | None) -> None:
    rows, X = rows_of(kind, 40)
    body = {"rows": rows} if k is None else {"rows": rows, "k": k}
    reply = client.post(f"/v1/explainers/{name_of(kind)}/explain", json=body)
    assert reply.status_code == 200, reply.text
    found = reply.json()
    check_rows(found["rows"], expected(kind, X, k))
    wanted = l2x.as_black_box(MODELS[kind])(X)
    predictions = np.array([row["prediction"] for row in found["rows"]])
    np.testing.assert_allclose(predictions.reshape(wanted.shape), wanted)
    alone = client.post(f"/v1/explainers/{name_of(kind)}/explain", json=body | {"rows": rows[:1]}).json()
    check_rows(alone["rows"], expected(kind, X, k)[:1])


def test_objects_and_lists_are_the_same_rows(client: TestClient) -> None:
    rows, _ = rows_of("frame", 20)
    path = f"/v1/explainers/{name_of('frame')}/explain"
    lists = [list(row.values()) for row in rows]
    shuffled = [dict(reversed(row.items())) | {"more": [1]} for row in rows]
    first, *others = (client.post(path, json={"rows": given}).json() for given in (rows, lists, shuffled))
    assert all(other == first for other in others)


def test_features_come_with_their_place_or_value(client: TestClient) -> None:
    text = "A dull plot, but a good film."
    reply = client.post(f"/v1/explainers/{name_of('words')}/explain", json={"rows": [text]}).json()
    for feature in reply["rows"][0]["features"]:
        start, end = feature["span"]
        assert text[start:end] == feature["name"]
    (row,), _ = rows_of("patches", 1)
    found = client.post(f"/v1/explainers/{name_of('patches')}/explain", json={"rows": [row], "k": 4}).json()
    corners = {(f["rectangle"]["x"], f["rectangle"]["y"]) for f in found["rows"][0]["features"]}
    assert corners == {(0, 0), (4, 0), (0, 4), (4, 4)}
    (row,), _ = rows_of("groups", 1)
    grouped = client.post(f"/v1/explainers/{name_of('groups')}/explain", json={"rows": [row], "k": 3}).json()
    values = {f["name"]: f["value"] for f in grouped["rows"][0]["features"]}
    assert values["place"] == {"town": row["town"], "owner": row["owner"]}
    assert len(grouped["checksum"]) == 64


def test_an_invalid_row_is_named_and_the_next_request_succeeds(client: TestClient) -> None:
    rows, X = rows_of("frame", 5)
    path = f"/v1/explainers/{name_of('frame')}/explain"
    bad = [*rows[:2], rows[2] | {"age": "old"}, {"age": 1.0}]
    reply = client.post(path, json={"rows": bad})
    assert reply.status_code == 422
    error = reply.json()["error"]
    assert error["code"] == "invalid_rows"
    assert error["message"].startswith("Row 2, column 'age': got the text 'old', expected a number.")
    named = {(problem["row"], problem["column"]) for problem in error["details"]}
    assert named == {(2, "age"), (3, "income"), (3, "town"), (3, "owner")}
    check_rows(client.post(path, json={"rows": rows}).json()["rows"], expected("frame", X))


def test_unseen_categories_are_counted(client: TestClient) -> None:
    rows, _ = rows_of("frame", 3)
    path = f"/v1/explainers/{name_of('frame')}/explain"
    reply = client.post(path, json={"rows": [row | {"town": "Köln"} for row in rows]}).json()
    assert reply["unseen"] == {"town": 3}
    assert (
        'l2x_unseen_categories_total{column="town",explainer="frame-surrogate"} 3.0'
        in client.get("/metrics").text
    )


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "not_json"),
        (b'{"rows": [NaN]}', 400, "not_json"),
        (b"[" * 100_000, 400, "not_json"),
        (b"\xff\xfe", 400, "not_json"),
        (b"[]", 422, "invalid_body"),
        (b"{}", 422, "invalid_body"),
        (b'{"rows": []}', 422, "invalid_body"),
        (b'{"rows": {}}', 422, "invalid_body"),
        (b'{"rows": [[1,2,3,4,5]], "K": 2}', 422, "invalid_body"),
        (b'{"rows": [[1,2,3,4,5]], "k": 0}', 422, "invalid_input"),
        (b'{"rows": [[1,2,3,4,5]], "k": 2.5}', 422, "invalid_input"),
        (b'{"rows": [[1,2,3,4,5]], "k": true}', 422, "invalid_input"),
        (b'{"rows": [[1,2,3,4,5]], "predictions": [[1, 0, 0]]}', 422, "invalid_body"),
        (b'{"rows": [[1,2,3,4]]}', 422, "invalid_rows"),
        (b'{"rows": [[1,2,3,4,null]]}', 422, "invalid_rows"),
        (b'{"rows": [[1,2,3,4,1e999]]}', 422, "invalid_rows"),
        (b'{"rows": [[1,2,3,4,1' + b"0" * 400 + b"]]}", 422, "invalid_rows"),
        (b'{"rows": [[1,2,3,4,true]]}', 422, "invalid_rows"),
        (b'{"rows": [7]}', 422, "invalid_rows"),
        (b'{"rows": [' + b"[1,2,3,4,5]," * 1000 + b"[1,2,3,4,5]]}", 413, "too_many_rows"),
    ],
)
def test_errors_of_requests_have_one_shape(client: TestClient, body: bytes, status: int, code: str) -> None:
    reply = client.post(f"/v1/explainers/{name_of('columns')}/explain", content=body)
    assert reply.status_code == status
    error = reply.json()["error"]
    assert error["code"] == code
    assert error["request"] == reply.headers["x-request-id"]
    assert set(error) == {"code", "message", "details", "request"}


def test_errors_of_the_framework_have_the_same_shape(client: TestClient) -> None:
    for reply, status in (
        (client.get("/nowhere"), 404),
        (client.get("/v1/explainers/nobody"), 404),
        (client.delete("/v1/explainers"), 405),
        (client.post(f"/v1/explainers/{name_of('columns')}/explain.arrow?k=many", content=b""), 422),
    ):
        assert reply.status_code == status
        assert set(reply.json()["error"]) == {"code", "message", "details", "request"}


def test_a_body_that_is_too_large_or_too_slow() -> None:
    app = service("columns", models=False, max_body=1000, body_timeout=0.3)
    with live(app) as address, ExitStack() as stack:
        client = stack.enter_context(Client(address))
        status, reply = client.explain("columns", [[1.0] * 5] * 200)
        assert (status, reply["error"]["code"]) == (413, "too_large")
        assert client.explain("columns", [[1.0] * 5])[0] == 200
        host, _, port = address.removeprefix("http://").partition(":")
        head = f"POST /v1/explainers/{name_of('columns')}/explain HTTP/1.1\r\nHost: x\r\n"
        with socket.create_connection((host, int(port))) as slow:
            slow.sendall(f"{head}Content-Length: 500\r\n\r\n{{".encode())
            assert b" 408 " in slow.recv(1000)
        with socket.create_connection(
            (host, int(port))
        ) as endless:  # declares no length and sends without end
            endless.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            endless.sendall(b"7d0\r\n" + b" " * 2000 + b"\r\n")
            assert b" 413 " in endless.recv(1000)
        with socket.create_connection((host, int(port))) as gone:
            gone.sendall(f"{head}Content-Length: 500\r\n\r\n{{".encode())
        assert client.explain("columns", [[1.0] * 5])[0] == 200


def test_a_model_that_is_too_slow_gets_504_and_a_full_queue_503() -> None:
    release = threading.Event()

    def slow(X: Any) -> Any:
        release.wait(20)
        return MODELS["columns"](X)

    app = create_app([file_of("columns")], {name_of("columns"): slow}, Settings(timeout=1.0, queue=3))
    release.set()
    with live(app) as address:
        with Client(address) as client:
            assert client.explain("columns", [[1.0] * 5])[0] == 200
        release.clear()
        statuses: list[tuple[int, Any, Any]] = []

        def ask() -> None:
            with Client(address) as client:
                status, reply = client.explain("columns", [[1.0] * 5])
                statuses.append((status, reply, client.response_headers.get("retry-after")))

        threads = [threading.Thread(target=ask) for _ in range(12)]
        for thread in threads:
            thread.start()
            time.sleep(0.02)
        for thread in threads:
            thread.join()
        codes = [status for status, *_ in statuses]
        assert set(codes) == {503, 504}
        assert codes.count(504) <= 4  # one is running, three are waiting
        assert all(int(retry) >= 1 for status, _, retry in statuses if status == 503)
        release.set()
        time.sleep(0.2)
        with Client(address) as client:
            assert client.explain("columns", [[1.0] * 5])[0] == 200


def test_a_failing_model_affects_only_its_own_request() -> None:
    def picky(X: Any) -> Any:
        if (np.asarray(X) > 100).any():
            raise ValueError(f"secret of another request: {np.asarray(X).tolist()}")
        return MODELS["columns"](X)

    with live(create_app([file_of("columns")], {name_of("columns"): picky})) as address:
        statuses: dict[float, set[int]] = {1.0: set(), 101.0: set()}

        def ask(value: float) -> None:
            with Client(address) as client:
                for _ in range(10):
                    status, reply = client.explain("columns", [[value] * 5])
                    statuses[value].add(status)
                    assert "secret" not in json.dumps(reply)

        threads = [threading.Thread(target=ask, args=[value]) for value in (1.0, 101.0) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert statuses == {1.0: {200}, 101.0: {502}}


def test_a_model_that_exits_affects_only_its_own_request_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def exits(X: Any) -> Any:
        if (np.asarray(X) > 100).any():
            raise SystemExit(f"secret: {np.asarray(X).tolist()}")
        return MODELS["columns"](X)

    name = name_of("columns")
    with TestClient(create_app([file_of("columns")], {name: exits}, Settings(timeout=5.0))) as client:
        for path in (f"/v1/explainers/{name}/explain", f"/v1/models/{name}/predict"):
            refused = client.post(path, json={"rows": [[101.0] * 5]})
            assert (refused.status_code, refused.json()["error"]["code"]) == (500, "internal")
            assert client.post(path, json={"rows": [[1.0] * 5]}).status_code == 200
    lines = [JsonLines().format(record) for record in caplog.records if record.levelname == "ERROR"]
    assert [json.loads(line)["cause"] for line in lines] == ["SystemExit"] * 2
    assert all(" exits" in line and "secret" not in line for line in lines)


def test_health_and_descriptions(client: TestClient) -> None:
    assert client.get("/health/live").json() == {"status": "live"}
    assert client.get("/health/ready").json()["explainers"] == [name_of(kind) for kind in KINDS]
    assert TestClient(service("columns")).get("/health/ready").status_code == 503  # not started
    assert [one["explainer"] for one in client.get("/v1/explainers").json()] == [name_of(k) for k in KINDS]
    about = client.get(f"/v1/explainers/{name_of('frame')}").json()
    columns = {column["name"]: column for column in about["takes"]["columns"]}
    assert columns["town"]["categories"] == ["Ulm", "Bonn", "Jena"] or set(columns["town"]["categories"]) == {
        "Ulm", "Bonn", "Jena"
    }  # fmt: skip
    assert columns["income"]["missing"]
    assert not columns["age"]["missing"]
    _, X = rows_of("frame")
    low, high = columns["age"]["range"]
    assert low == pytest.approx(X["age"].min(), abs=1e-6)
    assert high == pytest.approx(X["age"].max(), abs=1e-6)
    assert about["held_out"]["validation_loss"] > 0
    assert about["trained"]["objective"] == "surrogate"
    assert about["k"] == 2
    assert about["classes"] == [0, 1]


def test_the_log_has_one_line_per_request_and_no_inputs(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="l2x.apps.serve"):
        secret = "hunter2-SECRET"
        path = f"/v1/explainers/{name_of('words')}/explain"
        client.post(path, json={"rows": [f"good {secret}"]}, headers={"x-request-id": "abc-1"})
        client.post(path, json={"rows": [[secret]]})
        client.post(path, content=f'{{"{secret}'.encode())
        client.post(f"/playground/{name_of('words')}/result", content=f"k=2&text={secret}")
        client.get(f"/v1/explainers/{secret}?{secret}")
    lines = [json.loads(JsonLines().format(record)) for record in caplog.records]
    assert [line["status"] for line in lines] == [200, 422, 400, 200, 404]
    assert lines[0]["id"] == "abc-1"
    assert lines[0]["rows"] == 1
    assert lines[0]["ms"] > 0
    assert lines[0]["route"] == "/v1/explainers/{name}/explain"
    assert secret not in json.dumps(lines[:4])


def test_nothing_is_accessible_without_the_token() -> None:
    token = "correct-horse-battery"
    with TestClient(service("columns", token=token)) as client:
        page = client.get("/", headers={"accept": "text/html"})
        assert page.status_code == 401
        assert "<form" in page.text
        closed = ("/v1/explainers", "/metrics", "/openapi.json", "/docs", "/playground/columns-surrogate")
        for path in closed:
            for headers in (
                {},
                {"authorization": "Bearer wrong"},
                {"authorization": f"Basic {token}"},
                {"authorization": f"Bearer {token}x"},
                {"cookie": "l2x=abc"},
                {"cookie": f"l2x={token}"},
            ):
                reply = client.get(path, headers=headers)
                assert reply.status_code == 401
                assert reply.json()["error"]["code"] == "no_token"
            assert client.get(path, headers={"authorization": f"Bearer {token}"}).status_code == 200
        assert client.get("/health/live").status_code == 200
        assert client.post("/login", data={"token": "wrong"}).status_code == 401
        assert client.post("/login", data={"token": token}, follow_redirects=False).status_code == 303
        assert client.get("/v1/explainers").status_code == 200  # by the cookie
        assert token not in str(client.cookies)


def test_pages_load_nothing_from_other_hosts(client: TestClient) -> None:
    for path in ("/", "/docs", f"/playground/{name_of('patches')}"):
        reply = client.get(path)
        assert reply.status_code == 200
        addresses = re.findall(r'(?:src|href|action|hx-post)="([^"]*)"', reply.text)
        assert addresses
        assert all(address.startswith(("/", "#", "data:")) for address in addresses), addresses
        assert "default-src 'none'" in reply.headers["content-security-policy"]
    for path in ("/static/l2x.css", "/static/htmx.min.js", "/static/playground/playground.js"):
        assert client.get(path).status_code == 200


def test_behind_a_proxy_all_addresses_contain_its_path() -> None:
    token = "correct-horse-battery"
    with TestClient(service("columns", root_path="/l2x", token=token), root_path="/l2x") as client:
        assert client.get("/l2x/health/live").status_code == 200
        assert client.get("/l2x/static/l2x.css").status_code == 200
        assert client.get("/l2x/v1/explainers").status_code == 401
        page = client.get("/l2x/", headers={"authorization": f"Bearer {token}"}).text
        assert 'href="/l2x/static/l2x.css"' in page
        assert 'hx-post="/l2x/playground/columns-surrogate/result"' in page
        assert "/l2x/v1/explainers/columns-surrogate/explain" in page


def test_a_proxy_may_remove_its_path_if_the_server_knows_it() -> None:
    """uvicorn puts `root_path` in front of the path again."""
    app = service("columns", root_path="/l2x")
    with TestClient(app, root_path="/l2x", base_url="http://host") as client:
        assert "http://host/l2x/v1/explainers/columns-surrogate/explain" in client.get("/l2x/").text


def test_the_server_knows_the_path_of_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    import uvicorn

    made: list[Any] = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda server, sockets: made.append(server.config))
    run(lambda: service("columns"), host="127.0.0.1", port=0, root_path="/l2x")
    assert [config.root_path for config in made] == ["/l2x"]
