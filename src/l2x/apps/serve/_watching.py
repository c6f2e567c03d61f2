"""Verify a share of the served rows in the background: is the explainer still valid?

Rows wait in memory, at most a few hundred of them, until the model has been queried for them; then only
counts remain. A budget of rows per minute bounds what the model is queried for.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from l2x.apps.serve._batching import contained
from l2x.apps.serve._monitoring import Metrics, log_event, log_failure
from l2x.learning import Examiner, Tally, Validity

# The conclusion is about the last rows, between WINDOW and WINDOW + BLOCK.
WINDOW, BLOCK = 1000, 100
# Fewer rows allow no conclusion.
FEWEST = 30
# The probability of a false alarm in one conclusion. It must be far smaller than in `still_valid`: there is
# up to one conclusion per second, about a window that overlaps the last one.
ALARM = 1e-5
# Rows that may wait. They are verified a few at a time, so that the model is free for requests in between.
WAITING, AT_ONCE = 256, 16
# A burst may spend the budget of this many seconds at once.
BURST = 10.0
# Seconds between two conclusions, at least, and as a multiple of the time that the last one took: it is long
# with thousands of columns.
EVERY, REST = 1.0, 20
# Measurements that have a gauge: a table of thousands of columns would have thousands of time series.
MOST_GAUGES = 200

Reason = Literal["budget", "queue", "failed"]


@dataclass(frozen=True)
class State:
    """The present state of a watcher; `validity` is None until there are enough rows."""

    share: float
    per_minute: int
    verified: int  # rows since the start
    dropped: int  # rows that were chosen and not verified
    validity: Validity | None

    @property
    def status(self) -> str:
        """Return the status in one word; "waiting" before the first conclusion."""
        return "waiting" if self.validity is None else self.validity.status

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python objects, for JSON."""
        found = {} if self.validity is None else self.validity.to_dict()
        counts = {"share": self.share, "per_minute": self.per_minute}
        return {"status": self.status, **counts, "verified": self.verified, "dropped": self.dropped} | found


