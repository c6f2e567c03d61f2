"""Serve for half an hour with --watch: is memory flat, and are the gauges right?

    python benchmarks/soak.py [--minutes 30] [--output results/soak.json]

A client sends rows at a fixed pace, far below the capacity, to `l2x serve --watch` in another process. The
phases are

1. a third of the time: nothing changes (goal: never anything but valid);
2. a third: the model is another one, as after a retraining (goal: stale within 120 s);
3. a sixth: the first model again (goal: valid again within 240 s, as the last 1,000 rows count);
4. a sixth: one column is shifted (goal: that column is named within 120 s).

Status and gauges are read from `/metrics` every few seconds, as by Prometheus. At the end of each of the
first two phases the confirmed share is compared with that of 20,000 other rows, measured in this process.
Results are written as they are known.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import l2x
from l2x_experiments.records import Records, measured_here

COLUMNS, K, ROWS_PER_SECOND, ROWS = 10, 2, 160, 8
# The share of rows that is verified: 16 per second, of which the budget grants 10.
SHARE, BUDGET = 0.1, 600
SHIFTED, SHIFT = 7, 1.5
EVERY = 5.0  # seconds between two looks at the metrics
MIB = 1 << 20
# The served model: the first or the second tree ensemble, by whether a file exists.
MODEL = """
from pathlib import Path
import lightgbm, numpy as np
here = Path(__file__).parent
models = [lightgbm.Booster(model_file=here / f"{i}.txt") for i in range(2)]
def model(X):
    p = models[(here / "swapped").exists()].predict(np.asarray(X), num_threads=1)
    return np.stack([1 - p, p], axis=1)
