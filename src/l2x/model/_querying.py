"""Querying the model: in batches of about a second, in parallel, within a limit, and no masked row twice."""

from __future__ import annotations

import math
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from datetime import timedelta
from typing import Any, Protocol

import cloudpickle
import numpy as np

from l2x._base import progress_bar, say
from l2x._base.arrays import Array, batches, is_whole, take
from l2x.errors import BlackBoxError, InputError
from l2x.model._black_box import BlackBox
from l2x.model._endpoint import Endpoint
from l2x.model._transformers import Scores

# Rows of the first batch: enough to measure a model's speed, few enough to lose if it is slow.
FIRST_ROWS = 8
# The duration of a batch: short enough to show progress and to interrupt.
SECONDS = 1.0
# A batch may be this many times larger than the one before: the first prediction may come from a cache.
GROWTH = 8
# Predictions that `Memory` holds: a few megabytes for a few classes.
SLOTS = 1 << 19
# The default limit for a remote model, which may be slow, shared or paid for, and for a transformer.
REMOTE, TRANSFORMER = 1 << 14, 1 << 16
# Training leaves an eighth of a default limit to the self-check, or as many rows as the self-check can use.
RESERVED, MOST_RESERVED = 8, 1 << 13
# Queries that may take more seconds than this are announced.
LONG = 10.0


class ModelInputs(Protocol):
    """The part of a view that querying needs: `View.take` and `View.for_model`."""

    rows_at_once: int

    def take(self, X: Any, rows: Any) -> Any:
        """Return rows of checked inputs."""

    def for_model(self, X: Any) -> Any:
        """Return checked inputs as the model reads them."""


@dataclass(frozen=True)
class Part:
    """Consecutive rows: the position of the first, and the inputs, raw and as the model reads them."""

    first: int
    raw: Any
    inputs: Any

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, rows: slice) -> Part:
        raw = take(self.raw, rows)
        inputs = raw if self.inputs is self.raw else take(self.inputs, rows)
        return Part(self.first + rows.start, raw, inputs)


# Called with a part and its predictions.
Store = Callable[[Part, Array], None]
# Returns which rows of a part need no query, (n,) booleans.
Stored = Callable[[Part], Array]


def query(black_box: BlackBox, view: ModelInputs, X: Any, *, progress: bool = False) -> Array:
    """Return P_m(y|x) for every row of checked inputs, (n, outputs)."""
    if not len(X):
        raise InputError("There are no rows to query the model for.")
    parts: dict[int, Array] = {}
    done = 0
    with progress_bar("querying the model", len(X), visible=progress) as advance:

        def store(part: Part, predictions: Array) -> None:
            nonlocal done
            parts[part.first] = predictions
            done += len(part)
            advance(done, f"{done:,} rows")

        query_parts(black_box, view_parts(view, X), store, most=view.rows_at_once)
    return np.concatenate([parts[first] for first in sorted(parts)])


def view_parts(view: ModelInputs, X: Any) -> Iterator[Part]:
    """Yield checked inputs together with the form in which the model reads them."""
    for rows in batches(len(X), view.rows_at_once):
        raw = view.take(X, rows)
        yield Part(rows.start, raw, view.for_model(raw))


def query_parts(
    black_box: BlackBox,
    blocks: Iterable[Part],
    store: Store,
    *,
    most: int,
    stored: Stored | None = None,
    processes: int = 1,
) -> int:
    """Query the model for every row, at most `most` at once; return the number of all rows.

    Rows that are already `stored` are skipped. `store(part, predictions)` is called as soon as a part is
    done, in any order. An error names its rows; it is raised after the batches under way are stored.
    """
    queue = _Queue(black_box, store, Pace(min(most, black_box.most_rows or most)))
    total = 0

    def counted() -> Iterator[Part]:
        nonlocal total
        for block in blocks:
            total = block.first + len(block)
            yield block

    with workers(black_box, processes) as (submit, at_a_time):
        for part in _open_parts(counted(), stored, queue.pace):
            queue.collect(until=at_a_time)
            if queue.error is not None:
                break
            queue.waiting[submit(part.inputs)] = part
        queue.collect(until=1)
    if queue.error is not None:
        raise queue.error
    return total


def _open_parts(blocks: Iterable[Part], stored: Stored | None, pace: Pace) -> Iterator[Part]:
    """Yield the rows that are not stored, in batches of the size that the pace allows by then."""
    for block in blocks:
        done = np.zeros(len(block), dtype=bool) if stored is None else stored(block)
        # Where runs of open rows begin and end.
        edges = np.flatnonzero(np.diff(done, prepend=True, append=True))
        for start, stop in edges.reshape(-1, 2):
            at = int(start)
            while at < stop:
                end = min(at + pace.rows, int(stop))
                yield block[at:end]
                at = end


