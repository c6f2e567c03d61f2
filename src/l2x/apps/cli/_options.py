"""Arguments and options that several commands take."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

# Standard input as DATA, standard output as OUT.
STANDARD = Path("-")

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="What to explain: `module:attribute`, imported from the current folder "
        "(an estimator, a booster, a torch module, a function), an `.onnx` file, or the address of a model, "
        "`https://...`, whose token is in the environment variable L2X_TOKEN.",
        show_default=False,
    ),
]
Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="A .csv or .parquet file with a header, a .txt file with one text per line, or - for standard "
        "input: CSV or JSON lines.",
        show_default=False,
    ),
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A .csv or .parquet file with a header, a .txt file with one text per line, or - for standard "
        "input: CSV or JSON lines; with --engine ray also a folder of .parquet files, or an address such as `s3://bucket/folder`.",
        show_default=False,
    ),
]


class Engine(StrEnum):
    local = "local"
    ray = "ray"


EngineChoice = Annotated[
    Engine, typer.Option("--engine", help="Where the work is done: on this machine, or by a Ray cluster.")
]
Address = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Of a Ray cluster; without it, Ray starts on this machine."),
]
Saved = Annotated[
    Path, typer.Argument(metavar="FILE", help="An explainer that `l2x fit` saved.", show_default=False)
]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", metavar="COLUMN", help="Exclude this column; repeat for more.")
]
Column = Annotated[
    str | None,
    typer.Option(
        "--column", metavar="COLUMN", help="The column that holds the texts, if several columns could."
    ),
]
OtherK = Annotated[
    int | None, typer.Option("--k", help="How many features to select; by default as many as in fitting.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing unless something fails.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The same seed and data give the same result.")]
