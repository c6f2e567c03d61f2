"""The command line: parses, calls the library, prints. Heavy imports wait inside the commands."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from l2x._version import __version__
from l2x.experiments import commands as experiments
from l2x.terminal import Commands, rows_bar, say

if TYPE_CHECKING:
    import pandas as pd

    from l2x.blackbox import BlackBox
    from l2x.card import ReportCard
    from l2x.features.texts import TextView
    from l2x.scale.tables import Table
    from l2x.training import TrainingPlan

GAMING = (
    "Post-hoc accuracy alone can be gamed: a selection may encode the answer instead of explaining it. "
    "Read it beside an independent judge, a q(y | x_S) fitted on random subsets"
)
ASK_FOR_JUDGE = " (--judge, or l2x.metrics.fit_judge in Python)"


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    epilog=(
        "Start with:  `l2x fit churn:model train.csv --drop churned --k 4 -o churn.l2x`\n\n"
        "then:  `l2x explain churn.l2x new.csv -o why.csv`\n\n"
        "and:  `l2x evaluate churn.l2x churn:model test.csv`"
    ),
)

EXPLAINING = "Explain a model"
REPRODUCING = "Reproduce the paper"

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="What to explain: `module:attribute`, imported from the current folder "
        "(an estimator, a booster, a torch module, a function), or a `.onnx` file.",
        show_default=False,
    ),
]
Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="A .csv or .parquet file with a header, or a .txt file with a text in each line.",
        show_default=False,
    ),
]
Saved = Annotated[
    Path, typer.Argument(metavar="FILE", help="An explainer that `l2x fit` saved.", show_default=False)
]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", metavar="COLUMN", help="A column that is no feature; repeat for more."),
]
Column = Annotated[
    str | None,
    typer.Option(
        "--column", metavar="COLUMN", help="Of texts: the column that holds them, if there are several."
    ),
]
OtherK = Annotated[
    int | None, typer.Option("--k", help="How many features to select; by default as many as at fitting.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing unless something fails.")]
Seed = Annotated[int, typer.Option("--seed", help="The same seed and data give the same result.")]


class FeaturesChoice(StrEnum):
    columns = "columns"
    words = "words"
    sentences = "sentences"


class ValueChoice(StrEnum):
    surrogate = "surrogate"
    model = "model"
    joint = "joint"


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"l2x {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="L2X_DEBUG", help="Show the traceback of an error.")
    ] = False,
) -> None:
    """Which k features decided a model's answer? Learn it once, then explain in real time.

    An explainer is a small network that is fitted beside any model that predicts, and then answers for
    each row with one forward pass (Learning to Explain, ICML 2018).
    """


@app.command(rich_help_panel=EXPLAINING)
def fit(
    model: Model,
    data: Data,
    k: Annotated[int, typer.Option("--k", help="How many features explain one row.", show_default=False)],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to save the explainer.", show_default=False
        ),
    ],
    drop: Drop = None,
    features: Annotated[
        FeaturesChoice,
        typer.Option(help="What one feature is: a column of the table, or a word or sentence of a text."),
    ] = FeaturesChoice.columns,
    column: Column = None,
    value: Annotated[
        ValueChoice | None,
        typer.Option(
            help="What a subset of columns is worth. `surrogate` (default): q(y|x_S) fitted on random "
            "subsets, so that no selection smuggles the answer; `model`: the model itself with the rest "
            "removed; `joint`: as in the paper.",
            show_default=False,
        ),
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="Train exactly as the paper does.")] = False,
    rows: Annotated[
        int, typer.Option(min=2, help="Learn from at most so many rows of DATA, drawn at random.")
    ] = 1_000_000,
    validation: Annotated[
        float, typer.Option(help="Share of the rows held out to choose the best weights.")
    ] = 0.1,
    seed: Seed = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A first look: train far less.")] = False,
    quiet: Quiet = False,
) -> None:
    """Learn which k columns decide the model's answers. No labels are needed: the model supplies them.

    Columns of DATA that the model was not fitted on are left out if the model knows its columns' names;
    otherwise name the target and ids with --drop.

    Example:  `l2x fit churn:model train.parquet --drop churned --drop id --k 4 -o churn.l2x`

    Texts:  `l2x fit reviews:model train.csv --features words --column text --k 10 -o reviews.l2x`
    """
    if paper and value is not None:
        raise typer.BadParameter("--paper trains jointly; leave --value out.", param_hint="--value")
    from l2x.explainer import Explainer
    from l2x.scale.stream import text_column
    from l2x.scale.tables import Table, check_writable, read_sample

    # What can be wrong is found out before the model is asked anything.
    table = Table(data)
    check_writable(output)
    black_box = _load_model(model)
    view = _text_view(features)
    if view is None and column is not None:
        raise typer.BadParameter("is for texts: give --features, too.", param_hint="--column")
    if view is None:
        if table.format == "txt":
            raise typer.BadParameter(f"'{data}' holds texts: words or sentences?", param_hint="--features")
        columns = _model_columns(black_box, table, drop or [], quiet=quiet)
    else:
        columns = [text_column(table, column, others=drop or [])]
    frame = read_sample(table, columns, rows, seed=seed, as_text=view is not None)
    plan = _plan(view, paper=paper, quick=quick, progress=not quiet)
    build = Explainer.paper if paper else Explainer
    options: dict[str, Any] = {"features": view} | ({} if value is None else {"value": value.value})
    explainer = build(black_box, k, training=plan, seed=seed, **options).fit(frame, validation=validation)
    explainer.save(output)
    if quiet:
        return
    losses = [entry["validation_loss"] for entry in explainer.history_ if "selector" in entry["phase"]]
    typer.echo(f"saved      {output}: k = {k} of {explainer.n_features_in_} {features.value}")
    if losses:
        unit = "half the squared error, standardised" if explainer.classes_ is None else "nats"
        typer.echo(f"held out   loss {min(losses):.4f} ({unit}) on the selected {features.value} alone")
    typer.echo(f"asked      {explainer.rows_asked_:,} rows of {black_box.name}")
    typer.echo(f"time       {explainer.fit_seconds_:.1f} s")


@app.command(rich_help_panel=EXPLAINING)
def explain(
    file: Saved,
    data: Data,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="A .csv or .parquet file; without it, look at the first rows.",
        ),
    ] = None,
    k: OtherK = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep", metavar="COLUMN", help="A column to copy into OUT, such as an id; repeat for more."
        ),
    ] = None,
    drop: Drop = None,
    column: Column = None,
    head: Annotated[int, typer.Option(min=1, help="Without -o: how many rows to show.")] = 10,
    batch_rows: Annotated[
        int | None, typer.Option(min=1, help="Rows in memory at a time; by default what suits the columns.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Batches explained at a time; by default one per processor.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Explain every row of DATA. The model is not needed; a file of any size streams through.

    OUT has the kept columns, then feature_1 .. feature_k (best first) and score_1 .. score_k. It appears
    when it is complete; until then OUT.parts keeps what was done, and the same command goes on from there.
    Columns are matched by name; columns that the explainer does not know are ignored.

    Of texts, feature_1 .. feature_k are the words or sentences themselves.

    Example:  `l2x explain churn.l2x customers.parquet --keep id -o why.parquet`
    """
    from l2x.artifact import load
    from l2x.errors import InputError
    from l2x.scale.stream import BatchExplainer, explain_table, match_columns
    from l2x.scale.tables import Table, check_writable, format_of

    explainer = load(file)
    table = Table(data)
    keep = list(dict.fromkeys(keep or []))
    columns, ignored = match_columns(explainer, table, drop=drop or [], keep=keep, column=column)
    k = explainer.features_.checked_k(explainer.k if k is None else k)
    if not quiet:
        _note_ignored(ignored, "the explainer")
    batches = BatchExplainer(explainer, columns, keep=keep, k=k)
    if output is None:
        _show_first(batches, table, head)
        return
    format_of(output)
    if output.exists() and output.samefile(data):
        raise InputError(f"OUT is DATA, '{data}': choose another name, or the rows would be lost.")
    check_writable(output)
    started, heard = time.perf_counter(), list[int]()
    with rows_bar(visible=not quiet) as report:

        def listen(rows: int, share: float) -> None:
            if rows and not heard and not quiet:
                say("note:", f"{rows:,} rows were explained before; going on from there.", style="bold")
            heard.append(rows)
            report(rows, share)

        done = explain_table(batches, table, output, batch_rows=batch_rows, workers=workers, report=listen)
    seconds = time.perf_counter() - started
    if not quiet:
        speed = (done - heard[0]) / seconds
        typer.echo(f"saved      {output}: {done:,} rows explained in {seconds:.1f} s ({speed:,.0f} rows/s)")


