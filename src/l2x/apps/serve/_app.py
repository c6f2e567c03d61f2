"""The service as an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from l2x._version import __version__
from l2x.apps.serve import _openapi as openapi
from l2x.apps.serve._bulk import bulk_routes
from l2x.apps.serve._catalogue import Catalogue
from l2x.apps.serve._explaining import explaining_routes, json_response
from l2x.apps.serve._gate import Gate, record_of
from l2x.apps.serve._metrics import Metrics
from l2x.apps.serve._playground import Pages, playground_routes
from l2x.apps.serve._predicting import predicting_routes
from l2x.apps.serve._refusals import ServiceError
from l2x.apps.serve._settings import Settings
from l2x.apps.serve._shortcut import Service, Shortcut
from l2x.display import STATIC


def create_app(
    files: Sequence[str | Path], models: Mapping[str, Any] | None = None, settings: Settings | None = None
) -> FastAPI:
    """Load the explainers and return their service; `models` are given by the names of the files.

    The process is left as it is: its threads, garbage collector and log are the caller's (see
    `running.Dedicated`).
    """
    settings = settings or Settings()
    metrics = Metrics()
    catalogue = Catalogue([Path(file) for file in files], models or {}, settings, metrics)
    pages = Pages(catalogue, settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(catalogue.watch()) if settings.reload else None
        app.state.ready = True
        yield
        app.state.ready = False
        if watching is not None:
            watching.cancel()
        catalogue.close()

    app = Service(
        title="l2x",
        summary="Which features decided a model's answer?",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        responses=openapi.RESPONSES,
    )
    app.state.catalogue = catalogue
    explaining = explaining_routes(catalogue, settings, metrics)
    app.include_router(explaining)
    app.include_router(bulk_routes(catalogue, settings, metrics))
    app.include_router(predicting_routes(catalogue, settings))
    app.include_router(playground_routes(pages, catalogue, settings), include_in_schema=False)
    app.mount("/static/playground", StaticFiles(directory=Path(__file__).parent / "static"))
    app.mount("/static", StaticFiles(directory=STATIC))

    @app.get("/health/live", tags=["health"], summary="The process answers", responses={})
    async def live() -> Response:
        return json_response({"status": "live"})

    @app.get("/health/ready", tags=["health"], summary="Everything is loaded")
    async def ready() -> Response:
        if not getattr(app.state, "ready", False):
            raise ServiceError(503, "not_ready", "The service is starting or stopping.")
        return json_response({"status": "ready", "explainers": [slot.name for slot in catalogue]})

    @app.get("/metrics", tags=["health"], summary="For Prometheus", response_class=Response)
    async def prometheus() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    _in_one_shape(app)
    document = app.openapi
    app.openapi = lambda: openapi.with_names(document(), catalogue)  # type: ignore[method-assign]
    gate: dict[str, Any] = {"settings": settings, "metrics": metrics, "login": pages.login}
    app.add_middleware(Gate, **gate)
    shortcut = Shortcut(explaining.routes[0])
    app.cut(shortcut, Gate(shortcut, **gate))
    return app


def _in_one_shape(app: FastAPI) -> None:
    """The framework's own errors as {"error": ...}, like those that the gate answers."""

    async def from_framework(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        codes = {404: "not_found", 405: "method_not_allowed"}
        code = codes.get(error.status_code, "http_error")
        made = ServiceError(error.status_code, code, str(error.detail), headers=error.headers)
        return made.response(record_of(request.scope).id)

    async def parameters(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return ServiceError(422, "invalid_parameter", f"{where}: {first['msg']}.").response(
            record_of(request.scope).id
        )

    app.add_exception_handler(HTTPException, from_framework)
    app.add_exception_handler(RequestValidationError, parameters)
