"""`l2x study`: the paper's human evaluation as a tool; see l2x.apps.study."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from l2x.apps.cli._arguments import Column, OptionalK, Quiet, Seed, load_model, training_plan
from l2x.apps.cli._terminal import takes_options

if TYPE_CHECKING:
    from l2x.apps.study import Settings
    from l2x.explainer import Explainer

app = typer.Typer(
    no_args_is_help=True,
    help="Ask people what the model predicted from the selected features alone, as in section 4.2.",
)

# Rows of DATA that are read at most: items are drawn from them, and the evaluator is fitted on the rest.
ROWS = 20_000

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="A study that `l2x study new` made.")]


@dataclass(frozen=True)
class NewOptions:
    """The command line of `l2x study new`."""

    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The new file.")]
    explainer: Annotated[
        Path, typer.Option("--explainer", metavar="FILE", help="An explainer that `l2x fit` saved.")
    ]
    model: Annotated[str, typer.Option("--model", metavar="MODEL", help="The model: module:attribute.")]
    data: Annotated[
        Path,
        typer.Option(
            "--data", metavar="DATA", help="Rows to ask about: .csv, .parquet, .txt, or images as .npy."
        ),
    ]
    items: Annotated[int, typer.Option(help="Number of rows to ask about.")] = 500
    raters: Annotated[int, typer.Option(help="Answers per item and method.")] = 5
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METHOD",
            help="Compare with taylor, saliency, lime, kernel_shap, tree_shap, search, random, whole, or "
            "another explainer's file; repeat for more.",
        ),
    ] = None
    per_rater: Annotated[int, typer.Option(help="Items that one person gets, at most.")] = 100
    practice: Annotated[int, typer.Option(help="Tasks with feedback at the beginning.")] = 3
    checks: Annotated[int, typer.Option(help="Attention checks per session.")] = 3
    k: OptionalK = None
    classes: Annotated[
        str | None, typer.Option(help="Names of the classes, in order, separated by commas.")
    ] = None
    question: Annotated[str | None, typer.Option(help="The question to raters.")] = None
    title: Annotated[str, typer.Option(help="Title of the pages.")] = ""
    consent: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A text that raters agree to first.")
    ] = None
    column: Column = None
    evaluator: Annotated[
        bool, typer.Option(help="Fit an independent evaluator on the rows that are not drawn.")
    ] = True
    quick: Annotated[bool, typer.Option("--quick", help="Train the evaluator for far fewer steps.")] = False
    seed: Seed = 0
    quiet: Quiet = False


@app.command()
@takes_options
def new(options: NewOptions) -> None:
    """Draw items, let every method select features in them, and write the study to a single file.

    Example:  `l2x study new a.study --explainer words.l2x --model reviews:model --data test.csv`
    """
    from l2x.apps.study import new as make
    from l2x.export import load

    settings = _settings(options)
    explainer = load(options.explainer, model=load_model(options.model))
    plan = training_plan(explainer.features_, paper=False, quick=options.quick, progress=not options.quiet)
    with make(
        options.study,
        explainer,
        _rows(explainer, options.data, options.column, options.seed),
        settings,
        against=options.against or [],
        evaluator=options.evaluator,
        training=plan,
    ) as study:
        settings = study.settings
    if not options.quiet:
        typer.echo(_summary(options.study, settings))


def _settings(options: NewOptions) -> Settings:
    from l2x.apps.study import Settings

    names = ("items", "raters", "per_rater", "practice", "checks", "k", "seed", "title")
    given: dict[str, Any] = {name: getattr(options, name) for name in names}
    if options.classes is not None:
        given["classes"] = tuple(name.strip() for name in options.classes.split(","))
    if options.question is not None:
        given["question"] = options.question
    if options.consent is not None:
        given["consent"] = _text(options.consent)
    return Settings(**given)


def _summary(study: Path, settings: Settings) -> str:
    answers = settings.items * len(settings.methods) * settings.raters
    return (
        f"study      {study}: {settings.items:,} items, {len(settings.methods)} methods, {answers:,} answers"
        f"\nraters     {-(-answers // settings.per_rater):,} people with {settings.per_rater} items each\n"
        f"next       l2x study serve {study}"
    )


@app.command()
def serve(
    study: StudyFile,
    host: Annotated[
        str, typer.Option("--host", help="0.0.0.0 accepts connections from other machines.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535)] = 8018,
) -> None:
    """Serve the study to raters, and its progress to the organiser; everybody has a secret link.

    Example:  `l2x study serve words.study`
    """
    from l2x.errors import require

    for package in ("fastapi", "uvicorn", "jinja2"):
        require(package, extra="study")
    from l2x.apps.serve import run
    from l2x.apps.study import Study
    from l2x.apps.study._site import site

    with Study(study) as opened:

        def announce(address: str) -> None:
            raters, organiser = f"{address}/j/{opened.join_token}", f"{address}/o/{opened.organiser_token}"
            typer.echo(f"raters     {raters}\norganiser  {organiser}")

        run(lambda: site(opened), host=host, port=port, started=announce)


@app.command()
def report(
    study: StudyFile,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="PAGE", help="The page to write.")],
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Also write every answer as CSV.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write a page with each method's human accuracy, differences, agreement between raters, and learning.

    Example:  `l2x study report words.study -o report.html --csv answers.csv`
    """
    from l2x._base.atomic import check_writable
    from l2x.apps.study import Study, write_answers, write_report

    for path in filter(None, (output, csv)):
        check_writable(path, inputs={"STUDY": study})
    with Study(study) as opened:
        write_report(opened, output)
        if csv is not None:
            write_answers(opened, csv)
    if not quiet:
        typer.echo(f"report     {output}" + (f"\nanswers    {csv}" if csv else ""))


