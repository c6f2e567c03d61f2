"""Lines of the log: JSON, with a time, and no word of an error that may quote inputs."""

from __future__ import annotations

import json
import logging

import pytest

from l2x.apps.serve._logs import JsonLines, log_failure, log_request


def test_a_request_is_one_line_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="l2x.apps.serve"):
        log_request({"id": "a", "rows": 2, "route": 'with "quotes"\n'})
    (line,) = [JsonLines().format(record) for record in caplog.records]
    assert "\n" not in line
    said = json.loads(line)
    assert said.items() >= {"level": "info", "event": "request", "id": "a", "rows": 2}.items()
    assert len(said["time"]) == len("2026-01-31T12:00:00.000Z")


def test_a_failure_says_where_and_not_what(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("hunter2")
    except ValueError as error:
        log_failure("a", error)
    (line,) = [JsonLines().format(record) for record in caplog.records]
    assert json.loads(line)["error"] == "ValueError"
    assert "test_a_failure" in line
    assert "hunter2" not in line


def test_nothing_is_made_where_nobody_listens(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="l2x.apps.serve"):
        log_request({"id": "a"})
    assert not caplog.records
