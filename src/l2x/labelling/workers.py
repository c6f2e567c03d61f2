"""Who asks: this thread, several threads for a model behind a network, or processes."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

import cloudpickle

from l2x.blackbox import BlackBox
from l2x.errors import BlackBoxError, InputError
from l2x.foundations.arrays import Array

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
