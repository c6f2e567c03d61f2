"""Who asks: this thread, several threads for a model behind a network, or processes."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

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
        with _closed(others, kill_workers=True):
            yield lambda inputs: others.submit(_ask_here, inputs), processes
    elif black_box.in_flight > 1:
        pool = ThreadPoolExecutor(black_box.in_flight, thread_name_prefix="asking")
        with _closed(pool, cancel_futures=True):
            yield lambda inputs: pool.submit(_timed, black_box, inputs), black_box.in_flight
    else:
        yield lambda inputs: _at_once(black_box, inputs), 1


def said(future: Future[Said]) -> Said:
    """The outcome; a worker that died is an error of the model."""
    from concurrent.futures.process import BrokenProcessPool

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
def _closed(pool: Any, **at_once: bool) -> Iterator[None]:
    """After an interruption nobody waits for what is under way; `at_once` are the pool's words for that."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, **at_once)
        raise
    pool.shutdown()


def _processes(black_box: BlackBox, processes: int) -> Any:
    """Worker processes of their own interpreters; functions of `__main__` and lambdas travel, too."""
    from joblib.externals.cloudpickle import cloudpickle
    from joblib.externals.loky import ProcessPoolExecutor

    try:
        model = cloudpickle.dumps(black_box)
    except Exception as error:
        raise InputError(
            f"processes is {processes}, but {black_box.name} cannot be sent to another process: {error}"
        ) from error
    return ProcessPoolExecutor(processes, initializer=_receive, initargs=(model,))


def _receive(model: bytes) -> None:
    global _model
    import pickle

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    _model = pickle.loads(model)


def _ask_here(inputs: Any) -> Said:
    assert _model is not None
    return _timed(_model, inputs)
