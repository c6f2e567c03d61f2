"""Tables written to disk, CSV or Parquet: a batch at a time, and whole or not at all."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from l2x.files.tables import BATCH_ROWS, format_of
from l2x.foundations.atomic import replacing

Write = Callable[[pa.RecordBatch], None]

# Rows of a Parquet row group.
GROUP_ROWS = 16 * BATCH_ROWS


@contextmanager
def table_writer(path: Path, *, folder: Path | None = None) -> Iterator[Write]:
    """`with table_writer(path) as write: write(batch)`: the file appears when the block ends without error.

    Until then it is a temporary file in `folder`, which must be on the same disk; by default beside `path`.
    """
    writer = csv_writer if format_of(path) == "csv" else _parquet_writer
    with replacing(path, folder=folder) as file, writer(file) as write:
        yield write


@contextmanager
def _parquet_writer(file: IO[bytes]) -> Iterator[Write]:
    """Gathers batches into row groups: every group costs readers some metadata and a seek."""
    gathered: list[pa.RecordBatch] = []
    rows, writer = 0, None

    def flush() -> None:
        nonlocal rows, writer
        if gathered:
            writer = writer or _open_parquet(file, gathered[0].schema)
            writer.write_table(pa.Table.from_batches(gathered))
            gathered.clear()
            rows = 0

    def write(batch: pa.RecordBatch) -> None:
        nonlocal rows
        gathered.append(batch)
        rows += len(batch)
        if rows >= GROUP_ROWS:
            flush()

    try:
        yield write
        flush()
        if writer is not None:
            writer.close()
    except BaseException:
        # pyarrow must not complete the file, which is about to be deleted, when it deletes its writer.
        if writer is not None:
            writer.is_open = False
        raise


def _open_parquet(file: IO[bytes], schema: pa.Schema) -> pa.parquet.ParquetWriter:
    """Floats hardly repeat: a dictionary of them, and compression, only cost time. Statistics (least and
    largest of a row group) would be a quarter of the time, and nobody filters by features or scores."""
    floats = [field.name for field in schema if pa.types.is_floating(field.type)]
    features = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    return pa.parquet.ParquetWriter(
        file,
        schema,
        use_dictionary=[name for name in schema.names if name not in floats],
        write_statistics=[name for name in schema.names if name not in [*features, *floats]],
        compression={name: "none" if name in floats else "snappy" for name in schema.names},
    )


@contextmanager
def csv_writer(file: IO[bytes]) -> Iterator[Write]:
    """Writes batches as CSV, with a header."""
    header_written = False

    def write(batch: pa.RecordBatch) -> None:
        nonlocal header_written
        if not header_written:
            line = io.StringIO()
            csv.writer(line, lineterminator="\n").writerow(batch.schema.names)
            file.write(line.getvalue().encode())
            header_written = True
        try:
            file.write(_csv_bytes(batch, quoting="none"))
        except pa.ArrowInvalid:
            # pyarrow quotes every text or none: all where one of them holds a comma, a quote or a newline.
            file.write(_csv_bytes(batch, quoting="needed"))

    yield write


def _csv_bytes(batch: pa.RecordBatch, *, quoting: str) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    options = pa.csv.WriteOptions(include_header=False, quoting_style=quoting)
    pa.csv.write_csv(batch, sink, options)
    return sink.getvalue()
