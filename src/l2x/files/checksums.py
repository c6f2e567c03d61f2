"""A checksum of every row: whether the rows of today are those that a model answered yesterday."""

from __future__ import annotations

import hashlib
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from l2x.features.categories import arrow_cells
from l2x.features.texts import Texts
from l2x.foundations.arrays import Array
from l2x.inputs import tensor_to_array

# What a missing cell counts as, number or text. Files hold checksums: none of these numbers may change.
MISSING = np.uint64(0xA5A5_5A5A_A5A5_5A5A)
FACTOR = np.uint64(0x9E37_79B9_7F4A_7C15)  # 2^64 over the golden ratio
HALF = np.uint64(32)


def row_checksums(X: Any) -> Array:
    """(n,) uint64, the same for the same cells in the same order: arrays, tensors, texts, and frames of any
    library, categories as texts, integers as floats.

    Numbers count in single precision, as networks read them: two readers of one CSV may differ in the last
    digit of a double.

    >>> bool((row_checksums([["1", "a"]]) == row_checksums(pa.table({"n": ["1"], "t": ["a"]}))).all())
    True
    """
    total = None
    for cells in _columns(X):
        total = np.zeros(len(cells), dtype=np.uint64) if total is None else total
        with np.errstate(over="ignore"):  # products are meant to wrap around
            total = (total ^ cells) * FACTOR
        total ^= total >> HALF
    return np.zeros(len(X), dtype=np.uint64) if total is None else total


def _columns(X: Any) -> Any:
    """What stands for the cells, column by column, each (n,) uint64."""
    X = X.texts if isinstance(X, Texts) else tensor_to_array(X)
    frame = nw.from_native(X, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return (_of_cells(arrow_cells(column)) for column in frame.iter_columns())
    if isinstance(frame, nw.Series):
        return iter([_of_cells(arrow_cells(frame))])
    array = X if isinstance(X, np.ndarray) else np.asarray(X)
    flat = array.reshape(len(array), -1).T
    if array.dtype.kind in "fiub":
        return (_of_numbers(column) for column in flat)
    return (_of_cells(arrow_cells(np.ascontiguousarray(column))) for column in flat)


def _of_cells(cells: pa.Array) -> Array:
    kind = cells.type
    if pa.types.is_dictionary(kind):
        per_value = np.append(_of_cells(cells.dictionary), MISSING)
        return np.asarray(per_value[pc.fill_null(cells.indices.cast(pa.int64()), -1).to_numpy()])
    if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return _of_numbers(cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    if pa.types.is_boolean(kind):
        return _of_numbers(cells.cast(pa.int8()).cast(pa.float64()).to_numpy(zero_copy_only=False))
    if pa.types.is_null(kind):
        return np.full(len(cells), MISSING)
    texts = cells if pa.types.is_string(kind) or pa.types.is_large_string(kind) else cells.cast(pa.string())
    encoded = texts.dictionary_encode()
    digests = [_digest(text) for text in encoded.dictionary.to_pylist()]
    per_text = np.array([*digests, MISSING], dtype=np.uint64)
    return np.asarray(per_text[pc.fill_null(encoded.indices, -1).to_numpy()])


def _of_numbers(numbers: Array) -> Array:
    with np.errstate(over="ignore"):  # beyond single precision is infinity
        single = numbers.astype(np.float32) + np.float32(0)  # turns -0 into 0
    return np.where(np.isnan(single), MISSING, single.view(np.uint32).astype(np.uint64))


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
