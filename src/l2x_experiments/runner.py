"""The runner: measures the jobs whose records are not on file yet, in one or several processes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import torch

from l2x._base import progress_bar
from l2x.errors import InputError
from l2x_experiments.records import Record, Records

# Per process: times are comparable, and processes do not compete for the cores.
THREADS = 1


@dataclass(frozen=True)
class Job:
    """One record to measure.

    Attributes
    ----------
    key : Mapping
        The entries that distinguish its record from all others in the file.
    label : str
        Text for the progress bar.
    group : Hashable
        Jobs with the same group share a setting: one process measures them, in their order.
    """

    key: Mapping[str, Any]
    label: str
    group: Hashable

    def __getitem__(self, name: str) -> Any:
        return self.key[name]


@dataclass(frozen=True)
class Experiment:
    """What the runner needs.

    Attributes
    ----------
    name : str
        Its records are in <name>.json.
    jobs : Sequence[Job]
        Everything that could be measured.
    measure : callable
        Takes the jobs of one group and yields their records. Picklable, for other processes.
    fetch : callable
        Downloads the data before the jobs start. Its argument: whether to show progress.
    prepare : Sequence of callables
        Run before the jobs if there are several processes, to fill the cache: otherwise every process would
        train the same models and evaluators. Picklable.
    belongs : Mapping
        Entries that the records of this run's budget have; the file may hold other budgets, too.
    """

    name: str
    jobs: Sequence[Job]
    measure: Callable[[Sequence[Job]], Iterable[Record]]
    fetch: Callable[[bool], object] = lambda progress: None
    prepare: Sequence[Callable[[], object]] = ()
    belongs: Mapping[str, Any] = field(default_factory=dict)


def run(experiment: Experiment, folder: Path, *, processes: int = 1, progress: bool = True) -> Records:
    """Measure the jobs that are not on file; return all records of this run's budget, old and new.

    A record is written as soon as it is measured; with several processes, when its group is done.
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
            advance(0, "models and evaluators" if experiment.prepare else todo[0].label)
            done = 0
            with closing(measured(experiment, list(groups.values()), processes)) as results:
                for jobs, new in results:
                    records.add(new)
                    done += len(new)
                    advance(done, jobs[-1].label)
    return records.select(**experiment.belongs)


def only_methods(jobs: Sequence[Job], only: Sequence[str] | None) -> list[Job]:
    """Return the jobs of the methods in `only`, or all jobs if it is empty.

    Raises
    ------
    InputError
        If no job has one of the methods.
    """
    names = dict.fromkeys(job["method"] for job in jobs)
    if unknown := sorted(set(only or ()) - set(names)):
        raise InputError(f"There is no method {unknown[0]!r}; choose among {', '.join(names)}.")
    return [job for job in jobs if not only or job["method"] in only]


Measured = Generator[tuple[Sequence[Job], Sequence[Record]], None, None]


def _in_this_process(experiment: Experiment, groups: Sequence[Sequence[Job]], _: int) -> Measured:
    torch.set_num_threads(THREADS)
    for jobs in groups:
        for record in experiment.measure(jobs):
            yield jobs, [record]


def _in_processes(experiment: Experiment, groups: Sequence[Sequence[Job]], processes: int) -> Measured:
    unrelated = set(active_children())
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=torch.set_num_threads, initargs=(THREADS,)
    ) as pool:
        try:
            for prepared in [pool.submit(_call, prepare) for prepare in experiment.prepare]:
                prepared.result()
            running = {pool.submit(_listed, experiment.measure, jobs): jobs for jobs in groups}
            for future in as_completed(running):
                yield running[future], future.result()
        except BaseException:  # an error, Ctrl-C, SIGTERM: stop now, not when the waiting jobs are done
            for worker in set(active_children()) - unrelated:
                worker.terminate()
            # Waits for the pool's own thread, which reaps the workers. A second thread that joined them
            # would compete with it, and might return before a worker is known to be dead.
            pool.shutdown(cancel_futures=True)
            raise


def _call(prepare: Callable[[], object]) -> None:
    """Call without returning the result: a setting cannot be sent to another process."""
    prepare()


def _listed(measure: Callable[[Sequence[Job]], Iterable[Record]], jobs: Sequence[Job]) -> list[Record]:
    return list(measure(jobs))
