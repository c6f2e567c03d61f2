"""`l2x fit`: an explainer for a model, learned and saved."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from l2x.apps.cli._model import load_black_box
from l2x.apps.cli._options import Column, Data, Drop, Model, Quiet, Seed
from l2x.apps.cli._plan import training_plan
from l2x.apps.cli._terminal import note_ignored

if TYPE_CHECKING:
    from l2x.explainer import Explainer
    from l2x.features import View


class FeaturesChoice(StrEnum):
    columns = "columns"
    words = "words"
    sentences = "sentences"


class ValueChoice(StrEnum):
    both = "both"
    surrogate = "surrogate"
    model = "model"
    joint = "joint"


class AnswerChoice(StrEnum):
    distribution = "distribution"
    klass = "class"


K = Annotated[int, typer.Option("--k", help="How many features explain one row.", show_default=False)]
Output = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="FILE", help="Where to save the explainer.", show_default=False),
]
Features = Annotated[
    FeaturesChoice,
    typer.Option(help="What one feature is: a column of the table, or a word or sentence of a text."),
]
Value = Annotated[
    ValueChoice | None,
    typer.Option(
        help="What a subset of columns is worth. `surrogate`: q(y|x_S) fitted on random subsets, so that the "
        "selection is not trained to encode the answer; `model`: the model itself with the rest removed; "
        "`both` (default): the mean of the two; `joint`: as in the paper.",
        show_default=False,
    ),
]
AnswerOption = Annotated[
    AnswerChoice | None,
    typer.Option(
        help="What the selected features are to keep: all that the model says, or which class it names; by "
        "default what suits the features.",
        show_default=False,
    ),
]
SeesAnswer = Annotated[
    bool,
    typer.Option(
        "--sees-answer", help="Read the model's answer beside the input; `l2x explain` needs it too, then."
    ),
]
Queries = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Query the model for at most this many masked rows beyond labelling; by default 1,048,576 rows "
        "of a table or 65,536 texts, at most 16,384 for a remote model, and none with --responses.",
    ),
]
Paper = Annotated[bool, typer.Option("--paper", help="Train as the paper's authors did.")]
Rows = Annotated[int, typer.Option(min=2, help="Learn from at most this many rows of DATA, drawn at random.")]
Validation = Annotated[float, typer.Option(help="Share of the rows held out to choose the best weights.")]
Responses = Annotated[
    Path | None,
    typer.Option(
        "--responses",
        metavar="ANSWERS",
        help="The model's answers about DATA, as `l2x label` wrote them: the model is not asked.",
    ),
]
Journal = Annotated[
    Path | None,
    typer.Option(
        "--journal",
        metavar="ANSWERS",
        help="Keep answers in this .parquet file as they come; those that are there are not asked again.",
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="Train far less, for a first look.")]


def fit(
    model: Model,
    data: Data,
    k: K,
    output: Output,
    drop: Drop = None,
    features: Features = FeaturesChoice.columns,
    column: Column = None,
    value: Value = None,
    answer: AnswerOption = None,
    sees_answer: SeesAnswer = False,
    queries: Queries = None,
    paper: Paper = False,
    rows: Rows = 1_000_000,
    validation: Validation = 0.1,
    responses: Responses = None,
    journal: Journal = None,
    seed: Seed = 0,
    quick: Quick = False,
    quiet: Quiet = False,
) -> None:
    """Learn which k columns decide the model's answers. No labels are needed: the model supplies them.

    Columns of DATA that the model was not fitted on are ignored if the model knows the names of its columns;
    otherwise exclude the target and ids with --drop.

    Example:  `l2x fit churn:model train.parquet --drop churned --drop id --k 4 -o churn.l2x`

    A slow model:  `l2x label churn:model train.parquet -o answers.parquet`, then `--responses` with that

    Texts:  `l2x fit reviews:model train.csv --features words --column text --k 10 -o reviews.l2x`
    """
    from l2x._base.atomic import check_writable
    from l2x.explainer import Explainer
    from l2x.features import Columns
    from l2x.files import opened, read_answers, read_training_rows

    _check_usage(data, features, column, value, paper=paper)
    if responses is not None and journal is not None:
        raise typer.BadParameter("the answers are in --responses already.", param_hint="--journal")
    # Whatever can be wrong is found before the model is asked anything.
    with opened(data) as (table, _):
        check_writable(output, inputs={"DATA": data, "MODEL": Path(model)})
        if journal is not None:
            check_writable(journal, inputs={"DATA": data, "FILE": output})
        answers = None if responses is None else read_answers(responses, rows=rows, seed=seed)
        black_box = load_black_box(model)
        view, drop = _view(features), drop or []
        frame = read_training_rows(
            table, view or Columns(), known=black_box.columns, rows=rows, seed=seed, drop=drop, column=column
        )
    if not quiet and features is FeaturesChoice.columns:
        note_ignored([name for name in table.columns if name not in [*frame, *drop]], "the model")
    options: dict[str, Any] = {"sees_answer": sees_answer, "queries": queries}
    options |= {} if value is None else {"value": value.value}
    options |= {} if answer is None else {"answer": answer.value}
    options["training"] = training_plan(view, paper=paper, quick=quick, progress=not quiet)
    build = Explainer.paper if paper else Explainer
    explainer = build(black_box, k, features=view, seed=seed, **options).fit(
        frame, validation=validation, responses=answers, journal=journal
    )
    explainer.save(output)
    if not quiet:
        _print_summary(explainer, black_box.name, output, features.value)


def _check_usage(
    data: Path, features: FeaturesChoice, column: str | None, value: ValueChoice | None, *, paper: bool
) -> None:
    """Options that contradict each other."""
    if paper and value is not None:
        raise typer.BadParameter("--paper trains jointly; leave --value out.", param_hint="--value")
    if features is FeaturesChoice.columns:
        if column is not None:
            raise typer.BadParameter("is for texts: give --features, too.", param_hint="--column")
        if data.suffix.lower() == ".txt":
            raise typer.BadParameter(f"'{data}' holds texts: words or sentences?", param_hint="--features")


def _view(features: FeaturesChoice) -> View | None:
    """What --features asks for; None leaves columns to the explainer: the paper reads them otherwise."""
    from l2x.features import Sentences, Words

    views: dict[str, type[View]] = {"words": Words, "sentences": Sentences}
    return views[features.value]() if features.value in views else None


def _print_summary(explainer: Explainer, model: str, output: Path, units: str) -> None:
    losses = [entry["validation_loss"] for entry in explainer.history_ if "selector" in entry["phase"]]
    typer.echo(f"saved      {output}: k = {explainer.k} of {explainer.n_features_in_} {units}")
    if losses:
        unit = "half the squared error, standardised" if explainer.classes_ is None else "nats"
        typer.echo(f"held out   loss {min(losses):.4f} ({unit}) on the selected {units} alone")
    typer.echo(f"asked      {explainer.rows_asked_:,} rows of {model}")
    typer.echo(f"time       {explainer.fit_seconds_:.1f} s")
