"""Tables written to disk as CSV or Parquet, whole or not at all; and standard input and output."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from l2x._base.atomic import replacing
from l2x.errors import InputError
from l2x.files._tables import BATCH_ROWS, Table, format_of

Write = Callable[[pa.RecordBatch], None]

# Rows of a Parquet row group.
GROUP_ROWS = 16 * BATCH_ROWS


@contextmanager
def table_writer(path: Path, *, folder: Path | None = None) -> Iterator[Write]:
    """Yield `write(batch)`; the file appears when the block ends without error.

    Until then it is a temporary file in `folder`, by default that of `path`, which must be on the same disk.
    """
    writer = csv_writer if format_of(path) == "csv" else _parquet_writer
    with replacing(path, folder=folder) as file, writer(file) as write:
        yield write


@contextmanager
def _parquet_writer(file: IO[bytes]) -> Iterator[Write]:
    """Write batches in large row groups: every group costs readers metadata and a seek."""
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
        # The file is about to be deleted: pyarrow must not complete it.
        if writer is not None:
            writer.is_open = False
        raise


def _open_parquet(file: IO[bytes], schema: pa.Schema) -> pa.parquet.ParquetWriter:
    """Return a writer without needless work.

    Floats rarely repeat, so that dictionaries and compression only cost time. Statistics (the range of a row
    group) would take a quarter of the time, and features and scores are not filtered by.
    """
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
    """Write batches as CSV, with a header."""
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
            # pyarrow quotes all texts or none: all, if one of them holds a comma, a quote or a newline.
            file.write(_csv_bytes(batch, quoting="needed"))

    yield write


def _csv_bytes(batch: pa.RecordBatch, *, quoting: str) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    options = pa.csv.WriteOptions(include_header=False, quoting_style=quoting)
    pa.csv.write_csv(batch, sink, options)
    return sink.getvalue()


STANDARD = Path("-")
# Bytes of JSON parsed at a time.
BLOCK = 8 << 20


@contextmanager
def opened(path: Path) -> Iterator[tuple[Table, bool]]:
    """Yield the table at `path`, or on standard input for "-", and whether it came as JSON lines.

    Tables are read more than once, but pipes only once: standard input is copied to a temporary file. It is
    JSON if it begins with a brace.
    """
    if path != STANDARD:
        yield Table(path), False
        return
    with tempfile.TemporaryDirectory(prefix="l2x-") as folder:
        source = sys.stdin.buffer
        start = source.read(1)
        if not start:
            raise InputError("Standard input is empty: pipe a CSV table with a header, or JSON lines.")
        lines = start == b"{"
        spool = Path(folder) / ("input.parquet" if lines else "input.csv")
        with spool.open("wb") as file:
            if lines:
                _as_parquet(start, source, file)
            else:
                file.write(start)
                shutil.copyfileobj(source, file)
        yield Table(spool), lines


@contextmanager
def standard_output(*, lines: bool) -> Iterator[Write]:
    """Yield `write(batch)` for standard output, as JSON lines or as CSV."""
    file = sys.stdout.buffer
    with _json_writer(file) if lines else csv_writer(file) as write:
        yield write
    file.flush()


@contextmanager
def _json_writer(file: IO[bytes]) -> Iterator[Write]:
    def write(batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            file.write(f"{json.dumps(row, ensure_ascii=False, default=str)}\n".encode())

    yield write


def _as_parquet(start: bytes, source: IO[bytes], target: IO[bytes]) -> None:
    """Convert JSON lines to Parquet, block by block, with the types of the first; integers become floats."""
    writer, schema, first = None, None, 0
    try:
        while block := source.readlines(BLOCK):
            content, start = start + b"".join(block), b""
            table = _parsed(content, schema, first)
            if writer is None:
                floats = {
                    f.name for f in table.schema if pa.types.is_integer(f.type) or pa.types.is_null(f.type)
                }
                schema = pa.schema(
                    [(f.name, pa.float64() if f.name in floats else f.type) for f in table.schema]
                )
                writer = pa.parquet.ParquetWriter(target, schema)
            writer.write_table(table.cast(schema))
            first += len(block)
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise InputError("Standard input holds no rows.")


def _parsed(content: bytes, schema: pa.Schema | None, first: int) -> pa.Table:
    options = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    read = pa.json.ReadOptions(block_size=max(len(content), 1))
    try:
        return pa.json.read_json(
            io.BytesIO(content), read_options=read, parse_options=options if schema else None
        )
    except pa.ArrowInvalid as error:
        raise InputError(
            f"Standard input is not JSON with one object per line, from line {first + 1} on: {error}"
        ) from error
