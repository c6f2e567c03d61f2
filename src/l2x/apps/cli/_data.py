"""`l2x data`: the data sets of the paper's experiments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

import l2x
from l2x.apps.cli._options import Quiet

app = typer.Typer(no_args_is_help=True, help="Fetch the data sets of the paper's experiments.")

# How each data set is loaded, and what it then holds. A second part comes from the cache.
CONTENTS: dict[str, Callable[..., str]] = {
    "adult": lambda **fetch: f"{len(l2x.datasets.adult(**fetch)):,} people",
    "glove": lambda **fetch: f"{len(l2x.datasets.glove(**fetch)[0]):,} word vectors",
    "imdb": lambda **fetch: f"{len(l2x.datasets.imdb(**fetch)) + len(l2x.datasets.imdb('test')):,} reviews",
    "mnist": lambda **fetch: (
        f"{len(l2x.datasets.mnist(None, **fetch)) + len(l2x.datasets.mnist(None, split='test')):,} images"
    ),
}


def _known(name: str) -> str:
    if name not in CONTENTS:
        raise typer.BadParameter(f"there is no data set '{name}'; choose one of {', '.join(CONTENTS)}.")
    return name


@app.command()
def fetch(
    name: Annotated[
        str,
        typer.Argument(
            metavar="|".join(CONTENTS), help="Which data set.", show_default=False, callback=_known
        ),
    ],
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
    from l2x.datasets._fetching import data_folder

    content = CONTENTS[name](folder=folder, progress=not quiet)
    if not quiet:
        typer.echo(f"{name:<10}{data_folder() / name}: {content}, checked")
