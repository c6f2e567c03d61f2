"""Tables on disk: CSV, Parquet and lines of text, read in batches, as a view reads them, or as a sample."""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from l2x._base.arrays import Array
from l2x.errors import InputError, some
from l2x.features import View

# The known categories, which are texts, by column.
Categories = Mapping[str, Collection[str]]

# Rows at a time: enough to make the overhead of a batch negligible, fewer if rows are wide, so that a batch
# of float64 stays below 8 MiB.
BATCH_ROWS = 32_768
BATCH_CELLS = 1 << 20
# Texts at a time: they are longer than rows of numbers, and have more features.
TEXT_ROWS = 4096
# Bytes of CSV parsed at a time; pyarrow guesses the columns' types from the first block.
CSV_BLOCK = 4 << 20
BAD_CELL = re.compile(r"In CSV column #(\d+): Row #(\d+): CSV conversion error to (\w+): invalid value (.*)")
# Bytes of each Parquet column read at a time.
PARQUET_BUFFER = 1 << 16


class Table:
    """A CSV or Parquet file, or a .txt file with one text per line, read by columns in batches.

    Attributes
    ----------
    columns : list of str
        The names of its columns, without those that hold a pandas index.
    index_columns : list of str
        Names of columns that pandas wrote for its index; they can be read, but are not data.
    rows : int or None
        The number of rows; None for CSV, which does not store it.
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
        if self.format != "parquet":
            _check_encoding(path)
        with _reading(path):
            if self.format != "parquet":
                with pa.csv.open_csv(path, **_csv_options(self.format)) as reader:
                    schema = reader.schema
            else:
                with pa.parquet.ParquetFile(path) as file:
                    schema, self.rows = file.schema_arrow, int(file.metadata.num_rows)
            self._set_schema(schema)

    @classmethod
    def described(cls, schema: pa.Schema, name: str) -> Table:
        """Return a table with these columns and no rows, for rows that are read elsewhere."""
        table = cls.__new__(cls)
        table.path, table.format, table.rows, table._source = Path(name), "parquet", None, None
        table._set_schema(schema)
        return table

    def _set_schema(self, schema: pa.Schema) -> None:
        names = schema.names
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(f"'{self.path}' has more than one column named {', '.join(map(repr, twice))}.")
        self._types = dict(zip(names, schema.types, strict=True))  # in a CSV, guessed from the first block
        written = (schema.pandas_metadata or {}).get("index_columns", [])
        self.index_columns = [name for name in names if name in written]
        self.columns = [name for name in names if name not in self.index_columns]

    @property
    def text_columns(self) -> list[str]:
        """Return the columns that hold texts."""
        if self.format == "txt":
            return self.columns
        texts = pa.string(), pa.large_string()
        return [name for name in self.columns if self._types[name] in texts]

    @property
    def list_columns(self) -> list[str]:
        """Return the columns that hold lists."""
        lists = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list
        return [name for name in self.columns if any(is_one(self._types[name]) for is_one in lists)]

    @property
    def integer_columns(self) -> list[str]:
        """Return the columns that hold integers, according to the first block of a CSV."""
        return [name for name in self.columns if pa.types.is_integer(self._types[name])]

    def require(self, names: Iterable[str], purpose: str) -> None:
        """Raise an InputError unless every name is a column; `purpose` is a verb, such as "drop"."""
        names_here = [*self.columns, *self.index_columns]
        for name in names:
            if name not in names_here:
                raise InputError(
                    f"Cannot {purpose} '{name}': the columns of '{self.path}' are {some(names_here)}."
                )

    def batches(
        self,
        columns: Sequence[str],
        *,
        text: Sequence[str] = (),
        categories: Categories | None = None,
        batch_rows: int | None = None,
        skip: int = 0,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in file order, at most `batch_rows` at a time.

        Parameters
        ----------
        columns : sequence of str
            Columns to compute with. In a CSV, empty fields, NA and similar values are missing cells.
        text : sequence of str
            Columns to copy, which follow in the batch. In a CSV, they are the characters in the file, so that
            007 stays 007.
        categories : mapping, optional
            Columns that are read as texts, whatever they look like, with their known categories, which are
            never missing cells.
        batch_rows : int, optional
            By default as many rows as fit a fixed number of cells.
        skip : int
            The number of rows to leave out at the beginning.
        """
        wanted = list(dict.fromkeys([*columns, *text]))
        batch_rows = batch_rows or max(1, min(BATCH_ROWS, BATCH_CELLS // max(1, len(wanted))))
        with _reading(self.path):
            copied = set(text) - set(columns)
            if self.format == "parquet":
                blocks = self._parquet_blocks(wanted, copied | set(categories or ()), batch_rows, skip)
            else:
                blocks = self._csv_blocks(wanted, copied, categories or {}, skip)
            for batch in blocks:
                for start in range(0, len(batch), batch_rows):
                    yield batch.slice(start, batch_rows)

    def share_read(self, rows: int) -> float:
        """Return the share of the file that is read after `rows` rows, for a progress bar."""
        if self.rows is not None:
            return rows / max(1, self.rows)
        if self._source is None or self._source.closed:
            return 1.0
        share: float = self._source.tell() / self._source.size()
        return share

    def _parquet_blocks(
        self, wanted: list[str], unchanged: set[str], batch_rows: int, skip: int
    ) -> Iterator[pa.RecordBatch]:
        # In a column of type null every cell is missing; a CSV has no such type.
        others = {name: self._types[name] for name in wanted if name not in unchanged}
        floats = [
            name for name, kind in others.items() if pa.types.is_decimal(kind) or pa.types.is_null(kind)
        ]
        # By default pyarrow keeps every byte it has read, and a row group may be the whole file.
        with pa.parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=PARQUET_BUFFER) as file:
            first = 0  # row groups that are skipped need not be read
            while first < file.num_row_groups and skip >= file.metadata.row_group(first).num_rows:
                skip -= file.metadata.row_group(first).num_rows
                first += 1
            groups = range(first, file.num_row_groups)
            for batch in file.iter_batches(batch_rows, row_groups=groups, columns=wanted):
                yield with_floats(batch.select(wanted).slice(skip), floats)
                skip = max(0, skip - len(batch))

    def _csv_blocks(
        self, wanted: list[str], copied: set[str], categories: Categories, skip: int
    ) -> Iterator[pa.RecordBatch]:
        as_text = copied | set(categories)
        types = {name: _csv_type(self._types[name], name in as_text) for name in wanted}
        options = pa.csv.ConvertOptions(include_columns=wanted, column_types=types)
        gaps = {
            name: pa.array([cell for cell in options.null_values if cell not in categories.get(name, ())])
            for name in wanted
            if pa.types.is_string(types[name]) and name not in copied
        }
        with pa.OSFile(str(self.path)) as source:
            self._source = source
            with pa.csv.open_csv(source, convert_options=options, **_csv_options(self.format)) as reader:
                for batch in reader:
                    yield _with_gaps(batch.slice(skip), gaps)
                    skip = max(0, skip - len(batch))


def view_batches(
    table: Table,
    view: View,
    columns: Sequence[str],
    *,
    copy: Sequence[str] = (),
    batch_rows: int | None = None,
    skip: int = 0,
) -> Iterator[pa.RecordBatch]:
    """Yield `Table.batches` of columns as `view`, fitted or not, reads them; those in `copy` are copied."""
    layout = view.table_layout()
    if layout.form == "text":  # a text stays unchanged, even if it looks like a number
        return table.batches((), text=[*columns, *copy], batch_rows=batch_rows or TEXT_ROWS, skip=skip)
    # In a CSV, categories may look like numbers, times or booleans.
    texts = {columns[position]: categories for position, categories in layout.categories.items()}
    return table.batches(columns, text=copy, categories=texts, batch_rows=batch_rows, skip=skip)


def read_training_rows(
    table: Table,
    view: View,
    *,
    rows: int,
    seed: int,
    model_columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    column: str | None = None,
) -> Any:
    """Return at most `rows` rows, drawn at random, of the columns to fit `view` on.

    For texts, this is one column: `column`, or the only one that holds texts. For other views, it is the
    columns that the model was fitted on, `model_columns`, if the table has them all, and otherwise every
    column except `drop`.
    """
    table.require(drop, "drop")
    layout = view.table_layout()
    if layout.form == "text":
        columns = [text_column(table, column, others=drop, lists=layout.lists)]
    else:
        columns = columns_to_fit(table, model_columns, drop)
    return read_sample(table, view, columns, rows, seed=seed)


def columns_to_fit(table: Table, model_columns: Sequence[str] | None, drop: Sequence[str] = ()) -> list[str]:
    """Return the table's columns except `drop`, or the `model_columns` if the table has all of them."""
    columns = [name for name in table.columns if name not in drop]
    if model_columns and set(model_columns) <= set(columns):
        columns = list(model_columns)
    if not columns:
        raise InputError(f"No column of '{table.path}' is left.")
    return columns


def text_column(table: Table, column: str | None, *, others: Sequence[str] = (), lists: bool = False) -> str:
    """Return the column that holds the texts: `column`, or the only text column that is not in `others`.

    With `lists`, it holds lists of texts, or else texts that are lists as JSON.
    """
    if column is not None:
        table.require([column], "read")
        return column
    names = [name for name in table.list_columns if name not in others] if lists else []
    names = names or [name for name in table.text_columns if name not in others]
    if len(names) == 1:
        return names[0]
    columns = f"{len(names)} columns of texts: {some(names)}" if names else "no column of texts"
    raise InputError(f"'{table.path}' has {columns}; name the column to read as `column`.")


def read_sample(table: Table, view: View, columns: Sequence[str], rows: int, *, seed: int) -> Any:
    """Return at most `rows` rows, drawn at random, in memory that does not grow with the table.

    Rows of a CSV have the types that pandas gives them, because models depend on them.
    """
    return model_rows(sample_rows(view_batches(table, view, columns), rows, seed=seed), table, view)


def model_rows(rows: pa.Table, table: Table, view: View) -> Any:
    """Return rows of a table as a frame that a model reads, or as a matrix if the view reads that."""
    frame: pd.DataFrame = rows.to_pandas(ignore_metadata=True)
    layout = view.table_layout()
    if table.format == "csv" and layout.form != "text":
        integers = set(table.integer_columns) & set(frame.columns)
        frame = frame.astype({name: np.int64 for name in integers if _all_whole(frame[name])})
        objects = [name for name in frame.columns if frame[name].dtype == object]
        for name in objects:  # texts or booleans, with None for missing cells
            frame[name] = frame[name].where(frame[name].notna(), np.nan)
    return layout.inputs(frame)


def _all_whole(column: pd.Series[Any]) -> bool:
    """Return whether a column, read as floats, holds integers only, none of them missing."""
    if column.dtype != np.float64:
        return False
    values = column.to_numpy()
    return bool(((values % 1 == 0) & (np.abs(values) <= 2**53)).all())  # larger floats are inexact


def sample_rows(batches: Iterable[pa.RecordBatch], n: int, *, seed: int) -> pa.Table:
    """Return n random rows (all, if there are fewer) in file order; about 2 n are in memory at a time.

    Every row gets a random key, and the rows with the n smallest keys stay, so that each subset of n rows is
    equally likely.
    """
    rng = np.random.default_rng(seed)
    held_rows: list[pa.RecordBatch] = []
    keys: list[Array] = []
    limit, held = np.inf, 0
    for batch in batches:
        key = rng.random(len(batch))
        inside = np.flatnonzero(key < limit)
        held_rows.append(batch if len(inside) == len(batch) else batch.take(pa.array(inside)))
        keys.append(key[inside])
        held += len(inside)
        if held > 2 * n:
            table, key = _smallest(held_rows, keys, n)
            held_rows, keys, limit, held = table.to_batches(), [key], key.max(), n
    if not held:
        raise InputError("The table has no rows.")
    return _smallest(held_rows, keys, n)[0]


def _smallest(held_rows: list[pa.RecordBatch], keys: list[Array], n: int) -> tuple[pa.Table, Array]:
    """Return the rows with the n smallest keys, in file order, and the keys."""
    table, key = pa.Table.from_batches(held_rows), np.concatenate(keys)
    if len(key) <= n:
        return table, key
    chosen = np.sort(np.argpartition(key, n - 1)[:n])
    return table.take(pa.array(chosen)).combine_chunks(), key[chosen]


def format_of(path: Path) -> str:
    """Return "csv" or "parquet", by the suffix of a path."""
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise InputError(f"'{path}' is neither a .csv nor a .parquet file.")
    return suffix[1:]


def _csv_options(kind: str) -> dict[str, Any]:
    if kind == "txt":  # one column: the separator does not occur in text
        lines = pa.csv.ParseOptions(delimiter="\x1f", quote_char=False, ignore_empty_lines=False)
        names = pa.csv.ReadOptions(block_size=CSV_BLOCK, column_names=["text"])
        return {"read_options": names, "parse_options": lines}
    quoted = pa.csv.ParseOptions(newlines_in_values=True)  # a quoted text may have several lines
    return {"read_options": pa.csv.ReadOptions(block_size=CSV_BLOCK), "parse_options": quoted}


def _csv_type(guessed: pa.DataType, as_text: bool) -> pa.DataType:
    """Return the type to read: after the first block, with integers or gaps only, there may be fractions."""
    if as_text:
        return pa.string()
    return pa.float64() if pa.types.is_integer(guessed) or pa.types.is_null(guessed) else guessed


def with_floats(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Return the batch with these columns, decimals or nulls, as floats instead of objects of pandas."""
    for name in names:
        cells = batch.column(name).cast(pa.float64())
        batch = batch.set_column(batch.schema.get_field_index(name), name, cells)
    return batch


def _with_gaps(batch: pa.RecordBatch, gaps: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Replace texts that mean a missing cell by nulls; pyarrow can do this for all columns or none."""
    for name, spellings in gaps.items():
        cells = batch.column(name)
        missing = pc.is_in(cells, value_set=spellings)
        if missing.true_count:
            cells = pc.if_else(missing, pa.scalar(None, cells.type), cells)
            batch = batch.set_column(batch.schema.get_field_index(name), name, cells)
    return batch


def _check_encoding(path: Path) -> None:
    """Raise an InputError for UTF-16, which begins with a mark or has many zero bytes, unlike UTF-8."""
    with _reading(path), path.open("rb") as file:
        start = file.read(1024)
    marked = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if marked or start.count(b"\0") > len(start) // 4:  # every other byte of ASCII in UTF-16 is zero
        raise _not_utf8(path, "UTF-16")
    if b"\0" in start:
        line = start[: start.index(b"\0")].count(b"\n") + 1
        raise InputError(
            f"'{path}' has a zero byte (NUL) in line {line}: it is not a text file, or it is damaged. "
            f"To remove such bytes: tr -d '\\000' < '{path}' > cleaned{path.suffix}"
        )


def _not_utf8(path: Path, encoding: str) -> InputError:
    return InputError(
        f"'{path}' is not UTF-8, but perhaps {encoding}; convert it first: "
        f"iconv -f {encoding} -t UTF-8 '{path}' > converted{path.suffix}"
    )


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise _not_utf8(path, "LATIN1") from error
    except (pa.ArrowException, OSError) as error:
        if "invalid UTF8" in str(error):
            raise _not_utf8(path, "LATIN1") from error
        if "straddl" in str(error):
            raise InputError(
                f"'{path}' has a line of more than {CSV_BLOCK >> 20} MiB, which is too long; perhaps a quote "
                "is not closed. Shorten the line, or convert the table to Parquet."
            ) from error
        raise InputError(f"Cannot read '{path}': {_with_place(str(error))}") from error


def _with_place(message: str) -> str:
    """Return pyarrow's message; if a cell does not have its column's type, with its place and advice."""
    match = BAD_CELL.search(message)
    if match is None:
        return message
    column, row, kind, cell = match.groups()
    return (
        f"the cell in line {row}, column {int(column) + 1} is {cell}, but the column has the type {kind}; "
        "correct it, or leave it empty if it is missing."
    )
