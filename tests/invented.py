"""An experiment that tests invented: measured at once, and importable by the processes of the runner."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from l2x_experiments.records import Record, measured_here
from l2x_experiments.runner import Experiment, Job

METHODS = ("good", "bad")


def experiment(
    log: Path, *, seeds: int = 2, broken: int | None = None, endless: int | None = None, rows: int = 10
) -> Experiment:
    """Each seed is a group. The log gets a line for every group and for the preparation; the seed `broken`
    fails at its second job, and the seed `endless` takes an hour."""
    jobs = [
        Job({"method": method, "seed": seed, "rows": rows}, f"{method}, seed {seed}", group=seed)
        for seed in range(seeds)
        for method in METHODS
    ]
    return Experiment(
        "invented",
        jobs,
        partial(measure, log=log, broken=broken, endless=endless),
        prepare=[partial(prepare, log)],
        belongs={"rows": rows},
    )


def measure(jobs: Sequence[Job], log: Path, broken: int | None, endless: int | None) -> Iterator[Record]:
    note(log, f"seed {jobs[0]['seed']}")
    if jobs[0]["seed"] == endless:
        time.sleep(3600)
    for job in jobs:
        if job["seed"] == broken and job["method"] == METHODS[1]:
            raise ValueError("this seed is broken")
        score = (0.9 if job["method"] == "good" else 0.5) + 0.1 * job["seed"]
        yield {**job.key, "score": score, "process": os.getpid(), **measured_here()}


def prepare(log: Path) -> Callable[[], object]:
    note(log, "prepared")
    return lambda: "what no other process can be sent"


def note(log: Path, line: str) -> None:
    with log.open("a") as file:
        file.write(f"{line}\n")
