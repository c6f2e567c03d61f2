"""Measure the cost of a request beyond its explanation, and the service under overload.

    python benchmarks/serve.py [--seconds 5] [--rounds 3] [--overload 60] [--output results/serve.json]
    python benchmarks/serve.py --only overload figures     # some of the parts; the other records stay

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
  (goal: 1); rows explained meanwhile as a share of the capacity (goal: 0.5); memory growth in MiB (goal: 50).
  Requests of 50 rows start at fixed moments, whether or not others have a response, and times count from
  these moments (an open loop);
- absolute figures for tables, texts and images, without a model: latency of one row, rows per second in
  requests of one row and of 100 rows and as an Arrow stream, memory, and the time to load the file.
"""

from __future__ import annotations

import argparse
import asyncio
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
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import l2x
from l2x_experiments.records import Records, measured_here, timed

# Description, value, goal, and whether the goal is reached; None for figures without a goal.
Measurement = tuple[str, float, float | None, bool | None]

COLUMNS, K, CLIENTS = 20, 5, 64
ARROW_ROWS, ARROW_BATCH = 400_000, 50_000
PROMISE = 2.0  # seconds, for the service that is overloaded
PATH = "/v1/explainers/it/explain"
ARROW = "application/vnd.apache.arrow.stream"
# Offered load as a multiple of the capacity: more than twice, because the capacity varies.
OFFERED = 2.5
# Rows of a request under overload: with fewer, a client in Python could not keep the pace.
OVERLOAD_ROWS = 50
# Rows of the figures: in one request, and in an Arrow stream, by kind of input.
MANY, STREAM_ROWS = 100, {"tables": 200_000, "texts": 10_000, "images": 20_000}
WORDS, TEXT_WORDS, SIDE = 3000, 120, 28
PARTS = ["latency", "throughput", "arrow", "overload", "figures"]
# wrk only counts errors, so a script counts the statuses. Each connection sends the next request as soon as
# it has a response.
SCRIPT = """
wrk.method, wrk.body = "POST", io.open("{body}"):read("*a")
wrk.headers["Content-Type"] = "application/json"
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
    l2x.Explainer(model(), K, training=brief()).fit(frame(2000, 0)).save(folder / "it.l2x")
    write_bodies(folder, json.loads(frame(MANY, 1).to_json(orient="records")))


def brief() -> l2x.TrainingPlan:
    """Return a plan of a few steps."""
    phase = l2x.Phase(50, 5e-3, batch_size=64)
    return l2x.TrainingPlan(value=phase, selector=phase, evaluations=2, progress=False)


def write_bodies(folder: Path, rows: Sequence[Any]) -> None:
    """Write the bodies of requests with one row, with many, and for overload."""
    for name, n in (("body", 1), ("many", MANY), ("overload", OVERLOAD_ROWS)):
        (folder / f"{name}.json").write_text(json.dumps({"rows": list(rows[:n])}))


def texts(n: int, seed: int) -> list[str]:
    """Return texts of made-up words, of which a few are frequent."""
    rng = np.random.default_rng(seed)
    words = np.minimum(rng.zipf(1.3, size=(n, TEXT_WORDS)), WORDS)
    return [" ".join(f"word{i}" for i in text) for text in words]


def images(n: int, seed: int) -> Any:
    """Return grey images of random bytes."""
    return np.random.default_rng(seed).integers(0, 256, size=(n, SIDE, SIDE)).astype(np.float32)


def halves(p: Any) -> Any:
    """Return the probabilities of two classes."""
    return np.stack([1 - p, p], axis=1)


def make_texts(folder: Path) -> None:
    """Save an explainer of texts, and bodies; see `make`."""
    explainer = l2x.Explainer(
        lambda given: halves(np.array([0.9 if text.count("word1 ") > 30 else 0.1 for text in given])),
        10, features=l2x.Words(length=TEXT_WORDS), training=brief(),
    )  # fmt: skip
    explainer.fit(texts(400, 0)).save(folder / "it.l2x")
    write_bodies(folder, texts(MANY, 1))


def make_images(folder: Path) -> None:
    """Save an explainer of images, and bodies; see `make`."""
    explainer = l2x.Explainer(
        lambda given: halves(np.where(given[:, :8, :8].mean(axis=(1, 2)) > 127.5, 0.9, 0.1)),
        4, features=l2x.Patches(4), training=brief(),
    )  # fmt: skip
    explainer.fit(images(400, 0)).save(folder / "it.l2x")
    write_bodies(folder, images(MANY, 1).astype(int).tolist())


def stream_of(kind: str, n: int) -> pa.Table:
    """Return rows for the Arrow route."""
    if kind == "tables":
        return pa.Table.from_pandas(frame(n, 2), preserve_index=False)
    if kind == "texts":
        return pa.table({"text": texts(n, 2)})
    flat = pa.array(images(n, 2).ravel())
    return pa.table({"pixels": pa.FixedSizeListArray.from_arrays(flat, SIDE * SIDE)})


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
        "overloaded": Settings(queue=8 * OVERLOAD_ROWS, timeout=PROMISE),
    }.get(role, Settings())
    # Without effects, so that figures can be compared with those of earlier versions.
    return create_app([folder / "it.l2x"], models, replace(settings, effects=False))


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


def wrk(at: tuple[str, int], folder: Path, *, connections: int, seconds: float, body: str = "body") -> Load:
    """Load a server, given by its address and process, by requests with a body of the folder."""
    address, process = at
    script = folder / "load.lua"
    script.write_text(SCRIPT.format(body=folder / f"{body}.json"))
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


def stream_body(table: pa.Table, rows: int) -> bytes:
    """Return a table as an Arrow stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


