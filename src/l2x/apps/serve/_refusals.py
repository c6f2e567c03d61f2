"""Everything that the service refuses, in one shape: {"error": {code, message, details, request}}."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response

from l2x.errors import BlackBoxError, InputError

# Problems of rows that one answer lists.
MOST_DETAILS = 20


class ServiceError(Exception):
    """An answer other than 200: `details` name rows and columns, `headers` go with it."""

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
        self.details, self.headers = list(details)[:MOST_DETAILS], dict(headers or {})

    def body(self, request: str) -> bytes:
        error = {"code": self.code, "message": self.message, "details": self.details, "request": request}
        return to_json({"error": error})

    def response(self, request: str) -> Response:
        return Response(self.body(request), self.status, headers=self.headers, media_type="application/json")


def bad_rows(details: Sequence[Mapping[str, Any]]) -> ServiceError:
    """Rows that cannot be explained: each detail has row, column (or None), given, expected."""
    first = details[0]
    where = f"Row {first['row']}" + (f", column '{first['column']}'" if first["column"] is not None else "")
    more = f" ({len(details)} problems in all.)" if len(details) > 1 else ""
    message = f"{where}: got {first['given']}, expected {first['expected']}.{more}"
    return ServiceError(422, "invalid_rows", message, details=details)


def overloaded(seconds: float) -> ServiceError:
    """The queue is full; `seconds` is when it may be worth trying again."""
    wait = str(max(1, min(60, round(seconds))))
    return ServiceError(
        503, "overloaded", f"Too much is waiting; try again in {wait} s.", headers={"Retry-After": wait}
    )


def too_late(seconds: float) -> ServiceError:
    """The promised time is over."""
    return ServiceError(504, "timeout", f"There was no answer within {seconds:g} s.")


def as_service_error(error: Exception) -> ServiceError:
    """What a client is told of an error. Messages of a model stay here: they may quote another request."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, BlackBoxError):
        cause = type(error.__cause__).__name__ if error.__cause__ else "what is no answer"
        return ServiceError(502, "model_failed", f"The model failed on these rows ({cause}).")
    if isinstance(error, InputError):
        return ServiceError(422, "invalid_input", str(error))
    return ServiceError(500, "internal", "The service failed; its log has the request's id.")