class _Queue:
    """Parts that workers have, and the first error."""

    def __init__(self, black_box: BlackBox, store: Store, pace: Pace) -> None:
        self.black_box, self.store, self.pace = black_box, store, pace
        self.waiting: dict[Future[Outcome], Part] = {}
        self.error: BlackBoxError | None = None
        self.width: int | None = None

    def collect(self, *, until: int) -> None:
        """Store finished parts; wait until fewer than `until` are under way."""
        while len(self.waiting) >= until:
            done, _ = wait(self.waiting, return_when=FIRST_COMPLETED)
            for future in done:
                part = self.waiting.pop(future)
                try:
                    self._take(part, *outcome(future))
                except BlackBoxError as error:
                    self.error = self.error or _with_rows(error, part)

    def _take(self, part: Part, output: Array, seconds: float) -> None:
        predictions = self.black_box.accept(output, len(part))
        self.width = self.width or predictions.shape[1]
        if predictions.shape[1] != self.width:
            widths = sorted([self.width, predictions.shape[1]])
            raise BlackBoxError(f"{self.black_box.name} returned {widths} columns in different batches.")
        self.pace.took(len(part), seconds)
        self.store(part, predictions)


def _with_rows(error: BlackBoxError, part: Part) -> BlackBoxError:
    """Return the error with the rows that it is about."""
    last = part.first + len(part) - 1
    rows = f"Row {part.first:,}" if len(part) == 1 else f"Rows {part.first:,} to {last:,}"
    named = BlackBoxError(f"{rows}: {error}")
    named.__cause__ = error.__cause__ or error
    return named


@dataclass
class Pace:
    """The number of rows of the next batch, at most `most`.

    Sizes are powers of two, so that a model mostly gets the same batches: predictions of some models differ
    in the last digits if a batch has another size.

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
        """Set the next size, given that a batch of `rows` took `seconds`."""
        in_time = rows * SECONDS / max(seconds, 1e-9)
        wanted = min(int(in_time), GROWTH * max(rows, self.rows))
        power = 1 << max(0, wanted.bit_length() - 1)
        self.rows = min(power, self.most)


# The model's unchecked output, and the seconds that it took.
Outcome = tuple[Array, float]
Submit = Callable[[Any], Future[Outcome]]

_model: BlackBox | None = None  # in a worker process


@contextmanager
def workers(black_box: BlackBox, processes: int = 1) -> Iterator[tuple[Submit, int]]:
    """Yield `submit(inputs)`, and the number of batches that it works on at a time."""
    if processes > 1:
        pool: Executor = _processes(black_box, processes)
        with _closing(pool, black_box):
            yield lambda inputs: pool.submit(_query_here, inputs), processes
    elif black_box.in_flight > 1:
        pool = ThreadPoolExecutor(black_box.in_flight, thread_name_prefix="l2x-query")
        with _closing(pool, black_box):
            yield lambda inputs: pool.submit(_timed, black_box, inputs), black_box.in_flight
    else:
        yield lambda inputs: _at_once(black_box, inputs), 1


def outcome(future: Future[Outcome]) -> Outcome:
    """Return what a worker returned; a worker that died is a BlackBoxError."""
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise BlackBoxError(f"A process that queried the model died: {error}") from error


def _at_once(black_box: BlackBox, inputs: Any) -> Future[Outcome]:
    future: Future[Outcome] = Future()
    try:
        future.set_result(_timed(black_box, inputs))
    except BlackBoxError as error:  # an interruption is not caught
        future.set_exception(error)
    return future


def _timed(black_box: BlackBox, inputs: Any) -> Outcome:
    started = time.perf_counter()
    output = black_box.request(inputs)
    return output, time.perf_counter() - started


@contextmanager
def _closing(pool: Executor, black_box: BlackBox) -> Iterator[None]:
    """Shut the pool down; after an error, without waiting for what is under way."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        black_box.interrupt()  # otherwise the interpreter would wait minutes for its threads at exit
        raise
    pool.shutdown()


