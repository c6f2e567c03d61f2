"""Measure the cost of a request beyond its explanation, and the service under overload.

    python benchmarks/serve.py [--seconds 5] [--rounds 3] [--overload 60] [--output results/serve.json]

The load comes from `wrk` (Debian: apt-get install wrk), another process on this machine. The speed of
machines varies from minute to minute. Servers that are compared therefore run at the same time and are
measured in turns, and a value is the median of the ratios of all rounds. The measurements are

- one row over a connection that is kept alive, compared with a bare FastAPI route that returns the same JSON
  from a constant: medians and 99th percentiles (goals: at most 2 and 3 times);
- rows per second for 64 clients, with predictions by LightGBM, micro-batched compared with one by one
  (goal: 3);
- rows per second of an Arrow stream, compared with `explain` in this process (goal: 0.6);
- at more than twice the capacity, measured before and after: responses other than 200 and 503,
  and requests without a response (goal: none); the slowest response as a share of the promised time
  (goal: 1); memory growth in MiB (goal: 50).
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import l2x
from l2x_experiments.records import Records, measured_here

# Description, value, goal, and whether the goal is reached.
Measurement = tuple[str, float, float, bool]

COLUMNS, K, CLIENTS = 20, 5, 64
ARROW_ROWS, ARROW_BATCH = 400_000, 50_000
PROMISE = 2.0  # seconds, for the service that is overloaded
PATH = "/v1/explainers/it/explain"
# Offered load as a multiple of the capacity: more than twice, because the capacity varies.
OFFERED = 2.5
# wrk only counts errors, so a script counts the statuses. With a rate, requests start at fixed moments if a
# connection is free, as those of independent clients do. Without a rate, each connection sends the next
# request as soon as it has a response.
SCRIPT = """
wrk.method, wrk.body = "POST", io.open("{body}"):read("*a")
wrk.headers["Content-Type"] = "application/json"
local ffi, rate, turn = require("ffi"), {rate}, nil
ffi.cdef "typedef struct {{ long s, us; }} moment; int gettimeofday(moment *, void *);"
local now = ffi.new("moment")
if rate > 0 then
  function delay()
    ffi.C.gettimeofday(now, nil)
    local time = tonumber(now.s) + tonumber(now.us) / 1e6
    turn = (turn or time) + 1 / rate
    return math.max(0, (turn - time) * 1000)
  end
end
local threads = {{}}
seen = {{}}
function setup(thread) table.insert(threads, thread) end
function response(status) seen[status] = (seen[status] or 0) + 1 end
function done(summary, latency)
  for _, thread in ipairs(threads) do
    for status, count in pairs(thread:get("seen")) do print("status " .. status .. "=" .. count) end
  end
  for kind, count in pairs(summary.errors) do
    if kind ~= "status" then print("error " .. kind .. "=" .. count) end
  end
  print("slowest " .. latency.max)
