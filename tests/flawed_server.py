"""A model behind an address, for tests: it answers in both protocols, and fails as it is told to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# A status, "drop" (the connection breaks), or None for an answer.
Fault = int | str | None


@dataclass
class Flawed:
    """Says of every row the logistic function of its first cell; `faults` is asked before each request."""

    faults: Any = lambda number: None
    seconds_per_row: float = 0.0
    retry_after: str | None = None
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)  # with headers, body and time
    most_at_once: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reply(self, path: str, headers: dict[str, str], body: bytes) -> tuple[Fault, Any]:
        with self._lock:
            number = len(self.requests)
            self.requests.append(
                {"path": path, "headers": headers, "body": json.loads(body), "at": time.monotonic()}
            )
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            fault: Fault = self.faults(number)
            if fault is not None:
                return fault, {"detail": f"no luck; you sent {headers.get('Authorization', 'no token')}"}
            return None, self.answer(path, json.loads(body))
        finally:
            with self._lock:
                self._now -= 1

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path.endswith("/infer"):
            first = body["inputs"][0]
            width = first["shape"][1] if len(first["shape"]) > 1 else 1
            cells = first["data"][::width]
        else:
            cells = [first_cell(row) for row in body["rows"]]
        time.sleep(self.seconds_per_row * len(cells))
        p = [says(cell) for cell in cells]
        if path.endswith("/infer"):
            flat = [value for chance in p for value in (1 - chance, chance)]
            probabilities = {"name": "probabilities", "shape": [len(p), 2], "datatype": "FP64", "data": flat}
            labels = {"name": "label", "shape": [len(p)], "datatype": "INT64", "data": [0] * len(p)}
            return {"model_name": "m", "outputs": [probabilities, labels]}
        return {"predictions": [[1 - chance, chance] for chance in p]}


def first_cell(row: Any) -> Any:
    if isinstance(row, dict):
        return next(iter(row.values()))
    return row[0] if isinstance(row, list) else row


def says(cell: Any) -> float:
    number = len(cell) / 10 if isinstance(cell, str) else (cell or 0.0)
    return float(1 / (1 + 2.718281828459045 ** (-number)))


@contextmanager
def serving(flawed: Flawed, model: str = "/v1/models/m") -> Iterator[Flawed]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            fault, content = flawed.reply(self.path, dict(self.headers), body)
            if fault == "drop":
                self.close_connection = True
                self.connection.close()
                return
            self.send_response(200 if fault is None else int(fault))
            if fault is not None and flawed.retry_after is not None:
                self.send_header("Retry-After", flawed.retry_after)
            sent = json.dumps(content).encode()
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 64
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """Connections that break are part of the test."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    flawed.url = f"http://127.0.0.1:{server.server_port}{model}"
    try:
        yield flawed
    finally:
        server.shutdown()
        server.server_close()
