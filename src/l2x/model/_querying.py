"""How many rows to ask about at once: few at first, then about a second's worth."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import cloudpickle
import numpy as np

from l2x._base.arrays import Array, batches, take
from l2x._base.progress import progress_bar
from l2x.errors import BlackBoxError, InputError
from l2x.model._black_box import BlackBox

# Enough to see how fast a model is, few enough to lose if it is slow.
FIRST_ROWS = 8
# Of one batch: progress is seen, and an interruption costs no more.
SECONDS = 1.0
# A batch may be this many times the one before: the first answer may have come from a cache.
GROWTH = 8


@dataclass
class Pace:
    """Rows of the next batch, at most `most`.

    Sizes are powers of two, so that the same model is mostly asked in the same batches: some models answer
    differently in the last digits if they are asked about more rows at once.

    >>> pace = Pace(most=8192)
    >>> pace.rows
    8
    >>> pace.took(8, seconds=0.1)
    >>> pace.rows
    64
    >>> pace.took(64, seconds=4.0)
    >>> pace.rows
    16
    """

    most: int
    rows: int = field(init=False)

    def __post_init__(self) -> None:
        self.rows = min(FIRST_ROWS, self.most)

    def took(self, rows: int, seconds: float) -> None:
        """A batch of `rows` took that long."""
        in_time = rows * SECONDS / max(seconds, 1e-9)
        wanted = min(int(in_time), GROWTH * max(rows, self.rows))
        power = 1 << max(0, wanted.bit_length() - 1)
        self.rows = min(power, self.most)


# What the model said, before it was checked, and how many seconds that took.
Said = tuple[Array, float]
Submit = Callable[[Any], Future[Said]]

_model: BlackBox | None = None  # of a worker process


@contextmanager
def workers(black_box: BlackBox, processes: int = 1) -> Iterator[tuple[Submit, int]]:
    """`submit(inputs)`, and how many batches it works on at a time."""
    if processes > 1:
        others = _processes(black_box, processes)
        with _closed(others, black_box):
            yield lambda inputs: others.submit(_ask_here, inputs), processes
    elif black_box.in_flight > 1:
        pool = ThreadPoolExecutor(black_box.in_flight, thread_name_prefix="asking")
        with _closed(pool, black_box):
            yield lambda inputs: pool.submit(_timed, black_box, inputs), black_box.in_flight
    else:
        yield lambda inputs: _at_once(black_box, inputs), 1


def said(future: Future[Said]) -> Said:
    """The outcome; a worker that died is an error of the model."""
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise BlackBoxError(f"A process that asked the model died: {error}") from error


def _at_once(black_box: BlackBox, inputs: Any) -> Future[Said]:
    future: Future[Said] = Future()
    try:
        future.set_result(_timed(black_box, inputs))
    except BlackBoxError as error:  # an interruption goes straight through
        future.set_exception(error)
    return future


def _timed(black_box: BlackBox, inputs: Any) -> Said:
    started = time.perf_counter()
    output = black_box.request(inputs)
    return output, time.perf_counter() - started


@contextmanager
def _closed(pool: Executor, black_box: BlackBox) -> Iterator[None]:
    """After an interruption nothing new begins, and nobody waits for what is under way."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        black_box.interrupt()  # or the interpreter, which waits for its threads, could not end for minutes
        raise
    pool.shutdown()


def _processes(black_box: BlackBox, processes: int) -> Executor:
    """Worker processes with interpreters of their own; functions of `__main__` and lambdas travel, too."""
    try:
        model = cloudpickle.dumps(black_box)
    except Exception as error:
        raise InputError(
            f"processes is {processes}, but {black_box.name} cannot be sent to another process: {error}"
        ) from error
    # Not a fork, which would copy locks that other threads hold.
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(processes, spawn, initializer=_receive, initargs=(model, list(sys.path)))


def _receive(model: bytes, path: list[str]) -> None:
    global _model
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.path[:] = path
    _model = cloudpickle.loads(model)


