"""The command line: parse options, call the library, print. Heavy imports wait until a command runs.

This is the only module of l2x that imports `l2x_experiments`, the second package in the wheel.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

import l2x
from l2x.apps.cli._arguments import Quiet
from l2x.apps.cli._check import check
from l2x.apps.cli._evaluate import evaluate
from l2x.apps.cli._explain import explain, export
from l2x.apps.cli._fit import fit, label
from l2x.apps.cli._serve import serve
from l2x.apps.cli._study import app as study
from l2x.apps.cli._terminal import Commands, main
from l2x_experiments.commands import app as reproduce

__all__ = ["app"]

EXPLAIN_PANEL = "Explain a model"
PAPER_PANEL = "Reproduce the paper"

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    epilog=(
        "Fit an explainer:  `l2x fit churn:model train.csv --drop churned --k 4 -o churn.l2x`\n\n"
        "Explain new rows:  `l2x explain churn.l2x new.csv -o why.csv`\n\n"
        "Check the explanations:  `l2x evaluate churn.l2x churn:model test.csv`"
    ),
)
data = typer.Typer(no_args_is_help=True, help="Download the data sets of the paper's experiments.")

# Load each data set and describe its content. The second split of a data set is read from the cache.
CONTENTS: dict[str, Callable[..., str]] = {
    "adult": lambda **fetch: f"{len(l2x.datasets.adult(**fetch)):,} people",
    "glove": lambda **fetch: f"{len(l2x.datasets.glove(**fetch)[0]):,} word vectors",
    "imdb": lambda **fetch: f"{len(l2x.datasets.imdb(**fetch)) + len(l2x.datasets.imdb('test')):,} reviews",
    "mnist": lambda **fetch: (
        f"{len(l2x.datasets.mnist(None, **fetch)) + len(l2x.datasets.mnist(None, split='test')):,} images"
    ),
}


@data.command()
def fetch(
    name: Annotated[Literal["adult", "glove", "imdb", "mnist"], typer.Argument(help="Which data set.")],
    folder: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FOLDER",
            help="Read the publisher's files from this folder instead of downloading them; they may be "
            "compressed.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Download a data set, verify its checksums, and store it.

    It is stored in the folder `$L2X_DATA`, or in l2x/ of your cache folder.

    Example:  `l2x data fetch imdb`
    """
    from l2x.datasets import data_folder

    content = CONTENTS[name](folder=folder, progress=not quiet)
    if not quiet:
        typer.echo(f"{name:<10}{data_folder() / name}: {content}, checksums verified")


app.callback()(main)
for command in (label, fit, explain, evaluate, check, export, serve):
    app.command(rich_help_panel=EXPLAIN_PANEL)(command)
app.add_typer(study, name="study", rich_help_panel=EXPLAIN_PANEL)
app.add_typer(data, name="data", rich_help_panel=PAPER_PANEL)
app.add_typer(reproduce, name="reproduce", rich_help_panel=PAPER_PANEL)
