"""`l2x reproduce`: the paper's experiments from the command line."""

from __future__ import annotations

import json
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from l2x.datasets.synthetic import Variant
    from l2x_experiments.imdb import Problem

app = typer.Typer(no_args_is_help=True, help="Run the paper's experiments: results, figures and a page.")


class VariantChoice(StrEnum):
    both = "both"
    paper = "paper"
    code = "code"


VARIANTS: dict[VariantChoice, tuple[Variant, ...]] = {
    VariantChoice.both: ("code", "paper"),
    VariantChoice.paper: ("paper",),
    VariantChoice.code: ("code",),
}

Quick = Annotated[
    bool, typer.Option("--quick", help="Minutes instead of an hour; far from the best figures.")
]
Seeds = Annotated[int | None, typer.Option("--seeds", help="Seeds of each problem: 3, or 1 if quick.")]
Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="METHOD", help="Only this method; repeat for more.")
]
Jobs = Annotated[int, typer.Option("--jobs", help="Problems at a time, each in its own process.")]
Folder = Annotated[
    Path | None, typer.Option("--folder", help="Where results go: `results`, or `out` if quick.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the records instead of a table.")]


@app.command()
def synthetic(
    quick: Quick = False,
    seeds: Seeds = None,
    variant: Annotated[
        VariantChoice | None,
        typer.Option(
            "--variant", help="Formulas of the paper's text or of its code: both, or code if quick."
        ),
    ] = None,
    only: Only = None,
    jobs: Jobs = 1,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Section 4.1: four synthetic sets, every method, median ranks and clock time.

    A run that was interrupted goes on where it stopped: what the results file holds is not run again.

    Example:  `l2x reproduce synthetic --quick --jobs 2`
    """
    _require_extras()
    from l2x_experiments import synthetic as experiment
    from l2x_experiments import synthetic_report as report

    variant = variant or (VariantChoice.code if quick else VariantChoice.both)
    folder = folder or Path("out" if quick else "results")
    records = experiment.run(
        folder / "synthetic.json",
        quick=quick,
        seeds=seeds or (1 if quick else 3),
        variants=VARIANTS[variant],
        models=("network",) if quick else ("true", "network"),
        only=only,
        jobs=jobs,
        progress=not as_json,
    )
    page = report.write(records, folder)
    if as_json:
        typer.echo(json.dumps(records, indent=1))
        return
    report.show(records)
    typer.echo(f"records  {folder / 'synthetic.json'}\nfigures  {folder / 'figures'}\npage     {page}")


@app.command()
def honesty(
    quick: Quick = False,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", help="Seeds of each set: 3, or 1 if quick; switch always has 10, or 2."),
    ] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="SET", help="Only this set; repeat for more.")
    ] = None,
    truth: Annotated[
        bool, typer.Option(help="Also INVASE's six sets against the truth, with 11 and 100 dimensions.")
    ] = True,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Report cards of ours, the paper's recipe and three cheaters, and the verdict's error rates on switch.

    A run that was interrupted goes on where it stopped: what the results file holds is not run again.

    Example:  `l2x reproduce honesty --quick --set switch`
    """
    from l2x.errors import require

    require("matplotlib", extra="plots")
    from l2x_experiments import honesty as experiment
    from l2x_experiments import honesty_report as report

    unknown = [name for name in sets or [] if name not in experiment.SETTINGS]
    if unknown:
        raise typer.BadParameter(f"'{unknown[0]}'; choose among {', '.join(experiment.SETTINGS)}.")
    folder = folder or Path("out" if quick else "results")
    records = experiment.run(
        folder / "honesty.json",
        quick=quick,
        seeds=seeds or (1 if quick else 3),
        sets=sets,
        with_truth=truth,
        progress=not as_json,
    )
    page = report.write(records, folder)
    if as_json:
        typer.echo(json.dumps(records, indent=1))
        return
    report.show(records)
    typer.echo(f"records  {folder / 'honesty.json'}\npage     {page}")


@app.command()
def mnist(
    quick: Quick = False, seeds: Seeds = None, only: Only = None, jobs: Jobs = 1, folder: Folder = None
) -> None:
    """Section 4.3: four patches of a 3 or an 8, and of all ten digits; fetches MNIST if it is not there.

    What the results file holds is not run again: delete a record to have it measured anew.

    Example:  `l2x reproduce mnist --quick`
    """
    _require_extras()
    from l2x_experiments import mnist as experiment
    from l2x_experiments import mnist_report as report

    folder = folder or Path("out" if quick else "results")
    count = seeds or (1 if quick else 3)
    records = experiment.run(folder / "mnist.json", quick=quick, seeds=count, only=only, jobs=jobs)
    typer.echo(f"records  {folder / 'mnist.json'}\npage     {report.write(records, folder)}")


@app.command("imdb-words")
def imdb_words(
    quick: Quick = False, seeds: Seeds = None, only: Only = None, jobs: Jobs = 1, folder: Folder = None
) -> None:
    """Section 4.2: ten key words of a review, for a word network; fetches IMDB if it is not there.

    Example:  `l2x reproduce imdb-words --quick`
    """
    _imdb("words", quick=quick, seeds=seeds, only=only, jobs=jobs, folder=folder)


@app.command("imdb-sentences")
def imdb_sentences(
    quick: Quick = False, seeds: Seeds = None, only: Only = None, jobs: Jobs = 1, folder: Folder = None
) -> None:
    """Section 4.2: the key sentence of a review, for a hierarchical LSTM; fetches IMDB and GloVe.

    Example:  `l2x reproduce imdb-sentences --quick`
    """
    _imdb("sentences", quick=quick, seeds=seeds, only=only, jobs=jobs, folder=folder)


def _imdb(
    problem: Problem,
    *,
    quick: bool,
    seeds: int | None,
    only: list[str] | None,
    jobs: int,
    folder: Path | None,
) -> None:
    _require_extras("tokenizers", "sentencex")
    from l2x_experiments import imdb as experiment
    from l2x_experiments import imdb_report as report

    folder = folder or Path("out" if quick else "results")
    output, count = folder / f"imdb-{problem}.json", seeds or (1 if quick else 3)
    records = experiment.run(output, problem, quick=quick, seeds=count, only=only, jobs=jobs)
    typer.echo(f"records  {output}\npage     {report.write(records, problem, folder)}")


@app.command()
def adult(quick: Quick = False, seeds: Seeds = None, folder: Folder = None) -> None:
    """Not in the paper: LightGBM on raw census rows, beside Kernel SHAP and TreeSHAP; fetches the data.

    Example:  `l2x reproduce adult --quick`
    """
    from l2x.errors import MissingExtraError, require
    from l2x_experiments import adult as experiment
    from l2x_experiments import adult_report as report

    require("shap", extra="baselines")
    if find_spec("lightgbm") is None:
        raise MissingExtraError("This needs the package 'lightgbm'; install it with: pip install lightgbm")
    folder = folder or Path("out" if quick else "results")
    scale = experiment.Scale.quick() if quick else experiment.Scale.full()
    records = experiment.run(folder / "adult.json", scale=scale, seeds=seeds or (1 if quick else 3))
    typer.echo(f"records  {folder / 'adult.json'}\npage     {report.write(records, folder)}")


def _require_extras(*text: str) -> None:
    """Better now than after an hour."""
    from l2x.errors import require

    for module in ("captum", "shap", "lime"):
        require(module, extra="baselines")
    require("matplotlib", extra="plots")
    for module in text:
        require(module, extra="text")
