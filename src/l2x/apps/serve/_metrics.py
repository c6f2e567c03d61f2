"""What Prometheus is told. With several workers the numbers are summed over files that they share."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from l2x.errors import require

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
# prometheus_client shares numbers between processes through files in the folder that this names.
FOLDER = "PROMETHEUS_MULTIPROC_DIR"


class Metrics:
    """The service's own registry: two services in one process do not mix."""

    def __init__(self) -> None:
        client: Any = require("prometheus_client", extra="serve")
        self.registry = registry = client.CollectorRegistry()
        self._requests = client.Counter(
            "l2x_requests", "Requests by route and status.", ["route", "status"], registry=registry
        )
        self._seconds = client.Histogram(
            "l2x_request_seconds",
            "From the request's first byte to the answer's last.",
            ["route"],
            buckets=SECONDS,
            registry=registry,
        )
        self._rows = client.Counter("l2x_rows", "Rows that were answered.", ["explainer"], registry=registry)
        self._waiting = client.Gauge(
            "l2x_queue_rows", "Rows waiting for a batch.", ["explainer"],
            registry=registry, multiprocess_mode="livesum",
        )  # fmt: skip
        self._batches = client.Histogram(
            "l2x_batch_rows", "Rows of a forward pass.", ["explainer"], buckets=ROWS, registry=registry
        )
        self._unseen = client.Counter(
            "l2x_unseen_categories",
            "Cells with a category that the training rows did not have.",
            ["explainer", "column"],
            registry=registry,
        )
        self._reloads = client.Counter(
            "l2x_reloads", "New files: swapped in, or refused.", ["explainer", "outcome"], registry=registry
        )

        # Finding what belongs to labels takes longer than counting: it is done once for each.
        self._of_request = cache(lambda route, status: self._requests.labels(route, str(status)).inc)
        self._of_route = cache(lambda route: self._seconds.labels(route).observe)
        self._of_explainer = cache(lambda explainer: self._rows.labels(explainer).inc)

    def request(self, route: str, status: int, seconds: float) -> None:
        self._of_request(route, status)()
        self._of_route(route)(seconds)

    def rows(self, explainer: str, rows: int) -> None:
        self._of_explainer(explainer)(rows)

    def unseen(self, explainer: str, column: str, rows: int) -> None:
        self._unseen.labels(explainer, column).inc(rows)

    def reloaded(self, explainer: str, outcome: str) -> None:
        self._reloads.labels(explainer, outcome).inc()

    def queue(self, explainer: str) -> Callable[[int, int], None]:
        """What a batcher tells when a batch begins: the rows left waiting, and those of the batch."""
        waiting, batches = self._waiting.labels(explainer), self._batches.labels(explainer)

        def watch(rows: int, batch: int) -> None:
            waiting.set(rows)
            batches.observe(batch)

        return watch

    def text(self) -> bytes:
        """The exposition format; of all workers, if there are several."""
        client: Any = require("prometheus_client", extra="serve")
        if FOLDER not in os.environ:
            return bytes(client.generate_latest(self.registry))
        multiprocess: Any = require("prometheus_client.multiprocess", extra="serve")
        _forget_the_dead(Path(os.environ[FOLDER]), multiprocess)
        everyone = client.CollectorRegistry()
        multiprocess.MultiProcessCollector(everyone)
        return bytes(client.generate_latest(everyone))


def _forget_the_dead(folder: Path, multiprocess: Any) -> None:
    """What waited in a worker that was killed waits no longer."""
    for file in folder.glob("gauge_live*_*.db"):
        process = file.stem.rpartition("_")[2]
        if process.isdigit() and not _alive(int(process)):
            multiprocess.mark_process_dead(int(process))


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
