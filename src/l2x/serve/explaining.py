"""The routes that explain and describe: /v1/explainers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from pydantic_core import to_json
from starlette.responses import Response

from l2x.foundations.arrays import Array
from l2x.serve import openapi
from l2x.serve.bodies import read_json, read_rows
from l2x.serve.catalogue import Catalogue
from l2x.serve.metrics import Metrics
from l2x.serve.served import Explained, Question, Served
from l2x.serve.settings import Settings


class Direct(APIRoute):
    """A route whose function takes the name and the request, and nothing that FastAPI would have to find out
    for every request: that takes longer than the explanation."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def handle(request: Request) -> Response:
            answer: Response = await self.endpoint(request.path_params["name"], request)
            return answer

        return handle


def add_explaining_routes(
    router: APIRouter, catalogue: Catalogue, settings: Settings, metrics: Metrics
) -> None:
    """To the application's own router, before all others: what is found first is found fastest."""

    async def explain(name: str, request: Request) -> Response:
        slot = catalogue[name]
        served = slot.served
        content = await read_json(request, settings, ("rows", "k", "answers"))
        rows = served.reader.parse(read_rows(request, content, settings))
        answers = served.answers_of(content.get("answers"), len(rows))
        question = Question(rows, served.k(content.get("k")), answers)
        explained = await slot.explain(served, question)
        metrics.rows(name, len(question.rows))
        return json_response(explanation_json(served, question, explained))

    async def explainers() -> Response:
        return json_response([slot.served.description for slot in catalogue])

    async def explainer(name: str) -> Response:
        return json_response(catalogue[name].served.description)

    router.add_api_route(
        "/v1/explainers/{name}/explain",
        explain,
        methods=["POST"],
        summary="Which features decided",
        response_model=openapi.Explanation,
        openapi_extra=openapi.rows_body(catalogue, k=True),
        responses=openapi.RESPONSES,
        tags=["explainers"],
        route_class_override=Direct,
    )
    for path, endpoint, summary, model in (
        ("/v1/explainers", explainers, "Every explainer in service", list[openapi.Description]),
        ("/v1/explainers/{name}", explainer, "What an explainer takes", openapi.Description),
    ):
        router.add_api_route(
            path,
            endpoint,
            summary=summary,
            response_model=model,
            responses=openapi.RESPONSES,
            tags=["explainers"],
        )


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
