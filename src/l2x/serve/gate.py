"""What happens to every request before and after its route: an id, the token, one log line, the metrics."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any

from pydantic_core import to_json
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from l2x.serve.metrics import Metrics
from l2x.serve.refusals import ServiceError, as_service_error
from l2x.serve.settings import Settings
from l2x.web.pages import SECURITY_HEADERS

log = logging.getLogger("l2x.serve")

# What may be asked without a token: is it alive, and what the page to enter the token is made of.
OPEN = ("/health/", "/static/", "/login")
COOKIE = "l2x"
_SANE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
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
            _log_failure(record, error)
            if not status:
                await as_service_error(error).response(record.id)(scope, receive, answer)
        finally:
            seconds = time.perf_counter() - started
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.request(route, status, seconds)
            if log.isEnabledFor(logging.INFO):
                fields = {
                    "id": record.id,
                    "method": scope["method"],
                    "route": route,
                    "explainer": scope.get("path_params", {}).get("name"),
                    "rows": record.rows,
                    "ms": round(seconds * 1000, 3),
                    "status": status,
                }
                log.info("request", extra={"fields": fields})

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


class JsonLines(logging.Formatter):
    """One line of JSON for each record: time, level, event, and its fields."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {"time": f"{moment}.{int(record.msecs):03}Z", "level": record.levelname.lower()}
        return to_json(line | {"event": record.getMessage()} | getattr(record, "fields", {})).decode()


class _Stderr(logging.Handler):
    """Whatever standard error is at the moment."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(self.format(record) + "\n")


def log_to_stderr() -> None:
    """The service's log, and uvicorn's, as lines of JSON."""
    handler = _Stderr()
    handler.setFormatter(JsonLines())
    for name, level in (("l2x.serve", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


def _log_failure(record: Record, error: Exception) -> None:
    # Where it failed, not what the error says: messages may quote inputs.
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    where = [f"{os.path.basename(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames]
    log.error("failure", extra={"fields": {"id": record.id, "error": type(error).__name__, "where": where}})


def _id(given: bytes) -> str:
    """The client's own id if it is harmless, or a new one."""
    text = given.decode("latin-1")
    return text if _SANE_ID.fullmatch(text) else os.urandom(8).hex()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()
