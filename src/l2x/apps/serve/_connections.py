"""Connections under uvicorn: those without a request are closed in time, and refused after SIGTERM."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any
from weakref import WeakKeyDictionary

from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.supervisors import Multiprocess

from l2x.apps.serve._monitoring import log_event

# Seconds within which the head of a request must arrive. Between two requests, uvicorn waits for 5 s.
HEAD_SECONDS = 10.0
# File descriptors that are not for connections: files, pipes, and the requests in progress.
RESERVED = 64
# The part of the waiting connections that is closed if there is no room for another one.
CLOSED_PART = 8
# Seconds between two lines about closed connections.
LOG_SECONDS = 1.0
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


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
    """Close connections that do not send the head of a request in time.

    uvicorn limits only the time between two requests. If there is no room for another connection, those that
    wait for a request are closed, the oldest first, so that silent clients lock nobody out.
    """

    head_seconds, most_connections = HEAD_SECONDS, most_connections()
    # Attributes of uvicorn's protocol.
    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    server_state: Any
    connections: set[Any]
    cycle: Any

    _deadline: asyncio.TimerHandle | None = None
    _begun = False  # whether a part of a head has arrived
    waiting_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request, and make room for the next connection."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) >= self.most_connections:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        """Parse data, which may complete a head."""
        super().data_received(data)
        if not self.waits:
            self._stop_waiting()
        elif self._deadline is None:
            self._wait()
        self._begun = self.waits

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(error)

    @property
    def waits(self) -> bool:
        """Return whether no request is in progress."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def _wait(self) -> None:
        self.waiting_since = self.loop.time()
        reason = f"no request within {self.head_seconds:g} s"
        self._deadline = self.loop.call_later(self.head_seconds, self.give_up, reason)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _make_room(self) -> None:
        waiting = sorted(
            (each for each in self.connections if each is not self and each.waits),
            key=lambda each: each.waiting_since,
        )
        for each in waiting[: max(1, len(waiting) // CLOSED_PART)]:
            each.give_up(f"more than {self.most_connections} connections")

    def give_up(self, reason: str) -> None:
        """Close the connection, unless a request is in progress; respond to half a head."""
        self._stop_waiting()
        if not self.waits or self.transport.is_closing():
            return
        _tallies.setdefault(self.server_state, Tally()).add(reason, self.loop)
        self.connections.discard(self)
        if self._begun:
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
