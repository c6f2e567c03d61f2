"""What `l2x explain` shows of the first rows if it writes no file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from l2x.files.tables import Table


def show_first(explain: Any, table: Table, head: int) -> None:
    """The first rows: what was kept, then the selected columns with their values, best first."""
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    from l2x.errors import InputError

    batch = next(explain.batches(table, head), None)
    if batch is None:
        raise InputError(f"'{table.path}' has no rows.")
    # A pipe has no width to fit into.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 1000)
    if explain.of_texts:
        console.print(_text_grid(explain, batch, colour=console.is_terminal))
        return
    explained = explain(batch)
    features = [name for name in explained.schema.names if name.startswith("feature_")]
    grid = Grid(box=None, header_style="bold", pad_edge=False)
    for title in ["row", *explain.keep, *(f"{rank + 1}." for rank in range(len(features)))]:
        grid.add_column(title, overflow="fold")
    view = explain.explainer.features_
    names = map(str, getattr(view, "column_names_", view.names_))
    position = dict(zip(names, explain.columns, strict=True))
    for i, (row, picked) in enumerate(zip(batch.to_pylist(), explained.to_pylist(), strict=True)):
        chosen = [_with_value(picked[name], row, position) for name in features]
        cells = [str(row[name]) for name in explain.keep] + chosen
        grid.add_row(*map(Text, [str(i), *cells]))  # not str: names may look like markup
    console.print(grid)


def _text_grid(explain: Any, batch: Any, *, colour: bool) -> Any:
    """What was kept, then each text around its key words or sentences."""
    from rich.table import Table as Grid
    from rich.text import Text

    from l2x.cli.terminal import highlighted
    from l2x.plots.highlights import pieces

    grid = Grid(box=None, header_style="bold", pad_edge=False)
    for title in ["row", *explain.keep, explain.columns[0]]:
        grid.add_column(title, overflow="fold")
    explanation = explain.explainer.explain(batch.select(explain.columns).to_pandas(), explain.k)
    for i, row in enumerate(batch.to_pylist()):
        text = highlighted(pieces(explanation, i, context=60), explanation.k, colour=colour)
        grid.add_row(str(i), *(Text(str(row[name])) for name in explain.keep), text)
    return grid


def _with_value(name: str, row: dict[str, Any], position: dict[str, str]) -> str:
    """A selected column with its value; a group of columns has none."""
    return f"{name} = {_short(row[position[name]])}" if name in position else name


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