def explain_stream(address: str, body: bytes, rows: int) -> float:
    """Explain an Arrow stream; return the seconds until the whole result has arrived."""
    started = time.perf_counter()
    request = urllib.request.Request(f"{address}{PATH}.arrow", body, {"Content-Type": ARROW})
    content = urllib.request.urlopen(request, timeout=300).read()
    seconds = time.perf_counter() - started
    assert pa.ipc.open_stream(content).read_all().num_rows == rows
    return seconds


def arrow(folder: Path, rounds: int) -> list[Measurement]:
    """Compare an Arrow stream with `explain` in this process."""
    import torch

    torch.set_num_threads(1)
    explainer = l2x.load(folder / "it.l2x")
    table = stream_of("tables", ARROW_ROWS)
    body, ratios = stream_body(table, ARROW_BATCH), []

    def in_process() -> float:
        started = time.perf_counter()
        explainer.explain(table).indices  # noqa: B018 - computed when it is used
        return time.perf_counter() - started

    with server("plain", folder) as (address, _):
        for _ in range(rounds):
            first, seconds = in_process(), explain_stream(address, body, ARROW_ROWS)
            ratios.append((first + in_process()) / 2 / seconds)
            print(
                f"Arrow: {ARROW_ROWS / seconds:,.0f} rows/s, {ratios[-1]:.2f} times `explain` in the process"
            )
    value = statistics.median(ratios)
    return [("rows per second of an Arrow stream over explain in the process", value, 0.6, value >= 0.6)]


@dataclass
class OpenLoop:
    """Requests that start at fixed moments, and what became of them.

    Attributes
    ----------
    statuses : Counter
        Responses by status; 0 counts requests without a response.
    seconds : list of float
        The time of each response since the moment when its request was due.
    late : list of float
        How long after that moment each request was sent.
    """

    address: str
    body: bytes

    def __post_init__(self) -> None:
        host, _, port = self.address.removeprefix("http://").partition(":")
        self._at = host, int(port)
        head = f"POST {PATH} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        self._request = f"{head}Content-Length: {len(self.body)}\r\n\r\n".encode() + self.body
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self.statuses: Counter[int] = Counter()
        self.seconds: list[float] = []
        self.late: list[float] = []

    async def run(self, rate: float, seconds: float) -> float:
        """Send `rate` requests per second; return how many were."""
        loop = asyncio.get_running_loop()
        started, tasks = loop.time(), []
        for i in range(int(rate * seconds)):
            due = started + i / rate
            if (wait := due - loop.time()) > 0:
                await asyncio.sleep(wait)
            tasks.append(asyncio.create_task(self._one(due)))
        sent = len(tasks) / (loop.time() - started)
        await asyncio.gather(*tasks)
        for _, writer in self._free:
            writer.close()
        return sent

    async def _one(self, due: float) -> None:
        loop = asyncio.get_running_loop()
        self.late.append(loop.time() - due)
        try:
            async with asyncio.timeout(30):
                status = await self._response()
        except (OSError, EOFError, TimeoutError):
            status = 0
        self.statuses[status] += 1
        self.seconds.append(loop.time() - due)

    async def _response(self) -> int:
        """Return the status of a response, on a connection that is free, or else on a new one."""
        while self._free and (self._free[-1][0].at_eof() or self._free[-1][1].is_closing()):
            self._free.pop()
        reader, writer = self._free.pop() if self._free else await asyncio.open_connection(*self._at)
        writer.write(self._request)
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(re.search(rb"content-length: (\d+)", head.lower())[1]))  # type: ignore[index]
        self._free.append((reader, writer))
        return int(head.split(b" ", 2)[1])


