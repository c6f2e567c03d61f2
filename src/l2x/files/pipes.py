"""Standard input and output as tables: CSV, or JSON with one object per line."""

from __future__ import annotations

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
import pyarrow.json
import pyarrow.parquet

from l2x.errors import InputError
from l2x.files.tables import Table
from l2x.files.writing import csv_writer

STANDARD = Path("-")
# Bytes of JSON parsed at a time.
BLOCK = 8 << 20

Write = Callable[[pa.RecordBatch], None]


@contextmanager
def opened(path: Path) -> Iterator[tuple[Table, bool]]:
    """The table at `path`, or for "-" that of standard input; and whether it came as JSON lines.

    Tables are read more than once, pipes only once: what comes in is kept in a temporary file until the block
    ends. It is JSON if it begins with a brace.
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
    """Writes batches to standard output, as JSON lines or as CSV."""
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
    """JSON lines as a Parquet file, block by block, with the types of the first; integers are floats."""
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
            f"Standard input is no JSON with one object per line, from line {first + 1} on: {error}"
        ) from error
