"""Explain a table of any length: Arrow batch in, Arrow batch out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from l2x.errors import InputError, some
from l2x.explainer import Explainer
from l2x.explanation import Explanation
from l2x.scale.tables import Table, table_writer


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
        for batch in table.batches(explain.columns, text=explain.keep, batch_rows=batch_rows):
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
    explainer: Explainer, table: Table, *, drop: Sequence[str] = (), keep: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """The table's columns that are the explainer's features, in its order, and those that nobody asked for.

    Columns are found by name; where the explainer was fitted on an array, which has no names, by position.
    """
    table.require(drop, "--drop")
    table.require(keep, "--keep")
    view = explainer.features_
    offered = [name for name in table.columns if name not in drop]
    wanted: list[str] = getattr(view, "column_names_", view.names_)  # groups of columns have other names
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
    return list(wanted), [name for name in offered if name not in wanted and name not in keep]


def selection_columns(explanation: Explanation) -> dict[str, pa.Array]:
    """What `Explanation.to_frame` gives, without a Python object for every cell."""
    names = pa.array([str(name) for name in explanation.feature_names])
    indices = explanation.indices
    scores = np.take_along_axis(explanation.scores, indices, axis=1)
    columns = {f"feature_{j + 1}": names.take(pa.array(indices[:, j])) for j in range(explanation.k)}
    return columns | {f"score_{j + 1}": pa.array(scores[:, j]) for j in range(explanation.k)}
