"""`l2x check`: whether an explainer is still valid for new data, with an exit code for schedulers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from l2x._version import __version__
from l2x.apps.cli._arguments import FORMATS, Column, Drop, Saved, Seed, load_black_box
from l2x.apps.cli._terminal import note_ignored, takes_options

if TYPE_CHECKING:
    from l2x.explainer import Explainer

# Click exits with 2 if the command line is wrong, and l2x with 1 if a command fails.
EXIT_CODES = {"valid": 0, "drifting": 3, "stale": 4}
# Rows that are read; the verified rows are drawn from them.
READ_ROWS = 10_000


@dataclass(frozen=True)
class CheckOptions:
    """The command line of `l2x check`."""

    file: Saved
    model: Annotated[
        str,
        Option(
            metavar="MODEL",
            help="The model as it is now: `module:attribute`, an `.onnx` file, or the URL of a service.",
        ),
    ]
    data: Annotated[
        Path, Option(metavar="DATA", help=f"New rows. {FORMATS} Images: an .npy file with an array.")
    ]
    rows: Annotated[
        int, Option(min=30, help="Query the model for at most this many rows, twice each, drawn at random.")
    ] = 1000
    expected: Annotated[
        float | None,
        Option(
            metavar="SHARE",
            help="The share of confirmed rows to expect, if `fit` did not query the model for masked rows.",
        ),
    ] = None
    drop: Drop = None
    column: Column = None
    seed: Seed = 0
    as_json: Annotated[bool, Option("--json", help="Print JSON.")] = False
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print nothing except errors.")] = False


@takes_options
def check(options: CheckOptions) -> None:
    """Check whether an explainer is still valid: has the model changed since, or have the inputs?

    A sample of new rows is verified: do their selected features alone give the model's prediction as often as
    they did in `fit`? Inputs, predictions and scores are compared with the training rows by the population
    stability index. If nothing has changed, each of the two raises an alarm once in 1,000 checks.

    The exit code is 0 if the explainer is valid, 3 if it is drifting, 4 if it is stale, and 1 after an error.

    Example:  `l2x check churn.l2x --model churn:model --data new.parquet`
    """
    from l2x.export import load

    explainer = load(options.file, model=load_black_box(options.model))
    validity = explainer.still_valid(
        _rows(explainer, options), rows=options.rows, expected=options.expected, seed=options.seed
    )
    if options.as_json:
        origin = {
            "l2x": __version__,
            "explainer": str(options.file),
            "fitted_at": None if explainer.fitted_at_ is None else explainer.fitted_at_.isoformat(),
            "model": options.model,
            "data": str(options.data),
        }
        typer.echo(json.dumps(origin | validity.to_dict(), indent=2))
    elif not options.quiet:
        typer.echo(str(validity))
    raise typer.Exit(EXIT_CODES[validity.status])


def _rows(explainer: Explainer, options: CheckOptions) -> Any:
    """Read a random sample of DATA."""
    from l2x.export import match_columns
    from l2x.files import opened, read_sample

    most = max(options.rows, READ_ROWS)
    if options.data.suffix == ".npy":
        return _images(options.data, most, options.seed)
    with opened(options.data) as (table, _):
        columns, ignored = match_columns(explainer, table, drop=options.drop or [], column=options.column)
        if not (options.quiet or options.as_json):
            note_ignored(ignored, "the explainer")
        return read_sample(table, explainer.features_, columns, most, seed=options.seed)


def _images(path: Path, most: int, seed: int) -> Any:
    """Read a random sample of the rows of an array, without its pickles."""
    import numpy as np

    from l2x.errors import InputError

    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"'{path}' is not an array of numbers: {error}") from error
    if isinstance(array, np.lib.npyio.NpzFile):
        array.close()
    if not isinstance(array, np.ndarray) or not array.ndim or array.dtype.kind not in "biuf":
        raise InputError(f"'{path}' is not an array of numbers with a row per image.")
    chosen = np.random.default_rng(seed).permutation(len(array))[:most]
    return np.asarray(array[np.sort(chosen)])
