"""Explain a table of any length: one Arrow batch in, one out."""

from __future__ import annotations

import hashlib
import os
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from l2x.errors import BlackBoxError, InputError, WriteError
from l2x.explainer import Explainer, warn_unseen
from l2x.explanation import Explanation, arrow_columns
from l2x.export._artifact import as_bytes
from l2x.features import TableLayout
from l2x.files import Journal, Table, table_writer, text_column, view_batches

# Explanations of a batch, and by column, the number of rows with a category that was not in training.
Result = tuple[pa.RecordBatch, Mapping[str, int]]

# Batches explained in parallel, each in a thread; with more, threads would wait for the disk.
MAX_WORKERS = 8


@dataclass(frozen=True)
class BatchExplainer:
    """Explain one batch of rows: a function from Arrow batch to Arrow batch.

    The result has the copied columns, feature_1 .. feature_k and score_1 .. score_k; with `effects` also the
    columns of `Explanation.to_frame(effects=True)`. With a local model, its predictions are queried and
    selections are polished, as by `Explainer.explain`.

    Attributes
    ----------
    explainer : Explainer
        A fitted explainer.
    columns : sequence of str
        The table's columns that are the explainer's features, in its order: see `match_columns`.
    copy : sequence of str
        Columns to copy, such as an id.
    k : int, optional
        Number of features; by default the explainer's own k.
    predictions : sequence of str
        Columns that hold the model's predictions. If there are none, the explainer's model is queried for
        them where `Explainer.explain` would, and for effects; effects without a model add up to the
        surrogate's predictions.
    keep : float, optional
        Select only as many of the k features as each row needs: see `Explainer.explain`.
    options : mapping
        Other arguments of `Explainer.explain`: polish, verify, refine. With `verify` or `refine` the result
        has a column confirmed.
    encoded : bool
        Return names of features as Arrow dictionaries; False returns strings, for readers such as Spark.
    effects : bool
        Also return signed effects, and what they add up to.
    for_class : class, optional
        The class that effects refer to; by default the predicted class of each row.
    """

    explainer: Explainer
    columns: Sequence[str]
    copy: Sequence[str] = ()
    k: int | None = None
    predictions: Sequence[str] = ()
    keep: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    encoded: bool = True
    effects: bool = False
    for_class: Any = None

    @property
    def layout(self) -> TableLayout:
        """Return how the explainer reads a table."""
        return self.explainer.features_.table_layout()

    @property
    def _queries_model(self) -> bool:
        if self.predictions:
            return self.explainer.would_query(given=True, keep=self.keep, **self.options)
        needed = self.effects and self.explainer.model is not None
        return needed or self.explainer.would_query(keep=self.keep, **self.options)

    def batches(
        self, table: Table, batch_rows: int | None = None, *, skip: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """Return the rows of `table` after the first `skip`, in file order, as `__call__` accepts them."""
        extra = list(dict.fromkeys([*self.copy, *self.predictions]))
        view = self.explainer.features_
        return view_batches(table, view, self.columns, copy=extra, batch_rows=batch_rows, skip=skip)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        result, unseen = self.explained(batch)
        warn_unseen(unseen)
        return result

    def explained(self, batch: pa.RecordBatch) -> Result:
        """Return the result of a batch and the counts of unseen categories, without a warning."""
        explanation = self.explanation(batch)
        selected = arrow_columns(explanation, effects=self.effects)
        if not self.encoded:
            selected = {
                name: cells.dictionary_decode() if pa.types.is_dictionary(cells.type) else cells
                for name, cells in selected.items()
            }
        copied = {name: batch.column(name) for name in self.copy}
        if clash := [name for name in copied if name in selected]:
            raise InputError(f"The copied column '{clash[0]}' has the name of a result; rename it first.")
        return pa.RecordBatch.from_pydict(copied | selected), explanation.unseen

    def explanation(self, batch: pa.RecordBatch) -> Explanation:
        """Return the explanation of a batch."""
        rows: Any = pa.Table.from_batches([batch.select(list(self.columns))])
        predictions = batch.select(list(self.predictions)).to_pandas() if self.predictions else None
        if self._queries_model and self.layout.form != "text":
            rows = rows.to_pandas(ignore_metadata=True)  # as the model got them in `fit`
        rows = self.layout.inputs(rows)
        explanation = self.explainer.explain_quietly(
            rows, k=self.k, predictions=predictions, keep=self.keep, **self.options
        )
        return explanation if self.for_class is None else explanation.for_class(self.for_class)

    def description(self, table: Table) -> dict[str, object]:
        """Return what determines the result for a file: equal descriptions give equal results."""
        status = table.path.stat()
        return {
            "explainer": hashlib.sha256(as_bytes(self.explainer)).hexdigest(),
            "table": str(table.path.resolve()),
            "bytes": status.st_size,
            "changed": status.st_mtime_ns,
            "columns": list(self.columns),
            "copy": list(self.copy),
            "k": self.k,
            "predictions": list(self.predictions),
            "keep": self.keep,
            "effects": self.effects,
            "for_class": None if self.for_class is None else str(self.for_class),
            "options": dict(self.options),
            "model": self.explainer.black_box().name if self._queries_model else None,
        }


def match_columns(
    explainer: Explainer,
    table: Table,
    *,
    drop: Sequence[str] = (),
    copy: Sequence[str] = (),
    column: str | None = None,
) -> tuple[list[str], list[str]]:
    """Return the table's columns that are the explainer's features, in its order, and the ignored columns.

    Columns are matched by name, or by position if the explainer was fitted on an array. For texts, `column`
    is read, by default the only text column that is neither dropped nor copied.
    """
    table.require(drop, "drop")
    table.require(copy, "copy")
    layout = explainer.features_.table_layout()
    if layout.form == "text":
        return [text_column(table, column, others=[*drop, *copy], lists=layout.lists)], []
    if column is not None:
        raise InputError(f"column is '{column}', but this explainer reads a table, not texts.")
    offered = [name for name in table.columns if name not in drop]
    columns = layout.match(offered, copied=copy, source=f"'{table.path}'")
    return columns, [name for name in offered if name not in columns and name not in copy]


def explain_table(
    explain: BatchExplainer,
    table: Table,
    target: Path,
    *,
    batch_rows: int | None = None,
    workers: int | None = None,
    report: Callable[[int, float], None] = lambda rows, share: None,
) -> int:
    """Explain every row of a table into a .csv or .parquet file; return the number of rows.

    The file appears when it is complete; until then an older file stays. After an interruption, or if the
    disk is full, the same call resumes from the rows that are done. `workers` batches, by default one per
    processor, are explained in parallel; set `torch.set_num_threads(1)` before. `report` is called with the
    number of rows done and the share of the file, first for earlier sessions and then after each batch.
    """
    journal, done = Journal(target, explain.description(table)), 0
    unseen: Counter[str] = Counter()
    try:
        with journal.opened() as append, table_writer(target, folder=journal.folder) as write:
            for result in journal.results():
                write(result)
                done += len(result)
            report(done, table.share_read(done))
            batches = explain.batches(table, batch_rows, skip=done)
            with closing(_in_parallel(explain, batches, first_row=done, workers=workers)) as results:
                for result, counts in results:
                    append(result)
                    done += len(result)
                    write(result)
                    unseen.update(counts)
                    report(done, table.share_read(done))
            if not done:
                raise InputError(f"'{table.path}' has no rows.")
    except (KeyboardInterrupt, WriteError) as stop:
        if not journal.folder.exists():
            raise
        kept = f"{done:,} explained rows are kept in '{journal.folder}'; run the same command to resume."
        raise type(stop)(f"{stop} {kept}".strip()) from stop
    warn_unseen(unseen)
    return done


def explain_batches(
    explain: BatchExplainer, table: Table, *, batch_rows: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the explanations of every row, batch by batch; `explain_table` describes the parameters."""
    unseen: Counter[str] = Counter()
    for batch in explain.batches(table, batch_rows):
        result, counts = explain.explained(batch)
        unseen.update(counts)
        yield result
    warn_unseen(unseen)


def _in_parallel(
    explain: BatchExplainer, batches: Iterator[pa.RecordBatch], *, first_row: int, workers: int | None
) -> Generator[Result, None, None]:
    """Explain `workers` batches at a time; yield results in the order of the batches, holding only a few."""
    workers = workers or min(os.cpu_count() or 1, MAX_WORKERS)
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
        # The explainer counts rows from the start of the batch.
        raise type(error)(f"{error} (Rows are counted from row {first_row} on.)") from error
