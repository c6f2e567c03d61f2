"""`l2x study`: do the selected features mean anything to people? The paper's human evaluation, as a tool."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from l2x.apps.cli._model import load_model
from l2x.apps.cli._options import Column, OtherK, Quiet, Seed
from l2x.apps.cli._plan import training_plan

if TYPE_CHECKING:
    from l2x.explainer import Explainer


app = typer.Typer(
    no_args_is_help=True,
    help="Ask people what the model said, from the selected features alone: section 4.2's human evaluation.",
)

# Rows of DATA that are read at most: items come from them, and the judge learns from the others.
ROWS = 20_000

StudyFile = Annotated[
    Path, typer.Argument(metavar="STUDY", help="A study that `l2x study new` made.", show_default=False)
]


@app.command()
def new(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The new file.", show_default=False)],
    explainer: Annotated[
        Path, typer.Option("--explainer", metavar="FILE", help="An explainer that `l2x fit` saved.")
    ],
    model: Annotated[str, typer.Option("--model", metavar="MODEL", help="The model: module:attribute.")],
    data: Annotated[
        Path,
        typer.Option(
            "--data", metavar="DATA", help="Rows to ask about: .csv, .parquet, .txt, or images as .npy."
        ),
    ],
    items: Annotated[int, typer.Option("--items", help="How many rows to ask about.")] = 500,
    raters: Annotated[int, typer.Option("--raters", help="Answers to each item under each method.")] = 5,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            metavar="METHOD",
            help="Compare with taylor, saliency, lime, kernel_shap, tree_shap, search, random, whole, or "
            "another explainer's file; repeat for more.",
        ),
    ] = None,
    per_rater: Annotated[
        int | None, typer.Option("--per-rater", help="Items that one person gets; at most 100 by default.")
    ] = None,
    practice: Annotated[int, typer.Option("--practice", help="Tasks with feedback at the beginning.")] = 3,
    checks: Annotated[int, typer.Option("--checks", help="Checks of attention in between.")] = 3,
    k: OtherK = None,
    classes: Annotated[
        str | None, typer.Option("--classes", help="Names of the classes, in order, with commas between.")
    ] = None,
    question: Annotated[str | None, typer.Option("--question", help="What raters are asked.")] = None,
    title: Annotated[str, typer.Option("--title", help="On top of the pages.")] = "",
    consent: Annotated[
        Path | None, typer.Option("--consent", metavar="FILE", help="A text that raters agree to first.")
    ] = None,
    column: Column = None,
    judge: Annotated[bool, typer.Option(help="Fit an independent judge on the other rows.")] = True,
    quick: Annotated[bool, typer.Option("--quick", help="Train the judge far less.")] = False,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Draw the items, let every method select in them, and write one file that is the whole study.

    Example:  `l2x study new a.study --explainer words.l2x --model reviews:model --data test.csv`
    """
    from l2x.apps.study import _making as making
    from l2x.export import load

    loaded = load_model(model)
    fitted = load(explainer, model=loaded)
    given: dict[str, Any] = {} if question is None else {"question": question}
    if consent is not None:
        given["consent"] = _text(consent)
    with making.new(
        study,
        fitted,
        loaded,
        _rows(fitted, data, column, seed),
        items=items,
        raters=raters,
        against=against or [],
        per_rater=per_rater,
        practice=practice,
        checks=checks,
        k=k,
        classes=None if classes is None else [name.strip() for name in classes.split(",")],
        title=title,
        judge=judge,
        training=training_plan(fitted.features_, paper=False, quick=quick, progress=not quiet),
        seed=seed,
        **given,
    ) as made:
        design = made.settings.design
    if not quiet:
        answers = items * design.methods * raters
        people = -(-answers // design.per_rater)
        typer.echo(
            f"study      {study}: {items:,} items, {design.methods} methods, {answers:,} answers wanted\n"
            f"raters     {people:,} people with {design.per_rater} items each\n"
            f"next       l2x study serve {study}"
        )


@app.command()
def serve(
    study: StudyFile,
    open_to_all: Annotated[
        bool, typer.Option("--open", help="Anybody may rate, under a nickname; without it, by link only.")
    ] = False,
    host: Annotated[str, typer.Option("--host", help="0.0.0.0 shows it to other machines.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535)] = 8018,
) -> None:
    """Show the study to raters, and its progress to the organiser; each has a secret link.

    Example:  `l2x study serve words.study`
    """
    from l2x.errors import require

    for package in ("fastapi", "uvicorn", "jinja2"):
        require(package, extra="study")
    from l2x.apps.study._serving import serve as run
    from l2x.apps.study._study import Study

    with Study(study) as opened:

        def announce(address: str) -> None:
            raters = address if open_to_all else f"{address}/j/{opened.join_token}"
            typer.echo(f"raters     {raters}\norganiser  {address}/o/{opened.organiser_token}")

        run(opened, host=host, port=port, open_to_all=open_to_all, announce=announce)


@app.command()
def report(
    study: StudyFile,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="PAGE", help="The page to write.")],
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Also write every answer as CSV.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Human accuracy of each method with intervals, differences, agreement, learning: as a page.

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
def simulate(
    study: StudyFile,
    raters: Annotated[int, typer.Option("--raters", help="Stand-ins who read by a sentiment lexicon.")] = 5,
    careless: Annotated[int, typer.Option("--careless", help="Stand-ins who choose blindly.")] = 1,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Let stand-ins answer, to test and to plan; they are marked and never counted with people.

    Example:  `l2x study simulate words.study --raters 5`
    """
    from l2x.apps.study import Study
    from l2x.apps.study import simulate as run

    with Study(study) as opened:
        given = run(opened, raters=raters, careless=careless, seed=seed)
    if not quiet:
        typer.echo(f"simulated  {given:,} answers by {raters + careless} stand-ins; no human was asked")


@app.command()
def power(
    difference: Annotated[float, typer.Option("--difference", help="To be found, in points.")] = 5.0,
    accuracy: Annotated[
        float, typer.Option("--accuracy", help="Single answers that are the model's, in %.")
    ] = 75.0,
    neutral: Annotated[float, typer.Option("--neutral", help="Answers that are neutral, in %.")] = 10.0,
    seed: Seed = 0,
) -> None:
    """Before the study: how many items and raters find a difference between two methods?

    Example:  `l2x study power --difference 5`
    """
    from rich.console import Console
    from rich.table import Table

    from l2x.apps.study import power_table

    found = power_table(difference / 100, accuracy=accuracy / 100, neutral=neutral / 100, seed=seed)
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("raters per item")
    for items, _ in found[0].chances:
        table.add_column(f"{items:,} items", justify="right")
    table.add_column("items for 80 %", justify="right")
    for row in found:
        chances = (f"{chance:.0%}" for _, chance in row.chances)
        table.add_row(str(row.raters), *chances, f"{row.items_needed:,}")
    typer.echo(f"Chance to find a difference of {difference:g} points between two methods:\n")
    Console(highlight=False).print(table)


def _rows(explainer: Explainer, data: Path, column: str | None, seed: int) -> Any:
    """The rows of the data that the explainer reads."""
    import numpy as np

    from l2x.errors import InputError
    from l2x.export import match_columns
    from l2x.features import kind_of
    from l2x.files import Table, read_sample

    if kind_of(explainer.features_) == "image":
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
