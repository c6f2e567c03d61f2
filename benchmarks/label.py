"""Measure how much faster labelling is with concurrent requests.

    python benchmarks/label.py [--rows 600] [--in-flight 16]

A server on this machine takes 10 ms per row and accepts any number of concurrent requests. The script prints
rows per second with one request at a time and with several, the best of three alternating rounds, and their
ratio. Goal: at least 12 with 16 requests in flight.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

import l2x

SECONDS_PER_ROW = 0.01


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["rows"]
        time.sleep(SECONDS_PER_ROW * len(rows))
        reply = json.dumps({"predictions": [[0.5, 0.5]] * len(rows)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        pass


def rows_per_second(url: str, rows: int, in_flight: int) -> float:
    X = np.random.default_rng(0).normal(size=(rows, 10))
    endpoint = l2x.Endpoint(url, in_flight=in_flight)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        l2x.label(endpoint, X, Path(folder) / "predictions.parquet", progress=False)
        return rows / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rows", type=int, default=600, help="rows with one request at a time; more requests get more rows"
    )
    parser.add_argument("--in-flight", type=int, default=16)
    arguments = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1/models/m"
    rounds = [
        (
            rows_per_second(url, arguments.rows, 1),
            rows_per_second(url, arguments.rows * arguments.in_flight, arguments.in_flight),
        )
        for _ in range(3)
    ]
    one, many = (
        max(speeds) for speeds in zip(*rounds, strict=True)
    )  # a busy machine can only slow them down
    print(
        json.dumps(
            {
                "seconds_per_row": SECONDS_PER_ROW,
                "in_flight": arguments.in_flight,
                "rows_per_second_one_at_a_time": round(one, 1),
                "rows_per_second": round(many, 1),
                "ratio": round(many / one, 2),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