def _end_with_parent() -> None:
    """A parent that was killed cannot end its workers."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)


def _ask_here(inputs: Any) -> Said:
    assert _model is not None
    return _timed(_model, inputs)


Keep = Callable[["Part", Array], None]
Known = Callable[["Part"], Array]


@dataclass(frozen=True)
class Part:
    """Rows next to each other: where the first stands, and the inputs, raw and as the model reads them."""

    first: int
    raw: Any
    inputs: Any

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, rows: slice) -> Part:
        raw = take(self.raw, rows)
        inputs = raw if self.inputs is self.raw else take(self.inputs, rows)
        return Part(self.first + rows.start, raw, inputs)


def ask_about(
    black_box: BlackBox,
    blocks: Iterable[Part],
    keep: Keep,
    *,
    most: int,
    known: Known | None = None,
    processes: int = 1,
) -> int:
    """Query the model for every row, at most `most` at once; return the number of all rows.

    Rows for which `known(part)` is True are skipped. `keep(part, predictions)` is called as soon as a part is
    done, in any order. An error names its rows; it is raised after the batches that were under way are kept.
    """
    asked = _Asked(black_box, keep, Pace(min(most, black_box.most_rows or most)))
    total = 0

    def counted() -> Iterator[Part]:
        nonlocal total
        for block in blocks:
            total = block.first + len(block)
            yield block

    with workers(black_box, processes) as (submit, at_a_time):
        for part in _batches(counted(), known, asked.pace):
            asked.collect(until=at_a_time)
            if asked.error is not None:
                break
            asked.waiting[submit(part.inputs)] = part
        asked.collect(until=1)
    if asked.error is not None:
        raise asked.error
    return total


class ModelInputs(Protocol):
    """What querying needs to know about a view: how it takes rows, and in which form the model reads them."""

    rows_at_once: ClassVar[int]

    def take(self, X: Any, rows: Any) -> Any: ...

    def for_model(self, X: Any) -> Any: ...


def query(black_box: BlackBox, view: ModelInputs, X: Any, *, progress: bool = False) -> Array:
    """Return P_m(y|x) for every row of checked inputs, (n, outputs)."""
    if not len(X):
        raise InputError("There are no rows to query the model for.")
    parts: dict[int, Array] = {}
    done = 0
    with progress_bar("querying the model", len(X), visible=progress) as advance:

        def keep(part: Part, predictions: Array) -> None:
            nonlocal done
            parts[part.first] = predictions
            done += len(part)
            advance(done, f"{done:,} rows")

        ask_about(black_box, view_parts(view, X), keep, most=view.rows_at_once)
    return np.concatenate([parts[first] for first in sorted(parts)])


def view_parts(view: ModelInputs, X: Any) -> Iterator[Part]:
    """Yield checked inputs together with the form in which the model reads them."""
    for rows in batches(len(X), view.rows_at_once):
        raw = view.take(X, rows)
        yield Part(rows.start, raw, view.for_model(raw))


class _Asked:
    """Parts that were asked about, and what came of them."""

    def __init__(self, black_box: BlackBox, keep: Keep, pace: Pace) -> None:
        self.black_box, self.keep, self.pace = black_box, keep, pace
        self.waiting: dict[Future[Said], Part] = {}
        self.error: BlackBoxError | None = None
        self.width: int | None = None

    def collect(self, *, until: int) -> None:
        """Keep what is answered; wait until fewer than `until` parts are under way."""
        while len(self.waiting) >= until:
            done, _ = wait(self.waiting, return_when=FIRST_COMPLETED)
            for future in done:
                part = self.waiting.pop(future)
                try:
                    self._take(part, *said(future))
                except BlackBoxError as error:
                    self.error = self.error or _about(part, error)

    def _take(self, part: Part, output: Array, seconds: float) -> None:
        answers = self.black_box.accept(output, len(part))
        self.width = self.width or answers.shape[1]
        if answers.shape[1] != self.width:
            widths = sorted([self.width, answers.shape[1]])
            raise BlackBoxError(f"{self.black_box.name} returned {widths} columns in different batches.")
        self.pace.took(len(part), seconds)
        self.keep(part, answers)


def _about(part: Part, error: BlackBoxError) -> BlackBoxError:
    last = part.first + len(part) - 1
    rows = f"Row {part.first:,}" if len(part) == 1 else f"Rows {part.first:,} to {last:,}"
    told = BlackBoxError(f"{rows}: {error}")
    told.__cause__ = error.__cause__ or error
    return told


def _batches(blocks: Iterable[Part], known: Known | None, pace: Pace) -> Iterator[Part]:
    """Yield the rows that are not known, in batches of the size that the pace allows by then."""
    for block in blocks:
        done = np.zeros(len(block), dtype=bool) if known is None else known(block)
        # Where runs of open rows begin and end.
        edges = np.flatnonzero(np.diff(done, prepend=True, append=True))
        for start, stop in edges.reshape(-1, 2):
            at = int(start)
            while at < stop:
                end = min(at + pace.rows, int(stop))
                yield block[at:end]
                at = end
