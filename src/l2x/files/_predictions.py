"""Predictions on disk, each with a checksum of its row, so that they are used only for the rows of the query.

A file has one row per input, in order, with the columns `checksum`, `prediction_0`, `prediction_1`, ...; its
metadata name the model. A journal has batches of such rows in any order, with their positions in `row`.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from l2x._base.arrays import Array, tensor_to_array
from l2x.errors import InputError
from l2x.features import Texts, arrow_cells
from l2x.files._tables import BATCH_ROWS, sample_rows
from l2x.model import BlackBox, Part

# The checksum of a missing cell. Files hold checksums: none of these numbers may change.
MISSING = np.uint64(0xA5A5_5A5A_A5A5_5A5A)
FACTOR = np.uint64(0x9E37_79B9_7F4A_7C15)  # 2^64 over the golden ratio
HALF = np.uint64(32)
# The key of the metadata in a file, and the beginning of its columns' names.
KEY, PREFIX = b"l2x.predictions", "prediction_"


def row_checksums(X: Any) -> Array:
    """Return a checksum (n,) uint64 of each row, which depends on its cells and their order only.

    X may be an array, a tensor, texts, or a frame of any library; categories count as texts and integers as
    floats. Numbers count in single precision, as networks read them, because two readers of one CSV may
    differ in the last digit of a double.

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


def _columns(X: Any) -> Iterator[Array]:
    """Yield checksums of the cells, (n,) uint64, column by column."""
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


def check_predictions_path(path: Path) -> None:
    """Raise an InputError unless `path` is a .parquet file, the format of predictions."""
    if path.suffix.lower() != ".parquet":
        raise InputError(f"Predictions are stored in a .parquet file, not in '{path}'.")


