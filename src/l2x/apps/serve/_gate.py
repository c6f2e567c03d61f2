"""What happens to every request before and after its route: an id, the token, one log line, the metrics."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from l2x.apps.serve._logs import log_failure, log_request
from l2x.apps.serve._metrics import Metrics
from l2x.apps.serve._refusals import ServiceError, as_service_error
from l2x.apps.serve._settings import Settings
from l2x.display import SECURITY_HEADERS
from l2x.errors import L2XError

# What may be asked without a token: is it alive, and what the page to enter the token is made of.
OPEN = ("/health/", "/static/", "/login")
COOKIE = "l2x"
_SANE_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_HEADERS = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
# nginx's: the client went away before there was an answer.
GONE = 499


@dataclass
class Record:
    """What the log says of a request; routes fill in the rows."""

    id: str
    rows: int = 0


def record_of(scope: Any) -> Record:
    record: Record = scope["l2x"]
    return record


class Token:
    """The secret, compared in constant time, and the cookie that stands for it in a browser."""

    def __init__(self, token: str) -> None:
        self._digest = _digest(token)
        self.cookie = hmac.new(token.encode(), b"playground", hashlib.sha256).hexdigest()

    def matches(self, given: str) -> bool:
        return hmac.compare_digest(_digest(given), self._digest)

    def let_in(self, headers: dict[bytes, bytes]) -> bool:
        """Whether a request carries the token, or the cookie of a browser that did."""
        scheme, _, given = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if scheme.lower() == "bearer":
            return self.matches(given.strip())
        try:
            cookies = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
        except CookieError:
            return False
        return COOKIE in cookies and hmac.compare_digest(_digest(cookies[COOKIE].value), _digest(self.cookie))


class Gate:
    """ASGI middleware, written without Starlette's helper, which costs a task for every request."""

    def __init__(self, app: Any, *, settings: Settings, metrics: Metrics, login: Callable[[], str]) -> None:
        self.app, self.metrics, self._login = app, metrics, login
        self._token = None if settings.token is None else Token(settings.token)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        headers = dict(scope["headers"])
        record = scope["l2x"] = Record(_id(headers.get(b"x-request-id", b"")))
        status = 0

        async def answer(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", record.id.encode()), *_HEADERS]
            await send(message)

        try:
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            if self._token and not path.startswith(OPEN) and not self._token.let_in(headers):
                await self._refusal(scope, headers, record)(scope, receive, answer)
            else:
                await self.app(scope, receive, answer)
        except ClientDisconnect:
            status = GONE
        except Exception as error:
            if not isinstance(error, ServiceError | L2XError):
                log_failure(record.id, error)
            if not status:
                await as_service_error(error).response(record.id)(scope, receive, answer)
        finally:
            seconds = time.perf_counter() - started
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.request(route, status, seconds)
            log_request(
                {
                    "id": record.id,
                    "method": scope["method"],
                    "route": route,
                    "explainer": scope.get("path_params", {}).get("name"),
                    "rows": record.rows,
                    "ms": round(seconds * 1000, 3),
                    "status": status,
                }
            )

    def _refusal(self, scope: Any, headers: dict[bytes, bytes], record: Record) -> Response:
        if scope["method"] == "GET" and b"text/html" in headers.get(b"accept", b""):
            return Response(self._login(), 401, media_type="text/html")
        problem = ServiceError(
            401,
            "no_token",
            "Send the token: Authorization: Bearer ...",
            headers={"WWW-Authenticate": "Bearer"},
        )
        return problem.response(record.id)


def _id(given: bytes) -> str:
    """The client's own id if it is harmless, or a new one."""
    sane = _SANE_ID.fullmatch(given)
    return given.decode("ascii") if sane else os.urandom(8).hex()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()
