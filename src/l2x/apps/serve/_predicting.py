"""The model behind the explainer, over HTTP: a small protocol of ours, and KServe's V2.

POST /v1/models/{name}/predict   {"rows": [...]} -> {"answers": [[...], ...]}
POST /v2/models/{name}/infer     {"inputs": [{name, shape, datatype, data}]} -> {"outputs": [...]}
"""

from __future__ import annotations

from types import NoneType
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from starlette.responses import Response

from l2x._base.arrays import Array
from l2x.apps.serve import _openapi as openapi
from l2x.apps.serve._bodies import read_json, read_rows
from l2x.apps.serve._catalogue import Catalogue
from l2x.apps.serve._explaining import json_response, plain_answers
from l2x.apps.serve._refusals import ServiceError
from l2x.apps.serve._served import Served
from l2x.apps.serve._settings import Settings

# V2's names of types that Python knows as numbers, booleans or texts.
NUMBERS = ("FP16", "FP32", "FP64", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
TYPES = (*NUMBERS, "BOOL", "BYTES")


def predicting_routes(catalogue: Catalogue, settings: Settings) -> APIRouter:
    router = APIRouter(tags=["models"])

    async def answered(name: str, rows: list[Any]) -> tuple[Served, Array]:
        slot = catalogue[name]
        served = slot.served
        if served.model is None:
            raise ServiceError(
                404, "no_model", "This explainer is served without its model; start with --model."
            )
        parsed = served.reader.parse(rows)
        return served, await slot.predict(served, parsed)

    @router.post(
        "/v1/models/{name}/predict",
        summary="What the model says",
        response_model=openapi.Answers,
        openapi_extra=openapi.rows_body(catalogue, k=False),
    )
    async def predict(name: str, request: Request) -> Response:
        content = await read_json(request, settings, ("rows",))
        served, answers = await answered(name, read_rows(request, content, settings))
        return json_response({"answers": plain_answers(served, answers), "classes": served.classes})

    @router.get("/v2/models/{name}", summary="Inputs and outputs, as KServe's V2 has them")
    async def metadata(name: str) -> Response:
        served = catalogue[name].served
        return json_response(
            {
                "name": name,
                "versions": [served.artifact.checksum],
                "platform": "l2x",
                "inputs": v2_inputs(served),
                "outputs": [{"name": "answers", "datatype": "FP64", "shape": [-1, -1]}],
            }
        )

    @router.post(
        "/v2/models/{name}/infer",
        summary="The same as KServe's V2 has it",
        response_model=openapi.Inference,
        openapi_extra=openapi.tensors_body(catalogue),
    )
    async def infer(name: str, request: Request) -> Response:
        content = await read_json(request, settings, ("inputs", "id", "parameters", "outputs"))
        rows = rows_of_tensors(content.get("inputs"), settings.max_rows)
        read_rows(request, {"rows": rows}, settings)
        _, answers = await answered(name, rows)
        output = {"name": "answers", "shape": list(answers.shape), "datatype": "FP64"}
        reply = {"model_name": name, "outputs": [output | {"data": answers.ravel().tolist()}]}
        return json_response(reply | ({"id": content["id"]} if isinstance(content.get("id"), str) else {}))

    return router


def v2_inputs(served: Served) -> list[dict[str, Any]]:
    """One tensor for each column; one for texts or images."""
    takes = served.reader.takes()
    if takes["kind"] == "text":
        return [{"name": "text", "datatype": "BYTES", "shape": [-1]}]
    if takes["kind"] == "image":
        return [{"name": "image", "datatype": "FP32", "shape": [-1, *takes["shape"]]}]
    return [
        {
            "name": column["name"],
            "datatype": "FP64" if column["type"] == "number" else "BYTES",
            "shape": [-1],
        }
        for column in takes["columns"]
    ]


def rows_of_tensors(inputs: Any, most: int) -> list[Any]:
    """Rows as the V1 protocol has them: of one tensor (n, ...), or of one tensor (n,) for each column.

    >>> rows_of_tensors([{"name": "a", "shape": [2], "datatype": "FP64", "data": [1.0, 2.0]},
    ...                  {"name": "b", "shape": [2, 1], "datatype": "BYTES", "data": ["x", "y"]}], 10)
    [{'a': 1.0, 'b': 'x'}, {'a': 2.0, 'b': 'y'}]
    >>> rows_of_tensors([{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["good"]}], 10)
    ['good']
    """
    if not isinstance(inputs, list) or not inputs:
        raise ServiceError(422, "invalid_body", "'inputs' must be a list with at least one tensor.")
    tensors = {str(given.get("name")): _tensor(given, most) for given in inputs if isinstance(given, dict)}
    if len(tensors) != len(inputs):
        raise ServiceError(422, "invalid_body", "Every input is an object with a name of its own.")
    if len(inputs) == 1:
        (tensor,) = tensors.values()
        column = str(inputs[0]["name"])
        # A text, a row of a matrix, an image; or a table of one column of numbers
        rows: list[Any] = tensor.tolist()
        lone = tensor.ndim == 1 and inputs[0]["datatype"] != "BYTES"
        return [{column: cell} for cell in rows] if lone else rows
    lengths = {len(tensor) for tensor in tensors.values()}
    if len(lengths) != 1 or any(tensor.size != len(tensor) for tensor in tensors.values()):
        raise ServiceError(
            422, "invalid_body", "Several inputs are columns: each needs the shape [n] or [n, 1]."
        )
    columns = {name: tensor.ravel().tolist() for name, tensor in tensors.items()}
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def _tensor(given: dict[str, Any], most: int) -> Array:
    name, shape, datatype, data = (given.get(key) for key in ("name", "shape", "datatype", "data"))
    if not isinstance(name, str) or datatype not in TYPES or not isinstance(data, list):
        raise ServiceError(
            422, "invalid_body", f"An input has name, shape, datatype ({', '.join(TYPES)}) and data."
        )
    whole = isinstance(shape, list) and all(type(side) is int and side > 0 for side in shape)
    if not whole or not shape or shape[0] > most:
        raise ServiceError(
            422, "invalid_body", f"The shape of '{name[:50]}' is not [n, ...] with n up to {most:,}."
        )
    kinds = {"BOOL": (bool, NoneType), "BYTES": (str, NoneType)}.get(datatype, (int, float, NoneType))
    flat = _flat(data)
    if any(type(cell) not in kinds for cell in flat):
        raise ServiceError(422, "invalid_body", f"The data of '{name[:50]}' are not all {datatype}.")
    tensor = np.empty(len(flat), dtype=object)
    tensor[:] = flat
    try:
        tensor = tensor.reshape(shape)
    except ValueError:
        raise ServiceError(
            422, "invalid_body", f"'{name[:50]}' has {len(flat)} data, which is not its shape."
        ) from None
    return tensor


def _flat(data: list[Any]) -> list[Any]:
    """V2 allows nested lists, too."""
    while data and isinstance(data[0], list):
        if not all(isinstance(part, list) for part in data):
            raise ServiceError(422, "invalid_body", "Data are nested unevenly.")
        data = [cell for part in data for cell in part]
    return data
