"""Explain a table of any length: Arrow batch in, Arrow batch out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from l2x.errors import InputError
from l2x.explainer import Explainer
from l2x.explanation import Explanation
from l2x.features.texts import TextView
from l2x.scale.tables import Table, some, table_writer

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

    def batches(self, table: Table, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """What `__call__` takes, in the order of the table."""
        if self.of_texts:  # a text stays as it is, even if it looks like a number
            return table.batches((), text=[*self.columns, *self.keep], batch_rows=batch_rows or TEXT_ROWS)
        return table.batches(self.columns, text=self.keep, batch_rows=batch_rows)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        frame = batch.select(list(self.columns)).to_pandas(ignore_metadata=True)
        selected = selection_columns(self.explainer.explain(frame, k=self.k))
        kept = {name: batch.column(name) for name in self.keep}
        if clash := [name for name in kept if name in selected]:
            raise InputError(f"The kept column '{clash[0]}' has the name of a result; rename it first.")
        return pa.RecordBatch.from_pydict(kept | selected)


def explain_table(
    explain: BatchExplainer,
    table: Table,
    target: Path,
    *,
    batch_rows: int | None = None,
    report: Callable[[int, float], None] = lambda rows, share: None,
) -> int:
    """Explain every row of `table` into `target`; how many rows that were.

    `target` appears when the last row is written; a failure leaves what was there. `report` hears the rows
    done and the share of the file read.
    """
    rows = 0
    with table_writer(target) as write:
        for batch in explain.batches(table, batch_rows):
            try:
                write(explain(batch))
            except InputError as error:
                # The explainer counts rows from the start of what it was given.
                where = f" (Rows are counted from row {rows} on.)" if rows else ""
                raise InputError(f"{error}{where}") from error
            rows += len(batch)
            report(rows, table.share_read(rows))
        if not rows:
            raise InputError(f"'{table.path}' has no rows.")
    return rows


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
    missing = [name for name in view.names_ if name not in offered]
    if missing and not getattr(view, "has_names_", True):
        offered = [name for name in offered if name not in keep]
        if len(offered) != view.d:
            raise InputError(
                f"The explainer was fitted on {view.d} columns without names; '{table.path}' has "
                f"{len(offered)}: {some(offered)}. Leave columns out with --drop."
            )
        return offered, []
    if missing:
        raise InputError(
            f"'{table.path}' lacks columns that the explainer was fitted on: {some(missing)}; "
            f"it has {some(offered)}."
        )
    return list(view.names_), [name for name in offered if name not in view.names_ and name not in keep]


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
    scores = np.take_along_axis(explanation.scores, indices, axis=1)
    columns = {f"feature_{j + 1}": names.take(pa.array(indices[:, j])) for j in range(explanation.k)}
    return columns | {f"score_{j + 1}": pa.array(scores[:, j]) for j in range(explanation.k)}


def _selected_texts(explanation: Explanation) -> dict[str, pa.Array]:
    """Words or sentences and their scores; nulls where a text has fewer than k."""
    k, missing = explanation.k, ~explanation.selected
    names = [[*row, *[None] * (k - len(row))] for row in explanation.names]
    scores = np.take_along_axis(explanation.scores, explanation.indices, axis=1)
    columns = {f"feature_{j + 1}": pa.array([row[j] for row in names], pa.string()) for j in range(k)}
    return columns | {f"score_{j + 1}": pa.array(scores[:, j], mask=missing[:, j]) for j in range(k)}
