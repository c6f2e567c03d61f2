"""Arrow streams: the same explanations as in the process, in bounded memory, complete or not at all."""

from __future__ import annotations

import io
import random
import socket
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from service import Client, expected, file_of, live, name_of, rows_of, service
from starlette.testclient import TestClient
from toy_models import one_column

import l2x
from l2x.apps.serve import Settings, create_app
from l2x.apps.serve import _bulk as bulk
from l2x.errors import InputError
from l2x.explanation import arrow_columns


@pytest.fixture(scope="module")
def client() -> Any:
    with TestClient(service("columns", "frame", "words", "patches", models=False)) as made:
        yield made


def stream(table: pa.Table, batch_rows: int = 17) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    return sink.getvalue()


def post(client: TestClient, kind: str, body: bytes, query: str = "") -> Any:
    return client.post(f"/v1/explainers/{name_of(kind)}/explain.arrow{query}", content=body)


def table_of(kind: str) -> tuple[pa.Table, Any]:
    _, X = rows_of(kind)
    if kind == "frame":
        return pa.Table.from_pandas(X, preserve_index=False), X
    if kind == "columns":
        return pa.table({f"x{i}": X[:, i] for i in range(X.shape[1])}), X
    if kind == "words":
        return pa.table({"review": X}), X
    return pa.table({"image": pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 64)}), X


@pytest.mark.parametrize("kind", ["columns", "frame", "words", "patches"])
def test_streams_agree_with_explain(client: TestClient, kind: str) -> None:
    table, X = table_of(kind)
    reply = post(client, kind, stream(table.append_column("id", pa.array(range(len(table))))), "?copy=id&k=2")
    assert reply.status_code == 200, reply.text
    found = pa.ipc.open_stream(reply.content).read_all()
    wanted = pa.table(arrow_columns(l2x.load(file_of(kind)).explain(X, k=2)))
    assert found["id"].to_pylist() == list(range(len(table)))
    for name in ("feature_1", "feature_2"):
        assert found[name].to_pylist() == wanted[name].to_pylist()
    np.testing.assert_allclose(found["score_1"], wanted["score_1"], rtol=1e-4, atol=1e-5)


def test_as_many_features_as_a_row_needs(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(400, 5))
    plan = l2x.TrainingPlan(l2x.Phase(60, 3e-3), l2x.Phase(40, 3e-3), evaluations=2, progress=False)
    explainer = l2x.Explainer(one_column, 3, training=plan).fit(X)
    app = create_app([explainer.save(tmp_path / "kept.l2x")], {}, Settings())
    body, path = stream(pa.table({f"x{i}": X[:, i] for i in range(5)})), "/v1/explainers/kept/explain.arrow"
    with TestClient(app) as own:
        reply = own.post(f"{path}?keep=0.8", content=body)
        refused = own.post(f"{path}?keep=id", content=body)
        ask = partial(own.post, "/v1/explainers/kept/explain")
        as_json = ask(json={"rows": X.tolist(), "keep": 0.8}).json()["rows"]
        no_share = ask(json={"rows": X[:1].tolist(), "keep": 80})
    names = pa.ipc.open_stream(reply.content).read_all().select(["feature_1", "feature_2", "feature_3"])
    sizes = explainer.explain(X, keep=0.8).sizes
    assert sizes is not None
    assert [3 - list(row.values()).count(None) for row in names.to_pylist()] == sizes.tolist()
    assert [len(row["features"]) for row in as_json] == sizes.tolist()
    assert refused.status_code == no_share.status_code == 422
    assert "80" in no_share.json()["error"]["message"]


def test_sizes_that_were_not_learned_are_refused(client: TestClient) -> None:
    table, X = table_of("columns")
    path = f"/v1/explainers/{name_of('columns')}/explain"
    for reply in (
        post(client, "columns", stream(table), "?keep=0.8"),
        client.post(path, json={"rows": X[:2].tolist(), "keep": 0.8}),
    ):
        assert reply.status_code == 422
        assert reply.json()["error"]["code"] == "invalid_input"


