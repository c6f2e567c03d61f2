"""`l2x explain`: every row of a file, or a look at the first ones."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from l2x.apps.cli._first_rows import show_first
from l2x.apps.cli._model import load_black_box
from l2x.apps.cli._options import (
    STANDARD,
    Address,
    Column,
    Drop,
    Engine,
    EngineChoice,
    OtherK,
    Quiet,
    Saved,
    Source,
)
from l2x.apps.cli._terminal import note_ignored, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from l2x.explainer import Explainer
    from l2x.export import BatchExplainer
    from l2x.files import Table


Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="OUT",
        help="A .csv or .parquet file, or - for standard output: CSV, or JSON lines if DATA are. Without it, "
        "look at the first rows. With --engine ray also a folder or an address, for many .parquet files.",
    ),
]
Copy = Annotated[
    list[str] | None,
    typer.Option(
        "--copy", metavar="COLUMN", help="Copy this column, such as an id, into OUT; repeat for more."
    ),
]
Answers = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMNS",
        help="The columns of DATA that hold the model's answers, one for each class, in its order: p0,p1. "
        "For an explainer that was fitted with --sees-answer.",
    ),
]
AskedModel = Annotated[
    str | None,
    typer.Option("--model", metavar="MODEL", help="Ask this model for its answers instead, once per row."),
]
Keep = Annotated[
    str | None,
    typer.Option(
        metavar="SHARE",
        help="As many features as a row needs, k at most: keep this share of the information, 0.95.",
    ),
]
Head = Annotated[int, typer.Option(min=1, help="Without -o: how many rows to show.")]
BatchRows = Annotated[
    int | None, typer.Option(min=1, help="Rows in memory at a time; by default what suits the columns.")
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Batches explained at a time; by default one per processor.")
]


def explain(
    file: Saved,
    data: Source,
    output: Output = None,
    k: OtherK = None,
    keep: Keep = None,
    copy: Copy = None,
    drop: Drop = None,
    column: Column = None,
    answers: Answers = None,
    model: AskedModel = None,
    head: Head = 10,
    batch_rows: BatchRows = None,
    workers: Workers = None,
    engine: EngineChoice = Engine.local,
    address: Address = None,
    quiet: Quiet = False,
) -> None:
    """Explain every row of DATA. The model is not needed; a file of any size streams through.

    OUT has the copied columns, then feature_1 .. feature_k (best first) and score_1 .. score_k. It appears
    when it is complete; until then OUT.parts keeps the rows done, and the same command resumes from there.
    Columns are matched by name; columns that the explainer does not know are ignored.

    For texts, feature_1 .. feature_k are the words or sentences themselves.

    Example:  `l2x explain churn.l2x customers.parquet --copy id -o why.parquet`

    A cluster:  `l2x explain churn.l2x s3://bucket/customers -o s3://bucket/why --engine ray --address auto`

    In a pipe:  `... | l2x explain churn.l2x - -o - | ...`
    """
    from l2x.errors import InputError
    from l2x.export import load
    from l2x.files import opened

    share = _share(keep)
    if engine is Engine.ray:
        if output is None or answers or model:
            raise InputError("--engine ray needs -o, and takes no --answers and --model.")
        options = {"copy": copy or [], "drop": drop or [], "column": column, "k": k, "keep": share}
        options |= {"actors": workers} | ({} if batch_rows is None else {"batch_rows": batch_rows})
        _explain_with_ray(file, data, output, options, address=address, quiet=quiet)
        return
    source, target = Path(data), None if output is None else Path(output)
    explainer = load(file, model=None if model is None else load_black_box(model))
    given = [name for name in (answers or "").split(",") if name]
    _check_answers(explainer, given, model)
    with opened(source) as (table, as_lines):
        copy = list(dict.fromkeys(copy or []))
        batches = _batches(explainer, table, k, copy, drop or [], column, given, share, quiet=quiet)
        workers = 1 if model is not None else workers  # it may not bear two questions at a time
        if target is None:
            show_first(batches, table, head)
        elif target == STANDARD:
            _explain_out(batches, table, batch_rows=batch_rows, lines=as_lines)
        else:
            _check_output(target, {"DATA": source, "FILE": file})
            _explain_into(target, batches, table, batch_rows=batch_rows, workers=workers, quiet=quiet)


def _explain_with_ray(
    file: Path, data: str, output: str, options: dict[str, Any], *, address: str | None, quiet: bool
) -> None:
    """Explain Parquet files on a cluster; Ray shows its own progress."""
    from l2x.export import _ray as ray

    started = time.perf_counter()
    rows = ray.read_parquet(data, address=address, progress=not quiet)
    ray.write(ray.explain(rows, file, **options), output)
    if not quiet:
        typer.echo(f"saved      {output}: explained by Ray in {time.perf_counter() - started:.1f} s")


def _batches(
    explainer: Explainer,
    table: Table,
    k: int | None,
    copy: list[str],
    drop: list[str],
    column: str | None,
    answers: list[str],
    keep: float | None,
    *,
    quiet: bool,
) -> BatchExplainer:
    """What is asked of each batch of the table; whatever can be wrong with it is found here."""
    from l2x.export import BatchExplainer, match_columns
    from l2x.features import checked_k

    table.require(answers, "read answers from")
    beside = list(dict.fromkeys([*copy, *answers]))
    columns, ignored = match_columns(explainer, table, drop=drop, copy=beside, column=column)
    k = checked_k(explainer.features_, explainer.k if k is None else k)
    if not quiet:
        note_ignored(ignored, "the explainer")
    return BatchExplainer(explainer, columns, copy=copy, k=k, answers=answers, keep=keep)


def _share(keep: str | None) -> float | None:
    """The share of the information to keep; up to 0.1.0 --keep named columns to copy."""
    from l2x.errors import InputError

    if keep is None:
        return None
    try:
        share = float(keep)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise InputError(
            f"--keep is {keep}; expected the share of the information to keep, such as 0.95. "
            "To copy a column into the output: --copy."
        )
    return share


def _check_output(output: Path, inputs: dict[str, Path]) -> None:
    from l2x._base.atomic import check_writable
    from l2x.files import format_of

    format_of(output)
    check_writable(output, inputs=inputs)


def _explain_out(explain: BatchExplainer, table: Table, *, batch_rows: int | None, lines: bool) -> None:
    """Explain the table to standard output, batch by batch."""
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


def _check_answers(explainer: Explainer, columns: Sequence[str], model: str | None) -> None:
    """The model's answers come from DATA or from the model, where the explainer needs them."""
    from l2x.errors import InputError

    if not explainer.sees_answer and (columns or model):
        raise InputError("This explainer reads the inputs alone; leave --answers and --model out.")
    if explainer.sees_answer and not (columns or model):
        raise InputError(
            "This explainer reads the model's answers beside the inputs: name the columns of DATA that hold "
            "them, --answers p0,p1, or the model, --model module:attribute."
        )
    if columns and model:
        raise InputError("Give --answers or --model, not both.")


