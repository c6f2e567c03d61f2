"""`l2x label`: a model's answers about every row of a file, on disk as soon as they are given."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from l2x.apps.cli._model import load_black_box
from l2x.apps.cli._options import Address, Column, Drop, Engine, EngineChoice, Model, Quiet, Source

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
PerRequest = Annotated[
    int | None,
    typer.Option("--rows-per-request", min=1, help="Of an address: at most.", show_default="512"),
]
Rate = Annotated[
    float | None, typer.Option("--requests-per-second", help="Of an address: at most.", show_default="any")
]
Timeout = Annotated[
    float | None, typer.Option(help="Of an address: seconds for one attempt.", show_default="60")
]


def label(
    model: Model,
    data: Source,
    output: Output,
    drop: Drop = None,
    column: Column = None,
    processes: Processes = 1,
    in_flight: InFlight = None,
    rows_per_request: PerRequest = None,
    requests_per_second: Rate = None,
    timeout: Timeout = None,
    engine: EngineChoice = Engine.local,
    address: Address = None,
    quiet: Quiet = False,
) -> None:
    """Ask the model about every row of DATA, once, and keep the answers for `l2x fit --responses`.

    Interrupted in any way, the same command resumes where it stopped and asks no answered row again. A Ray
    cluster starts over.

    Example:  `l2x label churn:model train.parquet --drop churned -o answers.parquet`

    An address:  `L2X_TOKEN=... l2x label https://models/v1/models/churn train.parquet -o answers.parquet`
    """
    from l2x._base.atomic import check_writable
    from l2x.errors import InputError
    from l2x.files import check_answers_path, label_rows

    check_answers_path(output)
    check_writable(output, inputs={"DATA": Path(data), "MODEL": Path(model)})
    black_box = load_black_box(
        model,
        in_flight=in_flight,
        rows_per_request=rows_per_request,
        requests_per_second=requests_per_second,
        timeout=timeout,
    )
    started = time.perf_counter()
    if engine is Engine.ray:
        from l2x.export import _ray as ray

        if column is not None or processes > 1:
            raise InputError("--engine ray takes no --column and no --processes.")
        rows = ray.read_parquet(data, address=address, progress=not quiet)
        answered = ray.write_answers(ray.label(rows, black_box, drop=drop or []), output, black_box)
        asked = answered
    else:
        answered = label_rows(
            black_box, data, output, drop=drop or [], column=column, processes=processes, progress=not quiet
        )
        asked = black_box.rows
    if not quiet:
        typer.echo(f"saved      {output}: {answered:,} answers of {black_box.name}")
        typer.echo(f"asked      {asked:,} rows in {time.perf_counter() - started:.1f} s")
