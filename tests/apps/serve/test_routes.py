"""The routes for JSON: explanations under load, and the model by both protocols."""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import pytest
from service import MODELS, Client, check_rows, expected, file_of, live, name_of, rows_of, service
from starlette.testclient import TestClient
from toy_models import one_column

import l2x
from l2x.apps.serve import create_app

CLIENTS = 64
REQUESTS = 12


@pytest.mark.slow
def test_rows_of_requests_are_never_mixed_up() -> None:
    """64 connections explain random rows of tables, texts and images, with a random k in every request.

    Each response must agree with `explain` on the same rows.
    """
    kinds = ("columns", "frame", "words", "patches")
    rows = {kind: rows_of(kind)[0] for kind in kinds}
    wanted = {(kind, k): expected(kind, rows_of(kind)[1], k, model=False) for kind in kinds for k in (1, 2)}
    failures: list[BaseException] = []

    def ask(seed: int, address: str) -> None:
        rng = random.Random(seed)
        try:
            with Client(address) as client:
                for _ in range(REQUESTS):
                    kind, k = rng.choice(kinds), rng.choice((1, 2))
                    chosen = [rng.randrange(len(rows[kind])) for _ in range(rng.randrange(1, 5))]
                    status, reply = client.explain(kind, [rows[kind][row] for row in chosen], k=k)
                    assert status == 200, reply
                    check_rows(reply["rows"], [wanted[kind, k][row] for row in chosen])
        except BaseException as error:
            failures.append(error)

    with live(service(*kinds, models=False)) as address:
        threads = [threading.Thread(target=ask, args=[seed, address]) for seed in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with Client(address) as client:
            text = client("GET", "/metrics")[1].decode()
    if failures:
        raise failures[0]
    batches = metric(text, "l2x_batch_rows_count", name_of("words"))
    rows_explained = metric(text, "l2x_rows_total", name_of("words"))
    assert batches < rows_explained  # requests did share batches
    total = sum(metric(text, "l2x_rows_total", name_of(kind)) for kind in kinds)
    assert CLIENTS * REQUESTS <= total <= 4 * CLIENTS * REQUESTS


def metric(text: str, name: str, explainer: str) -> float:
    line = next(line for line in text.splitlines() if line.startswith(f'{name}{{explainer="{explainer}"'))
    return float(line.split()[-1])


def test_a_prediction_aware_explainer_gets_the_prediction(tmp_path: Any, tiny: Any) -> None:
    X = np.random.default_rng(0).normal(size=(200, 4))
    explainer = l2x.Explainer(one_column, k=1, uses_prediction=True, training=tiny).fit(X)
    path = explainer.save(tmp_path / "aware.l2x")
    rows, predictions = X[:5].tolist(), one_column(X[:5])
    wanted = explainer.explain(X[:5]).indices[:, 0].tolist()
    for models in ({}, {"aware": one_column}):
        with TestClient(create_app([path], models)) as client:
            given = client.post(
                "/v1/explainers/aware/explain", json={"rows": rows, "predictions": predictions.tolist()}
            )
            assert [row["features"][0]["index"] for row in given.json()["rows"]] == wanted
            queried = client.post("/v1/explainers/aware/explain", json={"rows": rows})
            assert queried.status_code == (200 if models else 422)
            if models:
                assert queried.json() == given.json()
            page = client.get("/playground/aware")
            assert ("start the service with --model" in page.text) == (not models)
            wrongs = ([[1, 0]], [[2, 3]] * 5, "x", [[1, 0, 0]] * 5, [None] * 5, [[10**400, 0]] * 5)
            for wrong in (*wrongs, [[0.5] * 10]):
                reply = client.post("/v1/explainers/aware/explain", json={"rows": rows, "predictions": wrong})
                assert reply.status_code == 422


@pytest.fixture(scope="module")
def client() -> Any:
    with TestClient(service("columns", "frame", "words", "patches", "regression")) as made:
        yield made


@pytest.mark.parametrize("with_model", [True, False])
@pytest.mark.parametrize("kind", ["columns", "frame", "words", "patches", "regression"])
def test_effects_are_those_of_explain(kind: str, with_model: bool) -> None:
    """By the graph and by torch, for the explainer's k and others, and for each class."""
    rows, X = rows_of(kind, 7)
    explainer = l2x.load(file_of(kind), model=MODELS[kind] if with_model else None)
    path = f"/v1/explainers/{name_of(kind)}/explain"
    regression = kind == "regression"
    with TestClient(service(kind, models=with_model)) as client:
        for k in (1, explainer.k):
            for name in (None, *((0,) if regression else explainer.classes_.tolist())):
                reply = client.post(
                    path, json={"rows": rows, "k": k} | ({} if name is None else {"class": name})
                )
                assert reply.status_code == 200, reply.text
                wanted = explainer.explain(X, k).for_class(name).to_dict(effects=True)
                for row, expected in zip(reply.json()["rows"], wanted, strict=True):
                    check_effects(row, expected)


def check_effects(row: dict[str, Any], expected: dict[str, Any]) -> None:
    sums, largest = row["effects"], max(1.0, abs(expected["prediction"]))
    amounts = [feature["effect"] for feature in row["features"]]
    near = {"rel": 0, "abs": 2e-5 * largest}
    assert amounts == pytest.approx([feature["effect"] for feature in expected["features"]], **near)
    assert sums["base"] + sum(amounts) + sums["rest"] == pytest.approx(sums["prediction"], abs=1e-6 * largest)
    for name in ("base", "rest", "prediction", "alone", "without"):
        assert sums[name] == pytest.approx(expected[name], **near)
    assert sums["predicted_by"] == expected["predicted_by"]
    assert str(sums.get("class")) == str(expected.get("class"))


def test_effects_can_be_switched_off(client: TestClient) -> None:
    rows, _ = rows_of("columns", 3)
    path, body = f"/v1/explainers/{name_of('columns')}/explain", {"rows": rows}
    assert "effects" in client.post(path, json=body).json()["rows"][0]
    for reply in (
        client.post(path, json=body | {"effects": False}),
        TestClient(service("columns", effects=False)).post(path, json=body),
    ):
        row = reply.json()["rows"][0]
        assert row.keys() == {"features", "prediction"}
        assert "effect" not in row["features"][0]
    again = TestClient(service("columns", effects=False)).post(path, json=body | {"effects": True})
    assert "effects" in again.json()["rows"][0]


def test_effects_on_log_odds(client: TestClient) -> None:
    rows, X = rows_of("columns", 5)
    path = f"/v1/explainers/{name_of('columns')}/explain"
    explanation = l2x.load(file_of("columns"), model=MODELS["columns"]).explain(X)
    name = str(explanation.source.classes[0])
    reply = client.post(path, json={"rows": rows, "scale": "log-odds", "class": name})
    assert reply.status_code == 200, reply.text
    wanted = explanation.for_class(name, scale="log-odds").to_dict(effects=True)
    for row, each in zip(reply.json()["rows"], wanted, strict=True):
        check_effects(row, each)
        assert row["effects"]["scale"] == "log-odds"
    assert "scale" not in client.post(path, json={"rows": rows}).json()["rows"][0]["effects"]
    rows, _ = rows_of("regression", 1)
    path = f"/v1/explainers/{name_of('regression')}/explain"
    with TestClient(service("regression")) as regression:
        assert regression.post(path, json={"rows": rows, "scale": "log-odds"}).status_code == 422


@pytest.mark.parametrize(
    "wrong", [{"class": "venus"}, {"class": [1]}, {"effects": "yes"}, {"scale": "odds"}, {"scale": [1]}]
)
def test_invalid_options_of_effects(client: TestClient, wrong: dict[str, Any]) -> None:
    rows, _ = rows_of("columns", 1)
    reply = client.post(f"/v1/explainers/{name_of('columns')}/explain", json={"rows": rows} | wrong)
    assert reply.status_code == 422


def test_effects_add_up_to_predictions_that_a_client_sends() -> None:
    rows, _ = rows_of("words", 2)
    with TestClient(service("words", models=False)) as client:
        body = {"rows": rows, "predictions": [[0.125, 0.875], [0.75, 0.25]]}
        reply = client.post(f"/v1/explainers/{name_of('words')}/explain", json=body)
        sums = [row["effects"] for row in reply.json()["rows"]]
    assert [row["prediction"] for row in sums] == [0.875, 0.75]
    assert {row["predicted_by"] for row in sums} == {"model"}


@pytest.mark.parametrize("kind", ["columns", "frame", "words", "patches", "regression"])
def test_both_protocols_return_the_predictions(client: TestClient, kind: str) -> None:
    rows, X = rows_of(kind, 7)
    wanted = l2x.as_black_box(MODELS[kind])(X)
    reply = client.post(f"/v1/models/{name_of(kind)}/predict", json={"rows": rows})
    assert reply.status_code == 200, reply.text
    found = np.array(reply.json()["predictions"])
    assert found.shape == ((7,) if kind == "regression" else wanted.shape)
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted)

    reply = client.post(f"/v2/models/{name_of(kind)}/infer", json={"id": "7", "inputs": tensors(kind, rows)})
    assert reply.status_code == 200, reply.text
    (output,) = reply.json()["outputs"]
    assert reply.json()["id"] == "7"
    np.testing.assert_allclose(np.array(output["data"]).reshape(output["shape"]), wanted)
    described = client.get(f"/v2/models/{name_of(kind)}").json()
    assert len(described["inputs"]) == len(tensors(kind, rows)) or kind in ("columns", "regression")


