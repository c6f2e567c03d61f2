"""The command line: parses, calls the library, prints. Heavy imports wait inside the commands."""

from __future__ import annotations

from typing import Annotated

import typer

from l2x._version import __version__
from l2x.apps.cli import _data as data
from l2x.apps.cli import _evaluate as evaluate
from l2x.apps.cli import _explain as explain
from l2x.apps.cli import _export as export
from l2x.apps.cli import _fit as fit
from l2x.apps.cli import _label as label
from l2x.apps.cli import _reproduce as reproduce
from l2x.apps.cli import _serve as serve
from l2x.apps.cli import _study as study
from l2x.apps.cli._terminal import Commands

EXPLAINING = "Explain a model"
REPRODUCING = "Reproduce the paper"

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

    An explainer is a small network that is fitted to the answers of any model that predicts, and then
    explains each row with one forward pass (Learning to Explain, ICML 2018).
    """


app.command(rich_help_panel=EXPLAINING)(label.label)
app.command(rich_help_panel=EXPLAINING)(fit.fit)
app.command(rich_help_panel=EXPLAINING)(explain.explain)
app.command(rich_help_panel=EXPLAINING)(evaluate.evaluate)
app.command(rich_help_panel=EXPLAINING)(export.export)
app.command(rich_help_panel=EXPLAINING)(serve.serve)
app.add_typer(study.app, name="study", rich_help_panel=EXPLAINING)
app.add_typer(data.app, name="data", rich_help_panel=REPRODUCING)
app.add_typer(reproduce.app, name="reproduce", rich_help_panel=REPRODUCING)
