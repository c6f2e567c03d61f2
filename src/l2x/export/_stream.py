"""Explain a table of any length: Arrow batch in, Arrow batch out."""

from __future__ import annotations

import hashlib
import os
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from l2x._base.arrays import Array
from l2x.display import arrow_columns
from l2x.errors import BlackBoxError, InputError, WriteError, some
from l2x.explainer import Explainer, warn_unseen
from l2x.explanation import Explanation
from l2x.export._artifact import as_bytes
from l2x.features import TableReading, reading_of
from l2x.files import Journal, Table, answer_batch, row_checksums, table_writer, text_column, view_batches
from l2x.model import BlackBox, Part, as_black_box, ask_about

# The explanations of a batch, and per column how many of its rows hold a category that was not in training.
Result = tuple[pa.RecordBatch, Mapping[str, int]]

# Batches explained at a time, each by one thread: more would wait for the disk.
MOST_WORKERS = 8


@dataclass(frozen=True)
class BatchExplainer:
    """One batch of rows in, one batch of explanations out: copied columns, feature_1 .. k, score_1 .. k.

    Attributes
    ----------
    columns : the table's columns that are the features, in the explainer's order: see `match_columns`
    copy : columns that are copied, such as an id
    k : how many features; None for the explainer's own k
    answers : columns that hold the model's answers, for an explainer that is told them; without any, its
        model is asked
    keep : as many of the k features as a row needs, for this share of the information
    encoded : names of features as dictionaries; False as texts, for readers that know no dictionaries (Spark)
    """

    explainer: Explainer
    columns: Sequence[str]
    copy: Sequence[str] = ()
    k: int | None = None
    answers: Sequence[str] = ()
    keep: float | None = None
    encoded: bool = True

    @property
    def reading(self) -> TableReading:
        """How the explainer reads a table."""
        return reading_of(self.explainer.features_)

    def batches(
        self, table: Table, batch_rows: int | None = None, *, skip: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """The rows of `table` after the first `skip`, in file order, as `__call__` takes them."""
        view = self.explainer.features_
        beside = list(dict.fromkeys([*self.copy, *self.answers]))
        return view_batches(table, view, self.columns, copy=beside, batch_rows=batch_rows, skip=skip)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        result, unseen = self.explained(batch)
        warn_unseen(unseen)
        return result

    def explained(self, batch: pa.RecordBatch) -> Result:
        """The same, with the counts of new categories instead of a warning."""
        explanation = self.explanation(batch)
        selected = arrow_columns(explanation)
        if not self.encoded:
            selected = {name: _plain(cells) for name, cells in selected.items()}
        copied = {name: batch.column(name) for name in self.copy}
        if clash := [name for name in copied if name in selected]:
            raise InputError(f"The copied column '{clash[0]}' has the name of a result; rename it first.")
        return pa.RecordBatch.from_pydict(copied | selected), explanation.unseen

    def explanation(self, batch: pa.RecordBatch) -> Explanation:
        """What is explained of a batch."""
        rows: Any = pa.Table.from_batches([batch.select(list(self.columns))])
        answers = batch.select(list(self.answers)).to_pandas() if self.answers else None
        if self._asks_model and not self.reading.one_text:
            rows = rows.to_pandas(ignore_metadata=True)  # as `fit` gave them to the model
        return self.explainer.explain_quietly(rows, k=self.k, answers=answers, keep=self.keep)

    @property
    def _asks_model(self) -> bool:
        return self.explainer.sees_answer and not self.answers

    def description(self, table: Table) -> dict[str, object]:
        """What is asked of which file: equal descriptions give equal results."""
        status = table.path.stat()
        return {
            "explainer": hashlib.sha256(as_bytes(self.explainer)).hexdigest(),
            "table": str(table.path.resolve()),
            "bytes": status.st_size,
            "changed": status.st_mtime_ns,
            "columns": list(self.columns),
            "copy": list(self.copy),
            "k": self.k,
            "answers": list(self.answers),
            "keep": self.keep,
            "model": as_black_box(self.explainer.model).name if self._asks_model else None,
        }


def _plain(cells: pa.Array) -> pa.Array:
    return cells.dictionary_decode() if pa.types.is_dictionary(cells.type) else cells


@dataclass(frozen=True)
class BatchLabeller:
    """One batch of rows in, one batch of the model's answers out: see `files.answers`.

    Attributes
    ----------
    columns : the table's columns that the model reads
    """

    black_box: BlackBox
    columns: Sequence[str]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        frame = batch.select(list(self.columns)).to_pandas()
        answers: dict[int, Array] = {}

        def keep(part: Part, said: Array) -> None:
            answers[part.first] = said

        # In as many questions as the model takes, as `l2x.label` asks them.
        ask_about(self.black_box, [Part(0, frame, frame)], keep, most=len(frame))
        values = np.concatenate([answers[first] for first in sorted(answers)])
        return answer_batch(0, row_checksums(frame), values).drop_columns(["row"])


def explain_table(
    explain: BatchExplainer,
    table: Table,
    target: Path,
    *,
    batch_rows: int | None = None,
    workers: int | None = None,
    report: Callable[[int, float], None] = lambda rows, share: None,
) -> int:
    """Explain every row of `table` into `target`; returns the number of rows.

    `target` appears when the last row is written; a failure leaves what was there before. A run that was
    interrupted, or could not write, resumes when it is started again. `workers` batches (by default one per
    processor) are explained at a time, while the next are read and the last are written. The number of
    torch's own threads is left to the caller: several workers are fastest with `torch.set_num_threads(1)`,
    which `l2x explain` sets. `report` is called with the rows done and the share of the file read: before any
    work, where the rows are those of earlier sessions, and after each batch.
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
            with closing(_side_by_side(explain, batches, first_row=done, workers=workers)) as results:
                for result, new in results:
                    append(result)
                    done += len(result)
                    write(result)
                    unseen.update(new)
                    report(done, table.share_read(done))
            if not done:
                raise InputError(f"'{table.path}' has no rows.")
    except (KeyboardInterrupt, WriteError) as stop:
        if not journal.folder.exists():
            raise
        kept = f"{done:,} explained rows are kept in '{journal.folder}'; run the same again to resume."
        raise type(stop)(f"{stop} {kept}".strip()) from stop
    warn_unseen(unseen)
    return done


def explain_batches(
    explain: BatchExplainer, table: Table, *, batch_rows: int | None = None
) -> Iterator[pa.RecordBatch]:
    """The explanations of every row, a batch at a time, for a reader that takes them as they come."""
    unseen: Counter[str] = Counter()
    for batch in explain.batches(table, batch_rows):
        result, new = explain.explained(batch)
        unseen.update(new)
        yield result
    warn_unseen(unseen)


def _side_by_side(
    explain: BatchExplainer, batches: Iterator[pa.RecordBatch], *, first_row: int, workers: int | None
) -> Generator[Result, None, None]:
    """Explain `workers` batches at a time; results come in the order of the batches, and few of them wait."""
    workers = workers or min(os.cpu_count() or 1, MOST_WORKERS)
    pool = ThreadPoolExecutor(workers, thread_name_prefix="explain")
    waiting: deque[Future[Result]] = deque()
    try:
        for batch in batches:
            waiting.append(pool.submit(_explained_from, explain, batch, first_row))
            first_row += len(batch)
            if len(waiting) > workers + 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _explained_from(explain: BatchExplainer, batch: pa.RecordBatch, first_row: int) -> Result:
    try:
        return explain.explained(batch)
    except (InputError, BlackBoxError) as error:
        if not first_row:
            raise
        # The explainer counts rows from the start of what it was given.
        raise type(error)(f"{error} (Rows are counted from row {first_row} on.)") from error


def match_columns(
    explainer: Explainer,
    table: Table,
    *,
    drop: Sequence[str] = (),
    copy: Sequence[str] = (),
    column: str | None = None,
) -> tuple[list[str], list[str]]:
    """The table's columns that are the explainer's features, in its order; and those that are ignored.

    Columns are found by name; by position if the explainer was fitted on an array, which has no names. An
    explainer of texts reads one column: `column`, or the only one of texts, but for those dropped or copied.
    """
    table.require(drop, "drop")
    table.require(copy, "copy")
    reading = reading_of(explainer.features_)
    if reading.columns is None:  # one column of texts
        return [text_column(table, column, others=[*drop, *copy])], []
    if column is not None:
        raise InputError(
            f"column is '{column}', but this explainer reads {len(reading.columns)} columns, not a text."
        )
    offered = [name for name in table.columns if name not in drop]
    missing = [name for name in reading.columns if name not in offered]
    if missing and not reading.named:
        rest = [name for name in offered if name not in copy]
        if len(rest) != len(reading.columns):
            raise InputError(
                f"The explainer was fitted on {len(reading.columns)} columns without names; "
                f"'{table.path}' has {len(rest)}: {some(rest)}. Drop those that are not features."
            )
        return rest, []
    if missing:
        raise InputError(
            f"'{table.path}' lacks columns that the explainer was fitted on: {some(missing)}; "
            f"it has {some(offered)}."
        )
    ignored = [name for name in offered if name not in reading.columns and name not in copy]
    return list(reading.columns), ignored
