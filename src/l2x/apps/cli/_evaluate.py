"""`l2x evaluate`: can an explainer be trusted? Its report card."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from l2x._version import __version__
from l2x.apps.cli._model import load_black_box
from l2x.apps.cli._options import Column, Data, Drop, Model, OtherK, Saved, Seed
from l2x.apps.cli._plan import training_plan
from l2x.apps.cli._terminal import note_ignored

if TYPE_CHECKING:
    import pandas as pd

    from l2x.evaluation import ReportCard


Rows = Annotated[
    int,
    typer.Option(
        min=4,
        help="Use at most this many rows of DATA, drawn at random: half for the judge, half to measure.",
    ),
]
Report = Annotated[
    Path | None, typer.Option("--report", metavar="PAGE", help="Also write the report card as a page.")
]
Brief = Annotated[
    bool, typer.Option("--brief", help="Only fidelity, judge and information: encoding is not checked.")
]
Keep = Annotated[
    float | None,
    typer.Option(metavar="SHARE", help="Judge rows with as many columns as they need, as `explain --keep`."),
]
Quick = Annotated[bool, typer.Option("--quick", help="Train the judge far less.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No notes, no progress bars.")]


def evaluate(
    file: Saved,
    model: Model,
    data: Data,
    k: OtherK = None,
    keep: Keep = None,
    drop: Drop = None,
    column: Column = None,
    rows: Rows = 20_000,
    report: Report = None,
    brief: Brief = False,
    quick: Quick = False,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Can the explanations be trusted, on rows that the explainer was not fitted on? Its report card.

    Does the model answer the same when it is shown only the k selected columns, everything but those, or k
    random ones? What does an independent judge, fitted on half of the rows, find in them? The verdict tests
    whether the choice of columns leaks the answer: if it does, a high fidelity proves nothing.

    Example:  `l2x evaluate churn.l2x churn:model test.csv --report card.html`
    """
    from l2x._base.atomic import check_writable
    from l2x.evaluation import report_card
    from l2x.export import load, match_columns
    from l2x.features import checked_k
    from l2x.files import opened, read_sample
    from l2x.learning import checked_share

    black_box = load_black_box(model)
    explainer = load(file, model=black_box)
    k = checked_k(explainer.features_, explainer.k if k is None else k)
    if keep is not None:
        explainer.known_sizes()
        checked_share(keep)
    if report is not None:
        check_writable(report, inputs={"FILE": file, "MODEL": Path(model), "DATA": data})
    with opened(data) as (table, _):
        columns, ignored = match_columns(explainer, table, drop=drop or [], column=column)
        if not quiet:
            note_ignored(ignored, "the explainer")
        frame = read_sample(table, explainer.features_, columns, rows, seed=seed)
    judged, measured = _halves(frame, seed)
    plan = training_plan(explainer.features_, paper=False, quick=quick, progress=not quiet)
    card = report_card(
        explainer, black_box, judged, measured, k, keep=keep, training=plan, brief=brief, seed=seed
    )
    if report is not None:
        card.save(report)
    if as_json:
        origin = {"l2x": __version__, "explainer": str(file), "model": model, "data": str(data)}
        typer.echo(json.dumps(origin | card.to_dict(), indent=2))
    else:
        _print(card, report)


def _halves(frame: pd.DataFrame, seed: int) -> list[pd.DataFrame]:
    """Rows for the judge and the probes, and rows to measure on."""
    import numpy as np

    order = np.random.default_rng(seed).permutation(len(frame))
    return [frame.iloc[half] for half in np.split(order, [len(frame) // 2])]


def _print(card: ReportCard, report: Path | None) -> None:
    from rich.console import Console

    # A pipe has no width to fit into.
    Console(highlight=False, width=None if sys.stdout.isatty() else 110).print(card)
    if report is not None:
        typer.echo(f"\nreport     {report}")