@app.command(rich_help_panel=EXPLAINING)
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
    from l2x.features.texts import TextView
    from l2x.metrics.evaluation import evaluate as measure
    from l2x.scale.stream import match_columns
    from l2x.scale.tables import Table, read_sample

    black_box = _load_model(model)
    explainer = load(file, model=black_box)
    table = Table(data)
    columns, ignored = match_columns(explainer, table, drop=drop or [], column=column)
    k = explainer.features_.checked_k(explainer.k if k is None else k)
    if not quiet:
        _note_ignored(ignored, "the explainer")
    if report is not None:
        from l2x.scale.tables import check_writable

        check_writable(report)
    view = explainer.features_ if isinstance(explainer.features_, TextView) else None
    frame = read_sample(table, columns, rows, seed=seed, as_text=view is not None)
    plan = _plan(view, paper=False, quick=quick, progress=not quiet)
    figures = measure(
        explainer, black_box, frame, k=k, draws=draws, seed=seed, judge_plan=plan if judge else None
    )
    card = None if report is None else _report_card(explainer, black_box, frame, k, plan, seed, report)
    if as_json:
        origin = {"l2x": __version__, "explainer": str(file), "model": model, "data": str(data)}
        more = {} if card is None else {"report_card": card.to_dict()}
        typer.echo(json.dumps(origin | figures | {"note": _caution(figures)} | more, indent=2))
        return
    _print_figures(figures, "columns" if view is None else f"{view.unit}s")
    if card is not None:
        typer.echo(f"\n{card}\nreport     {report}")


