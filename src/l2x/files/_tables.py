"""A random sample of rows, in one pass and in memory that does not grow with the table."""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from l2x._base.arrays import Array
from l2x.errors import InputError, some
from l2x.features import View, reading_of

if TYPE_CHECKING:
    import pandas as pd


def sample_rows(batches: Iterable[pa.RecordBatch], n: int, *, seed: int) -> pa.Table:
    """n rows at random (all, if there are fewer) in file order; at most some 2 n are held at a time.

    Every row gets a random key and the n smallest keys stay, so that each subset of n is equally likely.
    """
    rng = np.random.default_rng(seed)
    kept: list[pa.RecordBatch] = []
    keys: list[Array] = []
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


def _smallest(kept: list[pa.RecordBatch], keys: list[Array], n: int) -> tuple[pa.Table, Array]:
    """The rows with the n smallest keys, in file order, and the keys."""
    table, key = pa.Table.from_batches(kept), np.concatenate(keys)
    if len(key) <= n:
        return table, key
    chosen = np.sort(np.argpartition(key, n - 1)[:n])
    return table.take(pa.array(chosen)).combine_chunks(), key[chosen]


# By column, the categories that are known; they are texts.
Categories = Mapping[str, Collection[str]]

# Rows at a time: enough to make the overhead of a batch negligible, fewer where rows are wide, so that a
# batch of float64 stays below 8 MiB.
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
    columns : the names of its columns, without those that hold a pandas index
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
        if self.format != "parquet":
            _check_encoding(path)
        with _reading(path):
            if self.format != "parquet":
                with pa.csv.open_csv(path, **_csv_options(self.format)) as reader:
                    schema = reader.schema
            else:
                with pa.parquet.ParquetFile(path) as file:
                    schema, self.rows = file.schema_arrow, int(file.metadata.num_rows)
            self._know(schema)

    @classmethod
    def described(cls, schema: pa.Schema, name: str) -> Table:
        """A table by its columns alone, whose rows somebody else reads."""
        table = cls.__new__(cls)
        table.path, table.format, table.rows, table._source = Path(name), "parquet", None, None
        table._know(schema)
        return table

    def _know(self, schema: pa.Schema) -> None:
        names = schema.names
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(f"'{self.path}' has more than one column named {', '.join(map(repr, twice))}.")
        self._types = dict(zip(names, schema.types, strict=True))  # in a CSV, guessed from the first block
        written = (schema.pandas_metadata or {}).get("index_columns", [])
        self.index_columns = [name for name in names if name in written]
        self.columns = [name for name in names if name not in self.index_columns]

    @property
    def text_columns(self) -> list[str]:
        """The columns that hold texts."""
        if self.format == "txt":
            return self.columns
        texts = pa.string(), pa.large_string()
        return [name for name in self.columns if self._types[name] in texts]

    @property
    def integer_columns(self) -> list[str]:
        """The columns that hold integers; in a CSV, judged by its first block."""
        return [name for name in self.columns if pa.types.is_integer(self._types[name])]

    def require(self, names: Iterable[str], purpose: str) -> None:
        """Every name must be a column: typos are errors. `purpose` is a verb: what is wanted of them."""
        known = [*self.columns, *self.index_columns]
        for name in names:
            if name not in known:
                raise InputError(
                    f"Cannot {purpose} '{name}': the columns of '{self.path}' are {some(known)}."
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
        """The rows in file order, after the first `skip`, at most `batch_rows` at a time.

        A batch has `columns`, then `text`. Those in `text` are copied, not computed with: from a CSV they
        come as the characters in the file, so that 007 stays 007. In the others an empty field, NA and the
        like are missing cells. Those in `categories` are texts, whatever they look like, and a known category
        is never a missing cell.
        """
        wanted = list(dict.fromkeys([*columns, *text]))
        batch_rows = batch_rows or max(1, min(BATCH_ROWS, BATCH_CELLS // max(1, len(wanted))))
        with _reading(self.path):
            copied = set(text) - set(columns)
            if self.format == "parquet":
                blocks = self._parquet_blocks(wanted, copied, batch_rows, skip)
            else:
                blocks = self._csv_blocks(wanted, copied, categories or {}, skip)
            for batch in blocks:
                for start in range(0, len(batch), batch_rows):
                    yield batch.slice(start, batch_rows)

    def share_read(self, rows: int) -> float:
        """The share of the file that is read after `rows` rows, for a progress bar."""
        if self.rows is not None:
            return rows / max(1, self.rows)
        if self._source is None or self._source.closed:
            return 1.0
        share: float = self._source.tell() / self._source.size()
        return share

    def _parquet_blocks(
        self, wanted: list[str], copied: set[str], batch_rows: int, skip: int
    ) -> Iterator[pa.RecordBatch]:
        decimals = [name for name in wanted if name not in copied and pa.types.is_decimal(self._types[name])]
        # By default pyarrow keeps every byte it has read, and a row group may be the whole file.
        with pa.parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=PARQUET_BUFFER) as file:
            first = 0  # row groups that are skipped entirely need not be read
            while first < file.num_row_groups and skip >= file.metadata.row_group(first).num_rows:
                skip -= file.metadata.row_group(first).num_rows
                first += 1
            groups = range(first, file.num_row_groups)
            for batch in file.iter_batches(batch_rows, row_groups=groups, columns=wanted):
                yield with_floats(batch.select(wanted).slice(skip), decimals)
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
    """`Table.batches` of the columns as `view`, fitted or not, reads them; those in `copy` are copied."""
    reading = reading_of(view)
    if reading.one_text:  # a text stays as it is, even if it looks like a number
        return table.batches((), text=[*columns, *copy], batch_rows=batch_rows or TEXT_ROWS, skip=skip)
    # In a CSV, categories that are texts to the view may look like numbers, times or booleans.
    known = {columns[position]: categories for position, categories in reading.categories.items()}
    return table.batches(columns, text=copy, categories=known, batch_rows=batch_rows, skip=skip)


def read_training_rows(
    table: Table,
    view: View,
    *,
    rows: int,
    seed: int,
    known: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    column: str | None = None,
) -> pd.DataFrame:
    """At most `rows` rows, drawn at random, of the columns that `view` is to be fitted on.

    For texts that is one column: `column`, or the only one that holds texts. For other views it is those that
    the model was fitted on, `known`, if the table has them all, and otherwise every column but `drop`.
    """
    table.require(drop, "drop")
    one_text = reading_of(view).one_text
    columns = [text_column(table, column, others=drop)] if one_text else known_columns(table, known, drop)
    return read_sample(table, view, columns, rows, seed=seed)


def known_columns(table: Table, known: Sequence[str] | None, drop: Sequence[str] = ()) -> list[str]:
    """The table's columns except `drop`; only the `known` ones if all of them are there."""
    columns = [name for name in table.columns if name not in drop]
    if known and set(known) <= set(columns):
        columns = list(known)
    if not columns:
        raise InputError(f"No column of '{table.path}' is left to explain with.")
    return columns


def text_column(table: Table, column: str | None, *, others: Sequence[str] = ()) -> str:
    """The column that holds the texts: `column`, or the only one of texts that is not among `others`."""
    if column is not None:
        table.require([column], "read")
        return column
    found = [name for name in table.text_columns if name not in others]
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(f"'{table.path}' has no column of texts; name the one to read as `column`.")
    raise InputError(
        f"'{table.path}' has {len(found)} columns of texts: {some(found)}; name the one to read as `column`."
    )


def read_sample(table: Table, view: View, columns: Sequence[str], rows: int, *, seed: int) -> pd.DataFrame:
    """At most `rows` rows, drawn at random, in memory that does not grow with the table.

    From a CSV they come as pandas would have read them: models depend on integers being integers and on what
    stands for a missing cell.
    """
    return model_rows(sample_rows(view_batches(table, view, columns), rows, seed=seed), table, view)


def model_rows(rows: pa.Table, table: Table, view: View) -> pd.DataFrame:
    """Rows of a table as a frame that a model reads."""
    frame: pd.DataFrame = rows.to_pandas(ignore_metadata=True)
    if table.format == "csv" and not reading_of(view).one_text:
        integers = set(table.integer_columns) & set(frame.columns)
        frame = frame.astype({name: np.int64 for name in integers if _all_whole(frame[name])})
        objects = [name for name in frame.columns if frame[name].dtype == object]
        for name in objects:  # texts or booleans, with None where some are missing
            frame[name] = frame[name].where(frame[name].notna(), np.nan)
    return frame


def _all_whole(column: pd.Series[Any]) -> bool:
    """Whether a column, read as floats or as text, holds integers only, none of them missing."""
    if column.dtype != np.float64:
        return False
    values = column.to_numpy()
    return bool(((values % 1 == 0) & (np.abs(values) <= 2**53)).all())  # larger floats are inexact


def format_of(path: Path) -> str:
    """ "csv" or "parquet"."""
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise InputError(f"'{path}' is neither a .csv nor a .parquet file.")
    return suffix[1:]


def _csv_options(kind: str) -> dict[str, Any]:
    if kind == "txt":  # one column, whatever a line holds: its separator does not occur in text
        lines = pa.csv.ParseOptions(delimiter="\x1f", quote_char=False, ignore_empty_lines=False)
        names = pa.csv.ReadOptions(block_size=CSV_BLOCK, column_names=["text"])
        return {"read_options": names, "parse_options": lines}
    # A quoted text may have several lines.
    quoted = pa.csv.ParseOptions(newlines_in_values=True)
    return {"read_options": pa.csv.ReadOptions(block_size=CSV_BLOCK), "parse_options": quoted}


def _csv_type(guessed: pa.DataType, as_text: bool) -> pa.DataType:
    """The guess is from the first block: where that has only integers or gaps, a later one may have 0.5."""
    if as_text:
        return pa.string()
    return pa.float64() if pa.types.is_integer(guessed) or pa.types.is_null(guessed) else guessed


def with_floats(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Columns of decimals as numbers to compute with; pandas would make objects of them."""
    for name in names:
        cells = batch.column(name).cast(pa.float64())
        batch = batch.set_column(batch.schema.get_field_index(name), name, cells)
    return batch


def _with_gaps(batch: pa.RecordBatch, gaps: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Texts that stand for a missing cell become nulls; pyarrow itself does this for all columns or none."""
    for name, spellings in gaps.items():
        cells = batch.column(name)
        missing = pc.is_in(cells, value_set=spellings)
        if missing.true_count:
            cells = pc.if_else(missing, pa.scalar(None, cells.type), cells)
            batch = batch.set_column(batch.schema.get_field_index(name), name, cells)
    return batch


def _check_encoding(path: Path) -> None:
    """Texts are UTF-8. UTF-16 begins with a mark, or has zero bytes, which no text in UTF-8 has."""
    with _reading(path), path.open("rb") as file:
        start = file.read(1024)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in start:
        raise _not_utf8(path, "UTF-16")


def _not_utf8(path: Path, encoding: str) -> InputError:
    return InputError(
        f"'{path}' is not UTF-8 (perhaps {encoding}); convert it first: "
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
        raise InputError(f"Cannot read '{path}': {_with_place(str(error))}") from error


def _with_place(message: str) -> str:
    """pyarrow's words for a cell that is not of its column's type, in a form that says where it is and what
    to do; any other message as it is."""
    found = BAD_CELL.search(message)
    if found is None:
        return message
    column, row, kind, cell = found.groups()
    return (
        f"the cell in line {row}, column {int(column) + 1} is {cell}, which is not of the type of the column "
        f"({kind}); correct it, or leave it empty if it is missing."
    )