"""
GAUGE = re.compile(r"^(l2x_[a-z_]+|process_[a-z_]+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


@dataclass
class Watch:
    """What was seen of one service, with the time of each look in seconds since the start."""

    looks: list[dict[str, Any]] = field(default_factory=list)

    def between(self, start: float, end: float) -> list[dict[str, Any]]:
        """Return the looks of a part of the time."""
        return [look for look in self.looks if start <= look["at"] < end]

    def first(self, start: float, end: float, wanted: Any) -> float:
        """Return how long after `start` a look was first as wanted; infinite if never."""
        times = [look["at"] - start for look in self.between(start, end) if wanted(look)]
        return min(times, default=float("inf"))


def make(folder: Path) -> l2x.Explainer:
    """Save two models and an explainer of the first, and return it."""
    from lightgbm import LGBMClassifier

    X = rows(4000, 0)
    for i, (a, b) in enumerate([(0, 1), (2, 3)]):
        y = X[:, a] * X[:, b] + 0.2 * X[:, 4:7].sum(axis=1) > 0  # two features do not decide every row
        trees = LGBMClassifier(random_state=0, n_jobs=1, verbose=-1).fit(X, y)
        trees.booster_.save_model(folder / f"{i}.txt")
    (folder / "soak_model.py").write_text(MODEL)
    sys.path.insert(0, str(folder))
    import soak_model  # type: ignore[import-not-found]

    explainer = l2x.Explainer(soak_model.model, K).fit(X)
    explainer.save(folder / "it.l2x")
    return explainer


def rows(n: int, seed: int) -> np.ndarray:
    """Return rows of normal numbers."""
    return np.random.default_rng(seed).normal(size=(n, COLUMNS))


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, int]]:
    """Start `l2x serve`; yield host and port, and the process id."""
    command = [sys.executable, "-m", "l2x.apps.cli", "serve", "it.l2x", "--model", "soak_model:model"]
    command += ["--watch", str(SHARE), "--watch-rows", str(BUDGET), "--port", "0"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[1].removeprefix("http://"), process.pid
    finally:
        process.terminate()
        process.wait(60)


def look(address: str, process: int, started: float) -> dict[str, Any]:
    """Read metrics, memory and processor time of the service."""
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    found = {(name, labels): float(value) for name, labels, value in GAUGE.findall(text)}
    status = [labels for (name, labels), value in found.items() if name == "l2x_watch_status" and value]
    psi = {
        re.search('column="(.*?)"', labels)[1]: value  # type: ignore[index]
        for (name, labels), value in found.items()
        if name == "l2x_watch_psi" and 'role="input"' in labels
    }
    one = {name: value for (name, labels), value in found.items() if labels == 'explainer="it"'}
    verified = sum(value for (name, _), value in found.items() if name == "l2x_watch_rows_total")
    memory = Path(f"/proc/{process}/statm").read_text().split()[1]
    ticks = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return {
        "at": time.monotonic() - started,
        "status": re.search('status="(.*?)"', status[0])[1] if status else "waiting",  # type: ignore[index]
        "confirmed": one.get("l2x_watch_confirmed_share"),
        "low": one.get("l2x_watch_confirmed_share_low"),
        "high": one.get("l2x_watch_confirmed_share_high"),
        "expected": one.get("l2x_watch_expected_share"),
        "age": one["l2x_explainer_age_seconds"],
        "verified": verified,
        "psi": psi,
        "mib": int(memory) * os.sysconf("SC_PAGE_SIZE") / MIB,
        "cpu": sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"),
    }


def send(address: str, started: float, until: float, watch: Watch, process: int, *, shift: float) -> int:
    """Send rows at the pace until a moment, and look at the metrics; return the requests without a 200."""
    failed, rng = 0, np.random.default_rng()
    offset = np.zeros(COLUMNS)
    offset[SHIFTED] = shift
    turn = next_look = time.monotonic()
    connection = http.client.HTTPConnection(address, timeout=30)
    while turn < started + until:
        body = json.dumps({"rows": (rng.normal(size=(ROWS, COLUMNS)) + offset).round(4).tolist()})
        time.sleep(max(0.0, turn - time.monotonic()))
        turn += ROWS / ROWS_PER_SECOND
        try:
            connection.request(
                "POST", "/v1/explainers/it/explain", body, {"Content-Type": "application/json"}
            )
            response = connection.getresponse()
            failed += response.status != 200
            response.read()
        except OSError:
            failed += 1
            connection.close()
        if turn >= next_look:
            watch.looks.append(look(address, process, started))
            next_look = turn + EVERY
    connection.close()
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--output", type=Path, default=Path("results/soak.json"))
    options = parser.parse_args()
    options.output.unlink(missing_ok=True)
    records, note = Records.load(options.output), measured_here() | {"minutes": options.minutes}

    def record(measure: str, value: float, goal: float | None, holds: bool | None) -> None:
        shown = {True: "holds", False: "FAILS", None: "     "}[holds]
        print(f"{shown}  {value:8.3f}  {measure}", flush=True)
        finite = round(value, 3) if np.isfinite(value) else None
        records.add(
            [
                {
                    "measure": measure,
                    "value": finite,
                    "goal": goal,
                    "holds": None if holds is None else bool(holds),
                }
                | note
            ]
        )

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        explainer = make(folder)
        known = rows(20_000, 1)
        share = [explainer.score(known)]
        (folder / "swapped").touch()
        share.append(explainer.score(known))
        (folder / "swapped").unlink()
        print(f"confirmed by the first model {share[0]:.3f}, by the second {share[1]:.3f}", flush=True)
        with serving(folder) as (address, process):
            run(options.minutes * 60, folder, address, process, share, explainer, record)
            quiet = (folder / "log").read_text()
        lines = [json.loads(line) for line in quiet.splitlines()]
        record("lines in the log other than requests and watch", *quiet_goal(lines))


def quiet_goal(lines: list[dict[str, Any]]) -> tuple[float, float, bool]:
    """Return the number of other lines, the goal, and whether it is reached."""
    others = sum(line["event"] not in ("request", "watch") for line in lines)
    return float(others), 0.0, others == 0


def run(
    seconds: float,
    folder: Path,
    address: str,
    process: int,
    share: list[float],
    explainer: l2x.Explainer,
    record: Any,
) -> None:
    """Run the four phases, and record what each has shown."""
    watch, started, failed = Watch(), time.monotonic(), 0
    ends = [seconds / 3, 2 * seconds / 3, 5 * seconds / 6, seconds]

    def phase(number: int, shift: float = 0.0) -> None:
        nonlocal failed
        failed += send(address, started, ends[number], watch, process, shift=shift)
        at = watch.looks[-1]
        confirmed = at["confirmed"]
        print(f"{at['at']:6.0f} s  {at['status']}  {confirmed}  {at['mib']:.1f} MiB", flush=True)

    def close(look: dict[str, Any], truth: float) -> float:
        """Return how many standard errors of 1,000 rows the gauge is away from the truth."""
        error = float(np.sqrt(truth * (1 - truth) / 1000 + 1e-9))
        return abs(look["confirmed"] - truth) / error

    phase(0)
    before = watch.between(0, ends[0])
    alarms = sum(look["status"] not in ("valid", "waiting") for look in before)
    record("looks in the first third that were not valid", alarms, 0, alarms == 0)
    distance = close(before[-1], share[0])
    record("confirmed share, standard errors from the true one", distance, 4, distance <= 4)
    largest = max(before[-1]["psi"].values())
    record(
        "largest PSI of unchanged columns", largest, 0.2, largest < 0.2 and len(before[-1]["psi"]) == COLUMNS
    )

    (folder / "swapped").touch()
    phase(1)
    stale = watch.first(ends[0], ends[1], lambda look: look["status"] == "stale")
    record("seconds until another model is called stale", stale, 120, stale <= 120)
    swapped = watch.between(ends[0], ends[1])
    later = [look["status"] for look in swapped if look["at"] >= ends[0] + stale]
    record(
        "looks after that which were not stale", sum(s != "stale" for s in later), 0, set(later) == {"stale"}
    )
    distance = close(swapped[-1], share[1])
    record("confirmed share after the change, standard errors from the true one", distance, 4, distance <= 4)

    (folder / "swapped").unlink()
    phase(2)
    valid = watch.first(ends[1], ends[2], lambda look: look["status"] == "valid")
    record("seconds until the first model is valid again", valid, 240, valid <= 240)

    phase(3, SHIFT)
    found = watch.first(ends[2], ends[3], lambda look: look["psi"][f"x{SHIFTED}"] >= 0.2)
    record("seconds until the PSI of a shifted column is 0.2", found, 120, found <= 120)
    others = max(psi for name, psi in watch.looks[-1]["psi"].items() if name != f"x{SHIFTED}")
    record("largest PSI of the other columns", others, 0.2, others < 0.2)

    # The first tenth is warming up.
    memory = [look["mib"] for look in watch.between(seconds / 10, seconds)]
    grown = max(memory) - memory[0]
    record("memory growth after the first tenth, in MiB", grown, 20, grown < 20)
    record("memory of the service, in MiB", memory[-1], None, None)
    first, last = watch.looks[0], watch.looks[-1]
    passed = last["at"] - first["at"]
    rate = 60 * (last["verified"] - first["verified"]) / passed
    record("verified rows per minute", rate, BUDGET, rate <= BUDGET + 60 * BUDGET / 6 / passed)
    load = (last["cpu"] - first["cpu"]) / passed
    record("processor time of the service per second", load, 0.5, load < 0.5)
    fitted = explainer.fitted_at_
    assert fitted is not None
    wrong = abs(last["age"] - (time.time() - fitted.timestamp()))
    record("error of the explainer's age, in seconds", wrong, 10, wrong <= 10)
    expected = explainer.check_.by_model
    assert expected is not None
    wrong = abs(last["expected"] - (expected.confirmed or 0))
    record("error of the expected share", wrong, 0, wrong < 1e-9)
    record("requests without a response 200", failed, 0, failed == 0)


if __name__ == "__main__":
    main()
