"""`l2x explain`: every row of a file, or a look at the first ones."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from l2x.cli.first_rows import show_first
from l2x.cli.options import Column, Data, Drop, OtherK, Quiet, Saved
from l2x.cli.terminal import note_ignored, rows_bar, say


def explain(
    file: Saved,
    data: Data,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="A .csv or .parquet file; without it, look at the first rows.",
        ),
    ] = None,
    k: OtherK = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep", metavar="COLUMN", help="A column to copy into OUT, such as an id; repeat for more."
        ),
    ] = None,
    drop: Drop = None,
    column: Column = None,
    head: Annotated[int, typer.Option(min=1, help="Without -o: how many rows to show.")] = 10,
    batch_rows: Annotated[
        int | None, typer.Option(min=1, help="Rows in memory at a time; by default what suits the columns.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Batches explained at a time; by default one per processor.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Explain every row of DATA. The model is not needed; a file of any size streams through.

    OUT has the kept columns, then feature_1 .. feature_k (best first) and score_1 .. score_k. It appears
    when it is complete; until then OUT.parts keeps what was done, and the same command goes on from there.
    Columns are matched by name; columns that the explainer does not know are ignored.

    Of texts, feature_1 .. feature_k are the words or sentences themselves.

    Example:  `l2x explain churn.l2x customers.parquet --keep id -o why.parquet`
    """
    from l2x.artifact import load
    from l2x.files.tables import Table, format_of
    from l2x.foundations.atomic import check_writable
    from l2x.scale.stream import BatchExplainer, explain_table, match_columns

    explainer = load(file)
    table = Table(data)
    keep = list(dict.fromkeys(keep or []))
    columns, ignored = match_columns(explainer, table, drop=drop or [], keep=keep, column=column)
    k = explainer.features_.checked_k(explainer.k if k is None else k)
    if not quiet:
        note_ignored(ignored, "the explainer")
    batches = BatchExplainer(explainer, columns, keep=keep, k=k)
    if output is None:
        show_first(batches, table, head)
        return
    format_of(output)
    check_writable(output, inputs={"DATA": data, "FILE": file})
    started, heard = time.perf_counter(), list[int]()
    with rows_bar(visible=not quiet) as report:

        def listen(rows: int, share: float) -> None:
            if rows and not heard and not quiet:
                say("note:", f"{rows:,} rows were explained before; going on from there.", style="bold")
            heard.append(rows)
            report(rows, share)

        done = explain_table(batches, table, output, batch_rows=batch_rows, workers=workers, report=listen)
    seconds = time.perf_counter() - started
    if not quiet:
        speed = (done - heard[0]) / seconds
        typer.echo(f"saved      {output}: {done:,} rows explained in {seconds:.1f} s ({speed:,.0f} rows/s)")
