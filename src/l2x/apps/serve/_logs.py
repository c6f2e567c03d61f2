"""The service's log: lines of JSON on standard error, never with inputs."""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
from functools import lru_cache
from typing import Any

from pydantic_core import to_json

log = logging.getLogger("l2x.apps.serve")


def log_request(fields: dict[str, Any]) -> None:
    """One line for a request. `log.info` would look for who calls it, which takes longer than the rest."""
    if log.isEnabledFor(logging.INFO):
        about = {"name": log.name, "levelno": logging.INFO, "levelname": "INFO", "msg": "request"}
        log.handle(logging.makeLogRecord(about | {"fields": fields}))


def log_failure(request: str, error: Exception) -> None:
    """Log the types of the error and of its cause, and where it arose; messages may quote inputs."""
    fields = {"id": request, "error": type(error).__name__}
    if error.__cause__ is not None:
        fields["cause"] = type(error.__cause__).__name__
    frames = traceback.extract_tb((error.__cause__ or error).__traceback__)[-3:]
    where = [f"{os.path.basename(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames]
    log.error("failure", extra={"fields": fields | {"where": where}})


class JsonLines(logging.Formatter):
    """One line of JSON for each record: time, level, event, and its fields."""

    def format(self, record: logging.LogRecord) -> str:
        moment = f"{_second(int(record.created))}.{int(record.msecs):03}Z"
        line = {"time": moment, "level": record.levelname.lower(), "event": record.getMessage()}
        return to_json(line | getattr(record, "fields", {})).decode()


@lru_cache(maxsize=2)
def _second(moment: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))


class _Stderr(logging.Handler):
    """Whatever standard error is at the moment."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(self.format(record) + "\n")


def log_to_stderr() -> None:
    """Write the service's log, and uvicorn's, as lines of JSON.

    This changes the logging of the whole process: for entry points, such as `l2x serve`, only.
    """
    # What the lines do not say need not be found out for every one of them.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = _Stderr()
    handler.setFormatter(JsonLines())
    for name, level in (("l2x.apps.serve", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