def test_with_a_model_its_predictions_are_a_column() -> None:
    with TestClient(service("frame")) as client:
        table, X = table_of("frame")
        found = pa.ipc.open_stream(post(client, "frame", stream(table)).content).read_all()
        from golden.cases import of_frame

        np.testing.assert_allclose(np.array(found["predictions"].to_pylist()), of_frame(X))
        np.testing.assert_allclose(found["prediction"], of_frame(X).max(axis=1))
        total = sum(np.array(found[name]) for name in ("base", "effect_1", "effect_2", "rest"))
        np.testing.assert_allclose(total, found["prediction"], atol=1e-6)
        assert set(found["predicted_by"].to_pylist()) == {"model"}


@pytest.mark.parametrize("kind", ["columns", "frame", "words", "patches"])
def test_effects_of_a_class_are_those_of_explain(client: TestClient, kind: str) -> None:
    table, X = table_of(kind)
    explanation = l2x.load(file_of(kind)).explain(X)
    found = pa.ipc.open_stream(post(client, kind, stream(table), "?class=1").content).read_all()
    wanted = pa.table(arrow_columns(explanation.for_class(1), effects=True))
    assert found.column_names == wanted.column_names
    for name in ("effect_1", "base", "rest", "prediction", "alone", "without"):
        np.testing.assert_allclose(found[name].fill_null(9), wanted[name].fill_null(9), atol=1e-5)
    plain = pa.ipc.open_stream(post(client, kind, stream(table), "?effects=false").content).read_all()
    assert plain.column_names == list(arrow_columns(explanation))
    assert post(client, kind, stream(table), "?class=none").status_code == 422


def test_a_model_that_exits_is_a_500_and_the_next_stream_is_explained() -> None:
    def exits(X: Any) -> Any:
        if (np.asarray(X) > 100).any():
            raise SystemExit
        return one_column(X)

    table, _ = table_of("columns")
    bad = table.set_column(0, "x0", pa.array([101.0] * len(table)))
    with TestClient(create_app([file_of("columns")], {name_of("columns"): exits})) as client:
        for _ in range(bulk.STREAMS + 1):  # no stream stays reserved
            refused = post(client, "columns", stream(bad))
            assert (refused.status_code, refused.json()["error"]["code"]) == (500, "internal")
        assert post(client, "columns", stream(table)).status_code == 200


@pytest.mark.parametrize("cut", [0, 1, 9, 500, -3])
def test_an_incomplete_stream_is_refused(client: TestClient, cut: int) -> None:
    body = stream(table_of("columns")[0])
    reply = post(client, "columns", body[:cut])
    # The last bytes only mark the end.
    assert reply.status_code in ((200, 400) if cut == -3 else (400,))
    if reply.status_code == 400:
        assert reply.json()["error"]["code"] == "not_arrow"


def test_damaged_streams_are_never_a_500(client: TestClient) -> None:
    rng, body = random.Random(0), stream(table_of("frame")[0])
    for _ in range(150):
        damaged = bytearray(body)
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        assert post(client, "frame", bytes(damaged)).status_code in (200, 400, 413, 422)


@pytest.mark.parametrize(
    ("kind", "table", "problem"),
    [
        ("columns", pa.table({"x0": [1.0]}), "5 columns"),
        ("columns", pa.table({f"x{i}": [1.0, float("nan")] for i in range(5)}), "Row 1"),
        ("frame", pa.table({"age": ["a"], "income": [1.0], "town": ["Ulm"], "owner": [True]}), "'age'"),
        ("words", pa.table({"a": ["x"], "b": ["y"]}), "one column"),
        ("words", pa.table({"a": [1.0]}), "not a string"),
        ("patches", pa.table({"a": [[1.0]]}), "64 numbers"),
        ("patches", pa.table({"a": ["x"]}), "64 numbers"),
        ("columns", pa.table({f"x{i}": pa.array([], pa.float64()) for i in range(5)}), "no rows"),
    ],
)
def test_invalid_streams_are_refused(client: TestClient, kind: str, table: pa.Table, problem: str) -> None:
    reply = post(client, kind, stream(table))
    assert reply.status_code == 422
    assert problem in reply.json()["error"]["message"]


