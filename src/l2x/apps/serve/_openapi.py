"""What /openapi.json says: the shapes of answers, and requests with examples of the explainers in service."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from l2x.apps.serve._catalogue import Catalogue


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Feature(Open):
    """A selected feature: `value` in tables, `span` (characters) in texts, `rectangle` (pixels) in images."""

    index: int
    score: float
    name: str


class Row(BaseModel):
    features: list[Feature] = Field(description="best first")
    answer: list[float] | float | None = Field(None, description="what the model says, if it is served")


class Explanation(BaseModel):
    explainer: str
    version: str = Field(description="of the l2x that wrote the file")
    checksum: str
    k: int
    rows: list[Row]
    unseen: dict[str, int] = Field(
        description="per column, rows with a category that the training rows did not have"
    )
    classes: list[Any] | None = None


class Description(Open):
    explainer: str
    version: str
    checksum: str
    k: int
    d: int
    task: str
    takes: dict[str, Any]
    trained: dict[str, Any]
    held_out: dict[str, Any]


class Answers(BaseModel):
    answers: list[list[float] | float]
    classes: list[Any] | None = None


class Inference(Open):
    model_name: str
    outputs: list[dict[str, Any]]


class Error(BaseModel):
    code: str
    message: str
    details: list[dict[str, Any]]
    request: str = Field(description="the id in the log")


class Errors(BaseModel):
    error: Error


WHY = {
    400: "not JSON, or not Arrow",
    401: "no token, or a wrong one",
    404: "no such explainer, or no model",
    408: "the body did not arrive in time",
    413: "too many bytes or rows",
    422: "rows that cannot be used, each with row, column, given and expected",
    502: "the model failed",
    503: "too much is waiting; Retry-After says when to come back",
    504: "no answer in the promised time",
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": Errors, "description": why} for status, why in WHY.items()
}


def rows_body(catalogue: Catalogue, *, k: bool) -> dict[str, Any]:
    """The body of requests with rows."""
    readers = {slot.name: slot.served.reader for slot in catalogue}
    properties: dict[str, Any] = {
        "rows": {"type": "array", "minItems": 1, "items": {"anyOf": [r.schema() for r in readers.values()]}}
    }
    if k:
        properties["k"] = {"type": "integer", "minimum": 1, "description": "by default the explainer's own"}
        about = "as many features as a row needs, k at most: the share of the information to keep"
        properties["keep"] = {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 1,
            "description": about,
        }
        about = "what the model says of each row, for explainers that read it; default: --model is asked"
        properties["answers"] = {"type": "array", "items": {}, "description": about}
    examples = {
        name: {"summary": name, "value": {"rows": [reader.example()]}} for name, reader in readers.items()
    }
    schema = {
        "type": "object",
        "properties": properties,
        "required": ["rows"],
        "additionalProperties": False,
    }
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": schema, "examples": examples}},
        }
    }


def tensors_body(catalogue: Catalogue) -> dict[str, Any]:
    """The body of KServe's V2 requests."""
    tensor = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "shape": {"type": "array", "items": {"type": "integer", "minimum": 1}},
            "datatype": {"type": "string", "enum": ["FP32", "FP64", "INT64", "BOOL", "BYTES"]},
            "data": {"type": "array", "items": {}},
        },
        "required": ["name", "shape", "datatype", "data"],
    }
    schema = {
        "type": "object",
        "properties": {"inputs": {"type": "array", "items": tensor, "minItems": 1}, "id": {"type": "string"}},
        "required": ["inputs"],
        "additionalProperties": False,
    }
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def with_names(document: dict[str, Any], catalogue: Catalogue) -> dict[str, Any]:
    """The document with the names of explainers as the values that {name} takes."""
    names = [slot.name for slot in catalogue]
    for operations in document["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path" and parameter["name"] == "name":
                    parameter["schema"] = {"type": "string", "enum": names}
    return document
