"""The loop: rows without an answer, asked in batches, several at a time, each answer kept at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from l2x.blackbox import BlackBox
from l2x.errors import BlackBoxError
from l2x.features.texts import Texts
from l2x.files.answers import Answered
from l2x.files.checksums import row_checksums
from l2x.foundations.arrays import Array
from l2x.inputs import take
from l2x.labelling.pace import Pace
from l2x.labelling.workers import Said, said, workers

Keep = Callable[["Part", Array], None]


@dataclass(frozen=True)
class Part:
    """Rows next to each other: where the first stands, and the inputs, raw and as the model reads them."""

    first: int
    raw: Any
    inputs: Any

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, rows: slice) -> Part:
        raw = take(self.raw.texts if isinstance(self.raw, Texts) else self.raw, rows)
        inputs = raw if self.inputs is self.raw else take(self.inputs, rows)
        return Part(self.first + rows.start, raw, inputs)

    @cached_property
    def checksums(self) -> Array:
        return row_checksums(self.raw)


def ask_about(
    black_box: BlackBox,
    blocks: Iterable[Part],
    keep: Keep,
    *,
    most: int,
    answered: Answered | None = None,
    processes: int = 1,
) -> int:
    """Ask about every row that is not `answered`, at most `most` at once; returns the number of all rows.

    `keep(part, answers)` is called as soon as a part is answered, in any order. An error is raised after the
    answers that were under way beside it are kept, and says which rows it is about.
    """
    asked = _Asked(black_box, keep, Pace(min(most, black_box.most_rows or most)))
    total = 0

    def counted() -> Iterator[Part]:
        nonlocal total
        for block in blocks:
            total = block.first + len(block)
            yield block

    with workers(black_box, processes) as (submit, at_a_time):
        for part in _batches(counted(), answered, asked.pace):
            asked.collect(until=at_a_time)
            if asked.error is not None:
                break
            asked.waiting[submit(part.inputs)] = part
        asked.collect(until=1)
    if asked.error is not None:
        raise asked.error
    return total


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


def _batches(blocks: Iterable[Part], answered: Answered | None, pace: Pace) -> Iterator[Part]:
    """The rows without an answer, as many at a time as the pace has it by then."""
    for block in blocks:
        known = np.zeros(len(block), dtype=bool)
        if answered is not None and answered.rows:
            known = answered.mask(block.first, block.checksums)
        edges = np.flatnonzero(
            np.diff(known, prepend=True, append=True)
        )  # where runs of open rows begin, end
        for start, stop in edges.reshape(-1, 2):
            at = int(start)
            while at < stop:
                end = min(at + pace.rows, int(stop))
                yield block[at:end]
                at = end
