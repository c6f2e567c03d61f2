"""The service as an ASGI application, and the gate that every request passes."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Mount, Route, Router
from starlette.staticfiles import StaticFiles

from l2x._version import __version__
from l2x.apps.serve import _openapi as openapi
from l2x.apps.serve._bulk import ArrowRoute
from l2x.apps.serve._catalogue import Catalogue
from l2x.apps.serve._monitoring import Metrics, log_event, log_failure
from l2x.apps.serve._playground import Pages
from l2x.apps.serve._requests import Record, ServiceError, as_service_error, json_response, record_of
from l2x.apps.serve._routes import EXPLAIN, Routes
from l2x.apps.serve._settings import Settings, Token
from l2x.display import SECURITY_HEADERS, STATIC
from l2x.errors import L2XError

# Paths that need no token: the health of the service, and the page that asks for the token.
HEALTH = "/health/"
OPEN = (HEALTH, "/static/", "/login")
# The status that nginx logs if the client leaves before the response.
CLIENT_LEFT = 499
_PORT = re.compile(r":\d*$")
_SAFE_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_HEADERS = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]


def create_app(
    files: Sequence[str | Path], models: Mapping[str, Any] | None = None, settings: Settings | None = None
) -> Gate:
    """Load explainers and return the ASGI application that serves them.

    The process is left as it is: its threads, garbage collector and log belong to the caller; see
    `Dedicated`.

    Parameters
    ----------
    files : sequence of str or Path
        Files that `Explainer.save` wrote; each is served under the name of its file.
    models : mapping of str to model, optional
        Models by the name of their explainer. With a model, responses contain its predictions.
    settings : Settings, optional
        Limits and switches.

    Returns
    -------
    Gate
        The application.
    """
    settings = settings or Settings()
    metrics = Metrics()
    catalogue = Catalogue([Path(file) for file in files], models or {}, settings, metrics)
    pages, routes = Pages(catalogue, settings), Routes(catalogue, settings)
    app = _fastapi(catalogue)
    routes.add_to(app)
    ArrowRoute(catalogue, settings, metrics).add_to(app)
    _add_health(app, catalogue, metrics)
    app.include_router(pages.router(), include_in_schema=False)
    # Starlette calls `explain` itself: FastAPI, which documents it, would take as long as the explanation.
    explain = Route(EXPLAIN, routes.explain, methods=["POST"])

    @asynccontextmanager
    async def lifespan(router: Router) -> AsyncIterator[None]:
        watching = asyncio.create_task(catalogue.watch()) if settings.reload else None
        app.state.ready = True
        yield
        app.state.ready = False
        if watching is not None:
            watching.cancel()
        catalogue.close()

    router = Router([explain, Mount("/", app)], lifespan=lifespan)
    return Gate(router, settings, metrics, pages.login_page)


def _fastapi(catalogue: Catalogue) -> FastAPI:
    """Return an application without routes, whose errors have one shape."""
    app = FastAPI(
        title="l2x",
        summary="Which features decided a model's prediction?",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        responses=openapi.RESPONSES,
    )
    app.mount("/static/playground", StaticFiles(directory=Path(__file__).parent / "static"))
    app.mount("/static", StaticFiles(directory=STATIC))
    for error in (HTTPException, RequestValidationError, ServiceError, L2XError, Exception):
        app.add_exception_handler(error, _error_response)
    document = app.openapi
    app.openapi = lambda: openapi.with_names(document(), catalogue)  # type: ignore[method-assign]
    return app


def _add_health(app: FastAPI, catalogue: Catalogue, metrics: Metrics) -> None:
    @app.get("/health/live", tags=["health"], summary="Check that the process responds")
    async def live() -> Response:
        return json_response({"status": "live"})

    @app.get("/health/ready", tags=["health"], summary="Check that all explainers are loaded")
    async def ready() -> Response:
        if not getattr(app.state, "ready", False):
            raise ServiceError(503, "not_ready", "The service is starting or stopping.")
        return json_response({"status": "ready", "explainers": [slot.name for slot in catalogue]})

    @app.get("/metrics", tags=["health"], summary="Return metrics for Prometheus", response_class=Response)
    async def prometheus() -> Response:
        for slot in catalogue:
            metrics.age.labels(slot.name).set(slot.served.age)
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _error_response(request: Request, error: Exception) -> Response:
    return as_service_error(error).response(record_of(request).id)


class Gate:
    """ASGI middleware around every request: an id, the token, security headers, a log line, metrics."""

    def __init__(self, app: Any, settings: Settings, metrics: Metrics, login_page: Callable[[], str]) -> None:
        self._app, self._login_page = app, login_page
        self._counter, self._seconds = cache(metrics.requests.labels), cache(metrics.seconds.labels)
        self._hosts = frozenset(name.lower() for name in settings.hosts)
        self._token = None if settings.token is None else Token(settings.token)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        headers = dict(scope["headers"])
        method = scope["method"]
        if method == "HEAD":  # a GET whose body is not sent; the server keeps the original scope
            scope = scope | {"method": "GET"}
        record = scope["l2x"] = Record(_request_id(headers))
        sender = _Sender(send, record.id, with_body=method != "HEAD")
        try:
            self._check_site(scope, headers)
            app = self._app if self._admits(scope, headers) else self._refusal(scope, headers, record)
            await app(scope, receive, sender)
        except ClientDisconnect:
            sender.status = CLIENT_LEFT
        except Exception as error:
            if not isinstance(error, ServiceError | L2XError):
                log_failure(record.id, error)
            if not sender.status:
                await as_service_error(error).response(record.id)(scope, receive, sender)
        finally:
            self._report(scope, method, record, sender.status, time.perf_counter() - started)

    def _check_site(self, scope: Any, headers: dict[bytes, bytes]) -> None:
        """Raise an error for a request that the page of another site makes in somebody's browser."""
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = _PORT.sub("", host).removesuffix(".")
        if self._hosts and name not in self._hosts and not _path(scope).startswith(HEALTH):
            known = ", ".join(sorted(self._hosts))
            raise ServiceError(
                400,
                "unknown_host",
                f"The header Host is '{host[:50]}'; this service accepts {known}, and "
                "--allow-host adds a name.",
            )
        if scope["method"] != "GET" and _is_foreign(headers, host):
            raise ServiceError(403, "other_site", "Pages of other sites may not use this service.")

    def _admits(self, scope: Any, headers: dict[bytes, bytes]) -> bool:
        return self._token is None or _path(scope).startswith(OPEN) or self._token.admits(headers)

    def _refusal(self, scope: Any, headers: dict[bytes, bytes], record: Record) -> Response:
        """Return the page that asks for the token, or for programs an error."""
        if scope["method"] == "GET" and b"text/html" in headers.get(b"accept", b""):
            return Response(self._login_page(), 401, media_type="text/html")
        problem = ServiceError(
            401,
            "no_token",
            "Send the token in the header: Authorization: Bearer ...",
            headers={"WWW-Authenticate": "Bearer"},
        )
        return problem.response(record.id)

    def _report(self, scope: Any, method: str, record: Record, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "") or "other"
        self._counter(route, str(status)).inc()
        self._seconds(route).observe(seconds)
        log_event(
            "request", id=record.id, method=method, route=route,
            explainer=scope.get("path_params", {}).get("name"), rows=record.rows,
            ms=round(seconds * 1000, 3), status=status,
        )  # fmt: skip


class _Sender:
    """Send a response with the headers that all have, and keep its status; 0 before the response."""

    def __init__(self, send: Any, request_id: str, *, with_body: bool = True) -> None:
        self._send, self._id, self.status = send, request_id.encode(), 0
        self._with_body = with_body

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], (b"x-request-id", self._id), *_HEADERS]
        elif not self._with_body:
            message = message | {"body": b""}
        await self._send(message)


def _path(scope: Any) -> str:
    """Return the path of a request within the service."""
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path


def _is_foreign(headers: dict[bytes, bytes], host: str) -> bool:
    """Return whether a browser reports that a page of another origin makes the request.

    Programs send neither header. A proxy may remove the port from the header Host.
    """
    if headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
        return True
    origin = headers.get(b"origin", b"").decode("latin-1").lower()
    if not origin:
        return False
    place = origin.partition("://")[2]
    return host not in (place, _PORT.sub("", place))


def _request_id(headers: dict[bytes, bytes]) -> str:
    """Return the client's own id if it is harmless, otherwise a new one."""
    given = headers.get(b"x-request-id", b"")
    return given.decode("ascii") if _SAFE_ID.fullmatch(given) else os.urandom(8).hex()
