"""What `l2x explain` shows of the first rows if it writes no file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

    from l2x.export import BatchExplainer
    from l2x.files import Table


def show_first(explain: BatchExplainer, table: Table, head: int) -> None:
    """Print the first rows: what is kept, then the selected features with their values, best first."""
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    from l2x.errors import InputError

    batch = next(explain.batches(table, head), None)
    if batch is None:
        raise InputError(f"'{table.path}' has no rows.")
    # A pipe has no width to fit into.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 1000)
    if explain.reading.one_text:
        titles, shown = explain.columns, _texts(explain, batch, colour=console.is_terminal)
    else:
        shown = _cells(explain, batch)
        titles = [f"{rank + 1}." for rank in range(len(shown[0]))]
    grid = Grid(box=None, header_style="bold", pad_edge=False)
    for title in ["row", *explain.copy, *titles]:
        grid.add_column(title, overflow="fold")
    for i, row in enumerate(batch.to_pylist()):
        copied = [Text(str(row[name])) for name in explain.copy]  # not str: cells may look like markup
        grid.add_row(str(i), *copied, *shown[i])
    console.print(grid)


def _cells(explain: BatchExplainer, batch: Any) -> list[list[Text]]:
    """Of each row the selected columns with their values; a group of columns has none."""
    from rich.text import Text

    from l2x.display import cell_text, with_value

    # What the explainer calls a column, and what the table does.
    column_of = dict(zip(explain.reading.columns or (), explain.columns, strict=True))

    def cell(name: str | None, row: dict[str, Any]) -> Text:
        if name is None:  # a row that keeps fewer
            return Text("")
        return Text(with_value(name, cell_text(row[column_of[name]]) if name in column_of else ""))

    explained = explain(batch).to_pylist()
    features = [name for name in explained[0] if name.startswith("feature_")]
    return [
        [cell(result[feature], row) for feature in features]
        for row, result in zip(batch.to_pylist(), explained, strict=True)
    ]


def _texts(explain: BatchExplainer, batch: Any, *, colour: bool) -> list[list[Text]]:
    """Of each row the text around its key words or sentences."""
    from l2x.apps.cli._terminal import highlighted
    from l2x.display import pieces

    explanation = explain.explanation(batch)
    return [
        [highlighted(pieces(explanation, i, context=60), explanation.k, colour=colour)]
        for i in range(len(explanation))
    ]