data_app = typer.Typer(no_args_is_help=True, help="Fetch the data sets of the paper's experiments.")
app.add_typer(data_app, name="data", rich_help_panel=REPRODUCING)
app.add_typer(experiments.app, name="reproduce", rich_help_panel=REPRODUCING)


class DataName(StrEnum):
    adult = "adult"
    glove = "glove"
    imdb = "imdb"
    mnist = "mnist"


@data_app.command()
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


def _print_figures(figures: dict[str, Any], units: str) -> None:
    """`units`: what is selected, in the plural."""

    def line(label: str, text: str) -> None:
        typer.echo(f"{label:<22}{text}")

    name = "accuracy" if figures["task"] == "classification" else "R²"
    line("rows", f"{figures['rows']:,}")
    line("selected", f"k = {figures['k']} of {figures['features']} {units}")
    line(f"post-hoc {name}", f"{_figure(figures['selection'])}   the model sees the selected {units} alone")
    line("  everything else", f"{_figure(figures['complement'])}   all but the selected; low is good")
    chance = f"± {_figure(figures['random_sd'])}, {figures['random_draws']} draws"
    line(f"  random {units}", f"{_figure(figures['random_mean'])}   {figures['k']} at random ({chance})")
    if figures["captured_bits"] is not None:
        captured, available = figures["captured_bits"], figures["available_bits"]
        share = f" ({captured / available:.0%})" if available > 0 else ""
        line("information", f"{captured:.3f} of {available:.3f} bits{share}, under the explainer's own q")
    if judge := figures["judge"]:
        bits = f"; {judge['captured_bits']:.3f} bits" if "captured_bits" in judge else ""
        line(f"judge {name}", f"{_figure(judge['selection'])}   an independent q, the selected {units}{bits}")
        line(f"  random {units}", f"{_figure(judge['random_mean'])}")
    line("speed", f"{figures['rows_per_second']:,} rows explained per second")
    typer.echo(f"\n{_caution(figures)}")


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

    from l2x.card import report_card

    order = np.random.default_rng(seed).permutation(len(frame))
    half = len(frame) // 2
    card = report_card(
        explainer, black_box, frame.iloc[order[:half]], frame.iloc[order[half:]], k, training=plan, seed=seed
    )
    card.save(page)
    return card


def _caution(figures: dict[str, Any]) -> str:
    return f"{GAMING}{'' if figures['judge'] else ASK_FOR_JUDGE}."


