"""Connections under uvicorn: those that stall are closed in time, and new ones are refused after SIGTERM."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any
from weakref import WeakKeyDictionary

from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from l2x.apps.serve._monitoring import log_event

# Seconds within which the head of a request must arrive. Between two requests, uvicorn waits for 5 s.
HEAD_SECONDS = 10.0
# Bytes of a head, roughly. uvicorn has no limit, and collects a long header in quadratic time.
HEAD_BYTES = 1 << 16
# Seconds within which a client must read a part of a response that waits for it.
READ_SECONDS = 10.0
# File descriptors that are not for connections, but for files, pipes, and the requests in progress.
RESERVED = 64
# The part of the idle connections that is closed if there is no room for another one.
CLOSED_PART = 8
# Seconds between two lines about closed connections.
LOG_SECONDS = 1.0
TOO_SLOW, TOO_LONG = (
    b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n" % status
    for status in (b"408 Request Timeout", b"431 Request Header Fields Too Large")
)


def most_connections() -> int:
    """Return how many connections the limit of file descriptors allows."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return 1 << 16
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 16 if soft == resource.RLIM_INFINITY else max(soft // 2, soft - RESERVED)


class Tally:
    """Count closed connections, and log them together: there may be thousands."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, reason: str, loop: asyncio.AbstractEventLoop) -> None:
        """Count one connection."""
        if not self._counts:
            loop.call_later(LOG_SECONDS, self._write)
        self._counts[reason] += 1

    def _write(self) -> None:
        for reason, count in self._counts.items():
            log_event("connections closed", logging.WARNING, reason=reason, count=count)
        self._counts.clear()


_tallies: WeakKeyDictionary[Any, Tally] = WeakKeyDictionary()  # by the state of a server


class Guard(asyncio.Protocol):
    """Close connections that do not send the head of a request in time, or do not read their response.

    uvicorn limits only the time between two requests. If there is no room for another connection, those that
    wait for their clients are closed, the oldest first, so that silent and slow clients lock nobody out.
    """

    head_seconds, head_bytes, read_seconds = HEAD_SECONDS, HEAD_BYTES, READ_SECONDS
    most_connections = most_connections()
    # Attributes of uvicorn's protocol.
    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    server_state: Any
    connections: set[Any]
    cycle: Any

    _deadline: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    _unparsed = 0  # bytes since the last end of a head, or the last bytes of a body
    _begun = False  # whether a part of a head has arrived
    idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request, and make room for the next connection."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) >= self.most_connections:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        """Parse data, which may complete a head."""
        self._unparsed += len(data)
        super().data_received(data)
        if isinstance(self, H11Protocol):  # h11 has its own limit, and does not call the methods below
            self._unparsed = 0
        if self._unparsed > self.head_bytes and not self.transport.is_closing():
            self._refuse_head()
        if not self.waits:
            self._stop_waiting()
        elif self._deadline is None:
            self._wait()
        self._begun = self.waits

    def on_headers_complete(self) -> None:
        """Count again from here; the parser calls this at the end of a head."""
        self._unparsed, self.idle_since = 0, self.loop.time()
        super().on_headers_complete()  # type: ignore[misc]

    def on_body(self, body: bytes) -> None:
        """Count again from here: what follows may be headers again, after a chunked body."""
        self._unparsed = 0
        super().on_body(body)  # type: ignore[misc]

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        self._stop_reading()
        super().resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        self._stop_reading()
        super().connection_lost(error)

    @property
    def waits(self) -> bool:
        """Return whether no request is in progress."""
        return self.cycle is None or bool(self.cycle.response_complete)

    @property
    def idle(self) -> bool:
        """Return whether the connection waits for its client to send a request, or its body, or to read."""
        return self.waits or bool(self.cycle.more_body) or self._reading is not None

    def _wait(self) -> None:
        self.idle_since = self.loop.time()
        reason = f"no request within {self.head_seconds:g} s"
        self._deadline = self.loop.call_later(self.head_seconds, self.give_up, reason)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expect_reading(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._reading = self.loop.call_later(self.read_seconds, self._check_reading, left)

    def _check_reading(self, before: int) -> None:
        """Abort the connection if the client has read nothing since; a mere `close` would wait for it."""
        if self.transport.get_write_buffer_size() < before:
            self._expect_reading()
        else:
            self._count(f"nothing read within {self.read_seconds:g} s")
            self.transport.abort()

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _refuse_head(self) -> None:
        self._count(f"a head of more than {self.head_bytes:,} bytes")
        if self.waits:
            self.transport.write(TOO_LONG)
        self.transport.close()

    def _count(self, reason: str) -> None:
        _tallies.setdefault(self.server_state, Tally()).add(reason, self.loop)

    def _make_room(self) -> None:
        idle = sorted(
            (each for each in self.connections if each is not self and each.idle),
            key=lambda each: each.idle_since,
        )
        for each in idle[: max(1, len(idle) // CLOSED_PART)]:
            each.drop(f"more than {self.most_connections} connections")

    def give_up(self, reason: str) -> None:
        """Close the connection, unless a request is in progress."""
        self._stop_waiting()
        if self.waits:
            self.drop(reason)

    def drop(self, reason: str) -> None:
        """Close the connection, and respond to half a head; never wait for the client to read."""
        self._stop_waiting()
        if self.transport.is_closing() or self._reading is not None:
            self.transport.abort()
            return
        self._count(reason)
        if self.waits and self._begun:
            self.transport.write(TOO_SLOW)
        self.transport.close()


class Guarded(Guard, AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """The protocol for uvicorn."""


class Supervisor(Multiprocess):
    """Start and restart workers; after SIGTERM, stop listening at once."""

    def terminate_all(self) -> None:
        """Stop the workers; the socket of this process would otherwise still accept connections."""
        for listening in self.sockets:
            listening.close()
        super().terminate_all()
