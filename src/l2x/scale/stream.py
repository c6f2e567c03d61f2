"""Explain a table of any length: Arrow batch in, Arrow batch out."""

from __future__ import annotations

import hashlib
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from l2x.artifact import as_bytes
from l2x.errors import InputError, some
from l2x.explainer import Explainer, warn_unseen
from l2x.explanation import Explanation
from l2x.features.categories import Levels
from l2x.features.texts import TextView
from l2x.files.journal import Journal
from l2x.files.tables import Table
from l2x.files.writing import table_writer

# A batch's explanations, and how many of its rows held categories that are new to the explainer, per column.
Result = tuple[pa.RecordBatch, Mapping[str, int]]

# Batches explained at a time, each by one thread: more would wait for the disk.
MOST_WORKERS = 8

# Texts at a time: they are longer than rows of numbers, and have more features.
TEXT_ROWS = 4096


@dataclass(frozen=True)
class BatchExplainer:
    """One batch of rows in, one batch of explanations out: kept columns, feature_1 .. k, score_1 .. k.

    Attributes
    ----------
    columns : the features' columns, in the explainer's order; `match_columns` finds them
    keep : columns that are copied, such as an id
    k : how many features, the explainer's own if None
    """

    explainer: Explainer
    columns: Sequence[str]
    keep: Sequence[str] = ()
    k: int | None = None

    @property
    def of_texts(self) -> bool:
        return isinstance(self.explainer.features_, TextView)

    def batches(
        self, table: Table, batch_rows: int | None = None, *, skip: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """What `__call__` takes, in the order of the table, after the first `skip` rows."""
        if self.of_texts:  # a text stays as it is, even if it looks like a number
            texts = [*self.columns, *self.keep]
            return table.batches((), text=texts, batch_rows=batch_rows or TEXT_ROWS, skip=skip)
        known = text_categories(self.explainer, self.columns)
        return table.batches(self.columns, text=self.keep, categories=known, batch_rows=batch_rows, skip=skip)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        result, unseen = self.explained(batch)
        warn_unseen(unseen)
        return result

    def explained(self, batch: pa.RecordBatch) -> Result:
        """The same without a warning."""
        rows = pa.Table.from_batches([batch.select(list(self.columns))])
        explanation = self.explainer.explain_quietly(rows, k=self.k)
        selected = selection_columns(explanation)
        kept = {name: batch.column(name) for name in self.keep}
        if clash := [name for name in kept if name in selected]:
            raise InputError(f"The kept column '{clash[0]}' has the name of a result; rename it first.")
        return pa.RecordBatch.from_pydict(kept | selected), explanation.unseen

    def description(self, table: Table) -> dict[str, object]:
        """What is asked of which file: equal descriptions give equal results."""
        status = table.path.stat()
        return {
            "explainer": hashlib.sha256(as_bytes(self.explainer)).hexdigest(),
            "table": str(table.path.resolve()),
            "bytes": status.st_size,
            "changed": status.st_mtime_ns,
            "columns": list(self.columns),
            "keep": list(self.keep),
            "k": self.k,
        }


def explain_table(
    explain: BatchExplainer,
    table: Table,
    target: Path,
    *,
    batch_rows: int | None = None,
    workers: int | None = None,
    report: Callable[[int, float], None] = lambda rows, share: None,
) -> int:
    """Explain every row of `table` into `target`; how many rows that were.

    `target` appears when the last row is written; a failure leaves what was there. A run that was interrupted
    goes on where it stopped when it is started again. `workers` batches, one per processor if None, are
    explained at a time while the next are read and the last are written. `report` hears the rows done and
    the share of the file read, first before any work.
    """
    journal = Journal(target, explain.description(table))
    done = 0
    unseen: Counter[str] = Counter()
    try:
        with journal.opened() as append, table_writer(target, folder=journal.folder) as write:
            for result in journal.results():
                write(result)
                done += len(result)
            report(done, table.share_read(done))
            batches = explain.batches(table, batch_rows, skip=done)
            with _side_by_side(explain, batches, first_row=done, workers=workers) as results:
                for result, new in results:
                    append(result)
                    write(result)
                    done += len(result)
                    unseen.update(new)
                    report(done, table.share_read(done))
            if not done:
                raise InputError(f"'{table.path}' has no rows.")
    except KeyboardInterrupt:
        if not done:
            raise
        raise KeyboardInterrupt(
            f"{done:,} explained rows are kept in '{journal.folder}'; the same command goes on from there."
        ) from None
    warn_unseen(unseen)
    return done


@contextmanager
def _side_by_side(
    explain: BatchExplainer, batches: Iterator[pa.RecordBatch], *, first_row: int, workers: int | None
) -> Iterator[Iterator[Result]]:
    """Explain some batches at a time; results come in the order of the batches, and few of them wait."""
    workers = workers or min(os.cpu_count() or 1, MOST_WORKERS)

    def explained(batch: pa.RecordBatch, start: int) -> Result:
        try:
            return explain.explained(batch)
        except InputError as error:
            # The explainer counts rows from the start of what it was given.
            where = f" (Rows are counted from row {start} on.)" if start else ""
            raise InputError(f"{error}{where}") from error

    def results() -> Iterator[Result]:
        start = first_row
        waiting: deque[Future[Result]] = deque()
        for batch in batches:
            waiting.append(pool.submit(explained, batch, start))
            start += len(batch)
            if len(waiting) > workers + 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small networks gain more from batches side by side
    pool = ThreadPoolExecutor(workers, thread_name_prefix="explain")
    try:
        yield results()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def match_columns(
    explainer: Explainer,
    table: Table,
    *,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    column: str | None = None,
) -> tuple[list[str], list[str]]:
    """The table's columns that are the explainer's features, in its order, and those that nobody asked for.

    Columns are found by name; where the explainer was fitted on an array, which has no names, by position.
    An explainer of texts reads one: see `text_column`.
    """
    table.require(drop, "--drop")
    table.require(keep, "--keep")
    view = explainer.features_
    if isinstance(view, TextView):
        return [text_column(table, column, others=[*drop, *keep])], []
    if column is not None:
        raise InputError(f"--column {column}: this explainer reads {view.d} columns, not one of texts.")
    offered = [name for name in table.columns if name not in drop]
    # Groups of columns have other names; names that are integers in pandas are texts in a file.
    wanted = [str(name) for name in getattr(view, "column_names_", view.names_)]
    missing = [name for name in wanted if name not in offered]
    if missing and not getattr(view, "has_names_", True):
        offered = [name for name in offered if name not in keep]
        if len(offered) != len(wanted):
            raise InputError(
                f"The explainer was fitted on {len(wanted)} columns without names; '{table.path}' has "
                f"{len(offered)}: {some(offered)}. Leave columns out with --drop."
            )
        return offered, []
    if missing:
        raise InputError(
            f"'{table.path}' lacks columns that the explainer was fitted on: {some(missing)}; "
            f"it has {some(offered)}."
        )
    return wanted, [name for name in offered if name not in wanted and name not in keep]


def text_categories(explainer: Explainer, columns: Sequence[str]) -> dict[str, Sequence[str]]:
    """The categories that are texts to the explainer, by the table's column: in a CSV they may look like
    numbers, times or booleans."""
    view = getattr(explainer.features_, "columns_", explainer.features_)
    levels: Mapping[int, Levels] = getattr(view, "levels_", {})
    return {
        columns[place]: level.values
        for place, level in levels.items()
        if all(isinstance(value, str) for value in level.values)
    }


def text_column(table: Table, column: str | None, *, others: Sequence[str] = ()) -> str:
    """The column that holds the texts: the one that was asked for, or the only one of texts."""
    if column is not None:
        table.require([column], "--column")
        return column
    found = [name for name in table.text_columns if name not in others]
    if len(found) != 1:
        raise InputError(
            f"'{table.path}' has {len(found)} columns of texts{': ' * bool(found)}{some(found)}; "
            "say which one to read with --column."
        )
    return found[0]


def selection_columns(explanation: Explanation) -> dict[str, pa.Array]:
    """What `Explanation.to_frame` gives, without a Python object for every cell where names are columns'."""
    if isinstance(explanation.view, TextView):
        return _selected_texts(explanation)
    names = pa.array([str(name) for name in explanation.feature_names])
    indices = explanation.indices
    # (k, n): columns in one piece, which Arrow takes as they are
    places = indices.T.astype(np.int32, order="C")
    scores = np.take_along_axis(explanation.scores, indices, axis=1).T.copy()
    columns = {
        f"feature_{j + 1}": pa.DictionaryArray.from_arrays(places[j], names) for j in range(explanation.k)
    }
    return columns | {f"score_{j + 1}": pa.array(scores[j]) for j in range(explanation.k)}


def _selected_texts(explanation: Explanation) -> dict[str, pa.Array]:
    """Words or sentences and their scores; nulls where a text has fewer than k."""
    k, missing = explanation.k, ~explanation.selected
    names = [[*row, *[None] * (k - len(row))] for row in explanation.names]
    scores = np.take_along_axis(explanation.scores, explanation.indices, axis=1)
    columns = {f"feature_{j + 1}": pa.array([row[j] for row in names], pa.string()) for j in range(k)}
    return columns | {f"score_{j + 1}": pa.array(scores[:, j], mask=missing[:, j]) for j in range(k)}