def _processes(black_box: BlackBox, processes: int) -> Executor:
    """Return worker processes, each with a copy of the model, which may be a lambda or live in `__main__`."""
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
    """End this worker when its parent ends: a killed parent cannot do so."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)


def _query_here(inputs: Any) -> Outcome:
    assert _model is not None
    return _timed(_model, inputs)


def checked_queries(queries: Any) -> int | timedelta | None:
    """Return a number of rows, a time limit, or None for the default limit; refuse anything else."""
    if queries is None or (isinstance(queries, timedelta) and queries >= timedelta(0)):
        return queries
    # numpy registers timedelta64 as an integer.
    if isinstance(queries, np.timedelta64) or not is_whole(queries, least=0) or queries >= 2**63:
        shown = f"{queries!r}"[:40]
        raise InputError(
            f"queries is {shown}; expected a number of rows, 0 or more, a datetime.timedelta that is not "
            "negative, or None."
        )
    return int(queries)


def default_queries(most: int, predict: Any, *, brought: bool) -> int:
    """Return the default limit: less for an endpoint or a transformer, none if predictions were brought."""
    if brought:
        return 0
    if isinstance(predict, Endpoint):
        return min(most, REMOTE)
    return min(most, TRANSFORMER) if isinstance(predict, Scores) else most


def without_reserve(rows: int) -> int:
    """Return the part of a default limit that training may use."""
    return rows - min(rows // RESERVED, MOST_RESERVED)


def rows_within(limit: int | timedelta, seconds_per_row: float | None) -> int:
    """Return the number of rows that a limit allows, for a model that takes `seconds_per_row`."""
    if not isinstance(limit, timedelta):
        return limit
    assert seconds_per_row is not None
    return int(limit.total_seconds() / max(seconds_per_row, 1e-9))


def per_call(rows: int, calls: Sequence[tuple[int, int]]) -> float:
    """Return how many rows each call may query, so that all of them together query at most `rows`.

    `calls` has pairs: a number of calls, and the rows that each of them wants. What small calls do not need
    is left to the others.

    >>> per_call(100, [(10, 2), (4, 50)])
    20.0
    >>> per_call(100, [(10, 2), (4, 20)])
    inf
    """
    number = sum(times for times, _ in calls)
    for times, wanted in sorted(calls, key=lambda call: call[1]):
        if wanted * number > rows:
            return rows / number
        rows -= times * wanted
        number -= times
    return math.inf


def check_enough(rows: int, calls: int, subsets: int) -> None:
    """Raise an InputError unless `rows` queries allow each call to evaluate `subsets` masks of one row."""
    if rows < calls * subsets:
        raise InputError(
            f"objective='model' learns from predictions for masked rows, at least {subsets} in each of "
            f"{calls:,} steps, but the limit is {rows:,} (0 by default if predictions are brought); raise "
            "queries=, or choose objective='surrogate'."
        )


def announce(rows: int, seconds_per_row: float | None, *, visible: bool) -> None:
    """Print how long the queries may take, if that is long."""
    seconds = rows * (seconds_per_row or 0.0)
    if seconds > LONG:
        time = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:,.0f} min"
        what = f"Training queries the model for up to {rows:,} masked rows"
        say(f"{what}, about {time}; queries= sets a lower limit.", visible=visible)


class Memory:
    """Predictions by row and mask: training returns to the same rows, and later draws the same masks again.

    The table has a fixed size; a new prediction replaces an old one. It is addressed by a 64-bit hash of row
    number and mask, so that two masks are confused once in 10^19 times.

    Parameters
    ----------
    d : int
        Number of features.
    seed : int
        Seed of the hash.
    slots : int
        Number of predictions that fit.
    """

    def __init__(self, d: int, seed: int, slots: int = SLOTS) -> None:
        rng = np.random.default_rng(seed)
        self.weights = rng.integers(1, 1 << 63, size=d, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        self.keys = np.zeros(slots, dtype=np.uint64)
        self.predictions: Array | None = None  # (slots, outputs), once the number of outputs is known

    def complete(self, rows: Array, masks: Array, query: Callable[[Array], Array]) -> Array:
        """Return the prediction for each of the rows (n,) under its mask, one of masks (n, d).

        `query` is called with the indices of rows that are not in memory, each pair of row and mask once.
        """
        keys = self._keys(rows, masks)
        slots = (keys % np.uint64(len(self.keys))).astype(np.int64)
        hits = self.keys[slots] == keys
        if self.predictions is None:
            hits[:] = False
        new = np.flatnonzero(~hits)
        _, first, which = np.unique(keys[new], return_index=True, return_inverse=True)
        fresh = query(new[first]) if len(new) else None
        if self.predictions is None:
            assert fresh is not None
            self.predictions = np.zeros((len(self.keys), fresh.shape[1]))
        predictions = self.predictions[slots]
        if fresh is not None:
            predictions[new] = fresh[which]
            self.keys[slots[new]], self.predictions[slots[new]] = keys[new], predictions[new]
        return predictions

    def _keys(self, rows: Array, masks: Array) -> Array:
        """Return a hash of each row number and mask, never zero, which marks an empty slot."""
        subset = (masks * self.weights).sum(axis=1, dtype=np.uint64)
        # The finaliser of SplitMix64 (Steele et al. 2014): every bit of the input changes half of the output.
        key = subset + rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(np.maximum(key ^ (key >> np.uint64(31)), np.uint64(1)))
