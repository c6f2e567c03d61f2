"""A checksum of every row: whether the rows of today are those that a model answered yesterday."""

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


KEY = b"l2x.answers"


def check_answers_path(path: Path) -> None:
    if path.suffix.lower() != ".parquet":
        raise InputError(f"Answers are kept in a .parquet file, not in '{path}'.")


@dataclass(frozen=True)
class Origin:
    """Who answered: the model's name, "classification" or "regression", and its classes where known."""

    model: str
    task: Literal["classification", "regression"] | None = None
    classes: list[Any] | None = None

    @classmethod
    def of_model(cls, black_box: BlackBox) -> Origin:
        classes = None if black_box.classes is None else black_box.classes.tolist()
        return cls(black_box.name, black_box.task, classes)

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of a file of these answers."""
        return schema.with_metadata({KEY: json.dumps(asdict(self))})

    @classmethod
    def of(cls, schema: pa.Schema) -> Origin | None:
        """What a file says; None if it is not a file of answers."""
        said = (schema.metadata or {}).get(KEY)
        return None if said is None else cls(**json.loads(said))


@dataclass(frozen=True)
class Answers:
    """A model's answers, (n, classes) or (n, means), with the checksums of the inputs."""

    values: Array
    checksums: Array
    origin: Origin
    path: Path

    def __len__(self) -> int:
        return len(self.values)

    def check(self, X: Any) -> None:
        """An InputError unless the inputs are those that were answered, in the same order."""
        if len(X) != len(self):
            raise InputError(f"'{self.path}' answers {len(self):,} rows, but there are {len(X):,} inputs.")
        wrong = np.flatnonzero(row_checksums(X) != self.checksums)
        if len(wrong):
            raise InputError(
                f"'{self.path}' answers other inputs: row {wrong[0]} differs ({len(wrong):,} of {len(self):,}"
                " do). Give the rows, columns and order that were labelled, or label these."
            )


def read_answers(path: str | Path, *, rows: int | None = None, seed: int = 0) -> Answers:
    """The answers in a file that `l2x.label` wrote; with `rows`, of the rows that `read_sample` draws from
    a table of that length with that seed."""
    path = Path(path)
    origin, batches = _opened(path)
    if origin is None:
        raise InputError(f"'{path}' is not a file of answers, as l2x label writes it.")
    table = pa.Table.from_batches(batches) if rows is None else sample_rows(batches, rows, seed=seed)
    return Answers(values_of(table), table["checksum"].to_numpy(), origin, path)


def values_of(table: pa.Table | pa.RecordBatch) -> Array:
    """(n, c) answers."""
    names = [name for name in table.schema.names if name.startswith("answer_")]
    return np.stack([table[name].to_numpy() for name in names], axis=1)


def _opened(path: Path) -> tuple[Origin | None, Iterator[pa.RecordBatch]]:
    if not path.exists():
        raise InputError(f"There is no file '{path}'.")
    try:
        file = pa.parquet.ParquetFile(path)
    except (pa.ArrowException, OSError):
        return None, iter(())
    return Origin.of(file.schema_arrow), file.iter_batches(BATCH_ROWS)


def answer_batch(first: int, checksums: Array, values: Array) -> pa.RecordBatch:
    """Answers of rows next to each other, the first of which has this position."""
    columns = {f"answer_{j}": np.ascontiguousarray(column) for j, column in enumerate(values.T)}
    return pa.RecordBatch.from_pydict(
        {"row": np.arange(first, first + len(values)), "checksum": checksums} | columns
    )


class Answered:
    """Which rows are answered already: batches of `answer_batch`, in any order, none in memory twice."""

    def __init__(self, batches: Iterable[pa.RecordBatch] = (), *, source: str = "earlier answers") -> None:
        first = [(batch.column("row")[0].as_py(), batch) for batch in batches if len(batch)]
        first.sort(key=lambda pair: pair[0])
        self.first = [row for row, _ in first]
        self.batches = [batch for _, batch in first]
        # The row after the last one that a batch or any before it answers: batches may overlap.
        self.reach = list(accumulate((row + len(batch) for row, batch in first), max))
        self.source = source

    @classmethod
    def in_file(cls, path: Path, origin: Origin, batches: Iterable[pa.RecordBatch]) -> Answered:
        """Those of a finished file, if there is one, and of a journal beside it."""
        return cls([*_of_file(path, origin), *batches], source=f"'{path}'")

    @property
    def rows(self) -> int:
        """How many different rows: a run that was killed after its file was complete leaves them twice."""
        ends = zip(self.first, self.reach, [0, *self.reach], strict=False)
        return sum(end - max(first, before) for first, end, before in ends if end > before)

    def known(self, part: Part) -> Array:
        """(n,) which rows of the part are answered; an InputError if a row is not the one that was."""
        mask = np.zeros(len(part), dtype=bool)
        if not self.rows:
            return mask
        first, checksums = part.first, row_checksums(part.raw)
        at = bisect_right(self.reach, first)
        while at < len(self.first) and self.first[at] < first + len(checksums):
            batch, start = self.batches[at], self.first[at] - first
            known = batch.column("checksum").to_numpy()[max(0, -start) :][: len(checksums) - max(0, start)]
            here = slice(max(0, start), max(0, start) + len(known))
            wrong = np.flatnonzero(known != checksums[here])
            if len(wrong):
                raise InputError(
                    f"Row {first + here.start + wrong[0]} is not the row that was answered in {self.source}: "
                    "the inputs have changed. Delete the answers to start over, or choose another file."
                )
            mask[here] = True
            at += 1
        return mask

    def in_order(self, rows: int) -> Iterator[pa.RecordBatch]:
        """The batches by position, without that column; each row once, and every one of `rows`."""
        done = 0
        for first, batch in zip(self.first, self.batches, strict=True):
            assert first <= done, f"no answer for row {done}"
            if first + len(batch) > done:
                new = batch.slice(done - first).drop_columns(["row"])
                done += len(new)
                yield new
        assert done == rows, f"{done} answers for {rows} rows"


def _of_file(path: Path, origin: Origin) -> Iterator[pa.RecordBatch]:
    """What a finished file answers, as a journal would have it."""
    if not path.exists():
        return
    there, batches = _opened(path)
    if there is None:
        raise InputError(f"'{path}' is something else than answers; choose another file.")
    check_same_model(there.model, origin.model, path)
    first = 0
    for batch in batches:
        yield answer_batch(first, batch.column("checksum").to_numpy(), values_of(batch))
        first += len(batch)


def check_same_model(known: str, asked: str, path: Path) -> None:
    """Answers of two models do not go into one file."""
    if known != asked:
        raise InputError(f"'{path}' has answers of {known}, not of {asked}; choose another file.")


def equal_batches(batches: Iterable[pa.RecordBatch], size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of equal size: files then do not depend on how the answers came in."""
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