def tensors(kind: str, rows: list[Any]) -> list[dict[str, Any]]:
    if kind == "words":
        return [{"name": "text", "shape": [7], "datatype": "BYTES", "data": rows}]
    if kind == "patches":
        return [{"name": "image", "shape": [7, 8, 8], "datatype": "FP32", "data": np.ravel(rows).tolist()}]
    if kind == "frame":
        kinds = {"age": "FP64", "income": "FP64", "town": "BYTES", "owner": "BOOL"}
        return [
            {"name": name, "shape": [7, 1], "datatype": datatype, "data": [row[name] for row in rows]}
            for name, datatype in kinds.items()
        ]
    return [{"name": "rows", "shape": [7, 5], "datatype": "FP64", "data": rows}]


@pytest.mark.parametrize(
    "inputs",
    [
        None, [], [7], [{}], [{"name": "a", "shape": [1], "datatype": "FP64", "data": [1.0]}],
        [{"name": "a", "shape": [1, 5], "datatype": "FP64", "data": [1.0] * 4}],
        [{"name": "a", "shape": [1, 5], "datatype": "FP64", "data": ["x"] * 5}],
        [{"name": "a", "shape": [1, 5], "datatype": "COMPLEX", "data": [1.0] * 5}],
        [{"name": "a", "shape": [-1, 5], "datatype": "FP64", "data": [1.0] * 5}],
        [{"name": "a", "shape": [10**9, 5], "datatype": "FP64", "data": []}],
        [{"name": "a", "shape": [1, 5], "datatype": "FP64", "data": [[1.0], 2.0, 3.0, 4.0, 5.0]}],
        [{"name": "x0", "shape": [2], "datatype": "FP64", "data": [1.0, 2.0]},
         {"name": "x1", "shape": [1], "datatype": "FP64", "data": [1.0]}],
    ],
)  # fmt: skip
def test_invalid_tensors(client: TestClient, inputs: Any) -> None:
    reply = client.post(f"/v2/models/{name_of('columns')}/infer", json={"inputs": inputs})
    assert reply.status_code == 422
    assert reply.json()["error"]["message"]