def _load_model(spec: str) -> BlackBox:
    from l2x.blackbox import load_model
    from l2x.errors import InputError, L2XError

    try:
        return load_model(spec)
    except L2XError:
        raise
    except Exception as error:
        raise InputError(f"Importing MODEL '{spec}' raised {type(error).__name__}: {error}") from error


def _model_columns(black_box: BlackBox, table: Table, drop: Sequence[str], *, quiet: bool) -> list[str]:
    """The table's columns without the dropped ones; if the model knows its columns' names, just those."""
    from l2x.scale.tables import known_columns

    table.require(drop, "--drop")
    columns = known_columns(table, black_box.columns, drop)
    if not quiet:
        _note_ignored([n for n in table.columns if n not in columns and n not in drop], "the model")
    return columns


def _text_view(features: FeaturesChoice) -> TextView | None:
    """The view of texts that was asked for; None for columns."""
    from l2x.features.sentences import Sentences
    from l2x.features.words import Words

    views: dict[str, type[TextView]] = {"words": Words, "sentences": Sentences}
    return views[features.value]() if features.value in views else None


def _plan(view: TextView | None, *, paper: bool, quick: bool, progress: bool) -> TrainingPlan:
    from dataclasses import replace

    from l2x.training import TrainingPlan

    if view is not None:
        plan = replace(view.paper_plan if paper else view.plan, progress=progress)
        if not quick:
            return plan
        return plan.with_steps(value=plan.value.steps // 10, selector=plan.selector.steps // 10)
    if not paper:
        return TrainingPlan.quick(progress=progress) if quick else TrainingPlan(progress=progress)
    plan = TrainingPlan.paper(progress=progress)
    if not quick:
        return plan
    return replace(plan, selector=replace(plan.selector, steps=plan.selector.steps // 10), evaluations=10)


def _show_first(explain: Any, table: Table, head: int) -> None:
    """The first rows: what was kept, then the selected columns with their values, best first."""
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    from l2x.errors import InputError

    batch = next(explain.batches(table, head), None)
    if batch is None:
        raise InputError(f"'{table.path}' has no rows.")
    # A pipe has no width to fit into.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 1000)
    if explain.of_texts:
        console.print(_text_grid(explain, batch, colour=console.is_terminal))
        return
    explained = explain(batch)
    features = [name for name in explained.schema.names if name.startswith("feature_")]
    grid = Grid(box=None, header_style="bold", pad_edge=False)
    for title in ["row", *explain.keep, *(f"{rank + 1}." for rank in range(len(features)))]:
        grid.add_column(title, overflow="fold")
    view = explain.explainer.features_
    names: list[str] = getattr(view, "column_names_", view.names_)
    position = dict(zip(names, explain.columns, strict=True))
    for i, (row, picked) in enumerate(zip(batch.to_pylist(), explained.to_pylist(), strict=True)):
        chosen = [_with_value(picked[name], row, position) for name in features]
        cells = [str(row[name]) for name in explain.keep] + chosen
        grid.add_row(*map(Text, [str(i), *cells]))  # not str: names may look like markup
    console.print(grid)


def _text_grid(explain: Any, batch: Any, *, colour: bool) -> Any:
    """What was kept, then each text around its key words or sentences."""
    from rich.table import Table as Grid
    from rich.text import Text

    from l2x.plots.highlights import pieces
    from l2x.terminal import highlighted

    grid = Grid(box=None, header_style="bold", pad_edge=False)
    for title in ["row", *explain.keep, explain.columns[0]]:
        grid.add_column(title, overflow="fold")
    explanation = explain.explainer.explain(batch.select(explain.columns).to_pandas(), explain.k)
    for i, row in enumerate(batch.to_pylist()):
        text = highlighted(pieces(explanation, i, context=60), explanation.k, colour=colour)
        grid.add_row(str(i), *(Text(str(row[name])) for name in explain.keep), text)
    return grid


def _note_ignored(columns: Sequence[str], by: str) -> None:
    if columns:
        from l2x.errors import some

        say("note:", f"columns that {by} does not know are ignored: {some(columns)}", style="bold")


def _with_value(name: str, row: dict[str, Any], position: dict[str, str]) -> str:
    """A selected column with its value; a group of columns has none."""
    return f"{name} = {_short(row[position[name]])}" if name in position else name


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _figure(value: float | None) -> str:
    return "  -  " if value is None else f"{value:.3f}"


if __name__ == "__main__":
    app()
