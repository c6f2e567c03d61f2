"""The routes that explain and describe: /v1/explainers."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic_core import to_json
from starlette.responses import Response

from l2x._base.arrays import Array
from l2x.apps.serve import _openapi as openapi
from l2x.apps.serve._bodies import read_json, read_rows
from l2x.apps.serve._catalogue import Catalogue
from l2x.apps.serve._metrics import Metrics
from l2x.apps.serve._served import Explained, Question, Served
from l2x.apps.serve._settings import Settings


def explaining_routes(catalogue: Catalogue, settings: Settings, metrics: Metrics) -> APIRouter:
    """The route that explains, first, and those that describe."""
    router = APIRouter(prefix="/v1/explainers", tags=["explainers"])

    @router.post(
        "/{name}/explain",
        summary="Which features decided",
        response_model=openapi.Explanation,
        openapi_extra=openapi.rows_body(catalogue, k=True),
    )
    async def explain(name: str, request: Request) -> Response:
        slot = catalogue[name]
        slot.admit()
        served = slot.served
        content = await read_json(request, settings, ("rows", "k", "keep", "answers"))
        rows = served.reader.parse(read_rows(request, content, settings))
        answers = served.answers_of(content.get("answers"), len(rows))
        question = Question(rows, served.k(content.get("k")), answers, served.keep(content.get("keep")))
        explained = await slot.explain(served, question)
        metrics.rows(name, len(question.rows))
        return json_response(explanation_json(served, question, explained))

    @router.get("", summary="Every explainer in service", response_model=list[openapi.Description])
    async def explainers() -> Response:
        return json_response([slot.served.description for slot in catalogue])

    @router.get("/{name}", summary="What an explainer takes", response_model=openapi.Description)
    async def explainer(name: str) -> Response:
        return json_response(catalogue[name].served.description)

    return router


def explanation_json(served: Served, question: Question, explained: Explained) -> dict[str, Any]:
    """The answer to one request."""
    rows: list[dict[str, Any]] = [{"features": features} for features in explained.rows]
    content = {**served.origin, "k": question.k, "rows": rows, "unseen": dict(question.rows.unseen)}
    if explained.answers is not None:
        content["classes"] = served.classes
        for row, answer in zip(rows, plain_answers(served, explained.answers), strict=True):
            row["answer"] = answer
    return content


def plain_answers(served: Served, answers: Array) -> list[Any]:
    """Per row the probabilities of the classes, or the mean, for JSON."""
    single = served.regression and answers.shape[1] == 1
    plain: list[Any] = (answers[:, 0] if single else answers).tolist()
    return plain


def json_response(content: Any) -> Response:
    return Response(to_json(content), media_type="application/json")