@dataclass(frozen=True)
class Origin:
    """The model that made predictions: its name, "classification" or "regression", and its classes."""

    model: str
    task: Literal["classification", "regression"] | None = None
    classes: list[Any] | None = None

    @classmethod
    def of_model(cls, black_box: BlackBox) -> Origin:
        """Return the description of a black box."""
        classes = None if black_box.classes is None else black_box.classes.tolist()
        return cls(black_box.name, black_box.task, classes)

    @classmethod
    def of_schema(cls, schema: pa.Schema) -> Origin | None:
        """Return the description in a file's schema; None if the file does not hold predictions."""
        content = (schema.metadata or {}).get(KEY)
        return None if content is None else cls(**json.loads(content))

    def describe(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with this description in its metadata."""
        return batch.replace_schema_metadata({KEY: json.dumps(asdict(self))})


@dataclass(frozen=True)
class Predictions:
    """A model's predictions, (n, classes) or (n, values), with the checksums of the inputs."""

    values: Array
    checksums: Array
    origin: Origin
    path: Path

    def __len__(self) -> int:
        return len(self.values)

    def check(self, X: Any) -> None:
        """Raise an InputError unless X holds the inputs that were labelled, in the same order."""
        if len(X) != len(self):
            raise InputError(
                f"'{self.path}' has predictions for {len(self):,} rows, but there are {len(X):,} inputs."
            )
        wrong = np.flatnonzero(row_checksums(X) != self.checksums)
        if len(wrong):
            raise InputError(
                f"'{self.path}' has predictions for other inputs: row {wrong[0]} differs ({len(wrong):,} of "
                f"{len(self):,} do). Pass the rows, columns and order that were labelled, or label these."
            )


def read_predictions(path: str | Path, *, rows: int | None = None, seed: int = 0) -> Predictions:
    """Return the predictions in a file that `l2x.label` wrote.

    With `rows`, they are those of the rows that `read_sample` draws from a table of that length with `seed`.
    """
    path = Path(path)
    origin, batches = _opened(path)
    if origin is None:
        raise InputError(f"'{path}' does not hold predictions of `l2x label`.")
    table = pa.Table.from_batches(batches) if rows is None else sample_rows(batches, rows, seed=seed)
    return Predictions(values_of(table), table["checksum"].to_numpy(), origin, path)


def _opened(path: Path) -> tuple[Origin | None, Iterator[pa.RecordBatch]]:
    if not path.exists():
        raise InputError(f"There is no file '{path}'.")
    try:
        file = pa.parquet.ParquetFile(path)
    except (pa.ArrowException, OSError):
        return None, iter(())
    return Origin.of_schema(file.schema_arrow), file.iter_batches(BATCH_ROWS)


def values_of(table: pa.Table | pa.RecordBatch) -> Array:
    """Return the predictions (n, c) in a table."""
    names = [name for name in table.schema.names if name.startswith(PREFIX)]
    return np.stack([table[name].to_numpy() for name in names], axis=1)


def prediction_batch(first: int, checksums: Array, values: Array) -> pa.RecordBatch:
    """Return predictions for consecutive rows as a batch; `first` is the position of the first row."""
    columns = {f"{PREFIX}{j}": np.ascontiguousarray(column) for j, column in enumerate(values.T)}
    rows = {"row": np.arange(first, first + len(values)), "checksum": checksums}
    return pa.RecordBatch.from_pydict(rows | columns)


class Labelled:
    """Rows that have predictions already: batches of `prediction_batch`, in any order; they may overlap."""

    def __init__(
        self, batches: Iterable[pa.RecordBatch] = (), *, source: str = "earlier predictions"
    ) -> None:
        first = [(batch.column("row")[0].as_py(), batch) for batch in batches if len(batch)]
        first.sort(key=lambda pair: pair[0])
        self.first = [row for row, _ in first]
        self.batches = [batch for _, batch in first]
        # The row after the last one of a batch and of all batches before it.
        self.reach = list(accumulate((row + len(batch) for row, batch in first), max))
        self.source = source

    @classmethod
    def in_file(cls, path: Path, origin: Origin, journal: Iterable[pa.RecordBatch]) -> Labelled:
        """Return the rows of a finished file, if it exists, and of its journal."""
        return cls([*_file_batches(path, origin), *journal], source=f"'{path}'")

    @property
    def rows(self) -> int:
        """Return the number of different rows; a run killed after its file was complete has them twice."""
        ends = zip(self.first, self.reach, [0, *self.reach], strict=False)
        return sum(end - max(first, before) for first, end, before in ends if end > before)

    def stored(self, part: Part) -> Array:
        """Return which rows of a part have predictions, (n,); raise an InputError if one has changed."""
        mask = np.zeros(len(part), dtype=bool)
        if not self.rows:
            return mask
        first, checksums = part.first, row_checksums(part.raw)
        at = bisect_right(self.reach, first)
        while at < len(self.first) and self.first[at] < first + len(checksums):
            batch, start = self.batches[at], self.first[at] - first
            before = batch.column("checksum").to_numpy()[max(0, -start) :][: len(checksums) - max(0, start)]
            here = slice(max(0, start), max(0, start) + len(before))
            wrong = np.flatnonzero(before != checksums[here])
            if len(wrong):
                raise InputError(
                    f"Row {first + here.start + wrong[0]} is not the row that was labelled in {self.source}: "
                    "the inputs have changed. Delete the predictions to start over, or choose another file."
                )
            mask[here] = True
            at += 1
        return mask

    def in_order(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the batches by position, without that column; each of `rows` must occur, and occurs once."""
        done = 0
        for first, batch in zip(self.first, self.batches, strict=True):
            assert first <= done, f"no prediction for row {done}"
            if first + len(batch) > done:
                new = batch.slice(done - first).drop_columns(["row"])
                done += len(new)
                yield new
        assert done == rows, f"{done} predictions for {rows} rows"


def _file_batches(path: Path, origin: Origin) -> Iterator[pa.RecordBatch]:
    """Yield the content of a finished file in the form of a journal."""
    if not path.exists():
        return
    stored, batches = _opened(path)
    if stored is None:
        raise InputError(f"'{path}' holds something else than predictions; choose another file.")
    if stored.model != origin.model:
        raise InputError(
            f"'{path}' has predictions of {stored.model}, not of {origin.model}; choose another file."
        )
    first = 0
    for batch in batches:
        yield prediction_batch(first, batch.column("checksum").to_numpy(), values_of(batch))
        first += len(batch)


def equal_batches(batches: Iterable[pa.RecordBatch], size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of equal size: files then do not depend on the order of predictions."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        while sum(map(len, waiting)) >= size:
            whole = pa.concat_batches(waiting)
            yield whole.slice(0, size)
            waiting = [whole.slice(size)]
    rest = pa.concat_batches(waiting) if waiting else []
    if len(rest):
        yield rest
