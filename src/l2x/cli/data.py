"""`l2x data`: the data sets of the paper's experiments."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from l2x.cli.options import Quiet

app = typer.Typer(no_args_is_help=True, help="Fetch the data sets of the paper's experiments.")


class DataName(StrEnum):
    adult = "adult"
    glove = "glove"
    imdb = "imdb"
    mnist = "mnist"


@app.command()
def fetch(
    name: Annotated[DataName, typer.Argument(help="Which data set.", show_default=False)],
    folder: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FOLDER", help="Take the publisher's files, packed or not, from here."
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Fetch a data set into the cache (`$L2X_DATA`, or l2x in your cache folder) and check it.

    Example:  `l2x data fetch imdb`
    """
    from l2x.datasets import adult, glove, imdb, mnist
    from l2x.datasets.fetching import data_folder

    progress = not quiet
    if name is DataName.adult:
        content = f"{len(adult(folder=folder, progress=progress)):,} people"
    elif name is DataName.glove:
        content = f"{len(glove(folder=folder, progress=progress)[0]):,} word vectors"
    elif name is DataName.imdb:
        reviews = [imdb("train", folder=folder, progress=progress), imdb("test", progress=progress)]
        content = f"{sum(map(len, reviews)):,} reviews"
    else:
        images = [
            mnist(None, split="train", folder=folder, progress=progress),
            mnist(None, split="test", progress=progress),
        ]
        content = f"{sum(map(len, images)):,} images"
    if not quiet:
        typer.echo(f"{name.value:<10}{data_folder() / name.value}: {content}, checked")
