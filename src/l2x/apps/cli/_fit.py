"""`l2x label` and `l2x fit`: store a model's predictions, and fit an explainer to them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from l2x.apps.cli._arguments import (
    Address,
    Column,
    Data,
    DataOrFolder,
    Drop,
    Engine,
    Model,
    Quiet,
    Seed,
    load_black_box,
    training_plan,
)
from l2x.apps.cli._terminal import note_ignored, takes_options

if TYPE_CHECKING:
    import pandas as pd

    from l2x.explainer import Explainer
    from l2x.features import View
    from l2x.model import BlackBox


@dataclass(frozen=True)
class LabelOptions:
    """The command line of `l2x label`."""

    model: Model
    data: DataOrFolder
    output: Annotated[
        Path,
        Option(
            "--output",
            "-o",
            metavar="PREDICTIONS",
            help="A .parquet file for the predictions.",
        ),
    ]
    drop: Drop = None
    column: Column = None
    processes: Annotated[
        int,
        Option(
            min=1, help="Query the model in this many processes, for models that hold the interpreter lock."
        ),
    ] = 1
    in_flight: Annotated[
        int | None, Option(min=1, help="Model service: concurrent requests.", show_default="8")
    ] = None
    rows_per_request: Annotated[
        int | None, Option(min=1, help="Model service: maximum rows per request.", show_default="512")
    ] = None
    requests_per_second: Annotated[
        float | None, Option(help="Model service: maximum request rate.", show_default="no limit")
    ] = None
    timeout: Annotated[
        float | None, Option(help="Model service: seconds until an attempt is given up.", show_default="60")
    ] = None
    model_output: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="KServe's protocol: the output that holds the predictions.",
            show_default="probabilities, if there are any",
        ),
    ] = None
    one_tensor: Annotated[
        bool,
        Option("--one-tensor", help="KServe's protocol: send a table of numbers as one tensor."),
    ] = False
    engine: Engine = "local"
    address: Address = None
    quiet: Quiet = False


@takes_options
def label(options: LabelOptions) -> None:
    """Query the model once for each row of DATA and store its predictions for `l2x fit --predictions`.

    After an interruption, run the same command again: it resumes, and no row is queried twice. With
    --engine ray it starts over.

    Example:  `l2x label churn:model train.parquet --drop churned -o predictions.parquet`

    A service:  `L2X_TOKEN=... l2x label https://models/v1/models/churn train.parquet -o predictions.parquet`
    """
    from l2x._base.atomic import check_writable
    from l2x.files import check_predictions_path

    check_predictions_path(options.output)
    check_writable(options.output, inputs={"DATA": Path(options.data), "MODEL": Path(options.model)})
    names = ("in_flight", "rows_per_request", "requests_per_second", "timeout")
    service = {name: getattr(options, name) for name in names}
    service |= {"output": options.model_output, "one_tensor": options.one_tensor or None}
    black_box = load_black_box(options.model, **service)
    started = time.perf_counter()
    run = _label_with_ray if options.engine == "ray" else _label_here
    stored, queried = run(black_box, options)
    if not options.quiet:
        typer.echo(f"saved      {options.output}: {stored:,} predictions of {black_box.name}")
        typer.echo(f"queried    {queried:,} rows in {time.perf_counter() - started:.1f} s")


def _label_here(black_box: BlackBox, options: LabelOptions) -> tuple[int, int]:
    """Return how many predictions the file holds, and how many rows the model was queried for."""
    from l2x.files import label_rows

    stored = label_rows(
        black_box, options.data, options.output,
        drop=options.drop or [], column=options.column, processes=options.processes,
        progress=not options.quiet,
    )  # fmt: skip
    return stored, black_box.rows


def _label_with_ray(black_box: BlackBox, options: LabelOptions) -> tuple[int, int]:
    """Do the same as `_label_here` on a cluster."""
    from l2x.errors import InputError
    from l2x.export import ray

    if options.column is not None or options.processes > 1:
        raise InputError("--engine ray takes neither --column nor --processes.")
    rows = ray.read_parquet(options.data, address=options.address, progress=not options.quiet)
    predictions = ray.label(rows, black_box, drop=options.drop or [])
    stored = ray.write_predictions(predictions, options.output, black_box)
    return stored, stored


@dataclass(frozen=True)
class FitOptions:
    """The command line of `l2x fit`."""

    model: Model
    data: Data
    k: Annotated[int, Option(help="Number of features to select per row.")]
    output: Annotated[
        Path,
        Option("--output", "-o", metavar="FILE", help="Where to save the explainer."),
    ]
    drop: Drop = None
    features: Annotated[
        Literal["columns", "words", "sentences", "passages"],
        Option(
            help="What one feature is: a column of a table, a word or a sentence of a text, or a text of a "
            "list (passages: a list column in Parquet, lists as JSON in a CSV)."
        ),
    ] = "columns"
    column: Column = None
    objective: Annotated[
        Literal["both", "surrogate", "model", "joint"] | None,
        Option(
            help="How a subset of features is valued. `surrogate`: by a network that is fitted to predict "
            "from random subsets, so that the selection has no incentive to leak the prediction; `model`: by "
            "querying the model with the other features masked; `both`: by the mean of the two; `joint`: as "
            "in the paper.",
            show_default="both",
        ),
    ] = None
    target: Annotated[
        Literal["distribution", "class"] | None,
        Option(
            help="What to preserve: the full predicted distribution, or only the predicted class.",
            show_default="class for texts, otherwise distribution",
        ),
    ] = None
    selector: Annotated[
        Literal["sequential"] | None,
        Option(
            help="`sequential`: select one feature at a time, by the values of those selected so far; "
            "explanations then cannot leak the prediction.",
            show_default="all features at once",
        ),
    ] = None
    uses_prediction: Annotated[
        bool,
        Option(
            "--uses-prediction",
            help="Fit a prediction-aware explainer: its input includes the model's prediction, which "
            "`l2x explain` then needs as well.",
        ),
    ] = False
    queries: Annotated[
        int | None,
        Option(
            min=0,
            help="Maximum number of masked rows to query the model for, in addition to the rows of DATA. "
            "Default: 1,048,576 for tables, 262,144 for texts, 16,384 for a model service, 0 with "
            "--predictions.",
        ),
    ] = None
    paper: Annotated[bool, Option("--paper", help="Train as the paper's released code does.")] = False
    rows: Annotated[int, Option(min=2, help="Fit on at most this many rows of DATA, sampled at random.")] = (
        1_000_000
    )
    validation: Annotated[
        float, Option(help="Share of the rows that is held out to choose the best weights.")
    ] = 0.1
    predictions: Annotated[
        Path | None,
        Option(
            metavar="PREDICTIONS",
            help="The model's predictions for DATA, as written by `l2x label`; the model is not queried.",
        ),
    ] = None
    journal: Annotated[
        Path | None,
        Option(
            metavar="PREDICTIONS",
            help="Store predictions in this .parquet file as they arrive; rows that it already holds are not "
            "queried again.",
        ),
    ] = None
    seed: Seed = 0
    quick: Annotated[bool, Option("--quick", help="Train for far fewer steps, for a first look.")] = False
    quiet: Quiet = False


@takes_options
def fit(options: FitOptions) -> None:
    """Fit an explainer: learn which k features decide the model's predictions. No labels are needed.

    If the model knows the names of its columns, all other columns of DATA are ignored. Otherwise use --drop
    to exclude ids and the label.

    Example:  `l2x fit churn:model train.parquet --drop churned --drop id --k 4 -o churn.l2x`

    A slow model:  `l2x label churn:model train.parquet -o predictions.parquet`, then
    `l2x fit ... --predictions predictions.parquet`

    Texts:  `l2x fit reviews:model train.csv --features words --column text --k 10 -o reviews.l2x`
    """
    _check_usage(options)
    black_box, frame, predictions = _training_rows(options)
    explainer = _unfitted(black_box, options)
    explainer.fit(frame, validation=options.validation, predictions=predictions, journal=options.journal)
    explainer.save(options.output)
    if not options.quiet:
        _print_summary(explainer, black_box.name, options)


def _check_usage(options: FitOptions) -> None:
    """Reject options that contradict each other."""
    if options.paper and options.objective is not None:
        raise typer.BadParameter("--paper implies --objective joint.", param_hint="--objective")
    if options.selector is not None and (options.paper or options.uses_prediction):
        raise typer.BadParameter(
            "cannot be combined with --paper or --uses-prediction.", param_hint="--selector"
        )
    if options.features == "columns":
        if options.column is not None:
            raise typer.BadParameter("needs --features words, sentences or passages.", param_hint="--column")
        if options.data.suffix.lower() == ".txt":
            raise typer.BadParameter(
                f"'{options.data}' holds texts; choose words or sentences.", param_hint="--features"
            )
    if options.predictions is not None and options.journal is not None:
        raise typer.BadParameter("cannot be combined with --predictions.", param_hint="--journal")


def _training_rows(options: FitOptions) -> tuple[BlackBox, pd.DataFrame, Any]:
    """Return the model, the training rows and the stored predictions, if any; reject unusable files first."""
    from l2x._base.atomic import check_writable
    from l2x.features import Columns
    from l2x.files import opened, read_predictions, read_training_rows

    sample: dict[str, Any] = {"rows": options.rows, "seed": options.seed}
    drop = options.drop or []
    with opened(options.data) as (table, _):
        check_writable(options.output, inputs={"DATA": options.data, "MODEL": Path(options.model)})
        if options.journal is not None:
            check_writable(options.journal, inputs={"DATA": options.data, "FILE": options.output})
        stored = options.predictions
        predictions = None if stored is None else read_predictions(stored, **sample)
        black_box = load_black_box(options.model)
        view = _view(options) or Columns()
        frame = read_training_rows(
            table, view, model_columns=black_box.columns, drop=drop, column=options.column, **sample
        )
    if not options.quiet and options.features == "columns":
        note_ignored([name for name in table.columns if name not in [*frame, *drop]], "the model")
    return black_box, frame, predictions


def _view(options: FitOptions) -> View | None:
    """Return the view for --features; None for columns, whose default view --paper changes."""
    from l2x.features import Passages, Sentences, Words

    views = {"columns": None, "words": Words(), "sentences": Sentences(), "passages": Passages()}
    return views[options.features]


def _unfitted(black_box: BlackBox, options: FitOptions) -> Explainer:
    """Return the explainer that the options describe."""
    from l2x.explainer import Explainer

    view = _view(options)
    settings: dict[str, Any] = {"uses_prediction": options.uses_prediction, "queries": options.queries}
    for name in ("objective", "target", "selector"):
        if (choice := getattr(options, name)) is not None:
            settings[name] = choice
    settings["training"] = training_plan(
        view, paper=options.paper, quick=options.quick, progress=not options.quiet
    )
    build = Explainer.paper if options.paper else Explainer
    return build(black_box, options.k, features=view, seed=options.seed, **settings)


def _print_summary(explainer: Explainer, model: str, options: FitOptions) -> None:
    units = options.features
    losses = [entry["validation_loss"] for entry in explainer.history_ if "selector" in entry["phase"]]
    typer.echo(f"saved      {options.output}: k = {explainer.k} of {explainer.n_features_in_} {units}")
    if losses:
        unit = "half the squared error, standardised" if explainer.classes_ is None else "nats"
        typer.echo(f"held out   loss {min(losses):.4f} ({unit}) with only the selected {units}")
    typer.echo(f"queried    {explainer.rows_queried_:,} rows of {model}")
    typer.echo(f"time       {explainer.fit_seconds_:.1f} s")