end
"""


@dataclass(frozen=True)
class Load:
    """What wrk measured.

    Times are in milliseconds. `errors` counts requests without a response by kind (connect, read, write,
    timeout). `cpu` is the server's processor time per response, which is meaningful on a busy machine, too.
    """

    p50: float
    p99: float
    slowest: float
    per_second: float
    statuses: dict[int, int]
    errors: dict[str, int]
    cpu: float


def frame(rows: int, seed: int) -> pd.DataFrame:
    """Return a table of normal numbers."""
    names = [f"column {i}" for i in range(COLUMNS)]
    return pd.DataFrame(np.random.default_rng(seed).normal(size=(rows, COLUMNS)), columns=names)


def make(folder: Path) -> None:
    """Save an explainer, trained briefly: its quality does not matter here; and the body of a request."""
    phase = l2x.Phase(50, 5e-3, batch_size=64)
    plan = l2x.TrainingPlan(value=phase, selector=phase, evaluations=2, progress=False)
    l2x.Explainer(model(), K, training=plan).fit(frame(2000, 0)).save(folder / "it.l2x")
    row = {name: float(value) for name, value in frame(1, 1).iloc[0].items()}
    (folder / "body.json").write_text(json.dumps({"rows": [row]}))


def model() -> Any:
    """Return a fitted LightGBM classifier."""
    from lightgbm import LGBMClassifier

    X = frame(2000, 0)
    return LGBMClassifier(random_state=0, n_jobs=1, verbose=-1).fit(X, X.iloc[:, 1] * X.iloc[:, 2] > 0)


def application(role: str, folder: Path) -> Any:
    """Return the application of one of the servers."""
    from l2x.apps.serve import Settings, create_app

    if role == "bare":
        return bare((folder / "response.json").read_text())
    models = {} if role == "plain" else {"it": model()}
    settings = {
        "one by one": Settings(batch_rows=1),
        "overloaded": Settings(queue=CLIENTS, timeout=PROMISE),
    }.get(role, Settings())
    return create_app([folder / "it.l2x"], models, settings)


def bare(response: str) -> Any:
    """Return an application with one route that returns a constant."""
    from fastapi import FastAPI

    app, constant = FastAPI(), json.loads(response)

    @app.post(PATH)
    async def explain() -> Any:
        return constant

    return app


def serve(role: str, folder: Path) -> None:
    """Run one of the servers in this process; print its address."""
    from l2x.apps.serve import Dedicated, run

    make = Dedicated(lambda: application(role, folder))
    run(make, host="127.0.0.1", port=0, started=lambda at: print(at, flush=True))


@contextmanager
def server(role: str, folder: Path) -> Iterator[tuple[str, int]]:
    """Start a server in a process of its own; yield its address and process id."""
    command = [sys.executable, __file__, "--role", role, "--folder", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    try:
        for _ in range(600):
            try:
                explain(address, folder)
                break
            except urllib.error.URLError:
                time.sleep(0.1)
        yield address, process.pid
    finally:
        process.terminate()
        process.wait(30)


def explain(address: str, folder: Path) -> bytes:
    """Return the response to one request."""
    request = urllib.request.Request(
        address + PATH, (folder / "body.json").read_bytes(), {"Content-Type": "application/json"}
    )
    content: bytes = urllib.request.urlopen(request, timeout=30).read()
    return content


def wrk(at: tuple[str, int], folder: Path, *, connections: int, seconds: float, rate: float = 0.0) -> Load:
    """Load a server, given by its address and process; `rate` is in requests per second, 0 for no limit."""
    address, process = at
    script = folder / "load.lua"
    script.write_text(SCRIPT.format(body=folder / "body.json", rate=rate))
    command = [
        "wrk",
        "-t1",
        f"-c{connections}",
        f"-d{seconds:g}s",
        "--latency",
        "--timeout=30s",
        "-s",
        str(script),
        address + PATH,
    ]
    before = processor(process)
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    used = processor(process) - before
    units = {"us": 1e-3, "ms": 1.0, "s": 1e3}

    def milliseconds(share: str) -> float:
        value, unit = re.search(rf"{share}%\s+([\d.]+)(us|ms|s)", output).groups()  # type: ignore[union-attr]
        return float(value) * units[unit]

    per_second = float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1))  # type: ignore[union-attr]
    statuses = {int(status): int(count) for status, count in re.findall(r"status (\d+)=(\d+)", output)}
    errors = {kind: int(count) for kind, count in re.findall(r"error (\w+)=(\d+)", output)}
    slowest = float(re.search(r"slowest ([\d.]+)", output).group(1)) / 1000  # type: ignore[union-attr]
    assert statuses, output
    cpu = 1000 * used / sum(statuses.values())
    return Load(milliseconds("50"), milliseconds("99"), slowest, per_second, statuses, errors, cpu)


def latency(folder: Path, rounds: int, seconds: float) -> list[Measurement]:
    """Compare one row at a time with a bare route."""
    with ExitStack() as stack:
        plain = stack.enter_context(server("plain", folder))
        (folder / "response.json").write_bytes(explain(plain[0], folder))
        constant = stack.enter_context(server("bare", folder))
        ratios = []
        for at in (plain, constant):
            wrk(at, folder, connections=1, seconds=1)
        for _ in range(rounds):
            first = wrk(constant, folder, connections=1, seconds=seconds)
            ours = wrk(plain, folder, connections=1, seconds=seconds)
            last = wrk(constant, folder, connections=1, seconds=seconds)
            print(f"one row: {ours.p50:.2f} ms (p99 {ours.p99:.2f}); bare {first.p50:.2f} ({first.p99:.2f})")
            ratios.append(
                (
                    2 * ours.p50 / (first.p50 + last.p50),
                    2 * ours.p99 / (first.p99 + last.p99),
                    2 * ours.cpu / (first.cpu + last.cpu),
                )
            )
    p50, p99, cpu = (statistics.median(values) for values in zip(*ratios, strict=True))
    return [
        ("latency of one row, p50, over a bare route", p50, 2.0, p50 <= 2),
        ("latency of one row, p99, over a bare route", p99, 3.0, p99 <= 3),
        ("processor time of one row, over a bare route", cpu, 2.0, cpu <= 2),
    ]


def throughput(folder: Path, rounds: int, seconds: float) -> list[Measurement]:
    """Compare batches with single requests, for many clients."""
    with server("model", folder) as together, server("one by one", folder) as alone:
        ratios = []
        for _ in range(rounds):
            batched = wrk(together, folder, connections=CLIENTS, seconds=seconds)
            single = wrk(alone, folder, connections=CLIENTS, seconds=seconds)
            print(f"{CLIENTS} clients: {batched.per_second:,.0f} rows/s; one by one {single.per_second:,.0f}")
            ratios.append((batched.per_second / single.per_second, single.cpu / batched.cpu))
    value, cpu = (statistics.median(values) for values in zip(*ratios, strict=True))
    return [
        ("rows per second of 64 clients, micro-batched over one by one", value, 3.0, value >= 3),
        ("rows per second of processor time, the same", cpu, 3.0, cpu >= 3),
    ]


def arrow(folder: Path, rounds: int) -> list[Measurement]:
    """Compare an Arrow stream with `explain` in this process."""
    import torch

    torch.set_num_threads(1)
    explainer = l2x.load(folder / "it.l2x")
    table = pa.Table.from_pandas(frame(ARROW_ROWS, 2), preserve_index=False)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=ARROW_BATCH)
    body, ratios = sink.getvalue(), []

    def in_process() -> float:
        started = time.perf_counter()
        explainer.explain(table).indices  # noqa: B018 - computed when it is used
        return time.perf_counter() - started

    with server("plain", folder) as (address, _):
        for _ in range(rounds):
            first, started = in_process(), time.perf_counter()
            request = urllib.request.Request(f"{address}{PATH}.arrow", body)
            content = urllib.request.urlopen(request, timeout=300).read()
            seconds = time.perf_counter() - started
            assert pa.ipc.open_stream(content).read_all().num_rows == ARROW_ROWS
            ratios.append((first + in_process()) / 2 / seconds)
            print(
                f"Arrow: {ARROW_ROWS / seconds:,.0f} rows/s, {ratios[-1]:.2f} times `explain` in the process"
            )
    value = statistics.median(ratios)
    return [("rows per second of an Arrow stream over explain in the process", value, 0.6, value >= 0.6)]


def overload(folder: Path, seconds: float) -> list[Measurement]:
    """Offer more than the service can do."""
    with server("overloaded", folder) as at:
        first = capacity(at, folder)
        before = memory(at[1])
        load = wrk(at, folder, connections=4 * CLIENTS, seconds=seconds, rate=OFFERED * first)
        grown = memory(at[1]) - before
        most = max(first, capacity(at, folder))
    offered = load.per_second / most
    others = sum(count for status, count in load.statuses.items() if status not in (200, 503))
    others += sum(load.errors.values())
    print(
        f"{offered:.1f} times the capacity of {most:,.0f}/s: {load.statuses}, errors {load.errors}; "
        f"slowest {load.slowest:,.0f} ms; {grown:+.1f} MiB"
    )
    share = load.slowest / 1000 / PROMISE
    return [
        ("overload, times the capacity that was offered and answered", offered, 2.0, offered >= 2),
        (
            "overload, requests answered with neither 200 nor 503, or not at all",
            float(others),
            0.0,
            others == 0,
        ),
        ("overload, slowest answer over the promised time", share, 1.0, share <= 1),
        ("overload, memory growth in MiB", grown, 50.0, grown < 50),
    ]


def capacity(at: tuple[str, int], folder: Path) -> float:
    """Return responses per second, for as many clients as can wait at once."""
    load = wrk(at, folder, connections=CLIENTS // 2, seconds=5)
    assert load.statuses.keys() == {200}, load
    return load.per_second


def memory(process: int) -> float:
    """Return the resident memory of a process in MiB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024  # type: ignore[union-attr]


def processor(process: int) -> float:
    """Return the processor time of a process in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--overload", type=float, default=60.0, help="seconds")
    parser.add_argument("--output", type=Path, default=Path("results/serve.json"))
    parser.add_argument("--role", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        serve(options.role, options.folder)
        return
    if shutil.which("wrk") is None:
        sys.exit("This benchmark needs the load generator wrk: apt-get install wrk")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder)
        results = [
            *latency(folder, options.rounds, options.seconds),
            *throughput(folder, options.rounds, options.seconds),
            *arrow(folder, options.rounds),
            *overload(folder, options.overload),
        ]
    records = [
        {"measure": measure, "value": round(value, 3), "goal": goal, "holds": holds}
        for measure, value, goal, holds in results
    ]
    for record in records:
        print(f"{'holds' if record['holds'] else 'FAILS'}  {record['value']:8.3f}  {record['measure']}")
    options.output.unlink(missing_ok=True)
    Records.load(options.output).add(record | measured_here() for record in records)


if __name__ == "__main__":
    main()
