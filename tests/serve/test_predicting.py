"""The model over HTTP: our protocol, and KServe's V2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from service import MODELS, name_of, rows_of, service
from starlette.testclient import TestClient

import l2x


@pytest.fixture(scope="module")
def client() -> Any:
    with TestClient(service("columns", "frame", "words", "patches", "regression")) as made:
        yield made


@pytest.mark.parametrize("kind", ["columns", "frame", "words", "patches", "regression"])
def test_both_protocols_say_what_the_model_says(client: TestClient, kind: str) -> None:
    rows, X = rows_of(kind, 7)
    wanted = l2x.as_black_box(MODELS[kind])(X)
    answer = client.post(f"/v1/models/{name_of(kind)}/predict", json={"rows": rows})
    assert answer.status_code == 200, answer.text
    found = np.array(answer.json()["answers"])
    assert found.shape == ((7,) if kind == "regression" else wanted.shape)
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted)

    answer = client.post(f"/v2/models/{name_of(kind)}/infer", json={"id": "7", "inputs": tensors(kind, rows)})
    assert answer.status_code == 200, answer.text
    (output,) = answer.json()["outputs"]
    assert answer.json()["id"] == "7"
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
def test_tensors_that_are_no_rows(client: TestClient, inputs: Any) -> None:
    answer = client.post(f"/v2/models/{name_of('columns')}/infer", json={"inputs": inputs})
    assert answer.status_code == 422
    assert answer.json()["error"]["message"]


def test_without_a_model_there_is_nothing_to_ask() -> None:
    with TestClient(service("columns", models=False)) as client:
        answer = client.post(f"/v1/models/{name_of('columns')}/predict", json={"rows": [[1.0] * 5]})
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "no_model"
