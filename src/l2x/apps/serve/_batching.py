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

from l2x.apps.serve._requests import ServiceError, overloaded

Content = TypeVar("Content")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

# Weight of the latest batch in the moving average of the time per row.
NEWEST = 0.2


@dataclass(eq=False)
class Job(Generic[Content]):
    """The work of one request: `rows` rows that may share a batch with other jobs of the same `kind`."""

    content: Content
    rows: int
    kind: Hashable
    result: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    deadline: asyncio.Timeout | None = None
    started: bool = False

    def start(self, seconds: float) -> None:
        """Grant the job further seconds, once, because its turn has come."""
        if not self.started and self.deadline is not None:
            self.started = True
            self.deadline.reschedule((self.deadline.when() or 0.0) + seconds)


class Batcher(Generic[Content, Result]):
    """Run jobs in batches, in a thread.

    A batch consists of the jobs that have queued while the previous batch ran; no job waits for further jobs
    to arrive. If the work of a batch fails, its jobs run again one by one, so that only the job that causes
    the failure fails. A batcher belongs to one event loop.

    `work` maps the contents of jobs of one kind to their results, in order. A batch has at most `max_rows`
    rows, unless a single job has more, and at most `queue` rows wait. A job finishes within `promise` seconds
    or fails with 504; if its turn does not come within half of that time, or is not expected to, it fails
    with 503. `observe` is called when a batch starts, with the rows left waiting and the rows of the batch.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Content]], Sequence[Result]],
        *,
        max_rows: int,
        queue: int,
        promise: float,
        observe: Callable[[int, int], None] = lambda waiting, batch: None,
    ) -> None:
        self._work, self._max_rows, self._queue = work, max_rows, queue
        self._promise, self._observe = promise, observe
        self._waiting: deque[Job[Content]] = deque()
        self._waiting_rows = 0
        self._seconds_per_row = 0.0
        self._running: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="l2x-batch")

    async def submit(self, content: Content, rows: int, kind: Hashable = None) -> Result:
        """Return the result of one job; raise 503 or 504 if it is not ready in time."""
        self.admit(rows)
        job = Job(content, rows, kind)
        self._waiting.append(job)
        self._waiting_rows += rows
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        try:
            async with asyncio.timeout(self._promise / 2) as job.deadline:
                result: Result = await job.result
                return result
        except TimeoutError:
            if job.deadline is None or not job.deadline.expired():
                raise  # the work itself raised it
            if job.started:
                raise ServiceError(504, "timeout", f"No result within {self._promise:g} s.") from None
            raise overloaded(self._promise) from None

    def admit(self, rows: int) -> None:
        """Raise 503 if the queue has no room for that many rows."""
        wait = self._waiting_rows * self._seconds_per_row
        if self._waiting_rows and (self._waiting_rows + rows > self._queue or wait > self._promise / 2):
            raise overloaded(wait)

    def close(self) -> None:
        """Drop all jobs."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        """Run batches until no job waits."""
        loop = asyncio.get_running_loop()
        while batch := self._next_batch():
            rows = sum(job.rows for job in batch)
            self._observe(self._waiting_rows, rows)
            for job in batch:
                job.start(self._promise / 2)
            started = time.perf_counter()
            try:
                contents = [job.content for job in batch]
                results = await loop.run_in_executor(self._thread, _results, self._work, contents)
            except asyncio.CancelledError:  # the service is closing
                for job in batch:
                    job.result.cancel()
                raise
            except Exception as error:
                self._fail(batch, error)
            else:
                for job, result in zip(batch, results, strict=True):
                    if not job.result.done():
                        job.result.set_result(result)
            per_row = (time.perf_counter() - started) / max(1, rows)
            self._seconds_per_row += NEWEST * (per_row - self._seconds_per_row)

    def _next_batch(self) -> list[Job[Content]]:
        """Remove the first waiting jobs of one kind that fit into a batch; drop those that were abandoned."""
        batch: list[Job[Content]] = []
        rows = 0
        while self._waiting:
            job = self._waiting[0]
            abandoned = job.result.done()
            if not abandoned and batch and (job.kind != batch[0].kind or rows + job.rows > self._max_rows):
                break
            self._waiting.popleft()
            self._waiting_rows -= job.rows
            if not abandoned:
                batch.append(job)
                rows += job.rows
        return batch

    def _fail(self, batch: list[Job[Content]], error: Exception) -> None:
        """Fail a single job; put several back to the front of the queue, each to run alone."""
        if len(batch) == 1:
            if not batch[0].result.done():
                batch[0].result.set_exception(error)
            return
        for job in batch:
            job.kind = object()  # equal to no other kind
        self._waiting.extendleft(reversed(batch))
        self._waiting_rows += sum(job.rows for job in batch)


class WorkError(Exception):
    """The work raised something other than an ordinary exception, which is the cause of this error."""


def contained(
    work: Callable[Arguments, Result], *arguments: Arguments.args, **options: Arguments.kwargs
) -> Result:
    """Call `work`, and let only ordinary exceptions out, so that no model can end the serving process.

    A Rust panic, SystemExit and everything else that does not derive from `Exception` become a `WorkError`,
    and so does StopIteration, which a future cannot hold. Ctrl-C passes: Python raises it only in the main
    thread, so a KeyboardInterrupt in another thread comes from the work itself.
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


def _results(work: Callable[[Sequence[Any]], Sequence[Any]], contents: Sequence[Any]) -> Sequence[Any]:
    results = contained(work, contents)
    if len(results) != len(contents):
        raise RuntimeError(f"{len(results)} results for {len(contents)} jobs")
    return results
