"""Measure the speed and memory of `l2x explain` on a Parquet file.

    python benchmarks/stream.py [--rows 10000000] [--rounds 3] [--workers N]

The reference is the selector's bare forward pass on rows that are already in memory as a float32 tensor, on
one thread and on as many as there are workers. The speed of a machine drifts, so each round measures the
forward passes, the command, and the forward passes again, and reports the ratio to the mean of the two. The
command runs in its own process, whose peak resident memory is reported (Linux only). Goals: 0.7 of the rows
per second of one thread's forward pass, less than 1 GiB.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import torch

import l2x
from l2x.learning._training import Phase
from l2x_experiments.records import machine

COLUMNS, K = 20, 5
FORWARD_ROWS = 3_000_000
STREAM = """
import json, sys, time
from pathlib import Path
import torch
from l2x.export import BatchExplainer, explain_table, load, match_columns
from l2x.files import Table
torch.set_num_threads(1)  # as `l2x explain` does
explainer, table = load(sys.argv[1]), Table(Path(sys.argv[2]))
explain = BatchExplainer(explainer, match_columns(explainer, table)[0], k=explainer.k)
started = time.perf_counter()
rows = explain_table(explain, table, Path(sys.argv[3]), workers=int(sys.argv[4]))
seconds = time.perf_counter() - started
# Not ru_maxrss, which includes the memory of the parent process.
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"rows": rows, "seconds": seconds, "peak_mib": int(peak) / 1024}))
"""


def write_rows(path: Path, rows: int) -> None:
    """Write random numbers, one row group at a time."""
    rng = np.random.default_rng(0)
    schema = pa.schema([(f"x{j}", pa.float64()) for j in range(COLUMNS)])
    with pa.parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 1 << 20):
            block = rng.normal(size=(COLUMNS, min(1 << 20, rows - start)))
            writer.write_table(pa.table(list(block), schema=schema))


def fit() -> l2x.Explainer:
    """Train for a few steps: the speed does not depend on the weights."""

    def model(frame: object) -> np.ndarray:
        p = 1 / (1 + np.exp(-np.asarray(frame)[:, 0]))
        return np.stack([1 - p, p], axis=1)

    sample = pa.table({f"x{j}": np.random.default_rng(j).normal(size=2000) for j in range(COLUMNS)})
    plan = l2x.TrainingPlan(Phase(2, 1e-3), Phase(2, 1e-3), progress=False)
    return l2x.Explainer(model, K, training=plan).fit(sample.to_pandas())


def forward_seconds(explainer: l2x.Explainer, x: torch.Tensor, threads: int) -> float:
    """Return the seconds per row of the bare forward pass, in the batches of `explain`."""
    network, size = explainer.selector_, explainer.features_.rows_at_once

    def forward(part: torch.Tensor) -> None:
        with torch.inference_mode():
            for rows in part.split(size):
                network(rows)

    forward(x[:size])
    with ThreadPoolExecutor(threads) as pool:
        started = time.perf_counter()
        list(pool.map(forward, [x] * threads))
        return (time.perf_counter() - started) / len(x) / threads


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count(), help="threads; by default one per processor"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    explainer = fit()
    x = torch.randn(FORWARD_ROWS, COLUMNS, generator=torch.Generator().manual_seed(0))
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        source, target, saved = (Path(folder) / name for name in ("in.parquet", "out.parquet", "e.l2x"))
        write_rows(source, arguments.rows)
        explainer.save(saved)
        command = [sys.executable, "-c", STREAM, str(saved), str(source), str(target), str(arguments.workers)]

        def forwards() -> tuple[float, float]:
            return forward_seconds(explainer, x, 1), forward_seconds(explainer, x, arguments.workers)

        before = forwards()
        for _ in range(arguments.rounds):
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            assert pa.parquet.read_metadata(target).num_rows == arguments.rows
            streamed, after = json.loads(done.stdout), forwards()
            one, all_threads = ((a + b) / 2 for a, b in zip(before, after, strict=True))
            speed = streamed["rows"] / streamed["seconds"]
            rounds.append((speed, speed * one, speed * all_threads, streamed["peak_mib"]))
            before = after
    speeds, ratios, all_ratios, peaks = (sorted(column) for column in zip(*rounds, strict=True))
    figures = {
        "machine": machine(),
        "rows": arguments.rows,
        "columns": COLUMNS,
        "workers": arguments.workers,
        "rounds": arguments.rounds,
        "rows_per_second": [round(speed) for speed in speeds],
        "ratio_to_one_thread": round(statistics.median(ratios), 3),
        "ratios_to_one_thread": [round(ratio, 3) for ratio in ratios],
        "ratio_to_all_threads": round(statistics.median(all_ratios), 3),
        "peak_resident_mib": round(peaks[-1]),
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
