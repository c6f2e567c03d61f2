"""Requests that arrive together share one piece of work: a bounded queue, and one batch at a time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, TypeVar

from l2x.apps.serve._refusals import overloaded, too_late

Content = TypeVar("Content")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

# How much the last batch says about the time that a row takes.
NEWS = 0.2


@dataclass(frozen=True, eq=False)
class Job(Generic[Content]):
    """What one request asks for: `rows` of work that can share a batch with others of the same `kind`."""

    content: Content
    rows: int
    kind: Hashable
    answer: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    came: float = field(default_factory=time.monotonic)


class Batcher(Generic[Content, Result]):
    """Jobs in, results out, in batches of what has arrived while the last batch was at work.

    No job waits for others to come: a batch is whatever is there. A small job after one that was alone is
    worked on at once; what comes with it forms the next batch. Where the work fails, its jobs are done
    once more one by one, so that a request fails only by itself. A job fails with an `Exception` whatever
    its work raised (see `contained`), and the next batch follows. Belongs to one event loop.

    Parameters
    ----------
    work : contents of jobs of one kind -> their results, in order
    most : rows of a batch; one job may have more by itself
    queue : rows that may wait
    promise : seconds in which a job is done, or fails with 504. One whose turn would come later than in half
        of them, by the speed of late, is refused, and one whose turn did not come by then
    inline : rows up to which a batch is worked on in the event loop itself: a thread costs small batches more
        than they take. 0 for work that may block
    watch : is told the rows that are left waiting, and the rows of a batch that begins
    """

    def __init__(
        self,
        work: Callable[[Sequence[Content]], Sequence[Result]],
        *,
        most: int,
        queue: int,
        promise: float,
        inline: int = 0,
        watch: Callable[[int, int], None] = lambda waiting, batch: None,
    ) -> None:
        self._work, self._most, self._queue, self._inline = work, most, queue, inline
        self._promise, self._watch = promise, watch
        self._waiting: deque[Job[Content]] = deque()
        self._at_work: list[Job[Content]] = []
        self._rows = 0
        self._seconds_per_row = 0.0
        self._busy = False
        self._alone = True  # the last batch was one job
        self._clock: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="l2x-batch")

    async def submit(self, content: Content, rows: int, kind: Hashable = None) -> Result:
        """The result of one job, or a problem: 503 where too much is waiting."""
        self.admit(rows)
        if self._alone and not self._busy and rows <= self._inline:
            return self._at_once(content, rows)
        job = Job(content, rows, kind)
        self._waiting.append(job)
        self._rows += rows
        loop = asyncio.get_running_loop()
        if not self._busy:
            self._busy = True
            # Not at once: what else is ready in this turn of the event loop joins the batch.
            loop.call_soon(self._next)
        result: Result = await job.answer
        return result

    def admit(self, rows: int) -> None:
        """Raises 503 where too much waits for a job of that many rows to be taken."""
        wait = self._rows * self._seconds_per_row
        if self._rows and (self._rows + rows > self._queue or wait > self._promise / 2):
            raise overloaded(wait)

    def _at_once(self, content: Content, rows: int) -> Result:
        """The result of a job that nothing waits beside, without the queue, which takes longer than it."""
        self._busy = True
        asyncio.get_running_loop().call_soon(self._next)
        self._watch(0, rows)
        outcome = _timed(self._work, [content])
        self._learn(outcome, rows)
        if outcome.error is not None:
            raise outcome.error
        result: Result = outcome.results[0]
        return result

    def close(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _next(self) -> None:
        """Start the next batch, if anything waits."""
        waiting = self._rows
        batch = self._taken()
        if not batch:
            self._busy = False
            return
        self._alone = len(batch) == 1
        rows = sum(job.rows for job in batch)
        self._watch(waiting - rows, rows)
        loop, contents = asyncio.get_running_loop(), [job.content for job in batch]
        if rows <= self._inline:
            loop.call_soon(self._next)  # scheduled first, as Ctrl-C may interrupt the work
            self._finish(batch, rows, _timed(self._work, contents))
            return
        self._at_work = batch
        if self._clock is None:
            self._clock = loop.call_later(self._promise / 20, self._expire)
        future = loop.run_in_executor(self._thread, _timed, self._work, contents)
        future.add_done_callback(lambda done: self._after_thread(batch, rows, done))

    def _expire(self) -> None:
        """Fail what was promised too long ago, and refuse what still waits when half of its time is over: the
        work needs the rest. Looked at now and then, which costs less than a timer for each job."""
        self._clock = None
        now = time.monotonic()
        for job in self._at_work:
            if job.came < now - self._promise and not job.answer.done():
                job.answer.set_exception(too_late(self._promise))
        for job in self._waiting:
            if job.came < now - self._promise / 2 and not job.answer.done():
                job.answer.set_exception(overloaded(self._promise))
        if self._busy:
            loop = asyncio.get_running_loop()
            self._clock = loop.call_later(self._promise / 20, self._expire)

    def _after_thread(self, batch: list[Job[Content]], rows: int, done: asyncio.Future[_Outcome]) -> None:
        if done.cancelled():  # the service is closing
            for job in batch:
                job.answer.cancel()
            return
        self._at_work = []
        self._finish(batch, rows, done.result())
        self._next()

    def _taken(self) -> list[Job[Content]]:
        """The first waiting jobs, of one kind, that fit into a batch; those nobody waits for are dropped."""
        batch: list[Job[Content]] = []
        rows = 0
        while self._waiting:
            job = self._waiting[0]
            gone = job.answer.done()
            if not gone and batch and (job.kind != batch[0].kind or rows + job.rows > self._most):
                break
            self._waiting.popleft()
            self._rows -= job.rows
            if not gone:
                batch.append(job)
                rows += job.rows
        return batch

    def _finish(self, batch: list[Job[Content]], rows: int, outcome: _Outcome) -> None:
        self._learn(outcome, rows)
        if outcome.error is None:
            for job, result in zip(batch, outcome.results, strict=True):
                if not job.answer.done():
                    job.answer.set_result(result)
        elif len(batch) == 1:
            if not batch[0].answer.done():
                batch[0].answer.set_exception(outcome.error)
        else:
            # In front of the queue, each of a kind of its own: they are worked on one by one.
            alone = [Job(job.content, job.rows, object(), job.answer, job.came) for job in batch]
            self._waiting.extendleft(reversed(alone))
            self._rows += rows

    def _learn(self, outcome: _Outcome, rows: int) -> None:
        self._seconds_per_row += NEWS * (outcome.seconds / max(1, rows) - self._seconds_per_row)


class WorkError(Exception):
    """The work raised something other than an ordinary exception, which is the cause of this error."""


def contained(
    work: Callable[Arguments, Result], *arguments: Arguments.args, **options: Arguments.kwargs
) -> Result:
    """Call `work` and let only ordinary exceptions out, so that no model ends the process that serves it.

    A Rust panic, SystemExit and whatever else does not derive from `Exception` become a `WorkError`, and so
    does StopIteration, which a future cannot hold. Ctrl-C passes: Python raises it in the main thread only,
    and a KeyboardInterrupt in any other thread comes from the work itself.
    """
    try:
        return work(*arguments, **options)
    except BaseException as error:
        ordinary = isinstance(error, Exception) and not isinstance(error, StopIteration)
        interrupted = (
            isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()
        )
        if ordinary or interrupted:
            raise
        raise WorkError(f"The work raised {type(error).__name__}.") from error


@dataclass(frozen=True)
class _Outcome:
    seconds: float
    results: Sequence[Any] = ()
    error: Exception | None = None


def _timed(work: Callable[[Sequence[Any]], Sequence[Any]], contents: Sequence[Any]) -> _Outcome:
    started = time.perf_counter()
    try:
        results = contained(work, contents)
        if len(results) != len(contents):
            raise RuntimeError(f"{len(results)} results for {len(contents)} jobs")
        return _Outcome(time.perf_counter() - started, results)
    except Exception as error:
        return _Outcome(time.perf_counter() - started, error=error)
