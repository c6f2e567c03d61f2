"""Requests: bodies that are bounded in size and time, and errors that have one shape."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar
from urllib.parse import parse_qsl

import numpy as np
from fastapi.exceptions import RequestValidationError
from pydantic_core import from_json, to_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from l2x.apps.serve._settings import Settings
from l2x.errors import BlackBoxError, InputError

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

# An error lists at most this many problems of rows.
MAX_DETAILS = 20
# Larger bodies are parsed in a thread, one at a time; for smaller ones a change of threads takes longer.
SMALL_BODY = 1 << 16
# Bytes and fields that a form may have, in addition to what its row needs.
FORM_BYTES, FORM_FIELDS = 4096, 16
# Values that a row may have in addition to those that the explainer reads: unknown keys are ignored.
MORE_VALUES = 100
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
_JSON_TYPE = re.compile(r"application/([\w.-]+\+)?json")
# By byte, whether a value of JSON may follow; `np.isin` would need eight bytes per byte.
_BEFORE_VALUE = np.zeros(256, dtype=bool)
_BEFORE_VALUE[list(b",[{")] = True
_parsing = ThreadPoolExecutor(1, thread_name_prefix="l2x-parse")


@dataclass
class Record:
    """What the log reports about a request: its id, and the number of rows that the route sets."""

    id: str
    rows: int = 0


def record_of(request: Request) -> Record:
    """Return the record that the gate attached to a request."""
    record: Record = request.scope["l2x"]
    return record


class ServiceError(Exception):
    """A response other than 200, with the body {"error": {"code", "message", "details", "request"}}.

    `code` is a constant for programs, `message` a sentence for people; `details` are problems of rows, each
    with row, column (or None), given and expected.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        details: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.details, self.headers = list(details)[:MAX_DETAILS], dict(headers or {})

    def response(self, request_id: str) -> Response:
        """Return the HTTP response to the request with this id."""
        error = {"code": self.code, "message": self.message, "details": self.details, "request": request_id}
        return Response(
            to_json({"error": error}), self.status, headers=self.headers, media_type="application/json"
        )


def invalid_rows(details: Sequence[Mapping[str, Any]]) -> ServiceError:
    """Return the error for rows that cannot be explained; the message describes the first problem."""
    first = details[0]
    where = f"Row {first['row']}" + (f", column '{first['column']}'" if first["column"] is not None else "")
    more = f" ({len(details)} problems in total.)" if len(details) > 1 else ""
    message = f"{where}: got {first['given']}, expected {first['expected']}.{more}"
    return ServiceError(422, "invalid_rows", message, details=details)


def overloaded(seconds: float) -> ServiceError:
    """Return the error for a full queue; `seconds` is when a retry may succeed."""
    wait = str(max(1, min(60, round(seconds))))
    return ServiceError(
        503, "overloaded", f"Too many rows are waiting; retry in {wait} s.", headers={"Retry-After": wait}
    )


def as_service_error(error: Exception) -> ServiceError:
    """Return what a client may learn about an error.

    The message of a model's error is withheld: it may quote the rows of another request in the same batch.
    """
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, BlackBoxError):
        cause = type(error.__cause__).__name__ if error.__cause__ else "invalid predictions"
        return ServiceError(502, "model_failed", f"The model failed on these rows ({cause}).")
    if isinstance(error, InputError):
        return ServiceError(422, "invalid_input", str(error))
    if isinstance(error, HTTPException):  # raised by the framework
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
        return ServiceError(error.status_code, code, str(error.detail), headers=error.headers)
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return ServiceError(422, "invalid_parameter", f"{where}: {first['msg']}.")
    return ServiceError(500, "internal", "The service failed; look for the request's id in its log.")


async def body_pieces(request: Request, limit: int) -> AsyncIterator[bytes]:
    """Yield the body piece by piece; raise 413 if it has more than `limit` bytes."""
    declared = request.headers.get("content-length", "")
    left = -1 if declared.isdecimal() and int(declared) > limit else limit
    if left >= 0:
        async for piece in request.stream():
            left -= len(piece)
            if left < 0:
                break
            yield piece
    if left < 0:
        raise ServiceError(
            413, "too_large", f"The body is larger than {limit:,} bytes; send fewer rows at a time."
        )


async def read_body(request: Request, settings: Settings, limit: int | None = None) -> bytes:
    """Return the whole body, within the limits of size, by default that of JSON, and time."""
    limit = settings.max_body if limit is None else limit
    try:
        async with asyncio.timeout(settings.body_timeout):
            return b"".join([piece async for piece in body_pieces(request, limit)])
    except TimeoutError:
        raise slow_body(settings.body_timeout) from None