def test_predictions_need_a_model() -> None:
    with TestClient(service("columns", models=False)) as client:
        reply = client.post(f"/v1/models/{name_of('columns')}/predict", json={"rows": [[1.0] * 5]})
        assert reply.status_code == 404
        assert reply.json()["error"]["code"] == "no_model"


def test_polished_and_refined_selections_are_those_of_explain() -> None:
    """Polished by default, refined within the limit of the service; `confirmed` comes with `refine`."""
    rows, X = rows_of("columns")
    explainer = l2x.load(file_of("columns"), model=MODELS["columns"])
    path = f"/v1/explainers/{name_of('columns')}/explain"
    client = TestClient(service("columns"))

    def indices(**options: Any) -> list[list[int]]:
        reply = client.post(path, json={"rows": rows, "k": 2, **options}).json()
        return [[feature["index"] for feature in row["features"]] for row in reply["rows"]]

    assert indices(polish=False) == explainer.explain(X, 2, polish=False).indices.tolist()
    assert indices() == indices(polish=True) == explainer.explain(X, 2).indices.tolist()
    refined = explainer.explain(X, 2, refine=5)
    assert indices(refine=5) == refined.indices.tolist()
    reply = client.post(path, json={"rows": rows, "k": 2, "refine": 5}).json()
    assert [row["confirmed"] for row in reply["rows"]] == refined.confirmed.tolist()  # type: ignore[union-attr]
    assert "confirmed" not in client.post(path, json={"rows": rows}).json()["rows"][0]
    for wrong in (
        {"refine": 31},
        {"refine": -1},
        {"refine": 3, "polish": False},
        {"refine": "5"},
        {"polish": 1},
        {"keep": 0.9, "polish": True},
    ):
        assert client.post(path, json={"rows": rows, **wrong}).status_code in (400, 422)
    without = TestClient(service("columns", models=False))
    for wrong in ({"refine": 3}, {"polish": True}):
        assert "--model" in without.post(path, json={"rows": rows, **wrong}).text
    given = {"polish": True, "predictions": MODELS["columns"](np.asarray(X)).tolist()}
    sent = without.post(path, json={"rows": rows, "k": 2, **given}).json()["rows"]
    assert [[feature["index"] for feature in row["features"]] for row in sent] == indices(polish=True)
