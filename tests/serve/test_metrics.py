"""What Prometheus is told, by one process and by several."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from l2x.apps.serve._metrics import FOLDER, Metrics

WORKER = """
import os, sys
from l2x.apps.serve._metrics import Metrics
metrics = Metrics()
metrics.request("/x", 200, 0.01)
metrics.rows("it", 5)
metrics.queue("it")(7, 3)
print(metrics.text().decode())
"""


def test_counters_and_histograms() -> None:
    metrics = Metrics()
    metrics.request("/x", 200, 0.003)
    metrics.request("/x", 503, 0.0001)
    metrics.rows("it", 5)
    metrics.unseen("it", "town", 2)
    metrics.queue("it")(4, 16)
    text = metrics.text().decode()
    for line in (
        'l2x_requests_total{route="/x",status="503"} 1.0',
        'l2x_rows_total{explainer="it"} 5.0',
        'l2x_request_seconds_bucket{le="0.005",route="/x"} 2.0',
        'l2x_queue_rows{explainer="it"} 4.0',
        'l2x_batch_rows_bucket{explainer="it",le="16.0"} 1.0',
        'l2x_unseen_categories_total{column="town",explainer="it"} 2.0',
    ):
        assert line in text, line


def test_workers_are_summed_and_the_queue_of_a_dead_one_is_forgotten(tmp_path: Path) -> None:
    environment = {**os.environ, FOLDER: str(tmp_path)}
    texts = [
        subprocess.run(
            [sys.executable, "-c", WORKER], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert 'l2x_rows_total{explainer="it"} 10.0' in texts[1]
    assert 'l2x_queue_rows{explainer="it"} 7.0' in texts[1]  # the first worker has ended
