"""A random sample of rows, in one pass and in memory that does not grow with the table."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from l2x.errors import InputError
from l2x.foundations.arrays import Array


def sample_rows(batches: Iterable[pa.RecordBatch], n: int, *, seed: int) -> pa.Table:
    """n rows at random (all, if there are fewer) in file order; at most some 2 n are held at a time.

    Every row gets a random key and the n smallest keys stay, so that each subset of n is equally likely.
    """
    rng = np.random.default_rng(seed)
    kept: list[pa.RecordBatch] = []
    keys: list[Array] = []
    limit, held = np.inf, 0
    for batch in batches:
        key = rng.random(len(batch))
        inside = np.flatnonzero(key < limit)
        kept.append(batch if len(inside) == len(batch) else batch.take(pa.array(inside)))
        keys.append(key[inside])
        held += len(inside)
        if held > 2 * n:
            table, key = _smallest(kept, keys, n)
            kept, keys, limit, held = table.to_batches(), [key], key.max(), n
    if not held:
        raise InputError("The table has no rows.")
    return _smallest(kept, keys, n)[0]


def _smallest(kept: list[pa.RecordBatch], keys: list[Array], n: int) -> tuple[pa.Table, Array]:
    """The rows with the n smallest keys, in file order, and the keys."""
    table, key = pa.Table.from_batches(kept), np.concatenate(keys)
    if len(key) <= n:
        return table, key
    chosen = np.sort(np.argpartition(key, n - 1)[:n])
    return table.take(pa.array(chosen)).combine_chunks(), key[chosen]
