"""`l2x fit`: an explainer for a model, learned and saved."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from l2x.cli.model import load_black_box
from l2x.cli.options import Column, Data, Drop, Model, Quiet, Seed
from l2x.cli.plan import training_plan
from l2x.cli.terminal import note_ignored

if TYPE_CHECKING:
    from l2x.blackbox import BlackBox
    from l2x.features.texts import TextView
    from l2x.files.tables import Table


class FeaturesChoice(StrEnum):
    columns = "columns"
    words = "words"
    sentences = "sentences"


class ValueChoice(StrEnum):
    surrogate = "surrogate"
    model = "model"
    joint = "joint"


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
    from l2x.files.tables import Table, read_sample
    from l2x.foundations.atomic import check_writable
    from l2x.scale.stream import text_column

    # What can be wrong is found out before the model is asked anything.
    table = Table(data)
    check_writable(output, inputs={"DATA": data, "MODEL": Path(model)})
    black_box = load_black_box(model)
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
    plan = training_plan(view, paper=paper, quick=quick, progress=not quiet)
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


def _model_columns(black_box: BlackBox, table: Table, drop: Sequence[str], *, quiet: bool) -> list[str]:
    """The table's columns without the dropped ones; if the model knows its columns' names, just those."""
    from l2x.files.tables import known_columns

    table.require(drop, "--drop")
    columns = known_columns(table, black_box.columns, drop)
    if not quiet:
        note_ignored([n for n in table.columns if n not in columns and n not in drop], "the model")
    return columns


def _text_view(features: FeaturesChoice) -> TextView | None:
    """The view of texts that was asked for; None for columns."""
    from l2x.features.sentences import Sentences
    from l2x.features.words import Words

    views: dict[str, type[TextView]] = {"words": Words, "sentences": Sentences}
    return views[features.value]() if features.value in views else None
