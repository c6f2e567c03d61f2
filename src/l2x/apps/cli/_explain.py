"""`l2x explain` and `l2x export`: use a saved explainer."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from l2x.apps.cli._arguments import (
    STANDARD,
    Address,
    Column,
    DataOrFolder,
    Drop,
    Engine,
    OptionalK,
    Quiet,
    Saved,
    load_black_box,
)
from l2x.apps.cli._terminal import highlighted, note_ignored, say, takes_options

if TYPE_CHECKING:
    from rich.text import Text

    from l2x.display import Reading
    from l2x.explainer import Explainer
    from l2x.explanation import Explanation
    from l2x.export import BatchExplainer
    from l2x.files import Table


@dataclass(frozen=True)
class ExplainOptions:
    """The command line of `l2x explain`."""

    file: Saved
    data: DataOrFolder
    output: Annotated[
        str | None,
        Option(
            "--output",
            "-o",
            metavar="OUT",
            help="A .csv or .parquet file, or - for standard output (in the format of standard input, "
            "otherwise CSV). Without it, the first rows are shown. With --engine ray also a folder or its "
            "URL, for many .parquet files.",
        ),
    ] = None
    k: OptionalK = None
    keep: Annotated[
        float | None,
        Option(
            metavar="SHARE",
            help="Select only as many features as each row needs, at most k, so that on average this share "
            "of the information in k features is kept, such as 0.95.",
        ),
    ] = None
    copy: Annotated[
        list[str] | None,
        Option(metavar="COLUMN", help="Copy this column, such as an id, to OUT; can be repeated."),
    ] = None
    drop: Drop = None
    column: Column = None
    predictions: Annotated[
        str | None,
        Option(
            metavar="COLUMNS",
            help="The columns of DATA that hold the model's predictions, one per class in the model's order, "
            "such as p0,p1: selections are polished for them, and --effects add up to them.",
        ),
    ] = None
    model: Annotated[
        str | None,
        Option(
            metavar="MODEL",
            help="Query this model for predictions, once per row, instead of --predictions.",
        ),
    ] = None
    polish: Annotated[
        bool,
        Option(
            "--polish/--no-polish",
            help="With --predictions or --model: search near the learned selection for one that explains the "
            "prediction of this row better.",
        ),
    ] = True
    verify: Annotated[
        bool,
        Option("--verify", help="Query --model for the selected features alone; adds the column confirmed."),
    ] = False
    refine: Annotated[
        int,
        Option(
            min=0,
            metavar="N",
            help="Query --model for at most N selections per row, until it confirms one; adds the column "
            "confirmed.",
        ),
    ] = 0
    effects: Annotated[
        bool,
        Option(
            "--effects",
            help="Add the signed effect of each feature, and what effects add up to: base + effects + rest = "
            "prediction. Without --predictions or --model, the prediction is the surrogate's.",
        ),
    ] = False
    for_class: Annotated[
        str | None,
        Option(
            "--class",
            metavar="NAME",
            help="The class that --effects refer to; by default the predicted class of each row.",
        ),
    ] = None
    head: Annotated[int, Option(min=1, help="Number of rows to show without -o.")] = 10
    batch_rows: Annotated[
        int | None, Option(min=1, help="Rows per batch; by default chosen by the number of columns.")
    ] = None
    workers: Annotated[
        int | None, Option(min=1, help="Batches explained in parallel; by default one per processor.")
    ] = None
    engine: Engine = "local"
    address: Address = None
    quiet: Quiet = False

    @property
    def prediction_columns(self) -> list[str]:
        """Return the names in --predictions."""
        return [name for name in (self.predictions or "").split(",") if name]


@takes_options
def explain(options: ExplainOptions) -> None:
    """Explain every row of DATA. Files of any size are streamed; without --model, no model is called.

    OUT has the copied columns, then feature_1 .. feature_k (most important first; for texts, the words or
    sentences themselves) and score_1 .. score_k; with --effects also effect_1 .. effect_k, base, rest and the
    prediction from all, only these and all other features. Scores rank the features of a row; effects
    quantify how much each selected feature adds to the prediction.

    OUT appears when it is complete. Until then finished rows are stored in OUT.parts, and the same command
    resumes after an interruption.

    Columns are matched by name, and columns that the explainer does not use are ignored.

    Example:  `l2x explain churn.l2x customers.parquet --copy id -o why.parquet`

    On a cluster:  `l2x explain churn.l2x s3://data/customers -o s3://data/why --engine ray --address auto`

    In a pipe:  `... | l2x explain churn.l2x - -o - | ...`
    """
    from l2x.export import load
    from l2x.files import opened

    if options.engine == "ray":
        _explain_with_ray(options)
        return
    explainer = load(options.file, model=None if options.model is None else load_black_box(options.model))
    _check_predictions(explainer, options)
    with opened(Path(options.data)) as (table, as_lines):
        batches = _batch_explainer(explainer, table, options)
        if options.output is None:
            show_first(batches, table, options.head)
        elif Path(options.output) == STANDARD:
            _explain_out(batches, table, batch_rows=options.batch_rows, lines=as_lines)
        else:
            _explain_into(Path(options.output), batches, table, options)


def _check_predictions(explainer: Explainer, options: ExplainOptions) -> None:
    """Reject options about predictions and the model that contradict each other, or the explainer."""
    from l2x.errors import InputError

    columns, model = options.prediction_columns, options.model
    if options.for_class is not None and not options.effects:
        raise InputError("--class is only for --effects.")
    if (options.verify or options.refine) and not model:
        option = "--verify" if options.verify else "--refine"
        raise InputError(f"{option} queries the model: name it, --model module:attribute.")
    if explainer.uses_prediction and not (columns or model):
        raise InputError(
            "This explainer is prediction-aware: name the columns of DATA that hold the model's predictions, "
            "--predictions p0,p1, or the model, --model module:attribute."
        )
    if columns and model and not (options.verify or options.refine):
        raise InputError("--predictions and --model can be combined only with --verify or --refine.")


def _batch_explainer(explainer: Explainer, table: Table, options: ExplainOptions) -> BatchExplainer:
    """Match the table's columns with the explainer's and check the options, before any row is read."""
    from l2x.export import BatchExplainer, match_columns
    from l2x.features import checked_k
    from l2x.learning import checked_share

    keep = None if options.keep is None else checked_share(options.keep)
    k = checked_k(explainer.features_, explainer.k if options.k is None else options.k)
    copy = list(dict.fromkeys(options.copy or []))
    predictions = options.prediction_columns
    table.require(predictions, "read predictions from")
    extra = list(dict.fromkeys([*copy, *predictions]))
    columns, ignored = match_columns(
        explainer, table, drop=options.drop or [], copy=extra, column=options.column
    )
    if not options.quiet:
        note_ignored(ignored, "the explainer")
    return BatchExplainer(
        explainer, columns, copy=copy, k=k, predictions=predictions, keep=keep,
        effects=options.effects, for_class=options.for_class, options=_search_options(options),
    )  # fmt: skip


def _search_options(options: ExplainOptions) -> dict[str, Any]:
    """Return how selections are polished, verified and refined, as arguments of `Explainer.explain`."""
    chosen: dict[str, Any] = {} if options.polish else {"polish": False}
    if options.verify:
        chosen["verify"] = True
    return chosen | ({"refine": options.refine} if options.refine else {})


def _explain_with_ray(options: ExplainOptions) -> None:
    """Explain Parquet files on a cluster; Ray shows its own progress."""
    from l2x.errors import InputError
    from l2x.export import load, ray

    if options.output is None:
        raise InputError("--engine ray needs -o.")
    started = time.perf_counter()
    model = None if options.model is None else load_black_box(options.model)
    explainer = load(options.file, model=model, device="cpu")
    _check_predictions(explainer, options)
    rows = ray.read_parquet(options.data, address=options.address, progress=not options.quiet)
    run = _batch_explainer(explainer, ray.described(rows), options)
    size = {} if options.batch_rows is None else {"batch_rows": options.batch_rows}
    ray.write(ray.explain(rows, run, actors=options.workers, **size), options.output)
    if not options.quiet:
        seconds = time.perf_counter() - started
        typer.echo(f"saved      {options.output}: explained by Ray in {seconds:.1f} s")


def _explain_out(explain: BatchExplainer, table: Table, *, batch_rows: int | None, lines: bool) -> None:
    """Write the explanations to standard output, batch by batch."""
    from l2x.errors import InputError
    from l2x.export import explain_batches
    from l2x.files import standard_output

    done = 0
    with standard_output(lines=lines) as write:
        for result in explain_batches(explain, table, batch_rows=batch_rows):
            write(result)
            done += len(result)
    if not done:
        raise InputError("DATA has no rows.")


def _explain_into(target: Path, explain: BatchExplainer, table: Table, options: ExplainOptions) -> None:
    """Write the explanations to a file, with a progress bar and a summary."""
    import torch

    from l2x._base import progress_bar
    from l2x._base.atomic import check_writable
    from l2x.export import explain_table
    from l2x.files import format_of

    format_of(target)
    check_writable(target, inputs={"DATA": Path(options.data), "FILE": options.file})
    torch.set_num_threads(1)  # small networks gain more from parallel batches
    workers = 1 if options.model is not None else options.workers  # a model may not be thread-safe
    started, earlier = time.perf_counter(), None
    with progress_bar("explaining", 1.0, visible=not options.quiet) as advance:

        def report(rows: int, share: float) -> None:
            nonlocal earlier
            if earlier is None:  # the first report counts the rows of earlier sessions
                earlier = rows
                if rows and not options.quiet:
                    say("note:", f"{rows:,} rows are already explained; resuming from there.", style="bold")
            speed = (rows - earlier) / (time.perf_counter() - started)
            advance(share, f"{rows:,} rows, {speed:,.0f} rows/s")

        done = explain_table(
            explain, table, target, batch_rows=options.batch_rows, workers=workers, report=report
        )
    if not options.quiet:
        seconds = time.perf_counter() - started
        speed = (done - (earlier or 0)) / seconds
        typer.echo(f"saved      {target}: {done:,} rows explained in {seconds:.1f} s ({speed:,.0f} rows/s)")


def show_first(explain: BatchExplainer, table: Table, head: int) -> None:
    """Print the first rows: copied columns, then the selected features with their values, best first."""
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    from l2x.display import MEANING, readings
    from l2x.errors import InputError

    batch = next(explain.batches(table, head), None)
    if batch is None:
        raise InputError(f"'{table.path}' has no rows.")
    # A pipe has no width to fit into.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 1000)
    explanation = explain.explanation(batch)
    known = readings(explanation) if explain.effects else [None] * len(explanation)
    if explain.layout.form == "text":
        titles, shown = explain.columns, _texts(explanation, known, colour=console.is_terminal)
    else:
        shown = _cells(explain, batch, explanation, known)
        titles = [f"{rank + 1}." for rank in range(len(shown[0]))]
    grid = Grid(box=None, header_style="bold", pad_edge=False)
    known_rows = [] if explanation.confirmed is None else explanation.confirmed.tolist()
    confirmed = ["yes" if each else "no" for each in known_rows]
    columns = [*explain.copy, *["confirmed"] * bool(confirmed), *["prediction"] * explain.effects]
    for title in ["row", *columns, *titles]:
        grid.add_column(title, overflow="fold")
    for i, row in enumerate(batch.to_pylist()):
        copied = [Text(str(row[name])) for name in explain.copy]  # not str: cells may look like markup
        copied += [Text(each) for each in confirmed[i : i + 1]]
        predicted = (
            [] if (reading := known[i]) is None else [Text(reading.title.removeprefix("Prediction: "))]
        )
        grid.add_row(str(i), *copied, *predicted, *shown[i])
    console.print(grid)
    if explain.effects:
        console.print(Text(MEANING, style="dim"))


def _cells(
    explain: BatchExplainer, batch: Any, explanation: Explanation, known: Sequence[Reading | None]
) -> list[list[Text]]:
    """Return the selected columns of each row with values and effects; groups of columns have no value."""
    from rich.text import Text

    from l2x.display import cell_text, with_value

    # The explainer's name of a column -> the table's name.
    column_of = dict(zip(explain.layout.columns or explain.columns, explain.columns, strict=True))

    def cell(name: str, row: dict[str, Any], effect: str) -> Text:
        value = cell_text(row[column_of[name]]) if name in column_of else ""
        return Text(with_value(name, value) + effect)

    rows = []
    for row, names, reading in zip(batch.to_pylist(), explanation.names, known, strict=True):
        effects = [""] * len(names) if reading is None else [f" ({text})" for text in reading.amounts]
        shown = [cell(str(name), row, effect) for name, effect in zip(names, effects, strict=True)]
        rows.append(shown + [Text("")] * (explanation.k - len(shown)))  # this row has fewer features
    return rows


def _texts(explanation: Explanation, known: Sequence[Reading | None], *, colour: bool) -> list[list[Text]]:
    """Return each text with its selected words or sentences highlighted."""
    from l2x.display import pieces

    return [
        [
            highlighted(
                pieces(explanation, i, context=60, reading=reading), explanation.k, reading, colour=colour
            )
        ]
        for i, reading in enumerate(known)
    ]


def export(
    file: Saved,
    output: Annotated[Path, Option("--output", "-o", metavar="OUT", help="An .onnx file.")],
    effects: Annotated[
        bool,
        Option("--effects", help="The graph also returns signed effects on every class; k may be up to 6."),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Write an explainer as an ONNX file, for servers without Python.

    The graph takes raw columns and returns the selected features: it includes standardisation, category codes
    and the choice of the k best. The file is only written if onnxruntime and torch select the same features
    in 1,000 sampled rows. For texts, the tokenizer is written next to it.

    Example:  `l2x export churn.l2x -o churn.onnx`
    """
    from l2x._base.atomic import check_writable
    from l2x.errors import InputError
    from l2x.export import export_onnx, load

    if output.suffix.lower() != ".onnx":
        raise InputError(f"'{output}' is not an .onnx file.")
    check_writable(output, inputs={"FILE": file})
    export_onnx(load(file, device="cpu"), output, effects=effects)
    if not quiet:
        size = output.stat().st_size / 1024
        typer.echo(f"saved      {output}: {size:,.0f} KiB; selects the same features as torch in 1,000 rows")