@app.command()
def backup(
    study: StudyFile,
    copy: Annotated[Path, typer.Argument(metavar="COPY", help="The new file.")],
    quiet: Quiet = False,
) -> None:
    """Copy a study with all its answers, also while it is served.

    A copy of the file alone misses the answers that are still in its write-ahead log.

    Example:  `l2x study backup words.study words-monday.study`
    """
    from l2x.apps.study import Study

    with Study(study) as opened:
        opened.backup(copy)
        answers = sum(given for _, given, _ in opened.quotas())
    if not quiet:
        typer.echo(f"backup     {copy}: {answers:,} answers of people")


@app.command()
def simulate(
    study: StudyFile,
    raters: Annotated[
        int, typer.Option("--raters", help="Simulated raters who read with a sentiment lexicon.")
    ] = 5,
    careless: Annotated[int, typer.Option("--careless", help="Simulated raters who choose at random.")] = 1,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Let simulated raters answer, to test and plan a study; their answers stay separate from people's.

    Example:  `l2x study simulate words.study --raters 5`
    """
    from l2x.apps.study import Study
    from l2x.apps.study import simulate as run

    with Study(study) as opened:
        given = run(opened, raters=raters, careless=careless, seed=seed)
    if not quiet:
        typer.echo(
            f"simulated  {given:,} answers by {raters + careless} simulated raters; no human was asked"
        )


@app.command()
def power(
    difference: Annotated[float, typer.Option("--difference", help="Difference to detect, in points.")] = 5.0,
    accuracy: Annotated[
        float, typer.Option("--accuracy", help="Single answers that match the prediction, in %.")
    ] = 75.0,
    neutral: Annotated[float, typer.Option("--neutral", help="Neutral answers, in %.")] = 10.0,
    seed: Seed = 0,
) -> None:
    """Show how many items and raters are needed to detect a difference between two methods.

    Example:  `l2x study power --difference 5`
    """
    from rich.console import Console
    from rich.table import Table

    from l2x.apps.study import power_table

    powers = power_table(difference / 100, accuracy=accuracy / 100, neutral=neutral / 100, seed=seed)
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("raters per item")
    for items, _ in powers[0].chances:
        table.add_column(f"{items:,} items", justify="right")
    table.add_column("items for 80 %", justify="right")
    for row in powers:
        chances = (f"{chance:.0%}" for _, chance in row.chances)
        table.add_row(str(row.raters), *chances, f"{row.items_needed:,}")
    typer.echo(f"Chance to detect a difference of {difference:g} points between two methods:\n")
    Console(highlight=False).print(table)


def _rows(explainer: Explainer, data: Path, column: str | None, seed: int) -> Any:
    """Return the rows of the data in the form that the explainer reads."""
    import numpy as np

    from l2x.errors import InputError
    from l2x.export import match_columns
    from l2x.files import Table, read_sample

    if explainer.features_.kind == "image":
        if data.suffix != ".npy":
            raise InputError(f"This explainer reads images; give them as an .npy file, not '{data}'.")
        try:
            return np.load(data, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise InputError(f"Cannot read '{data}': {error}") from error
    table = Table(data)
    columns, _ = match_columns(explainer, table, drop=[], column=column)
    return read_sample(table, explainer.features_, columns, ROWS, seed=seed)


def _text(path: Path) -> str:
    from l2x.errors import InputError

    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read '{path}': {error}") from error
