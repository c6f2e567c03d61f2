"""Bodies of requests: bounded in size and in time, and JSON of the shape that every route takes."""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterator, Collection, Coroutine, Generator
from typing import Any

from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request

from l2x.apps.serve._gate import record_of
from l2x.apps.serve._refusals import ServiceError
from l2x.apps.serve._settings import Settings


async def chunks(request: Request, limit: int, seconds: float) -> AsyncIterator[bytes]:
    """The body piece by piece; 413 beyond `limit` bytes, 408 if the next piece takes too long."""
    pieces = _Pieces(request, limit)
    while pieces.more:
        try:
            async with asyncio.timeout(seconds):
                piece = await pieces.next()
        except TimeoutError:
            raise too_slow(seconds) from None
        if piece:
            yield piece


class _Pieces:
    """What arrives of a body, counted."""

    def __init__(self, request: Request, limit: int) -> None:
        self._receive, self._limit, self._left = request.receive, limit, limit
        self.more = True
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > limit:
            raise too_large(limit)

    async def next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece: bytes = message.get("body", b"")
        self.more = message.get("more_body", False)
        self._left -= len(piece)
        if self._left < 0:
            raise too_large(self._limit)
        return piece


def too_large(limit: int) -> ServiceError:
    return ServiceError(
        413, "too_large", f"The body is larger than {limit:,} bytes; send fewer rows at a time."
    )


def too_slow(seconds: float) -> ServiceError:
    return ServiceError(408, "slow_body", f"The body did not arrive within {seconds:g} s.")


async def read_body(request: Request, settings: Settings) -> bytes:
    """All of it, within the limits; the time limit is for the whole."""
    reading = _whole(_Pieces(request, settings.max_body))
    body: bytes
    try:
        waits_for = reading.send(None)
    except StopIteration as there:  # small bodies come with their heads: no clock need be set for them
        body = there.value
        return body
    try:
        async with asyncio.timeout(settings.body_timeout):
            body = await _continued(reading, waits_for)
    except TimeoutError:
        raise too_slow(settings.body_timeout) from None
    return body


async def _whole(pieces: _Pieces) -> bytes:
    body = [await pieces.next()]
    while pieces.more:
        body.append(await pieces.next())
    return b"".join(body)


@types.coroutine
def _continued(begun: Coroutine[Any, Any, bytes], waits_for: Any) -> Generator[Any, Any, bytes]:
    """The result of a coroutine that has begun, and waits for this."""
    try:
        yield waits_for
        result: bytes = yield from begun
        return result
    finally:
        begun.close()


async def read_json(request: Request, settings: Settings, keys: Collection[str]) -> dict[str, Any]:
    """An object with no other keys than these."""
    body = await read_body(request, settings)
    try:
        content = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise ServiceError(400, "not_json", f"The body is not JSON: {error}.") from None
    if not isinstance(content, dict):
        raise ServiceError(422, "invalid_body", 'Expected an object such as {"rows": [...]}.')
    if unknown := [key for key in content if key not in keys]:
        raise ServiceError(
            422, "invalid_body", f"'{unknown[0][:50]}' is not known here; expected {', '.join(keys)}."
        )
    return content


def read_rows(request: Request, content: dict[str, Any], settings: Settings) -> list[Any]:
    """The rows of a JSON body: some, and not too many."""
    rows = content.get("rows")
    if not isinstance(rows, list) or not rows:
        raise ServiceError(422, "invalid_body", "'rows' must be a list with at least one row.")
    if len(rows) > settings.max_rows:
        raise ServiceError(
            413, "too_many_rows", f"{len(rows):,} rows; a request has at most {settings.max_rows:,}."
        )
    record_of(request.scope).rows = len(rows)
    return rows
