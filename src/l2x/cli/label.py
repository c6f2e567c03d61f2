"""`l2x label`: a model's answers about every row of a file, on disk as soon as they are given."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from l2x.cli.model import load_black_box
from l2x.cli.options import Column, Data, Drop, Model, Quiet

Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="ANSWERS", help="A .parquet file for the answers.", show_default=False
    ),
]
Processes = Annotated[
    int, typer.Option(min=1, help="Ask in this many processes, for a model that holds the interpreter lock.")
]
InFlight = Annotated[
    int | None, typer.Option(min=1, help="Of an address: requests at a time.", show_default="8")
]
Rate = Annotated[
    float | None, typer.Option("--requests-per-second", help="Of an address: at most.", show_default="any")
]
Timeout = Annotated[
    float | None, typer.Option(help="Of an address: seconds for one attempt.", show_default="60")
]


def label(
    model: Model,
    data: Data,
    output: Output,
    drop: Drop = None,
    column: Column = None,
    processes: Processes = 1,
    in_flight: InFlight = None,
    requests_per_second: Rate = None,
    timeout: Timeout = None,
    quiet: Quiet = False,
) -> None:
    """Ask the model about every row of DATA, once, and keep the answers for `l2x fit --responses`.

    Interrupted in any way, the same command resumes where it stopped and asks no answered row again.

    Example:  `l2x label churn:model train.parquet --drop churned -o answers.parquet`

    An address:  `L2X_TOKEN=... l2x label https://models/v1/models/churn train.parquet -o answers.parquet`
    """
    from l2x.labelling.label import label as label_rows
    from l2x.foundations.atomic import check_writable

    check_writable(output, inputs={"DATA": data, "MODEL": Path(model)})
    black_box = load_black_box(
        model, in_flight=in_flight, requests_per_second=requests_per_second, timeout=timeout
    )
    black_box.name = model if "://" not in model else black_box.name
    started = time.perf_counter()
    answers = label_rows(
        black_box, data, output, drop=drop or [], column=column, processes=processes, progress=not quiet
    )
    if not quiet:
        typer.echo(f"saved      {output}: {len(answers):,} answers of {black_box.name}")
        typer.echo(f"asked      {black_box.rows:,} rows in {time.perf_counter() - started:.1f} s")
