"""`l2x evaluate`: a report on whether an explainer can be trusted."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from l2x._version import __version__
from l2x.apps.cli._arguments import (
    Column,
    Data,
    Drop,
    Model,
    OptionalK,
    Saved,
    Seed,
    load_black_box,
    training_plan,
)
from l2x.apps.cli._terminal import note_ignored, takes_options

if TYPE_CHECKING:
    from l2x.evaluation import Report
    from l2x.explainer import Explainer


@dataclass(frozen=True)
class EvaluateOptions:
    """The command line of `l2x evaluate`."""

    file: Saved
    model: Model
    data: Data
    k: OptionalK = None
    keep: Annotated[
        float | None,
        Option(metavar="SHARE", help="Evaluate explanations of variable size, as in `l2x explain`."),
    ] = None
    polish: Annotated[
        bool, Option("--polish/--no-polish", help="Evaluate polished selections, or the learned ones.")
    ] = True
    refine: Annotated[
        int,
        Option(
            min=0, metavar="N", help="Evaluate selections that are refined with at most N queries per row."
        ),
    ] = 0
    drop: Drop = None
    column: Column = None
    rows: Annotated[
        int,
        Option(
            min=4,
            help="Use at most this many rows of DATA, sampled at random: one half to fit the evaluator, the "
            "other half to measure.",
        ),
    ] = 20_000
    page: Annotated[
        Path | None, Option("--report", metavar="PAGE", help="Also write the report to this .html file.")
    ] = None
    brief: Annotated[
        bool,
        Option("--brief", help="Measure only fidelity, evaluator and information; skip the leakage test."),
    ] = False
    quick: Annotated[
        bool, Option("--quick", help="Train the evaluator for far fewer steps, for a first look.")
    ] = False
    seed: Seed = 0
    as_json: Annotated[bool, Option("--json", help="Print JSON.")] = False
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print neither notes nor progress bars.")] = False


@takes_options
def evaluate(options: EvaluateOptions) -> None:
    """Check whether the explanations can be trusted, on rows that the explainer was not fitted on.

    The report compares the model's predictions from the k selected columns alone with those from k random
    columns, and with those from all other columns. It repeats this with an independent evaluator, which is
    fitted on half of the rows. A leakage test checks whether the choice of columns itself reveals the
    prediction: if it does, high fidelity proves nothing.

    Example:  `l2x evaluate churn.l2x churn:model test.csv --report page.html`
    """
    from l2x.evaluation import report
    from l2x.export import load
    from l2x.features import checked_k

    black_box = load_black_box(options.model)
    explainer = load(options.file, model=black_box)
    k = checked_k(explainer.features_, explainer.k if options.k is None else options.k)
    _check_usage(explainer, options)
    evaluated, measured = _halves(_sample(explainer, options), options.seed)
    plan = training_plan(explainer.features_, paper=False, quick=options.quick, progress=not options.quiet)
    result = report(
        explainer, black_box, evaluated, measured, k,
        keep=options.keep, polish=None if options.polish else False, refine=options.refine,
        training=plan, brief=options.brief, seed=options.seed,
    )  # fmt: skip
    _print(result, options)


def _check_usage(explainer: Explainer, options: EvaluateOptions) -> None:
    from l2x._base.atomic import check_writable
    from l2x.learning import checked_share

    if options.keep is not None:
        explainer.known_sizes()
        checked_share(options.keep)
    if options.page is not None:
        inputs = {"FILE": options.file, "MODEL": Path(options.model), "DATA": options.data}
        check_writable(options.page, inputs=inputs)


def _sample(explainer: Explainer, options: EvaluateOptions) -> Any:
    """Read the columns of DATA that the explainer uses, for a random sample of rows."""
    from l2x.export import match_columns
    from l2x.files import opened, read_sample

    with opened(options.data) as (table, _):
        columns, ignored = match_columns(explainer, table, drop=options.drop or [], column=options.column)
        if not options.quiet:
            note_ignored(ignored, "the explainer")
        return read_sample(table, explainer.features_, columns, options.rows, seed=options.seed)


def _halves(rows: Any, seed: int) -> list[Any]:
    """Split the rows at random: one half to fit the evaluator and the leakage test, one half to measure."""
    import numpy as np

    from l2x._base.arrays import take

    order = np.random.default_rng(seed).permutation(len(rows))
    return [take(rows, half) for half in np.split(order, [len(rows) // 2])]


def _print(report: Report, options: EvaluateOptions) -> None:
    from rich.console import Console

    if options.page is not None:
        report.save(options.page)
    if options.as_json:
        origin = {
            "l2x": __version__,
            "explainer": str(options.file),
            "model": options.model,
            "data": str(options.data),
        }
        typer.echo(json.dumps(origin | report.to_dict(), indent=2))
        return
    # A pipe has no width to fit into.
    Console(highlight=False, width=None if sys.stdout.isatty() else 110).print(report)
    if options.page is not None:
        typer.echo(f"\nreport     {options.page}")
