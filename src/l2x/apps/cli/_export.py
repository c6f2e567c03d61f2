"""`l2x export`: an explainer as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from l2x.apps.cli._options import Quiet, Saved

Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="OUT", help="An .onnx file.", show_default=False)
]


def export(file: Saved, output: Output, quiet: Quiet = False) -> None:
    """Write an explainer as an ONNX file, for servers without Python: raw columns in, the selection out.

    Standardisation, category codes and the k best are in the graph. Before anything is written, onnxruntime
    and torch must select the same features in 1,000 rows. For texts, the tokenizer is written beside it.

    Example:  `l2x export churn.l2x -o churn.onnx`
    """
    from l2x._base.atomic import check_writable
    from l2x.errors import InputError
    from l2x.export import export_onnx, load

    if output.suffix.lower() != ".onnx":
        raise InputError(f"'{output}' is not an .onnx file.")
    check_writable(output, inputs={"FILE": file})
    explainer = load(file, device="cpu")
    export_onnx(explainer, output)
    if not quiet:
        size = output.stat().st_size / 1024
        typer.echo(f"saved      {output}: {size:,.0f} KiB, the same selection as torch in 1,000 rows")
