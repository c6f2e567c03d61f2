"""The schema is right: its examples work, and requests generated from it never break the service.

L2X_FUZZ=2000 sends as many requests as docs/how-to/serve.md describes.
"""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service import KINDS, service
from starlette.testclient import TestClient

REQUESTS = int(os.environ.get("L2X_FUZZ", "150"))
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)
NUMBERS = st.integers(-1000, 1000) | st.floats(allow_nan=False) | st.sampled_from([10**400, -(2**63), 5e-324])


@pytest.fixture(scope="module")
def client() -> Any:
    with TestClient(service(*KINDS), raise_server_exceptions=False) as made:
        yield made


@pytest.fixture(scope="module")
def document(client: TestClient) -> Any:
    return client.get("/openapi.json").json()


def of_schema(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return values that match the schema, and sometimes one that does not."""
    if "anyOf" in schema:
        fitting = st.one_of([of_schema(option) for option in schema["anyOf"]])
    elif "enum" in schema:
        fitting = st.sampled_from(schema["enum"])
    else:
        kinds = schema.get("type", "any")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        fitting = st.one_of([_of_type(kind, schema) for kind in kinds])
    return st.one_of(fitting, fitting, fitting, fitting, ANYTHING)


def _of_type(kind: str, schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if kind == "object":
        required = {name: of_schema(part) for name, part in schema.get("properties", {}).items()}
        optional = {
            name: required.pop(name) for name in list(required) if name not in schema.get("required", ())
        }
        return st.fixed_dictionaries(required, optional=optional)
    if kind == "array":
        least, most = schema.get("minItems", 0), schema.get("maxItems", max(3, schema.get("minItems", 0)))
        return st.lists(of_schema(schema.get("items", {})), min_size=least, max_size=most)
    known = {
        "number": NUMBERS,
        "integer": st.integers(-2, 12),
        "boolean": st.booleans(),
        "null": st.none(),
        "string": st.sampled_from(["Ulm", "good film", "", "<script>", "\x00", "🙂"]) | st.text(max_size=20),
    }
    return known.get(kind, ANYTHING)


def test_no_request_breaks_the_service(client: TestClient, document: Any) -> None:
    operations = [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    statuses: dict[int, int] = {}

    @settings(
        max_examples=REQUESTS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )
    @given(st.data())
    def fuzz(data: st.DataObject) -> None:
        method, path, operation = data.draw(st.sampled_from(operations))
        query: dict[str, Any] = {}
        name = ""
        for parameter in operation.get("parameters", ()):
            known = st.sampled_from(parameter["schema"].get("enum", [1, 2]))
            value = data.draw(st.one_of(known, known, known, of_schema(parameter["schema"])))
            name = str(value) if parameter["in"] == "path" else name
            if parameter["in"] == "path":
                path = path.replace(f"{{{parameter['name']}}}", quote(str(value), safe="") or "x")
            else:
                query[parameter["name"]] = str(value).encode("utf-8", "replace")
        content = b""
        for media, body in operation.get("requestBody", {}).get("content", {}).items():
            if "json" in media:
                # Half of the requests have a row that this explainer accepts, the others may not
                fitting = body.get("examples", {}).get(name, {}).get("value")
                drawn = data.draw(of_schema(body["schema"]))
                if fitting is not None and data.draw(st.booleans()):
                    drawn = (
                        fitting | {"k": data.draw(st.integers(1, 3))} if path.endswith("explain") else fitting
                    )
                content = json.dumps(drawn).encode("utf-8", "replace")
            else:
                content = data.draw(st.binary(max_size=50))
        reply = client.request(method, path, params=query, content=content)
        statuses[reply.status_code] = statuses.get(reply.status_code, 0) + 1
        assert reply.status_code != 500, (method, path, content)
        if reply.status_code >= 400:
            assert set(reply.json()["error"]) == {"code", "message", "details", "request"}
        if path != "/health/ready" and reply.status_code not in (404, 405):
            assert str(reply.status_code) in operation["responses"], reply.status_code

    fuzz()
    print(f"{sum(statuses.values())} requests: {dict(sorted(statuses.items()))}")
    assert statuses[200] > REQUESTS / 20
    assert statuses[422] > REQUESTS / 20


def test_every_example_works(client: TestClient, document: Any) -> None:
    tried = 0
    for path in ("/v1/explainers/{name}/explain", "/v1/models/{name}/predict"):
        body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        for name, example in body["examples"].items():
            reply = client.post(path.replace("{name}", name), json=example["value"])
            assert reply.status_code == 200, reply.text
            tried += 1
    assert tried == 2 * len(KINDS)
