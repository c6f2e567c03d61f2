"""What operators watch: a log in JSON lines, which never contains inputs, and metrics for Prometheus."""

from __future__ import annotations

import logging
import math
import os
import traceback
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from pydantic_core import to_json

from l2x.errors import require
from l2x.learning import Status, Validity

log = logging.getLogger("l2x.apps.serve")

# The first parts of the names of loggers whose texts never quote inputs.
OWN = ("l2x", "uvicorn")
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
STATUSES: tuple[str, ...] = get_args(Status)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
# The environment variable that names the folder through which prometheus_client sums over processes.
FOLDER = "PROMETHEUS_MULTIPROC_DIR"


def log_event(event: str, level: int = logging.INFO, **fields: Any) -> None:
    """Write one line with these fields; the place in the code, which takes long to find, is not recorded."""
    if log.isEnabledFor(level):
        log.handle(log.makeRecord(log.name, level, "", 0, event, (), None, extra={"fields": fields}))


def log_failure(request_id: str, error: Exception) -> None:
    """Log the types of an error and its cause, and where it arose, but no message: it may quote inputs."""
    cause = error.__cause__
    frames = traceback.extract_tb((cause or error).__traceback__)[-3:]
    where = [f"{os.path.basename(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames]
    causes = {} if cause is None else {"cause": type(cause).__name__}
    log_event("failure", logging.ERROR, id=request_id, error=type(error).__name__, **causes, where=where)


class JsonLines(logging.Formatter):
    """Format a record as one line of JSON: time, level, event, and the fields of the record.

    Texts of loggers that are not of the service may quote inputs: only their place is logged.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": moment.replace("+00:00", "Z"), "level": record.levelname.lower()}
        return to_json(line | self._content(record)).decode()

    def _content(self, record: logging.LogRecord) -> dict[str, Any]:
        if record.name.partition(".")[0] in OWN:
            return {"event": record.getMessage()} | getattr(record, "fields", {})
        where = f"{os.path.basename(record.pathname)}:{record.lineno}"
        return {"event": "message", "logger": record.name, "where": where}


def log_to_stderr() -> None:
    """Write all logs and warnings of this process to standard error, as lines of JSON.

    Those of the model and its libraries are written without their texts, which may quote inputs. This changes
    the logging of the whole process and is meant for entry points such as `l2x serve`.
    """
    # The lines have none of these, which cost time for each record.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.getLogger().handlers = [handler]
    warnings.showwarning = _log_warning
    for name, level in (("l2x.apps.serve", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


def _log_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any
) -> None:
    where = f"{os.path.basename(filename)}:{lineno}"
    log_event("warning", logging.WARNING, category=category.__name__, where=where)


class Metrics:
    """The metrics of one service, in a registry of their own; the attributes are counters and histograms."""

    def __init__(self) -> None:
        client: Any = require("prometheus_client", extra="serve")
        self.registry = client.CollectorRegistry()

        def make(kind: str, name: str, about: str, labels: list[str], **options: Any) -> Any:
            return getattr(client, kind)(name, about, labels, registry=self.registry, **options)

        self.requests = make("Counter", "l2x_requests", "Responses.", ["route", "status"])
        self.seconds = make(
            "Histogram", "l2x_request_seconds", "Time from the head of a request to the end of its response.",
            ["route"], buckets=SECONDS,
        )  # fmt: skip
        self.rows = make("Counter", "l2x_rows", "Explained rows.", ["explainer"])
        self.waiting = make(
            "Gauge", "l2x_queue_rows", "Rows waiting for a batch.", ["explainer"], multiprocess_mode="livesum"
        )
        self.batches = make(
            "Histogram", "l2x_batch_rows", "Rows of a forward pass.", ["explainer"], buckets=ROWS
        )
        self.unseen = make(
            "Counter", "l2x_unseen_categories", "Cells with a category that was not in the training rows.",
            ["explainer", "column"],
        )  # fmt: skip
        self.reloads = make(
            "Counter", "l2x_reloads", "Changed files, by outcome: swapped or refused.",
            ["explainer", "outcome"],
        )  # fmt: skip
        self._add_watching(make)

    def _add_watching(self, make: Callable[..., Any]) -> None:
        self.watched = make(
            "Counter", "l2x_watch_rows", "Verified rows: confirmed by the selected features, or other.",
            ["explainer", "outcome"],
        )  # fmt: skip
        self.unwatched = make(
            "Counter", "l2x_watch_dropped", "Rows that were chosen, not verified: budget, queue, failed.",
            ["explainer", "reason"],
        )  # fmt: skip

        # Each worker has its own window: the gauge is that of the worker which verified rows last.
        def gauge(name: str, about: str, *labels: str) -> Any:
            return make("Gauge", name, about, ["explainer", *labels], multiprocess_mode="livemostrecent")

        self._confirmed = gauge("l2x_watch_confirmed_share", "Share of confirmed rows in the window.")
        self._low = gauge("l2x_watch_confirmed_share_low", "Lower end of its exact 95 % interval.")
        self._high = gauge("l2x_watch_confirmed_share_high", "Upper end of its exact 95 % interval.")
        self._expected = gauge("l2x_watch_expected_share", "Share of confirmed held-out rows in fit.")
        self._status = gauge("l2x_watch_status", "1 for the present status, 0 for the others.", "status")
        self._psi = gauge(
            "l2x_watch_psi", "Population stability index, compared with training.", "role", "column"
        )
        self._measured: dict[str, set[tuple[str, str]]] = {}  # the labels of these, by explainer
        self.age = gauge("l2x_explainer_age_seconds", "Time since the explainer was fitted.")

    def report_validity(self, explainer: str, validity: Validity, most: int) -> None:
        """Set the gauges of a watched explainer; at most `most` measurements have one."""
        shares = {self._expected: validity.expected and validity.expected.value}
        if validity.confirmed is not None:
            shares[self._confirmed] = validity.confirmed.value
            shares[self._low], shares[self._high] = validity.confirmed.low, validity.confirmed.high
        for gauge, share in shares.items():
            if share is not None:
                gauge.labels(explainer).set(share)
        for status in STATUSES:
            self._status.labels(explainer, status).set(status == validity.status)
        # By name, so that it is always the same ones.
        for drift in sorted(validity.drifts, key=lambda drift: (drift.role, drift.name))[:most]:
            self._psi.labels(explainer, drift.role, drift.name).set(drift.psi)
            self._measured.setdefault(explainer, set()).add((drift.role, drift.name))

    def forget_validity(self, explainer: str) -> None:
        """Set the gauges of a watched explainer to NaN: with several workers, they cannot be removed."""
        if explainer not in self._measured:
            return
        for gauge in (self._expected, self._confirmed, self._low, self._high):
            gauge.labels(explainer).set(math.nan)
        for status in STATUSES:
            self._status.labels(explainer, status).set(0)
        for role, name in self._measured.pop(explainer):
            self._psi.labels(explainer, role, name).set(math.nan)

    def text(self) -> bytes:
        """Return all metrics in the exposition format, summed over the workers if there are several."""
        client: Any = require("prometheus_client", extra="serve")
        if FOLDER not in os.environ:
            return bytes(client.generate_latest(self.registry))
        multiprocess: Any = require("prometheus_client.multiprocess", extra="serve")
        _forget_dead_workers(Path(os.environ[FOLDER]), multiprocess)
        registry = client.CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)
        return bytes(client.generate_latest(registry))


def _forget_dead_workers(folder: Path, multiprocess: Any) -> None:
    """Remove the gauges of workers that were killed."""
    for file in folder.glob("gauge_live*_*.db"):
        process = int(file.stem.rpartition("_")[2])
        try:
            os.kill(process, 0)  # sends no signal
        except ProcessLookupError:
            multiprocess.mark_process_dead(process)
        except PermissionError:
            pass  # it is alive
