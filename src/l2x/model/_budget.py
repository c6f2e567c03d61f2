"""How many masked rows the model is queried for while a selector learns, and a memory of its predictions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np

from l2x._base.arrays import Array, is_whole
from l2x._base.progress import say
from l2x.errors import InputError
from l2x.model._endpoint import Endpoint

# Answers that are kept: some megabytes for a few classes. A new answer takes the place of an old one.
SLOTS = 1 << 19
# The default limit for a remote model, which may be slow, shared or paid for.
REMOTE = 1 << 14
# Of a default limit, training leaves one row in 8 to the self-check, or as many as that can use.
RESERVED, MOST_RESERVED = 8, 1 << 13
# Queries that may take more seconds than this are announced.
LONG = 10.0


def checked_queries(queries: Any) -> int | timedelta | None:
    """Return a number of rows, a time limit, or None for the default limit; refuse anything else."""
    if queries is None or (isinstance(queries, timedelta) and queries >= timedelta(0)):
        return queries
    # numpy's timedelta64 poses as a whole number.
    if isinstance(queries, np.timedelta64) or not is_whole(queries, least=0) or queries >= 2**63:
        shown = f"{queries!r}"[:40]
        raise InputError(
            f"queries is {shown}; expected a number of rows, 0 or more, a datetime.timedelta that is not "
            "negative, or None."
        )
    return int(queries)


def default_queries(most: int, predict: Any, *, brought: bool) -> int:
    """Return the default limit: at most REMOTE rows for an endpoint, and none if predictions were brought."""
    if brought:
        return 0
    return min(most, REMOTE) if isinstance(predict, Endpoint) else most


def without_reserve(rows: int) -> int:
    """Return the part of a default limit that training may use."""
    return rows - min(rows // RESERVED, MOST_RESERVED)


def rows_within(limit: int | timedelta, seconds_per_row: float | None) -> int:
    """Return the number of rows that a limit allows, for a model that takes `seconds_per_row`."""
    if not isinstance(limit, timedelta):
        return limit
    assert seconds_per_row is not None
    return int(limit.total_seconds() / max(seconds_per_row, 1e-9))


def check_enough(rows: int, calls: int, subsets: int) -> None:
    """Check that `rows` queries allow each of the calls to evaluate that many `subsets` of one row."""
    if rows < calls * subsets:
        raise InputError(
            f"value='model' learns from predictions for masked rows, at least {subsets} in each of {calls:,} "
            f"steps, but the limit is {rows:,} (0 by default if predictions are brought); raise queries=, or "
            "take value='surrogate'."
        )


def announce(rows: int, seconds_per_row: float | None, *, visible: bool) -> None:
    """Print how long the queries may take, if that is long; nothing depends on it."""
    seconds = rows * (seconds_per_row or 0.0)
    if seconds > LONG:
        time = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:,.0f} min"
        what = f"Training queries the model for up to {rows:,} masked rows"
        say(f"{what}, about {time}; queries= sets a lower limit.", visible=visible)


class Memory:
    """Answers by row and subset: training comes back to the same rows, and a selector that has learned draws
    the same subsets of them again and again.

    A table of fixed size, addressed by a 64-bit hash of row number and mask; two subsets with the same hash
    would be one in 10^19.
    """

    def __init__(self, d: int, seed: int, slots: int = SLOTS) -> None:
        rng = np.random.default_rng(seed)
        self.weights = rng.integers(1, 1 << 63, size=d, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        self.keys = np.zeros(slots, dtype=np.uint64)
        self.answers: Array | None = None  # (slots, outputs), once the number of outputs is known

    def complete(self, rows: Array, masks: Array, ask: Callable[[Array], Array]) -> Array:
        """The answer to each of the rows (n,) under its mask (n, d); `ask` is called with the indices of
        those that are new, each once."""
        keys = self._keys(rows, masks)
        slots = (keys % np.uint64(len(self.keys))).astype(np.int64)
        known = self.keys[slots] == keys
        if self.answers is None:
            known[:] = False
        new = np.flatnonzero(~known)
        _, first, which = np.unique(keys[new], return_index=True, return_inverse=True)
        fresh = ask(new[first]) if len(new) else None
        if self.answers is None:
            assert fresh is not None
            self.answers = np.zeros((len(self.keys), fresh.shape[1]))
        answers = self.answers[slots]
        if fresh is not None:
            answers[new] = fresh[which]
            self.keys[slots[new]], self.answers[slots[new]] = keys[new], answers[new]
        return answers

    def _keys(self, rows: Array, masks: Array) -> Array:
        """A hash of each row number and mask, never zero, which stands for an empty slot."""
        subset = (masks * self.weights).sum(axis=1, dtype=np.uint64)
        # The finaliser of SplitMix64 (Steele et al. 2014): every bit of the input changes half of the output.
        key = subset + rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(np.maximum(key ^ (key >> np.uint64(31)), np.uint64(1)))