def test_rows_are_counted_from_the_beginning_of_the_stream(client: TestClient) -> None:
    table, _ = table_of("columns")
    spoiled = table.set_column(
        0, "x0", pa.array([float("nan") if i == 40 else 1.0 for i in range(len(table))])
    )
    message = post(client, "columns", stream(spoiled, batch_rows=20)).json()["error"]["message"]
    assert "row 40 of the stream" in message


def test_large_streams_are_limited_by_bytes_and_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    body = stream(table_of("columns")[0], batch_rows=120)
    with TestClient(service("columns", models=False, max_arrow_body=1000)) as client:
        assert post(client, "columns", body).status_code == 413
    monkeypatch.setattr(bulk, "MESSAGE", 1000)
    with TestClient(service("columns", models=False)) as client:
        reply = post(client, "columns", body)
        assert reply.status_code == 413
        assert reply.json()["error"]["code"] == "batch_too_large"


@pytest.mark.slow
def test_streams_may_be_larger_than_the_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The buffer is tiny, and the body is many times larger."""
    monkeypatch.setattr(bulk, "BUFFER", 1 << 14)
    rng = np.random.default_rng(0)
    table = pa.table({f"x{i}": rng.normal(size=60_000) for i in range(5)})
    with live(service("columns", models=False)) as address, Client(address) as client:
        path = f"/v1/explainers/{name_of('columns')}/explain.arrow"
        status, content = client("POST", path, stream(table, batch_rows=1000))
        assert status == 200
        found = pa.ipc.open_stream(content).read_all()
        assert len(found) == 60_000
        first = np.column_stack([table[f"x{i}"].to_numpy()[:500] for i in range(5)])
        wanted = expected("columns", first, model=False)
        assert found["feature_1"].to_pylist()[:500] == [features[0][1] for features in wanted]
        assert client.explain("columns", [[1.0] * 5])[0] == 200


def test_a_third_stream_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "STREAMS", 0)
    with TestClient(service("columns", models=False)) as client:
        reply = post(client, "columns", stream(table_of("columns")[0]))
        assert reply.status_code == 503
        assert reply.headers["retry-after"]


def test_a_stream_that_drips_does_not_hold_its_place() -> None:
    app = service("columns", models=False, body_timeout=0.5)
    head = f"POST /v1/explainers/{name_of('columns')}/explain.arrow HTTP/1.1\r\nHost: x\r\n"
    with live(app) as address:
        host, _, port = address.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=60) as drips:
            drips.sendall(f"{head}Content-Length: 1000000\r\n\r\n".encode())
            drips.settimeout(0.1)
            deadline, reply = time.monotonic() + 60, b""
            while not reply and time.monotonic() < deadline:
                drips.sendall(b"x")
                with suppress(TimeoutError):
                    reply = drips.recv(65536)
        assert b" 408 " in reply


def test_columns_are_matched_by_name_or_position() -> None:
    view = l2x.load(file_of("columns")).features_
    named = pa.schema([(name, pa.float64()) for name in ("id", "x4", "x3", "x2", "x1", "x0")])
    assert bulk.matching_columns(view, named, ["id"]) == ["x0", "x1", "x2", "x3", "x4"]
    others = pa.schema([(name, pa.float64()) for name in "abcde"])
    assert bulk.matching_columns(view, others, []) == list("abcde")
    with pytest.raises(InputError, match="'z'"):
        bulk.matching_columns(view, others, ["z"])
