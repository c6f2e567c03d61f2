"""The content of /openapi.json: shapes of responses, and requests with examples for the served explainers."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from l2x.apps.serve._catalogue import Catalogue


class OpenModel(BaseModel):
    """A model that may have further keys."""

    model_config = ConfigDict(extra="allow")


class Feature(OpenModel):
    """A selected feature: `value` in tables, `span` (characters) in texts, `rectangle` (pixels) in images.

    Scores rank the features of a row; effects quantify how much each selected feature adds to the prediction.
    """

    index: int
    score: float
    name: str
    effect: float | None = Field(None, description="what the feature adds to the prediction")


class EffectSums(BaseModel):
    """What the effects of a row add up to: base + effects + rest = prediction."""

    base: float = Field(description="the surrogate's prediction from no feature")
    rest: float = Field(description="what all other features add")
    prediction: float = Field(description="the prediction from all features")
    alone: float = Field(description="the prediction from the selected features alone")
    without: float = Field(description="the prediction from all other features")
    explained: Any = Field(None, alias="class", description="the class that effects refer to")
    scale: str | None = Field(None, description="log-odds, if the request asks for them")
    predicted_by: str = Field(description="model or surrogate")


class Row(BaseModel):
    """The explanation of one row."""

    features: list[Feature] = Field(description="the selected features, best first")
    prediction: list[float] | float | None = Field(
        None, description="the model's prediction, if the model is served or the client sent it"
    )
    effects: EffectSums | None = None


class Explanation(BaseModel):
    """The explanations of all rows of a request."""

    explainer: str
    version: str = Field(description="the version of l2x that wrote the file")
    checksum: str
    k: int
    rows: list[Row]
    unseen: dict[str, int] = Field(
        description="by column, the number of rows with a category that was not in the training rows"
    )
    classes: list[Any] | None = None


class Description(OpenModel):
    """What an explainer takes, how it was trained, and its figures on held-out rows."""

    explainer: str
    version: str
    checksum: str
    k: int
    d: int
    unit: str
    task: str
    takes: dict[str, Any]
    trained: dict[str, Any]
    held_out: dict[str, Any]


class Validity(OpenModel):
    """Whether an explainer is still valid, by rows that were verified in the background."""

    explainer: str
    version: str
    checksum: str
    status: str = Field(description="valid, drifting or stale; waiting before there are enough rows")
    share: float = Field(description="the share of served rows that are verified")
    per_minute: int = Field(description="the maximum number of verified rows per minute")
    verified: int = Field(description="rows that this process has verified")
    dropped: int = Field(description="rows that were chosen and not verified: budget, queue or failure")


class Predictions(BaseModel):
    """The model's predictions."""

    predictions: list[list[float] | float]
    classes: list[Any] | None = None


class Inference(OpenModel):
    """The model's predictions as KServe's version 2 returns them."""

    model_name: str
    outputs: list[dict[str, Any]]


class Error(BaseModel):
    """Why a request failed."""

    code: str
    message: str
    details: list[dict[str, Any]]
    request: str = Field(description="the id of the request in the log")


class Errors(BaseModel):
    """The body of every response that is not 200."""

    error: Error


STATUSES = {
    400: "The body is not JSON, or not Arrow.",
    401: "The token is missing or wrong.",
    404: "There is no such explainer, or it is served without its model.",
    408: "The body did not arrive in time.",
    413: "The body has too many bytes or rows.",
    422: "Rows or options are invalid; details give row, column, given and expected.",
    502: "The model failed.",
    503: "Too many rows are waiting; Retry-After gives the seconds to wait.",
    504: "There was no result within the time limit.",
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": Errors, "description": about} for status, about in STATUSES.items()
}
EFFECTS = "whether to return signed effects; default: yes, unless the service was started with --no-effects"
CLASS = "the class that effects refer to; default: the predicted class of each row"
SCALE = "of effects: probability (the default) or log-odds; value for regression"
POLISH = (
    "whether the surrogate searches near the learned selection for one that explains this prediction better"
)
REFINE = (
    "how often the model may be queried per row, until the selected features alone give the same prediction; "
    "rows then have 'confirmed'"
)
KEEP = "the share of the information to preserve: each row gets as many features as that takes, at most k"


def rows_body(catalogue: Catalogue, *, explain: bool) -> dict[str, Any]:
    """Return the schema of requests with rows, to explain them or to query the model."""
    formats = {slot.name: slot.served.rows for slot in catalogue}
    items = {"anyOf": [rows.schema() for rows in formats.values()]}
    properties: dict[str, Any] = {"rows": {"type": "array", "minItems": 1, "items": items}}
    if explain:
        properties |= {
            "k": {"type": "integer", "minimum": 1, "description": "default: the explainer's own k"},
            "keep": {"type": "number", "exclusiveMinimum": 0, "maximum": 1, "description": KEEP},
            "predictions": {
                "type": "array",
                "items": {},
                "description": "the model's predictions, for prediction-aware explainers and for effects; "
                "default: those of the model that is served",
            },
            "effects": {"type": "boolean", "description": EFFECTS},
            "class": {"description": CLASS},
            "scale": {"enum": ["probability", "log-odds", "value"], "description": SCALE},
            "polish": {"type": "boolean", "description": POLISH},
            "refine": {"type": "integer", "minimum": 0, "description": REFINE},
        }
    examples = {
        name: {"summary": name, "value": {"rows": [rows.example()]}} for name, rows in formats.items()
    }
    return _json_body(properties, ["rows"], examples=examples)


def tensors_body() -> dict[str, Any]:
    """Return the schema of requests of KServe's version 2."""
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
    inputs = {"type": "array", "items": tensor, "minItems": 1}
    return _json_body({"inputs": inputs, "id": {"type": "string"}}, ["inputs"])


def _json_body(properties: dict[str, Any], required: list[str], **more: Any) -> dict[str, Any]:
    schema = {
        "type": "object", "properties": properties, "required": required, "additionalProperties": False
    }  # fmt: skip
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema, **more}}}}


def with_names(document: dict[str, Any], catalogue: Catalogue) -> dict[str, Any]:
    """Return the document with the names of the explainers as the possible values of {name}."""
    name = {
        "name": "name", "in": "path", "required": True,
        "schema": {"type": "string", "enum": [slot.name for slot in catalogue]},
    }  # fmt: skip
    for path, operations in document["paths"].items():
        if "{name}" in path:
            for operation in operations.values():
                rest = [one for one in operation.get("parameters", ()) if one["in"] != "path"]
                operation["parameters"] = [name, *rest]
    return document