def slow_body(seconds: float) -> ServiceError:
    """Return the error for a body, or a piece of a stream, that does not arrive in time."""
    return ServiceError(408, "slow_body", f"The body did not arrive within {seconds:g} s.")


def check_media_type(request: Request, expected: str) -> None:
    """Raise 415 if the request declares another media type.

    Browsers let every site send texts and forms to this service, but ask before they send other types.
    """
    given = request.headers.get("content-type", expected).partition(";")[0].strip().lower()
    if given != expected and not (expected == JSON and _JSON_TYPE.fullmatch(given)):
        raise ServiceError(
            415,
            "wrong_media_type",
            f"The body is {given[:50]}; send it with Content-Type: {expected}.",
        )


async def outside_loop(
    size: int, work: Callable[Arguments, Result], *arguments: Arguments.args, **options: Arguments.kwargs
) -> Result:
    """Return `work(...)`; run it in a thread, one work at a time, if its input has many bytes."""
    if size <= SMALL_BODY:
        return work(*arguments, **options)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_parsing, lambda: work(*arguments, **options))


async def read_form(
    request: Request, settings: Settings, *, size: int = 0, fields: int = 0
) -> dict[str, str]:
    """Return the fields of a form, which may have this many bytes and fields besides a few small ones."""
    check_media_type(request, FORM)
    body = await read_body(request, settings, FORM_BYTES + size)
    return await outside_loop(len(body), _form, body, FORM_FIELDS + fields)


def _form(body: bytes, most: int) -> dict[str, str]:
    if body.count(b"&") >= most:
        raise ServiceError(413, "too_many_fields", f"A form may have at most {most} fields.")
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


async def read_json(
    request: Request, settings: Settings, keys: Collection[str], *, row_values: int | None = None
) -> dict[str, Any]:
    """Return the body, a JSON object that may have only these keys.

    `row_values` is the number of values that a row needs: a body with many more than the most rows can have
    is refused before it is parsed.
    """
    check_media_type(request, JSON)
    body = await read_body(request, settings)
    most = None if row_values is None else settings.max_rows * (2 * row_values + MORE_VALUES)
    return await outside_loop(len(body), _json_object, body, keys, most)


def _json_object(body: bytes, keys: Collection[str], most: int | None) -> dict[str, Any]:
    # Parsing holds the interpreter lock, so that a thread alone would not keep the event loop free.
    if most is not None and len(body) > SMALL_BODY and (values := values_in(body)) > most:
        raise ServiceError(
            413,
            "too_many_values",
            f"The body has {values:,} values, but may have at most {most:,}; send fewer rows at a time, and "
            "only the columns that the explainer reads.",
        )
    try:
        content = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise ServiceError(400, "not_json", f"The body is not JSON: {error}.") from None
    if not isinstance(content, dict):
        raise invalid_body('Expected an object such as {"rows": [...]}.')
    if unknown := [key for key in content if key not in keys]:
        raise invalid_body(f"Unknown key '{unknown[0][:50]}'; expected {', '.join(keys)}.")
    return content


def values_in(body: bytes) -> int:
    """Return about how many values a JSON text has: its commas and opening brackets outside of strings.

    >>> values_in(b'{"a": [1, 2], "b": "x, [y"}')
    4
    """
    text = np.frombuffer(body.replace(b"\\\\", b"  ").replace(b'\\"', b"  "), dtype=np.uint8)
    outside = ~np.logical_xor.accumulate(text == ord('"'))
    return int(np.count_nonzero(_BEFORE_VALUE[text] & outside))


def declared_size(request: Request) -> int:
    """Return the size of a body that the client declares, or a large one if it declares none."""
    declared = request.headers.get("content-length", "")
    return int(declared) if declared.isdecimal() else SMALL_BODY + 1


def checked_rows(request: Request, rows: Any, settings: Settings) -> list[Any]:
    """Return the rows of a request if they are a list of acceptable length, and count them for the log."""
    if not isinstance(rows, list) or not rows:
        raise invalid_body("'rows' must be a list with at least one row.")
    if len(rows) > settings.max_rows:
        raise ServiceError(
            413, "too_many_rows", f"{len(rows):,} rows, but a request may have at most {settings.max_rows:,}."
        )
    record_of(request).rows = len(rows)
    return rows


def invalid_body(message: str) -> ServiceError:
    """Return the error for JSON of a wrong shape."""
    return ServiceError(422, "invalid_body", message)


def json_response(content: Any) -> Response:
    """Return content as a JSON response."""
    return Response(to_json(content), media_type="application/json")
