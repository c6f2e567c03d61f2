"""Deadlines for whole HTTP requests: the client's own time limits are for each read and write alone.

A server that sends a byte every few seconds would otherwise hold a request for ever, and a thread that waits
for a reply would survive Ctrl-C.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from l2x.errors import require

# Seconds after which a waiting thread looks whether it was interrupted, and for connecting.
SLICE, CONNECT = 0.25, 10.0
# Bytes that are written at a time.
PIECE = 1 << 14


class Deadlines:
    """The end of the attempt in each thread; reads and writes after it, or an interruption, time out."""

    def __init__(self, interrupted: threading.Event) -> None:
        self.core: Any = require("httpcore2", extra="http")
        self._interrupted, self._local = interrupted, threading.local()

    @contextmanager
    def attempt(self, seconds: float) -> Iterator[None]:
        """Limit all reads and writes of this thread in the block together."""
        self._local.end = time.monotonic() + seconds
        try:
            yield
        finally:
            del self._local.end

    def left(self, timeout: float | None) -> float:
        """Return the seconds until the end of the attempt, at most `timeout`; 0 after an interruption."""
        if self._interrupted.is_set():
            return 0.0
        end = getattr(self._local, "end", None)
        rest = float("inf") if end is None else end - time.monotonic()
        return max(0.0, rest if timeout is None else min(rest, timeout))

    def install(self, client: Any) -> None:
        """Let the connections of an HTTP client, direct or by a proxy, observe the deadlines."""
        # httpx has no public option for the network backend of its transports.
        for transport in [client._transport, *client._mounts.values()]:
            if transport is not None:
                transport._pool._network_backend = _Backend(self, transport._pool._network_backend)


class _Backend:
    """A network backend of httpcore whose streams observe deadlines."""

    def __init__(self, deadlines: Deadlines, backend: Any) -> None:
        self._deadlines, self._backend = deadlines, backend

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> _Stream:
        left = self._deadlines.left(CONNECT if timeout is None else min(timeout, CONNECT))
        if not left:
            raise self._deadlines.core.ConnectTimeout("the attempt took too long")
        stream = self._backend.connect_tcp(host, port, timeout=left, **options)
        return _Stream(self._deadlines, stream)

    def sleep(self, seconds: float) -> None:
        self._backend.sleep(seconds)


class _Stream:
    """A connection that observes deadlines."""

    def __init__(self, deadlines: Deadlines, stream: Any) -> None:
        self._deadlines, self._stream = deadlines, stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        core, end = self._deadlines.core, time.monotonic() + (float("inf") if timeout is None else timeout)
        while left := self._deadlines.left(max(0.0, end - time.monotonic())):
            try:
                content: bytes = self._stream.read(max_bytes, timeout=min(left, SLICE))
                return content
            except core.ReadTimeout:
                continue
        raise core.ReadTimeout("no complete reply in time")

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), PIECE):
            left = self._deadlines.left(timeout)
            if not left:
                raise self._deadlines.core.WriteTimeout("the request could not be sent in time")
            self._stream.write(buffer[start : start + PIECE], timeout=left)

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> _Stream:
        left = self._deadlines.left(timeout)
        if not left:
            raise self._deadlines.core.ConnectTimeout("the attempt took too long")
        stream = self._stream.start_tls(ssl_context, server_hostname=server_hostname, timeout=left)
        return _Stream(self._deadlines, stream)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def close(self) -> None:
        self._stream.close()
