"""`l2x evaluate`: how faithful an explainer is to its model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from l2x._version import __version__
from l2x.cli.figures import caution, print_figures
from l2x.cli.model import load_black_box
from l2x.cli.options import Column, Data, Drop, Model, OtherK, Saved, Seed
from l2x.cli.plan import training_plan
from l2x.cli.terminal import note_ignored

if TYPE_CHECKING:
    import pandas as pd

    from l2x.blackbox import BlackBox
    from l2x.evaluation import ReportCard
    from l2x.training import TrainingPlan


def evaluate(
    file: Saved,
    model: Model,
    data: Data,
    k: OtherK = None,
    drop: Drop = None,
    column: Column = None,
    rows: Annotated[
        int, typer.Option(min=4, help="Measure on at most so many rows of DATA, drawn at random.")
    ] = 20_000,
    draws: Annotated[int, typer.Option(min=2, help="How many random selections to compare with.")] = 5,
    judge: Annotated[
        bool,
        typer.Option(
            "--judge", help="Fit an independent judge on half of the rows, and measure on the other half."
        ),
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="PAGE",
            help="Also the report card, printed and as a page: does the selection encode the answer? Fits a "
            "judge on half of the rows.",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Train the judge far less.")] = False,
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes, no progress bars.")] = False,
) -> None:
    """How faithful are the explanations to the model, on rows that it was not fitted on?

    Post-hoc accuracy (R² for regression): does the model answer the same when it is shown only the k selected
    columns? Beside it everything but those, k random columns, the bits of information the selection holds,
    and the speed.

    --report adds the whole report card, whose verdict says whether the places of the selected columns are a
    code for the answer.

    Example:  `l2x evaluate churn.l2x churn:model test.csv --report card.html`
    """
    import json

    from l2x.artifact import load
    from l2x.evaluation.evaluation import evaluate as measure
    from l2x.features.texts import TextView
    from l2x.files.tables import Table, read_sample
    from l2x.scale.stream import match_columns, text_categories

    black_box = load_black_box(model)
    explainer = load(file, model=black_box)
    table = Table(data)
    columns, ignored = match_columns(explainer, table, drop=drop or [], column=column)
    k = explainer.features_.checked_k(explainer.k if k is None else k)
    if not quiet:
        note_ignored(ignored, "the explainer")
    if report is not None:
        from l2x.foundations.atomic import check_writable

        check_writable(report, inputs={"FILE": file, "MODEL": Path(model), "DATA": data})
    view = explainer.features_ if isinstance(explainer.features_, TextView) else None
    known = text_categories(explainer, columns)
    frame = read_sample(table, columns, rows, seed=seed, as_text=view is not None, categories=known)
    plan = training_plan(view, paper=False, quick=quick, progress=not quiet)
    figures = measure(
        explainer, black_box, frame, k=k, draws=draws, seed=seed, judge_plan=plan if judge else None
    )
    card = None if report is None else _report_card(explainer, black_box, frame, k, plan, seed, report)
    if as_json:
        origin = {"l2x": __version__, "explainer": str(file), "model": model, "data": str(data)}
        more = {} if card is None else {"report_card": card.to_dict()}
        typer.echo(json.dumps(origin | figures | {"note": caution(figures)} | more, indent=2))
        return
    print_figures(figures, "columns" if view is None else f"{view.unit}s")
    if card is not None:
        typer.echo(f"\n{card}\nreport     {report}")


def _report_card(
    explainer: Any,
    black_box: BlackBox,
    frame: pd.DataFrame,
    k: int,
    plan: TrainingPlan,
    seed: int,
    page: Path,
) -> ReportCard:
    """The card on one half of the rows, with a judge from the other, and its page."""
    import numpy as np

    from l2x.evaluation import report_card

    order = np.random.default_rng(seed).permutation(len(frame))
    half = len(frame) // 2
    card = report_card(
        explainer, black_box, frame.iloc[order[:half]], frame.iloc[order[half:]], k, training=plan, seed=seed
    )
    card.save(page)
    return card
