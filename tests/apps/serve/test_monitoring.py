"""The log and the metrics."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from l2x.apps.serve._monitoring import FOLDER, JsonLines, Metrics, log_event, log_failure


def test_an_event_is_one_line_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="l2x.apps.serve"):
        log_event("request", id="a", rows=2, route='with "quotes"\n')
    (line,) = [JsonLines().format(record) for record in caplog.records]
    assert "\n" not in line
    fields = json.loads(line)
    assert fields.items() >= {"level": "info", "event": "request", "id": "a", "rows": 2}.items()
    assert len(fields["time"]) == len("2026-01-31T12:00:00.000Z")


def test_a_failure_is_logged_without_its_message(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("hunter2")
    except ValueError as error:
        log_failure("a", error)
    (line,) = [JsonLines().format(record) for record in caplog.records]
    assert json.loads(line)["error"] == "ValueError"
    assert "test_a_failure" in line
    assert "hunter2" not in line


def test_the_level_of_the_log_is_respected(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="l2x.apps.serve"):
        log_event("request", id="a")
    assert not caplog.records


WORKER = """
import os, sys
from l2x.apps.serve._monitoring import Metrics
metrics = Metrics()
metrics.rows.labels("it").inc(5)
metrics.waiting.labels("it").set(7)
print(metrics.text().decode())
"""


def test_counters_and_histograms() -> None:
    metrics = Metrics()
    metrics.requests.labels("/x", "503").inc()
    metrics.seconds.labels("/x").observe(0.003)
    metrics.rows.labels("it").inc(5)
    metrics.unseen.labels("it", "town").inc(2)
    metrics.waiting.labels("it").set(4)
    metrics.batches.labels("it").observe(16)
    text = metrics.text().decode()
    for line in (
        'l2x_requests_total{route="/x",status="503"} 1.0',
        'l2x_rows_total{explainer="it"} 5.0',
        'l2x_request_seconds_bucket{le="0.005",route="/x"} 1.0',
        'l2x_queue_rows{explainer="it"} 4.0',
        'l2x_batch_rows_bucket{explainer="it",le="16.0"} 1.0',
        'l2x_unseen_categories_total{column="town",explainer="it"} 2.0',
    ):
        assert line in text, line


def test_metrics_are_summed_over_workers_without_the_queues_of_dead_ones(tmp_path: Path) -> None:
    environment = {**os.environ, FOLDER: str(tmp_path)}
    texts = [
        subprocess.run(
            [sys.executable, "-c", WORKER], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert 'l2x_rows_total{explainer="it"} 10.0' in texts[1]
    assert 'l2x_queue_rows{explainer="it"} 7.0' in texts[1]  # the first worker has ended
