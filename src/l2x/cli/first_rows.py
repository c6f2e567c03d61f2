"""What `l2x explain` shows of the first rows if it writes no file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table as Grid

    from l2x.files.tables import Table
    from l2x.scale.stream import BatchExplainer


def show_first(explain: BatchExplainer, table: Table, head: int) -> None:
    """Print the first rows: what is kept, then the selected features with their values, best first."""
    from rich.console import Console

    from l2x.errors import InputError

    batch = next(explain.batches(table, head), None)
    if batch is None:
        raise InputError(f"'{table.path}' has no rows.")
    # A pipe has no width to fit into.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 1000)
    if explain.reading.one_text:
        console.print(_texts(explain, batch, colour=console.is_terminal))
    else:
        console.print(_cells(explain, batch))


def _cells(explain: BatchExplainer, batch: Any) -> Grid:
    """Each selected column with its value."""
    from rich.text import Text

    explained = explain(batch)
    features = [name for name in explained.schema.names if name.startswith("feature_")]
    grid = _grid([*explain.keep, *(f"{rank + 1}." for rank in range(len(features)))])
    # What the explainer calls a column, and what the table does.
    column_of = dict(zip(explain.reading.columns or (), explain.columns, strict=True))
    for i, (row, result) in enumerate(zip(batch.to_pylist(), explained.to_pylist(), strict=True)):
        kept = [str(row[name]) for name in explain.keep]
        selected = [_with_value(result[feature], row, column_of) for feature in features]
        grid.add_row(*map(Text, [str(i), *kept, *selected]))  # not str: names may look like markup
    return grid


def _texts(explain: BatchExplainer, batch: Any, *, colour: bool) -> Grid:
    """Each text around its key words or sentences."""
    from rich.text import Text

    from l2x.cli.terminal import highlighted
    from l2x.plots.highlights import pieces

    grid = _grid([*explain.keep, explain.columns[0]])
    explanation = explain.explainer.explain(batch.select(explain.columns).to_pandas(), explain.k)
    for i, row in enumerate(batch.to_pylist()):
        text = highlighted(pieces(explanation, i, context=60), explanation.k, colour=colour)
        grid.add_row(str(i), *(Text(str(row[name])) for name in explain.keep), text)
    return grid


def _grid(titles: Sequence[str]) -> Grid:
    from rich.table import Table as Grid

    grid = Grid(box=None, header_style="bold", pad_edge=False)
    for title in ["row", *titles]:
        grid.add_column(title, overflow="fold")
    return grid


def _with_value(name: str, row: dict[str, Any], column_of: dict[str, str]) -> str:
    """A selected column with its value; a group of columns has none."""
    if name not in column_of:
        return name
    value = row[column_of[name]]
    return f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}"