class Budget:
    """Grant at most `per_minute` rows per minute, in bursts of at most BURST seconds."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._clock = per_minute / 60, clock
        self._most = max(1.0, self._per_second * BURST)
        self._left, self._filled = self._most, clock()

    def take(self, rows: int) -> int:
        """Return how many of the rows are granted."""
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._filled) * self._per_second)
        self._filled = now
        granted = min(rows, int(self._left))
        self._left -= granted
        return granted


class Window:
    """The sum of the last tallies, over at least WINDOW rows if there were as many."""

    def __init__(self) -> None:
        self._blocks: deque[tuple[int, Tally]] = deque()
        self.rows = 0

    def add(self, rows: int, tally: Tally) -> None:
        """Add the tally of some rows to the newest block, and forget blocks that are too old."""
        if not self._blocks or self._blocks[-1][0] >= BLOCK:
            self._blocks.append((0, Tally()))
        before, newest = self._blocks.pop()
        self._blocks.append((before + rows, newest + tally))
        self.rows += rows
        while self.rows - self._blocks[0][0] >= WINDOW:
            self.rows -= self._blocks.popleft()[0]

    @property
    def total(self) -> Tally:
        """Return the sum."""
        return sum((tally for _, tally in self._blocks), Tally())


class Watcher:
    """Verify a share of the rows of one explainer, in a thread of its own.

    Parameters
    ----------
    name : str
        The explainer, for metrics and log.
    share : float
        Probability that a served row is verified.
    per_minute : int
        Maximum number of rows per minute; the model is queried twice for each.
    metrics : Metrics
    """

    def __init__(self, name: str, share: float, per_minute: int, metrics: Metrics) -> None:
        self.name, self._share, self._per_minute, self._metrics = name, share, per_minute, metrics
        self._budget, self._random = Budget(per_minute), random.Random()
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="l2x-watch")
        self._waiting = self._verified = self._dropped = 0
        self._examiner: Examiner | None = None
        self._latest: Examiner | None = None  # that of the file that was loaded last; None before
        self._window = Window()
        self._validity: Validity | None = None
        self._next = 0.0  # when to conclude again

    def offer(
        self, examiner: Examiner, rows: int, pick: Callable[[Sequence[int]], Callable[[], Any]]
    ) -> None:
        """Choose some of the served rows and verify them later.

        Parameters
        ----------
        examiner : Examiner
            That of the explainer which served the rows. Another one starts a new window.
        rows : int
            The number of rows.
        pick : callable
            Called at once with the positions of chosen rows; returns a function that the thread calls for
            the inputs.
        """
        chosen = [row for row in range(rows) if self._random.random() < self._share]
        if not chosen:
            return
        with self._lock:
            room = min(len(chosen), WAITING - self._waiting)
            granted = self._budget.take(room)
            self._waiting += granted
        self._drop(len(chosen) - room, "queue")
        self._drop(room - granted, "budget")
        for start in range(0, granted, AT_ONCE):
            part = chosen[start : min(start + AT_ONCE, granted)]
            self._thread.submit(self._work, examiner, len(part), pick(part))

    def start_again(self, examiner: Examiner) -> None:
        """Forget all conclusions, because the file was replaced; rows of the old file are ignored."""
        self._latest = examiner
        self._thread.submit(self._forget)

    def state(self) -> State:
        """Return the present state."""
        return State(self._share, self._per_minute, self._verified, self._dropped, self._validity)

    def close(self) -> None:
        """Drop all rows that wait."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _drop(self, rows: int, reason: Reason) -> None:
        if rows:
            self._dropped += rows
            self._metrics.unwatched.labels(self.name, reason).inc(rows)

    def _work(self, examiner: Examiner, rows: int, inputs: Callable[[], Any]) -> None:
        """Verify rows; a failure is logged without its message, which may quote inputs."""
        try:
            contained(self._verify, examiner, rows, inputs)
        except Exception as error:
            log_failure(f"watch of {self.name}", error)
            self._drop(rows, "failed")
        finally:
            with self._lock:
                self._waiting -= rows

    def _forget(self) -> None:
        self._examiner, self._validity = None, None
        self._metrics.forget_validity(self.name)

    def _verify(self, examiner: Examiner, rows: int, inputs: Callable[[], Any]) -> None:
        if self._latest is not None and examiner is not self._latest:
            return
        X = examiner.view.check(inputs())
        tally = examiner.count(X) + examiner.verify(X)
        if examiner is not self._examiner:
            self._examiner, self._window, self._validity = examiner, Window(), None
            self._next = 0.0
        self._window.add(rows, tally)
        for outcome, number in (("confirmed", tally.confirmed), ("other", tally.rows - tally.confirmed)):
            self._metrics.watched.labels(self.name, outcome).inc(number)
        started = time.monotonic()
        if self._window.rows >= FEWEST and started >= self._next:
            self._conclude(examiner)
            ended = time.monotonic()
            self._next = ended + max(EVERY, REST * (ended - started))
        self._verified += rows  # last, so that the conclusion includes as many

    def _conclude(self, examiner: Examiner) -> None:
        """Update the state and the gauges; log a status that has changed."""
        before, self._validity = self._validity, examiner.conclude(self._window.total, alarm=ALARM)
        now = self._validity
        self._metrics.report_validity(self.name, now, MOST_GAUGES)
        if before is None or before.status != now.status:
            level = logging.INFO if now.status == "valid" else logging.WARNING
            confirmed, expected = (
                None if share is None else round(share.value, 4) for share in (now.confirmed, now.expected)
            )
            log_event(
                "watch", level, explainer=self.name, status=now.status, rows=now.rows, confirmed=confirmed,
                expected=expected, columns=list(now.columns[:10]),
            )  # fmt: skip
