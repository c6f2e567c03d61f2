"""Tables written to disk, CSV or Parquet: a batch at a time, and whole or not at all."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from l2x.files.tables import BATCH_ROWS, format_of
from l2x.foundations.atomic import replacing

# Rows of a Parquet row group.
GROUP_ROWS = 16 * BATCH_ROWS


@contextmanager
def table_writer(path: Path, *, folder: Path | None = None) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """`with table_writer(path) as write: write(batch)`: the file appears when the block ends without error.

    Until then it is a temporary file in `folder`, which must be on the same disk; by default beside `path`.
    """
    kind = format_of(path)
    with replacing(path, folder=folder) as file:
        writer = _CsvWriter(file) if kind == "csv" else _ParquetWriter(file)
        try:
            yield writer.write
            writer.close()
        except BaseException:
            writer.abandon()
            raise


class _ParquetWriter:
    """Gathers batches into row groups: every group costs readers some metadata and a seek."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.writer: Any = None
        self.gathered: list[pa.RecordBatch] = []
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self.gathered.append(batch)
        self.rows += len(batch)
        if self.rows >= GROUP_ROWS:
            self._flush()

    def close(self) -> None:
        self._flush()
        if self.writer is not None:
            self.writer.close()

    def abandon(self) -> None:
        """pyarrow must not complete the file, which is about to be deleted, when it deletes its writer."""
        if self.writer is not None:
            self.writer.is_open = False

    def _flush(self) -> None:
        if not self.gathered:
            return
        if self.writer is None:
            self.writer = _parquet_writer(self.file, self.gathered[0].schema)
        self.writer.write_table(pa.Table.from_batches(self.gathered))
        self.gathered, self.rows = [], 0


def _parquet_writer(file: IO[bytes], schema: pa.Schema) -> Any:
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


class _CsvWriter:
    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.header_written = False

    def write(self, batch: pa.RecordBatch) -> None:
        if not self.header_written:
            line = io.StringIO()
            csv.writer(line, lineterminator="\n").writerow(batch.schema.names)
            self.file.write(line.getvalue().encode())
            self.header_written = True
        try:
            self.file.write(_csv_bytes(batch, quoting="none"))
        except pa.ArrowInvalid:
            # pyarrow quotes every text or none: all where one of them holds a comma, a quote or a newline.
            self.file.write(_csv_bytes(batch, quoting="needed"))

    def close(self) -> None:
        pass

    def abandon(self) -> None:
        pass


def _csv_bytes(batch: pa.RecordBatch, *, quoting: str) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    options = pa.csv.WriteOptions(include_header=False, quoting_style=quoting)
    pa.csv.write_csv(batch, sink, options)
    return sink.getvalue()
