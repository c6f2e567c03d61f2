"""Tables on disk, CSV and Parquet: read and written a batch at a time, in bounded memory."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from l2x.errors import InputError, some

if TYPE_CHECKING:
    import pandas as pd

Format = Literal["csv", "parquet"]
# The categories, in text, that are known of columns.
Categories = Mapping[str, Collection[str]]

# Rows at a time: enough that the overhead of one batch is lost in its work, fewer where rows are wide,
# so that a batch of float64 stays below 8 MiB.
BATCH_ROWS = 32_768
BATCH_CELLS = 1 << 20
# Bytes of CSV parsed at a time; pyarrow guesses the columns' types from the first block.
CSV_BLOCK = 4 << 20
# Rows of a Parquet row group.
GROUP_ROWS = 16 * BATCH_ROWS
# Bytes of each Parquet column read at a time.
PARQUET_BUFFER = 1 << 16


class Table:
    """A CSV or Parquet file, or a text in each line of a .txt file, opened to read columns in batches.

    Attributes
    ----------
    columns : the names of its columns, without those that only hold a pandas index
    index_columns : names of columns that pandas wrote for its index; they can be read, but are not data
    rows : how many rows it has; None for CSV, which does not say
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.format = "txt" if path.suffix.lower() == ".txt" else format_of(path)
        if not path.exists():
            raise InputError(f"There is no file '{path}'.")
        if path.is_dir():
            raise InputError(f"'{path}' is a folder; give one .csv, .parquet or .txt file.")
        self.rows: int | None = None
        self._source: Any = None
        with _reading(path):
            if self.format != "parquet":
                with pa.csv.open_csv(path, **_csv_options(self.format)) as reader:
                    self._schema = reader.schema
            else:
                with pa.parquet.ParquetFile(path) as file:
                    self._schema = file.schema_arrow
                    self.rows = int(file.metadata.num_rows)
        names = self._schema.names
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(f"'{path}' has more than one column named {', '.join(map(repr, twice))}.")
        written = (self._schema.pandas_metadata or {}).get("index_columns", [])
        self.index_columns = [name for name in names if name in written]
        self.columns = [name for name in names if name not in self.index_columns]

    @property
    def text_columns(self) -> list[str]:
        """Those of its columns that hold texts."""
        if self.format == "txt":
            return self.columns
        types = {name: self._schema.field(name).type for name in self.columns}
        return [n for n, t in types.items() if pa.types.is_string(t) or pa.types.is_large_string(t)]

    @property
    def integer_columns(self) -> list[str]:
        """Those that hold integers; in a CSV, as far as its first block says."""
        return [name for name in self.columns if pa.types.is_integer(self._schema.field(name).type)]

    def require(self, names: Iterable[str], option: str) -> None:
        """Every name must be a column: an option with a typing mistake must not pass in silence."""
        known = [*self.columns, *self.index_columns]
        for name in names:
            if name not in known:
                raise InputError(f"{option} {name}: '{self.path}' has no such column; it has {some(known)}.")

    def batches(
        self,
        columns: Sequence[str],
        *,
        text: Sequence[str] = (),
        categories: Categories | None = None,
        batch_rows: int | None = None,
        skip: int = 0,
    ) -> Iterator[pa.RecordBatch]:
        """The rows in order, after the first `skip`, at most `batch_rows` at a time, with `columns` and then
        `text`.

        Columns in `text` are copied, not computed with: from a CSV they come as the characters in the
        file, so that 007 stays 007. In the others an empty field, NA and the like are missing cells, and
        those in `categories` are texts, whatever they look like; a category that is known is never missing.
        """
        wanted = list(dict.fromkeys([*columns, *text]))
        batch_rows = batch_rows or max(1, min(BATCH_ROWS, BATCH_CELLS // max(1, len(wanted))))
        with _reading(self.path):
            blocks = self._blocks(wanted, set(text) - set(columns), categories or {}, batch_rows, skip)
            for batch in blocks:
                for start in range(0, len(batch), batch_rows):
                    yield batch.slice(start, batch_rows)

    def share_read(self, rows: int) -> float:
        """How much of the file is behind us after `rows` rows, for a progress bar."""
        if self.rows is not None:
            return rows / max(1, self.rows)
        if self._source is None or self._source.closed:
            return 1.0
        share: float = self._source.tell() / self._source.size()
        return share

    def _blocks(
        self, wanted: list[str], text: set[str], categories: Categories, batch_rows: int, skip: int
    ) -> Iterator[pa.RecordBatch]:
        if self.format == "parquet":
            # By default pyarrow keeps every byte it has read, and a row group may be the whole file.
            with pa.parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=PARQUET_BUFFER) as file:
                first = 0  # row groups that are skipped whole need not be read
                while first < file.num_row_groups and skip >= file.metadata.row_group(first).num_rows:
                    skip -= file.metadata.row_group(first).num_rows
                    first += 1
                groups = range(first, file.num_row_groups)
                decimal = [name for name in wanted if name not in text and self._is_decimal(name)]
                for batch in file.iter_batches(batch_rows, row_groups=groups, columns=wanted):
                    yield _with_floats(batch.select(wanted).slice(skip), decimal)
                    skip = max(0, skip - len(batch))
            return
        as_text = text | set(categories)
        types = {name: _csv_type(self._schema.field(name).type, name in as_text) for name in wanted}
        options = pa.csv.ConvertOptions(include_columns=wanted, column_types=types)
        gaps = {
            name: pa.array([cell for cell in options.null_values if cell not in categories.get(name, ())])
            for name in wanted
            if pa.types.is_string(types[name]) and name not in text
        }
        with pa.OSFile(str(self.path)) as source:
            self._source = source
            with pa.csv.open_csv(source, convert_options=options, **_csv_options(self.format)) as reader:
                for batch in reader:
                    yield _with_gaps(batch.slice(skip), gaps)
                    skip = max(0, skip - len(batch))

    def _is_decimal(self, name: str) -> bool:
        return bool(pa.types.is_decimal(self._schema.field(name).type))


def known_columns(table: Table, known: Sequence[str] | None, drop: Sequence[str] = ()) -> list[str]:
    """The table's columns without the dropped ones; just the `known` ones if they are all there."""
    columns = [name for name in table.columns if name not in drop]
    if known and set(known) <= set(columns):
        columns = list(known)
    if not columns:
        raise InputError(f"No column of '{table.path}' is left to explain with.")
    return columns


def read_sample(
    table: Table,
    columns: Sequence[str],
    rows: int,
    *,
    seed: int,
    as_text: bool = False,
    categories: Categories | None = None,
) -> pd.DataFrame:
    """At most `rows` rows, drawn at random, in memory that does not grow with the table.

    Of a CSV, as pandas would have read them: models are picky about integers and about what is missing.
    """
    batches = table.batches((), text=columns) if as_text else table.batches(columns, categories=categories)
    frame: pd.DataFrame = sample_rows(batches, rows, seed=seed).to_pandas(ignore_metadata=True)
    if table.format == "csv" and not as_text:
        integers = set(table.integer_columns) & set(columns)
        frame = frame.astype({name: np.int64 for name in integers if _all_whole(frame[name])})
        objects = [name for name in columns if frame[name].dtype == object]
        for name in objects:  # texts or booleans, with None where some are missing
            frame[name] = frame[name].where(frame[name].notna(), np.nan)
    return frame


def _all_whole(column: pd.Series[Any]) -> bool:
    """Whether a column, read as floats or as text, holds integers only, none of them missing."""
    if column.dtype != np.float64:
        return False
    values = column.to_numpy()
    return bool(((values % 1 == 0) & (np.abs(values) <= 2**53)).all())  # above, floats are no exact integers


def sample_rows(batches: Iterable[pa.RecordBatch], n: int, *, seed: int) -> pa.Table:
    """n rows at random (all, if there are fewer) in file order, in one pass that holds some 2 n at most.

    Every row gets a random key and the n smallest keys stay, so that each subset of n is equally likely.
    """
    rng = np.random.default_rng(seed)
    kept: list[pa.RecordBatch] = []
    keys: list[np.ndarray[Any, Any]] = []
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


def _smallest(
    kept: list[pa.RecordBatch], keys: list[np.ndarray[Any, Any]], n: int
) -> tuple[pa.Table, np.ndarray[Any, Any]]:
    """The rows with the n smallest keys, in their order, and the keys."""
    table, key = pa.Table.from_batches(kept), np.concatenate(keys)
    if len(key) <= n:
        return table, key
    chosen = np.sort(np.argpartition(key, n - 1)[:n])
    return table.take(pa.array(chosen)).combine_chunks(), key[chosen]


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


@contextmanager
def replacing(path: Path, *, folder: Path | None = None) -> Iterator[IO[bytes]]:
    """A file in `folder`, by default beside `path`, that takes its place when the block ends well, and
    vanishes when it does not."""
    file = _beside(path, folder)
    try:
        yield file
        file.flush()
        os.fsync(file.fileno())
        file.close()
        # Temporary files are private; a result gets the usual rights.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(file.name, 0o666 & ~umask)
        os.replace(file.name, path)
    except BaseException as error:
        file.close()
        Path(file.name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _cannot_write(path, error) from error
        raise


def check_writable(path: Path, *, inputs: Mapping[str, Path] | None = None) -> None:
    """Fail now rather than after an hour of work, if nothing can be written to `path`, or if it is one of the
    `inputs`, by what the user calls them."""
    for name, read in (inputs or {}).items():
        if path.exists() and read.exists() and path.samefile(read):
            raise InputError(f"'{path}' is {name}: write to another file, or {name} would be lost.")
    file = _beside(path)
    file.close()
    Path(file.name).unlink()


def format_of(path: Path) -> Format:
    suffix = path.suffix.lower()
    if suffix == ".csv":
        return "csv"
    if suffix == ".parquet":
        return "parquet"
    raise InputError(f"'{path}' is neither a .csv nor a .parquet file.")


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


def _csv_options(kind: str) -> dict[str, Any]:
    if kind == "txt":  # one column, whatever stands in a line: what separates columns in it is no text
        lines = pa.csv.ParseOptions(delimiter="\x1f", quote_char=False, ignore_empty_lines=False)
        names = pa.csv.ReadOptions(block_size=CSV_BLOCK, column_names=["text"])
        return {"read_options": names, "parse_options": lines}
    # Texts may have several lines, in quotes.
    quoted = pa.csv.ParseOptions(newlines_in_values=True)
    return {"read_options": pa.csv.ReadOptions(block_size=CSV_BLOCK), "parse_options": quoted}


def _csv_type(guessed: pa.DataType, as_text: bool) -> pa.DataType:
    """The guess comes from the first block: a later one may have 0.5 where it saw only integers or gaps."""
    if as_text:
        return pa.string()
    return pa.float64() if pa.types.is_integer(guessed) or pa.types.is_null(guessed) else guessed


def _with_floats(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Columns of decimals are numbers to compute with; pandas would make objects of them."""
    for name in names:
        cells = batch.column(name).cast(pa.float64())
        batch = batch.set_column(batch.schema.get_field_index(name), name, cells)
    return batch


def _with_gaps(batch: pa.RecordBatch, gaps: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Texts that stand for a missing cell become nulls, column by column; pyarrow itself does all or none."""
    for name, spellings in gaps.items():
        cells = batch.column(name)
        missing = pc.is_in(cells, value_set=spellings)
        if missing.true_count:
            cells = pc.if_else(missing, pa.scalar(None, cells.type), cells)
            batch = batch.set_column(batch.schema.get_field_index(name), name, cells)
    return batch


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"Cannot read '{path}': {error}") from error


def _beside(path: Path, folder: Path | None = None) -> IO[bytes]:
    if path.is_dir():
        raise InputError(f"Cannot write '{path}': it is a folder.")
    try:
        return tempfile.NamedTemporaryFile(dir=folder or path.parent, prefix=f".{path.name}.", delete=False)
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> InputError:
    reason = error.strerror or str(error)
    if isinstance(error, FileNotFoundError):
        reason = f"there is no folder '{path.parent}'"
    return InputError(f"Cannot write '{path}': {reason}. What was there before is unchanged.")
