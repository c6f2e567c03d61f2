"""`l2x.label`: a model's predictions for every row, in a file; no row is queried twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from l2x._base import progress_bar
from l2x._base.arrays import Array, batches, take
from l2x._base.atomic import check_writable
from l2x.errors import BlackBoxError, InputError, L2XError, WriteError
from l2x.features import Columns, Passages, View, Words, as_passages, holds_passages
from l2x.files._journal import Journal
from l2x.files._predictions import (
    Labelled,
    Origin,
    Predictions,
    check_predictions_path,
    equal_batches,
    prediction_batch,
    read_predictions,
    row_checksums,
)
from l2x.files._tables import Table, columns_to_fit, model_rows, text_column, view_batches
from l2x.files._writing import table_writer
from l2x.model import BlackBox, Part, as_black_box, query_parts, view_parts


def label(
    model: Any,
    X: Any,
    path: str | Path,
    *,
    drop: Sequence[str] = (),
    column: str | None = None,
    processes: int = 1,
    progress: bool = True,
) -> Predictions:
    """Query the model for every row of X and store its predictions in `path`, a .parquet file.

    Predictions are on disk as soon as they are made. After an interruption - Ctrl-C, a killed process, a
    model that raises, a full disk - the same call resumes without querying a row again. Rows that were added
    to X are queried; rows that have changed are an error. `fit(X, predictions=path)` then queries nothing.

    Parameters
    ----------
    model : object
        Anything that predicts, see `as_black_box`; also an address, see `Endpoint`.
    X : inputs or path
        Inputs as the model reads them, or the path of a .parquet, .csv or .txt table, read in batches.
    path : str or Path
        The file for the predictions.
    drop : sequence of str
        Columns of a table on disk that the model does not read.
    column : str, optional
        The column of texts of a table on disk, if the model reads texts.
    processes : int
        The number of processes that query the model, for models that hold the interpreter lock.
    progress : bool
        Whether to show a progress bar on standard error.

    Returns
    -------
    Predictions
        The predictions, as they are on disk.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> def model(X):
    ...     return np.full((len(X), 2), 0.5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     predictions = label(model, np.zeros((3, 2)), f"{folder}/predictions.parquet", progress=False)
    >>> predictions.values.shape
    (3, 2)
    """
    options: dict[str, Any] = {"drop": drop, "column": column, "processes": processes, "progress": progress}
    label_rows(as_black_box(model), X, Path(path), **options)
    return read_predictions(path)


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
    """Do the same as `label`, for predictions that need not fit into memory; return their number."""
    check_predictions_path(path)
    if isinstance(X, str | Path):
        table = Table(Path(X))
        rows = RowsToLabel.of_table(table, black_box, drop, column)
        check_writable(path, inputs={"X": table.path})
    else:
        rows = RowsToLabel.of_inputs(X)
        check_writable(path)
    return label_blocks(black_box, rows, path, processes=processes, progress=progress)


@dataclass(frozen=True)
class RowsToLabel:
    """Rows that a model is queried for."""

    blocks: Iterable[Part]  # in order
    most: int  # rows of one query
    share: Callable[[int], float]  # of the work that is done after a number of rows, for the progress bar
    columns: tuple[str, ...] = ()  # of a table on disk

    @classmethod
    def of_table(
        cls, table: Table, black_box: BlackBox, drop: Sequence[str], column: str | None
    ) -> RowsToLabel:
        """Return the rows of a table on disk: texts as lists, all else as frames."""
        table.require(drop, "drop")
        view: View = Columns()
        if column is not None or table.format == "txt":
            columns = [text_column(table, column, others=drop)]
            view = Passages() if columns[0] in table.list_columns else Words()
        else:
            columns = columns_to_fit(table, black_box.columns, drop)
        return cls(_table_blocks(table, view, columns), view.rows_at_once, table.share_read, tuple(columns))

    @classmethod
    def of_inputs(cls, X: Any) -> RowsToLabel:
        """Return inputs as the model reads them."""
        most = Columns.rows_at_once
        raw = as_passages(X) if holds_passages(X) else X
        parts = (Part(rows.start, take(raw, rows), take(X, rows)) for rows in batches(len(X), most))
        return cls(parts, most, _share_of(len(X)))

    @classmethod
    def of_view(cls, view: View, X: Any) -> RowsToLabel:
        """Return inputs that a view has checked."""
        return cls(view_parts(view, X), view.rows_at_once, _share_of(len(X)))


def _share_of(rows: int) -> Callable[[int], float]:
    return lambda done: done / max(1, rows)


def _table_blocks(table: Table, view: View, columns: Sequence[str]) -> Iterator[Part]:
    first = 0
    for batch in view_batches(table, view, columns):
        frame = model_rows(pa.Table.from_batches([batch]), table, view)
        raw = frame[columns[0]].tolist() if view.table_layout().form == "text" else frame
        lists = view.table_layout().lists
        yield Part(first, as_passages(raw), list(map(list, raw))) if lists else Part(first, raw, raw)
        first += len(batch)


def label_blocks(
    black_box: BlackBox, rows: RowsToLabel, path: Path, *, processes: int = 1, progress: bool = False
) -> int:
    """Query the model for rows that neither `path` nor its journal has; then write all predictions to `path`.

    Returns the number of rows.
    """
    journal = Journal(path, {"model": black_box.name, "columns": list(rows.columns)}, precious=True)
    with journal.opened() as append:
        labelled = Labelled.in_file(path, Origin(black_box.name), journal.results(mapped=True))
        done = earlier = labelled.rows
        if earlier and black_box.task is None:
            black_box.task = _task_so_far(path, labelled)
        begun = rows.share(earlier) % 1.0  # for a CSV that is not open yet, the share is 1
        with progress_bar("querying the model", 1.0, done=begun, visible=progress) as advance:
            started = time.perf_counter()

            def store(part: Part, predictions: Array) -> None:
                nonlocal done
                with _full_disk(path):
                    append(prediction_batch(part.first, row_checksums(part.raw), predictions))
                done += len(part)
                speed = (done - earlier) / (time.perf_counter() - started)
                advance(rows.share(done), f"{done:,} rows, {speed:,.0f} rows/s")

            with _interruptible(journal, lambda: done):
                options: dict[str, Any] = {"stored": labelled.stored, "processes": processes}
                total = query_parts(black_box, rows.blocks, store, most=rows.most, **options)
        _check_total(total, earlier, path)
        if done > earlier or not path.exists():
            _write(path, journal, black_box, total)
    return total


def _check_total(rows: int, earlier: int, path: Path) -> None:
    if rows < earlier:
        raise InputError(
            f"'{path}' has predictions for {earlier:,} rows, but X has only {rows:,}; choose another file."
        )
    if not rows:
        raise InputError("There are no rows to query the model for.")


def _task_so_far(path: Path, labelled: Labelled) -> Any:
    """Return the task of earlier predictions, so that later ones are checked in the same way."""
    if path.exists():
        return read_predictions(path).origin.task
    return "classification" if labelled.batches[0].num_columns > 3 else "regression"


def _write(path: Path, journal: Journal, black_box: BlackBox, rows: int) -> None:
    """Write the file from the journal; its content does not depend on interruptions."""
    origin = Origin.of_model(black_box)
    labelled = Labelled.in_file(path, origin, journal.results(mapped=True))
    with table_writer(path, folder=journal.folder) as write:
        for batch in equal_batches(labelled.in_order(rows)):
            write(origin.describe(batch))


@contextmanager
def _full_disk(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WriteError(f"Cannot write next to '{path}': {error}.") from error


@contextmanager
def _interruptible(journal: Journal, done: Callable[[], int]) -> Iterator[None]:
    """Add to an interruption how many predictions are stored, and how to resume."""
    try:
        yield
    except (KeyboardInterrupt, BlackBoxError, WriteError) as stop:
        if not done():
            raise
        stored = f"{done():,} predictions are stored in '{journal.folder}'; run the same again to resume."
        message = type(stop)(f"{stop} {stored}".strip())
        raise message from (stop.__cause__ if isinstance(stop, L2XError) else stop)