def _explain_into(
    target: Path,
    explain: BatchExplainer,
    table: Table,
    *,
    batch_rows: int | None,
    workers: int | None,
    quiet: bool,
) -> None:
    """Explain the table with a progress bar, and print where the result is and how fast it came."""
    import torch

    from l2x._base.progress import progress_bar
    from l2x.export import explain_table

    torch.set_num_threads(1)  # small networks gain more from batches side by side
    started = time.perf_counter()
    earlier: int | None = None  # rows of earlier sessions: the first report

    def speed(rows: int) -> str:
        return f"{(rows - (earlier or 0)) / (time.perf_counter() - started):,.0f} rows/s"

    with progress_bar("explaining", 1.0, visible=not quiet) as advance:

        def report(rows: int, share: float) -> None:
            nonlocal earlier
            if earlier is None:
                earlier = rows
                if rows and not quiet:
                    say("note:", f"{rows:,} rows were explained before; resuming from there.", style="bold")
            advance(share, f"{rows:,} rows, {speed(rows)}")

        done = explain_table(explain, table, target, batch_rows=batch_rows, workers=workers, report=report)
    if not quiet:
        seconds = time.perf_counter() - started
        typer.echo(f"saved      {target}: {done:,} rows explained in {seconds:.1f} s ({speed(done)})")
