"""Results on disk, CSV and Parquet: written a batch at a time, and whole or not at all."""

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
    """`with table_writer(path) as write: write(batch)` - the file appears whole, when the block ends well.

    Until then it is in `folder`, by default that of `path`, and on the same disk.
    """
    kind = format_of(path)
    with replacing(path, folder=folder) as file:
        writer = _CsvWriter(file) if kind == "csv" else _ParquetWriter(file)
        yield writer.write
        writer.close()


class _ParquetWriter:
    """Batches gather into row groups: every group costs its readers a piece of metadata and a seek."""

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

    def _flush(self) -> None:
        if not self.gathered:
            return
        if self.writer is None:
            schema = self.gathered[0].schema
            # Floats hardly repeat: a dictionary of them, and compression, only cost time. The least and the
            # largest of each group, a quarter of the writing, help nobody to skip a group of results.
            plain = [field.name for field in schema if pa.types.is_floating(field.type)]
            results = [field.name for field in schema if pa.types.is_dictionary(field.type)] + plain
            self.writer = pa.parquet.ParquetWriter(
                self.file,
                schema,
                use_dictionary=[name for name in schema.names if name not in plain],
                write_statistics=[name for name in schema.names if name not in results],
                compression={name: "none" if name in plain else "snappy" for name in schema.names},
            )
        self.writer.write_table(pa.Table.from_batches(self.gathered))
        self.gathered, self.rows = [], 0


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
            # pyarrow quotes every text or none: all of them where one holds a comma, quote or newline.
            self.file.write(_csv_bytes(batch, quoting="needed"))

    def close(self) -> None:
        pass


def _csv_bytes(batch: pa.RecordBatch, *, quoting: str) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    options = pa.csv.WriteOptions(include_header=False, quoting_style=quoting)
    pa.csv.write_csv(batch, sink, options)
    return sink.getvalue()
