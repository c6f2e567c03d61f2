"""The runner: does the jobs whose records a results file does not hold yet, in one or several processes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import torch

from l2x._base.progress import progress_bar
from l2x.errors import InputError
from l2x_experiments.records import Record, Records

# Per process: times are comparable, and processes do not compete for the cores.
THREADS = 1


@dataclass(frozen=True)
class Job:
    """One record to measure.

    Attributes
    ----------
    key : the entries that tell its record from all others in the file
    label : for the progress bar
    group : jobs with the same group share a setting: they are done in their order, in one process
    """

    key: Mapping[str, Any]
    label: str
    group: Hashable

    def __getitem__(self, name: str) -> Any:
        return self.key[name]


@dataclass(frozen=True)
class Experiment:
    """What the runner has to know.

    Attributes
    ----------
    name : its records are in <name>.json
    measure : from the jobs of one group to their records, one by one; picklable, for other processes
    fetch : brings the data that jobs need, before they need them; its argument: show progress
    prepare : done before the jobs if there are several processes, which would otherwise all train the same
        models and judges: whatever fills the cache; picklable
    belongs : the entries of those records of the file that are of this run's budget
    """

    name: str
    jobs: Sequence[Job]
    measure: Callable[[Sequence[Job]], Iterable[Record]]
    fetch: Callable[[bool], object] = lambda progress: None
    prepare: Sequence[Callable[[], object]] = ()
    belongs: Mapping[str, Any] = field(default_factory=dict)


def run(experiment: Experiment, folder: Path, *, processes: int = 1, progress: bool = True) -> Records:
    """Do the jobs that are still to do; returns the records of this run's budget, old and new.

    Each record is written as it comes; with several processes, when its group is done.
    """
    records = Records.load(folder / f"{experiment.name}.json")
    todo = [job for job in experiment.jobs if not records.has(**job.key)]
    groups: dict[Hashable, list[Job]] = {}
    for job in todo:
        groups.setdefault(job.group, []).append(job)
    if todo:
        experiment.fetch(progress)
        measured = _in_processes if processes > 1 else _in_this_process
        with progress_bar(experiment.name, len(todo), visible=progress) as advance:
            advance(0, "models and judges" if experiment.prepare else todo[0].label)
            done = 0
            with closing(measured(experiment, list(groups.values()), processes)) as results:
                for jobs, new in results:
                    records.add(new)
                    done += len(new)
                    advance(done, jobs[-1].label)
    return records.select(**experiment.belongs)


def only_methods(jobs: Sequence[Job], only: Sequence[str] | None) -> list[Job]:
    """The jobs of the contenders that were asked for; all if none was."""
    known = dict.fromkeys(job["method"] for job in jobs)
    if unknown := sorted(set(only or ()) - set(known)):
        raise InputError(f"There is no method {unknown[0]!r}; choose among {', '.join(known)}.")
    return [job for job in jobs if not only or job["method"] in only]


Measured = Generator[tuple[Sequence[Job], Sequence[Record]], None, None]


def _in_this_process(experiment: Experiment, groups: Sequence[Sequence[Job]], _: int) -> Measured:
    torch.set_num_threads(THREADS)
    for jobs in groups:
        for record in experiment.measure(jobs):
            yield jobs, [record]


def _in_processes(experiment: Experiment, groups: Sequence[Sequence[Job]], processes: int) -> Measured:
    others = set(active_children())
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=torch.set_num_threads, initargs=(THREADS,)
    ) as pool:
        try:
            for prepared in [pool.submit(_done, prepare) for prepare in experiment.prepare]:
                prepared.result()
            running = {pool.submit(_listed, experiment.measure, jobs): jobs for jobs in groups}
            for future in as_completed(running):
                yield running[future], future.result()
        except BaseException:  # an error, Ctrl-C, SIGTERM: not after hours of what is waiting or under way
            for worker in set(active_children()) - others:
                worker.terminate()
            # The pool's own thread reaps its workers: this waits for it. A second thread that joined them
            # would compete with it, and might return before a worker is known to be dead.
            pool.shutdown(cancel_futures=True)
            raise


def _done(prepare: Callable[[], object]) -> None:
    """What it returns stays where it is: a setting cannot be sent to another process."""
    prepare()


def _listed(measure: Callable[[Sequence[Job]], Iterable[Record]], jobs: Sequence[Job]) -> list[Record]:
    return list(measure(jobs))
