"""How often the black box is asked while a selector learns: a limit, and a memory of what it said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from l2x.errors import InputError
from l2x.foundations.arrays import Array
from l2x.foundations.numbers import is_whole

# Answers that are kept: some megabytes for a few classes. A new answer takes the place of an old one.
SLOTS = 1 << 19
# Seconds that learning may wait for the black box, by the time that labelling took.
PATIENCE = 180.0


@dataclass(frozen=True)
class Limit:
    """How many masked rows the black box may be asked about beyond labelling.

    rows : in all, at most
    calls : times that the value of subsets is asked for, which share the rows evenly
    reason : why this many
    """

    rows: int
    calls: int
    reason: str

    @classmethod
    def of(cls, queries: int | None, seconds_per_row: float | None, calls: int) -> Limit:
        """As the user has it, or as many as the black box answers in some minutes; none where answers were
        brought, to spare it."""
        if queries is not None:
            return cls(queries, calls, f"queries={queries:,}")
        if seconds_per_row is None:
            return cls(0, calls, "answers were brought; queries= lets it be asked")
        in_time = int(PATIENCE / max(seconds_per_row, 1e-9))
        # A power of two: two fits on one machine seldom differ by the noise of a clock.
        rows = 1 << in_time.bit_length() - 1 if in_time else 0
        return cls(rows, calls, f"less than {PATIENCE:.0f} s at {seconds_per_row * 1000:.3g} ms a row")

    @property
    def per_call(self) -> float:
        return self.rows / self.calls

    def sentence(self, labelled: int, masked: int) -> str:
        """What the model was asked, and why not more."""
        asked = f"asked the model about {labelled:,} rows and {masked:,} masked ones"
        return f"{asked} (at most {self.rows:,}: {self.reason})"


def checked_queries(queries: Any) -> int | None:
    """A number of rows, or None: as many as time allows."""
    if queries is not None and not (is_whole(queries, least=0) and queries < 2**63):
        shown = f"{queries!r}"[:40]
        raise InputError(f"queries is {shown}; expected a number of rows, 0 or more, or None.")
    return queries if queries is None else int(queries)


def check_enough(queries: int | None, calls: int, subsets: int, reason: str | None = None) -> None:
    """Whether every one of these calls may ask about that many `subsets` of one row at least."""
    if queries is not None and queries < calls * subsets:
        raise InputError(
            f"value='model' learns from the model's answers to masked rows, at least {subsets} in each of "
            f"{calls:,} steps, and only {queries:,} may be asked ({reason or f'queries={queries:,}'}); raise "
            "queries=, or take value='surrogate'."
        )


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
