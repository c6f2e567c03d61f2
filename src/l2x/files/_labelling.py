"""`l2x.label`: a model's answers about every row, into a file, and what is there is never asked again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from l2x._base.arrays import Array, batches, take
from l2x._base.atomic import check_writable
from l2x._base.progress import progress_bar
from l2x.errors import BlackBoxError, InputError, L2XError, WriteError
from l2x.features import Columns, View, Words, reading_of
from l2x.files._journal import Journal
from l2x.files._predictions import (
    Answered,
    Answers,
    Origin,
    answer_batch,
    check_answers_path,
    equal_batches,
    read_answers,
    row_checksums,
)
from l2x.files._tables import Table, known_columns, model_rows, text_column, view_batches
from l2x.files._writing import table_writer
from l2x.model import BlackBox, Part, as_black_box, ask_about


def label(
    model: Any,
    X: Any,
    path: str | Path,
    *,
    drop: Sequence[str] = (),
    column: str | None = None,
    processes: int = 1,
    progress: bool = True,
) -> Answers:
    """Ask the model about every row of X and keep the answers in `path`, a .parquet file.

    Answers are on disk as soon as they are given. Interrupted in any way - Ctrl-C, a killed process, a model
    that raises, a full disk - the same call resumes, and asks no answered row again; rows that were added
    to X since are asked, and rows that were changed are an error. `fit(X, responses=path)` then asks nothing.

    Parameters
    ----------
    model : anything that predicts, see `as_black_box`; also the address of one, see `Endpoint`
    X : inputs as the model takes them; or the path of a .parquet, .csv or .txt table, read in batches
    drop, column : of a table on disk, columns that the model does not read, or the one of texts that it does
    processes : for models that hold the interpreter lock: this many ask side by side

    progress : show a bar on standard error

    Returns
    -------
    The answers, as they are on disk.

    >>> import tempfile
    >>> import numpy as np
    >>> def model(X):
    ...     return np.full((len(X), 2), 0.5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     answers = label(model, np.zeros((3, 2)), f"{folder}/answers.parquet", progress=False)
    """
    label_rows(
        as_black_box(model), X, Path(path), drop=drop, column=column, processes=processes, progress=progress
    )
    return read_answers(path)


def label_rows(
    black_box: BlackBox,
    X: Any,
    path: Path,
    *,
    drop: Sequence[str] = (),
    column: str | None = None,
    processes: int = 1,
    progress: bool = True,
) -> int:
    """`label`, for files whose answers need not fit into memory: returns their number."""
    share: Callable[[int], float]
    check_answers_path(path)
    if isinstance(X, str | Path):
        table = Table(Path(X))
        view, columns = _reading(table, black_box, drop, column)
        check_writable(path, inputs={"X": table.path})
        blocks, share = table_blocks(table, view, columns), table.share_read
        most, asked = view.rows_at_once, list(columns)
    else:
        check_writable(path)
        most, asked = Columns.rows_at_once, []
        blocks, share = _blocks(X, most), share_of(len(X))
    return label_blocks(
        black_box, blocks, path, most=most, share=share, columns=asked, processes=processes, progress=progress
    )


def label_blocks(
    black_box: BlackBox,
    blocks: Iterable[Part],
    path: Path,
    *,
    most: int,
    share: Callable[[int], float],
    columns: Sequence[str] = (),
    processes: int = 1,
    progress: bool = False,
) -> int:
    """Ask about the rows of all blocks that `path`, or the journal beside it, does not answer yet; then write
    them all to `path`. Returns the number of rows.

    share : of the work that is done after a number of rows, for the progress bar
    columns : of a table on disk, those that the model is asked about
    """
    journal = Journal(path, {"model": black_box.name, "columns": list(columns)}, precious=True)
    origin = Origin(black_box.name)
    with journal.opened() as append:
        answered = Answered.in_file(path, origin, journal.results(mapped=True))
        done = earlier = answered.rows
        if earlier and black_box.task is None:
            black_box.task = _task_so_far(path, answered)
        begun = share(earlier) % 1.0  # of a CSV that is not open yet, all is read
        with progress_bar("querying the model", 1.0, done=begun, visible=progress) as advance:
            started = time.perf_counter()

            def keep(part: Part, answers: Array) -> None:
                nonlocal done
                with _full_disk(path):
                    append(answer_batch(part.first, row_checksums(part.raw), answers))
                done += len(part)
                speed = (done - earlier) / (time.perf_counter() - started)
                advance(share(done), f"{done:,} rows, {speed:,.0f} rows/s")

            with _says_what_is_kept(journal, lambda: done):
                rows = ask_about(
                    black_box, blocks, keep, most=most, known=answered.known, processes=processes
                )
        if rows < earlier:
            raise InputError(
                f"'{path}' answers {earlier:,} rows, but there are only {rows:,}: choose another file."
            )
        if not rows:
            raise InputError("There are no rows to ask about.")
        if done > earlier or not path.exists():
            _write(path, journal, black_box, rows)
    return rows


def table_blocks(table: Table, view: View, columns: Sequence[str]) -> Iterator[Part]:
    """The rows of a table as the model reads them: texts as a list, all else as a frame."""
    first = 0
    for batch in view_batches(table, view, columns):
        frame = model_rows(pa.Table.from_batches([batch]), table, view)
        raw = frame[columns[0]].tolist() if reading_of(view).one_text else frame
        yield Part(first, raw, raw)
        first += len(batch)


def share_of(rows: int) -> Callable[[int], float]:
    """Of a known number of rows."""
    return lambda done: done / max(1, rows)


def _blocks(X: Any, size: int) -> Iterator[Part]:
    for rows in batches(len(X), size):
        raw = take(X, rows)
        yield Part(rows.start, raw, raw)


def _reading(
    table: Table, black_box: BlackBox, drop: Sequence[str], column: str | None
) -> tuple[View, list[str]]:
    """How the model reads the table, and which columns of it."""
    table.require(drop, "drop")
    if column is not None or table.format == "txt":
        return Words(), [text_column(table, column, others=drop)]
    return Columns(), known_columns(table, black_box.columns, drop)


def _task_so_far(path: Path, answered: Answered) -> Any:
    """What kind of answers there are, so that the rest is checked alike."""
    if path.exists():
        return read_answers(path).origin.task
    return "classification" if answered.batches[0].num_columns > 3 else "regression"


def _write(path: Path, journal: Journal, black_box: BlackBox, rows: int) -> None:
    """The file, from what the journal has on disk: row for row the same, however often it was interrupted."""
    origin = Origin.of_model(black_box)
    answered = Answered.in_file(path, origin, journal.results(mapped=True))
    with table_writer(path, folder=journal.folder) as write:
        for batch in equal_batches(answered.in_order(rows)):
            write(batch.replace_schema_metadata(origin.schema(batch.schema).metadata))


@contextmanager
def _full_disk(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WriteError(f"Cannot write beside '{path}': {error}.") from error


@contextmanager
def _says_what_is_kept(journal: Journal, done: Any) -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, BlackBoxError, WriteError) as stop:
        if not done():
            raise
        kept = f"{done():,} answers are kept in '{journal.folder}'; run the same again to resume."
        told = type(stop)(f"{stop} {kept}".strip())
        raise told from (stop.__cause__ if isinstance(stop, L2XError) else stop)
