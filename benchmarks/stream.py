"""How fast, and in how much memory, does `l2x explain` stream a Parquet file?

    python benchmarks/stream.py [--rows 10000000] [--workers N]

The yardstick is the selector's bare forward pass on rows that are already in memory as a float32 tensor, one
thread, measured in this process before and after the command; the better of the two counts. The command runs
in a process of its own, which is asked for its largest resident memory. Goals: 0.7 of the rows per second,
less than 1 GiB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import torch

import l2x
from l2x.experiments.results import machine
from l2x.training import Phase

COLUMNS, K = 20, 5
FORWARD_ROWS = 1_000_000
STREAM = """
import json, sys, time
from pathlib import Path
from l2x.artifact import load
from l2x.scale.stream import BatchExplainer, explain_table, match_columns
from l2x.scale.tables import Table
explainer, table = load(sys.argv[1]), Table(Path(sys.argv[2]))
explain = BatchExplainer(explainer, match_columns(explainer, table)[0], k=explainer.k)
started = time.perf_counter()
rows = explain_table(explain, table, Path(sys.argv[3]), workers=int(sys.argv[4]) or None)
print(json.dumps({"rows": rows, "seconds": time.perf_counter() - started}))
"""


def write_rows(path: Path, rows: int) -> None:
    """Random numbers, a row group at a time."""
    rng = np.random.default_rng(0)
    schema = pa.schema([(f"x{j}", pa.float64()) for j in range(COLUMNS)])
    with pa.parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 1 << 20):
            block = rng.normal(size=(COLUMNS, min(1 << 20, rows - start)))
            writer.write_table(pa.table(list(block), schema=schema))


def fit() -> l2x.Explainer:
    """The weights do not matter for the speed: a few steps of training make the real objects."""

    def model(frame: object) -> np.ndarray:
        p = 1 / (1 + np.exp(-np.asarray(frame)[:, 0]))
        return np.stack([1 - p, p], axis=1)

    sample = pa.table({f"x{j}": np.random.default_rng(j).normal(size=2000) for j in range(COLUMNS)})
    plan = l2x.TrainingPlan(Phase(2, 1e-3), Phase(2, 1e-3), progress=False)
    return l2x.Explainer(model, K, training=plan).fit(sample.to_pandas())


def forward_rows_per_second(explainer: l2x.Explainer) -> float:
    """The best of five passes, in batches of the size that `explain` uses."""
    x = torch.randn(FORWARD_ROWS, COLUMNS, generator=torch.Generator().manual_seed(0))
    network, size = explainer.selector_, explainer.features_.rows_at_once
    best = float("inf")
    with torch.inference_mode():
        for _ in range(5):
            started = time.perf_counter()
            for rows in x.split(size):
                network(rows)
            best = min(best, time.perf_counter() - started)
    return FORWARD_ROWS / best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--workers", type=int, default=0, help="0: one per processor")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    explainer = fit()
    with tempfile.TemporaryDirectory() as folder:
        source, target, saved = (Path(folder) / name for name in ("in.parquet", "out.parquet", "e.l2x"))
        write_rows(source, arguments.rows)
        explainer.save(saved)
        before = forward_rows_per_second(explainer)
        command = [sys.executable, "-c", STREAM, str(saved), str(source), str(target), str(arguments.workers)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        forward = max(before, forward_rows_per_second(explainer))
        assert pa.parquet.read_metadata(target).num_rows == arguments.rows
        streamed = json.loads(done.stdout)
    speed = streamed["rows"] / streamed["seconds"]
    figures = {
        "machine": machine(),
        "rows": arguments.rows,
        "columns": COLUMNS,
        "workers": arguments.workers or "one per processor",
        "forward_rows_per_second": round(forward),
        "stream_rows_per_second": round(speed),
        "ratio": round(speed / forward, 3),
        "peak_resident_mib": round(peak),
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
