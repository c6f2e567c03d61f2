"""The routes for JSON: explainers, and the models behind them.

POST /v1/explainers/{name}/explain   {"rows": [...], "k": 3}   -> {"rows": [{"features": [...]}, ...]}
                                     "effects": false leaves out signed effects; "class", "scale": which
POST /v1/models/{name}/predict       {"rows": [...]}           -> {"predictions": [[...], ...]}
POST /v2/models/{name}/infer         {"inputs": [...]}         -> {"outputs": [...]}, as KServe defines them
"""

from __future__ import annotations

from types import NoneType, SimpleNamespace
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from starlette.responses import Response

from l2x._base.arrays import Array
from l2x.apps.serve import _openapi as openapi
from l2x.apps.serve._catalogue import Catalogue, Explained, ExplainRequest, Served
from l2x.apps.serve._requests import (
    ServiceError,
    checked_rows,
    declared_size,
    invalid_body,
    json_response,
    outside_loop,
    read_json,
)
from l2x.apps.serve._settings import Settings
from l2x.explanation import Effects

EXPLAIN = "/v1/explainers/{name}/explain"
# The names of types in KServe's version 2 that are numbers, booleans or texts in Python.
NUMBERS = ("FP16", "FP32", "FP64", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
TYPES = (*NUMBERS, "BOOL", "BYTES")
# Characters of a request's id in version 2, which the response repeats.
LONGEST_ID = 256


class Routes:
    """The functions behind the routes."""

    def __init__(self, catalogue: Catalogue, settings: Settings) -> None:
        self._catalogue, self._settings = catalogue, settings

    def add_to(self, app: FastAPI) -> None:
        """Add the routes to an application."""
        app.post(
            EXPLAIN, tags=["explainers"], summary="Explain rows", response_model=openapi.Explanation,
            openapi_extra=openapi.rows_body(self._catalogue, explain=True),
        )(self.explain)  # fmt: skip
        app.get(
            "/v1/explainers", tags=["explainers"], summary="List all explainers",
            response_model=list[openapi.Description],
        )(self.explainers)  # fmt: skip
        app.get(
            "/v1/explainers/{name}", tags=["explainers"], summary="Describe an explainer",
            response_model=openapi.Description,
        )(self.explainer)  # fmt: skip
        app.get(
            "/v1/explainers/{name}/validity", tags=["explainers"],
            summary="Report whether an explainer is still valid (--watch)", response_model=openapi.Validity,
        )(self.validity)  # fmt: skip
        app.post(
            "/v1/models/{name}/predict", tags=["models"], summary="Query the model",
            response_model=openapi.Predictions,
            openapi_extra=openapi.rows_body(self._catalogue, explain=False),
        )(self.predict)  # fmt: skip
        app.get(
            "/v2/models/{name}", tags=["models"],
            summary="Describe the model's inputs and outputs (KServe, version 2)",
        )(self.metadata)  # fmt: skip
        app.post(
            "/v2/models/{name}/infer", tags=["models"], summary="Query the model (KServe, version 2)",
            response_model=openapi.Inference, openapi_extra=openapi.tensors_body(),
        )(self.infer)  # fmt: skip

    async def explain(self, request: Request) -> Response:
        """Return the selected features of each row."""
        # Log and metrics name the route, which older versions of starlette do not add themselves.
        request.scope.setdefault("route", SimpleNamespace(path=EXPLAIN))
        slot = self._catalogue[request.path_params["name"]]
        slot.admit()
        served = slot.served
        keys = ("rows", "k", "keep", "predictions", "effects", "class", "scale", "polish", "refine")
        content = await read_json(request, self._settings, keys, row_values=served.row_values)
        given = checked_rows(request, content.get("rows"), self._settings)
        rows = await outside_loop(declared_size(request), served.rows.parse, given)
        query = served.request(rows, content, most=self._settings.most_refine)
        return json_response(explanation_json(served, query, await slot.explain(served, query)))

    async def explainers(self) -> Response:
        """Return the descriptions of all explainers."""
        return json_response([slot.served.description for slot in self._catalogue])

    async def explainer(self, name: str) -> Response:
        """Return the description of one explainer."""
        return json_response(self._catalogue[name].served.description)

    async def validity(self, name: str) -> Response:
        """Return what the rows that were verified in this process show."""
        slot = self._catalogue[name]
        if slot.watcher is None:
            raise ServiceError(
                404,
                "not_watched",
                "This explainer is not watched; start the service with --model and --watch.",
            )
        return json_response({**slot.served.origin, **slot.watcher.state().to_dict()})

    async def predict(self, name: str, request: Request) -> Response:
        """Return the model's predictions."""
        served = self._with_model(name)
        content = await read_json(request, self._settings, ("rows",), row_values=served.row_values)
        rows = checked_rows(request, content.get("rows"), self._settings)
        predictions = await self._predictions(served, request, rows)
        return json_response(
            {"predictions": served.plain_predictions(predictions), "classes": served.classes}
        )

    async def metadata(self, name: str) -> Response:
        """Return the tensors that `infer` reads and returns."""
        served = self._catalogue[name].served
        return json_response(
            {
                "name": name,
                "versions": [served.artifact.checksum],
                "platform": "l2x",
                "inputs": v2_inputs(served),
                "outputs": [{"name": "predictions", "datatype": "FP64", "shape": [-1, -1]}],
            }
        )

    async def infer(self, name: str, request: Request) -> Response:
        """Return the model's predictions as a tensor."""
        served, keys = self._with_model(name), ("inputs", "id", "parameters", "outputs")
        content = await read_json(request, self._settings, keys, row_values=served.row_values)
        own_id = content.get("id")
        if isinstance(own_id, str) and len(own_id) > LONGEST_ID:
            raise invalid_body(f"'id' may have at most {LONGEST_ID} characters.")
        inputs, most = content.get("inputs"), self._settings.max_rows
        rows = await outside_loop(declared_size(request), rows_from_tensors, inputs, most)
        rows = checked_rows(request, rows, self._settings)
        predictions = await self._predictions(served, request, rows)
        output = {"name": "predictions", "shape": list(predictions.shape), "datatype": "FP64"}
        reply = {"model_name": name, "outputs": [output | {"data": predictions.ravel().tolist()}]}
        return json_response(reply | ({"id": own_id} if isinstance(own_id, str) else {}))

    def _with_model(self, name: str) -> Served:
        served = self._catalogue[name].served
        if served.model is None:
            raise ServiceError(
                404, "no_model", "This explainer is served without its model; start the service with --model."
            )
        return served

    async def _predictions(self, served: Served, request: Request, rows: list[Any]) -> Array:
        parsed = await outside_loop(declared_size(request), served.rows.parse, rows)
        return await self._catalogue[served.name].predict(served, parsed)


def explanation_json(served: Served, request: ExplainRequest, explained: Explained) -> dict[str, Any]:
    """Return the response to a request to explain rows."""
    rows: list[dict[str, Any]] = [{"features": features} for features in explained.features]
    content = {**served.origin, "k": request.k, "rows": rows, "unseen": dict(request.rows.unseen)}
    if explained.predictions is not None:
        content["classes"] = served.classes
        for row, prediction in zip(rows, served.plain_predictions(explained.predictions), strict=True):
            row["prediction"] = prediction
    if explained.confirmed is not None:
        for row, confirmed in zip(rows, explained.confirmed.tolist(), strict=True):
            row["confirmed"] = confirmed
    if explained.effects is not None:
        for i, row in enumerate(rows):
            row["effects"] = effects_json(served, explained.effects, explained.by, i)
    return content


def effects_json(served: Served, effects: Effects, by: str, row: int) -> dict[str, Any]:
    """Return what the effects of a row add up to: base + effects + rest = prediction."""
    sums = ("base", "rest", "prediction", "alone", "without")
    content: dict[str, Any] = {name: float(getattr(effects, name)[row]) for name in sums}
    if served.classes is not None:
        content["class"] = served.classes[effects.outputs[row]]
    if effects.scale == "log-odds":
        content["scale"] = effects.scale
    return content | {"predicted_by": by}


def v2_inputs(served: Served) -> list[dict[str, Any]]:
    """Return the input tensors of version 2: one for each column of a table, otherwise a single one."""
    takes = served.rows.takes()
    if takes["kind"] == "table":
        types = {"number": "FP64", "category": "BYTES"}
        return [
            {"name": column["name"], "datatype": types[column["type"]], "shape": [-1]}
            for column in takes["columns"]
        ]
    datatype = {"text": "BYTES", "passages": "BYTES", "image": "FP32"}.get(takes["kind"], "FP64")
    shape = [-1] if takes["kind"] == "passages" else takes.get("shape", [])
    return [{"name": takes["kind"], "datatype": datatype, "shape": [-1, *shape]}]


def rows_from_tensors(inputs: Any, max_rows: int) -> list[Any]:
    """Return rows as `/v1` takes them, from one tensor (n, ...) or from one tensor (n,) for each column.

    >>> rows_from_tensors([{"name": "a", "shape": [2], "datatype": "FP64", "data": [1.0, 2.0]},
    ...                    {"name": "b", "shape": [2, 1], "datatype": "BYTES", "data": ["x", "y"]}], 10)
    [{'a': 1.0, 'b': 'x'}, {'a': 2.0, 'b': 'y'}]
    >>> rows_from_tensors([{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["good"]}], 10)
    ['good']
    """
    if not isinstance(inputs, list) or not inputs:
        raise invalid_body("'inputs' must be a list with at least one tensor.")
    tensors = {
        str(given.get("name")): _tensor(given, max_rows) for given in inputs if isinstance(given, dict)
    }
    if len(tensors) != len(inputs):
        raise invalid_body("Every input must be an object with a unique name.")
    if len(inputs) == 1:
        ((name, tensor),) = tensors.items()
        rows: list[Any] = tensor.tolist()  # texts, rows of a matrix, images; or the only column of a table
        only_column = tensor.ndim == 1 and inputs[0]["datatype"] != "BYTES"
        return [{name: cell} for cell in rows] if only_column else rows
    lengths = {len(tensor) for tensor in tensors.values()}
    if len(lengths) != 1 or any(tensor.size != len(tensor) for tensor in tensors.values()):
        raise invalid_body("Several inputs are columns: each must have the shape [n] or [n, 1].")
    columns = {name: tensor.ravel().tolist() for name, tensor in tensors.items()}
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def _tensor(given: dict[str, Any], max_rows: int) -> Array:
    """Return an input as an array of Python objects."""
    name, shape, datatype, data = (given.get(key) for key in ("name", "shape", "datatype", "data"))
    if not isinstance(name, str) or datatype not in TYPES or not isinstance(data, list):
        raise invalid_body(f"An input must have name, shape, datatype ({', '.join(TYPES)}) and data.")
    whole = isinstance(shape, list) and all(type(side) is int and side > 0 for side in shape)
    if not whole or not shape or shape[0] > max_rows:
        raise invalid_body(f"The shape of '{name[:50]}' must be [n, ...] with n between 1 and {max_rows:,}.")
    types = {"BOOL": (bool, NoneType), "BYTES": (str, NoneType)}.get(datatype, (int, float, NoneType))
    flat = _flat(data)
    if any(type(cell) not in types for cell in flat):
        raise invalid_body(f"The data of '{name[:50]}' must all be {datatype}.")
    tensor = np.empty(len(flat), dtype=object)
    tensor[:] = flat
    try:
        return tensor.reshape(shape)
    except ValueError:
        raise invalid_body(f"'{name[:50]}' has {len(flat)} data, which do not fit its shape.") from None


def _flat(data: list[Any]) -> list[Any]:
    """Return data without nesting, which version 2 allows as well."""
    while data and isinstance(data[0], list):
        if not all(isinstance(part, list) for part in data):
            raise invalid_body("The data are nested unevenly.")
        data = [cell for part in data for cell in part]
    return data