def overload(folder: Path, seconds: float) -> list[Measurement]:
    """Offer more than the service can do."""
    with server("overloaded", folder) as at:
        first = capacity(at, folder)
        before = memory(at[1])
        load = OpenLoop(at[0], (folder / "overload.json").read_bytes())
        sent = asyncio.run(load.run(OFFERED * first, seconds))
        grown = memory(at[1]) - before
        most = max(first, capacity(at, folder))
    offered, slowest = sent / most, max(load.seconds)
    others = sum(count for status, count in load.statuses.items() if status not in (200, 503))
    done = load.statuses[200] / seconds / most
    print(
        f"{offered:.1f} times the capacity of {most:,.0f} requests/s: {dict(load.statuses)}; slowest "
        f"{1000 * slowest:,.0f} ms; sent late by {1000 * float(np.quantile(load.late, 0.99)):,.0f} ms (p99); "
        f"{grown:+.1f} MiB"
    )
    share = slowest / PROMISE
    return [
        ("overload, times the capacity that was offered", offered, 2.0, offered >= 2),
        (
            "overload, requests answered with neither 200 nor 503, or not at all",
            float(others),
            0.0,
            others == 0,
        ),
        ("overload, slowest answer over the promised time", share, 1.0, share <= 1),
        ("overload, rows explained over the capacity", done, 0.5, done >= 0.5),
        ("overload, memory growth in MiB", grown, 50.0, grown < 50),
    ]


def capacity(at: tuple[str, int], folder: Path) -> float:
    """Return responses per second, for clients whose rows all fit into the queue."""
    load = wrk(at, folder, connections=4, seconds=5, body="overload")
    assert load.statuses.keys() == {200}, load
    return load.per_second


def figures(folder: Path, seconds: float) -> list[Measurement]:
    """Measure absolute figures of tables, texts and images."""
    made: dict[str, Callable[[Path], None]] = {"tables": make, "texts": make_texts, "images": make_images}
    found: list[Measurement] = []
    for kind, save in made.items():
        own = folder / kind
        own.mkdir()
        save(own)
        loads = [timed(partial(l2x.load, own / "it.l2x"))[1] for _ in range(5)]
        with server("plain", own) as at:
            wrk(at, own, connections=1, seconds=1)
            one = wrk(at, own, connections=1, seconds=seconds)
            single = wrk(at, own, connections=CLIENTS, seconds=seconds)
            many = wrk(at, own, connections=4, seconds=seconds, body="many")
            n = STREAM_ROWS[kind]
            stream = stream_body(stream_of(kind, n), 10_000)
            streamed = min(explain_stream(at[0], stream, n) for _ in range(2))
            mib = memory(at[1])
        assert {*one.statuses, *single.statuses, *many.statuses} == {200}
        values = {
            "one row, p50 in ms": one.p50,
            "one row, p99 in ms": one.p99,
            "rows/s, 64 clients": single.per_second,
            "rows/s, 100 per request": many.per_second * MANY,
            "rows/s, Arrow": n / streamed,
            "memory in MiB": mib,
            "loading in ms": 1000 * min(loads),
        }
        found += [(f"{kind}: {name}", value, None, None) for name, value in values.items()]
        print("; ".join(f"{name} {value:,.2f}" for name, value in values.items()))
    return found


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
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--role", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        serve(options.role, options.folder)
        return
    if shutil.which("wrk") is None:
        sys.exit("This benchmark needs the load generator wrk: apt-get install wrk")
    kept: list[Any] = []
    if options.only != PARTS:
        kept = [record for record in Records.load(options.output) if record.get("part") not in options.only]
    options.output.unlink(missing_ok=True)
    records = Records.load(options.output)
    records.add(kept)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder)
        work: dict[str, Callable[[], list[Measurement]]] = {
            "latency": lambda: latency(folder, options.rounds, options.seconds),
            "throughput": lambda: throughput(folder, options.rounds, options.seconds),
            "arrow": lambda: arrow(folder, options.rounds),
            "overload": lambda: overload(folder, options.overload),
            "figures": lambda: figures(folder, options.seconds),
        }
        for part in options.only:
            for measure, value, goal, holds in work[part]():
                found = {"measure": measure, "value": round(value, 3), "goal": goal, "holds": holds}
                records.add([found | {"part": part} | measured_here()])
                shown = {True: "holds", False: "FAILS", None: "     "}[holds]
                print(f"{shown}  {value:12.3f}  {measure}", flush=True)


if __name__ == "__main__":
    main()
