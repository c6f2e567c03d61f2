"""Compare the local stream, Ray and the bare forward pass in rows per second, for growing numbers of rows.

    python benchmarks/scale.py [--rows 1000000 10000000] [--actors 2]

For each number of rows, one run measures the local stream (`l2x explain`) and Ray Data (`--engine ray`),
Parquet to Parquet, each in its own process, and before and after them the selector's forward pass on rows in
memory. Memory is the peak resident size of the streaming process; for Ray, of the driver.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from stream import COLUMNS, FORWARD_ROWS, STREAM, fit, forward_seconds, write_rows

from l2x_experiments.records import machine

RAY = """
import json, sys, time
from l2x.export import BatchExplainer, load, match_columns, ray
rows = ray.read_parquet(sys.argv[2], progress=False)
started = time.perf_counter()
explainer = load(sys.argv[1], device="cpu")
run = BatchExplainer(explainer, match_columns(explainer, ray.described(rows))[0])
ray.write(ray.explain(rows, run, actors=int(sys.argv[4])), sys.argv[3])
seconds = time.perf_counter() - started
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"seconds": seconds, "peak_mib": int(peak) / 1024}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--actors", type=int, default=2, help="Ray actors, and threads of the local stream")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    explainer = fit()
    x = torch.randn(min(FORWARD_ROWS, *arguments.rows), COLUMNS, generator=torch.Generator().manual_seed(0))
    measurements = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        explainer.save(folder / "e.l2x")
        before = forward_seconds(explainer, x, 1)
        for rows in arguments.rows:
            write_rows(folder / "in.parquet", rows)
            local = run(STREAM, folder, "local.parquet", arguments.actors)
            ray = run(RAY, folder, f"ray-{rows}", arguments.actors)
            after = forward_seconds(explainer, x, 1)
            bare = (before + after) / 2
            measurements.append(
                {
                    "rows": rows,
                    "forward_rows_per_second": round(1 / bare),
                    "local_rows_per_second": round(rows / local["seconds"]),
                    "ray_rows_per_second": round(rows / ray["seconds"]),
                    "local_to_forward": round(rows / local["seconds"] * bare, 3),
                    "ray_to_local": round(local["seconds"] / ray["seconds"], 3),
                    "local_peak_mib": round(local["peak_mib"]),
                    "ray_driver_peak_mib": round(ray["peak_mib"]),
                }
            )
            before = after
    print(json.dumps({"machine": machine(), "columns": COLUMNS, "found": measurements}, indent=2))


def run(script: str, folder: Path, target: str, workers: int) -> dict[str, float]:
    """Explain folder/in.parquet into folder/target in a new process."""
    arguments = [folder / "e.l2x", folder / "in.parquet", folder / target, workers]
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


if __name__ == "__main__":
    main()
