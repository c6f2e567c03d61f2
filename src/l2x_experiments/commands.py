"""`l2x reproduce`: the paper's experiments from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from l2x.errors import InputError, MissingExtraError, require

if TYPE_CHECKING:
    from l2x.datasets.synthetic import Variant
    from l2x_experiments.black_boxes.reviews import Problem
    from l2x_experiments.records import Records
    from l2x_experiments.report import Report
    from l2x_experiments.runner import Experiment

app = typer.Typer(
    no_args_is_help=True,
    help="Run the paper's experiments: records, figures and a page. An interrupted run resumes: what the "
    "results file holds is not measured again; delete a record to have it measured again.",
)


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
    bool, typer.Option("--quick", help="Minutes instead of an hour; far from the best numbers.")
]
Seeds = Annotated[int | None, typer.Option("--seeds", help="Seeds of each problem: 3, or 1 if quick.")]
Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="METHOD", help="Only this method; repeat for more.")
]
Jobs = Annotated[int, typer.Option("--jobs", help="Processes that work side by side.")]
Folder = Annotated[
    Path | None, typer.Option("--folder", help="Where results go: `results`, or `out` if quick.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the records instead of tables.")]
ReportOnly = Annotated[
    bool, typer.Option("--report-only", help="Run nothing; draw the figures and the page from the records.")
]


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
    report_only: ReportOnly = False,
) -> None:
    """Section 4.1: four synthetic sets, every method, median ranks and clock time.

    Example:  `l2x reproduce synthetic --quick --jobs 2`
    """
    _require(baselines=not report_only)
    from l2x_experiments import synthetic as experiment
    from l2x_experiments.synthetic_report import report

    prepared = experiment.experiment(
        quick=quick,
        seeds=_seeds(seeds, quick),
        variants=VARIANTS[variant or (VariantChoice.code if quick else VariantChoice.both)],
        models=("network",) if quick else ("true", "network"),
        only=only,
    )
    _reproduce(prepared, report, _folder(folder, quick), jobs, as_json=as_json, report_only=report_only)


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
    jobs: Jobs = 1,
    folder: Folder = None,
    as_json: AsJson = False,
    report_only: ReportOnly = False,
) -> None:
    """Report cards of ours, the paper's recipe and three cheaters, and the verdict's error rates on switch.

    Example:  `l2x reproduce honesty --quick --set switch`
    """
    _require(baselines=False)
    from l2x_experiments import honesty as experiment
    from l2x_experiments.honesty_report import report

    if unknown := [name for name in sets or [] if name not in experiment.SETS]:
        raise typer.BadParameter(f"'{unknown[0]}'; choose among {', '.join(experiment.SETS)}.")
    prepared = experiment.experiment(quick=quick, seeds=_seeds(seeds, quick), sets=sets, truth=truth)
    _reproduce(prepared, report, _folder(folder, quick), jobs, as_json=as_json, report_only=report_only)


@app.command()
def mnist(
    quick: Quick = False,
    seeds: Seeds = None,
    only: Only = None,
    jobs: Jobs = 1,
    folder: Folder = None,
    as_json: AsJson = False,
    report_only: ReportOnly = False,
) -> None:
    """Section 4.3: four patches of a 3 or an 8, and of all ten digits; fetches MNIST if needed.

    Example:  `l2x reproduce mnist --quick`
    """
    _require(baselines=not report_only)
    from l2x_experiments import mnist as experiment
    from l2x_experiments.mnist_report import report

    prepared = experiment.experiment(quick=quick, seeds=_seeds(seeds, quick), only=only)
    _reproduce(prepared, report, _folder(folder, quick), jobs, as_json=as_json, report_only=report_only)


@app.command("imdb-words")
def imdb_words(
    quick: Quick = False,
    seeds: Seeds = None,
    only: Only = None,
    jobs: Jobs = 1,
    folder: Folder = None,
    as_json: AsJson = False,
    report_only: ReportOnly = False,
) -> None:
    """Section 4.2: ten key words of a review, for a word network; fetches IMDB if needed.

    Example:  `l2x reproduce imdb-words --quick`
    """
    _imdb("words", quick, seeds, only, jobs, folder, as_json=as_json, report_only=report_only)


@app.command("imdb-sentences")
def imdb_sentences(
    quick: Quick = False,
    seeds: Seeds = None,
    only: Only = None,
    jobs: Jobs = 1,
    folder: Folder = None,
    as_json: AsJson = False,
    report_only: ReportOnly = False,
) -> None:
    """Section 4.2: the key sentence of a review, for a hierarchical LSTM; fetches IMDB and GloVe if needed.

    Example:  `l2x reproduce imdb-sentences --quick`
    """
    _imdb("sentences", quick, seeds, only, jobs, folder, as_json=as_json, report_only=report_only)


def _imdb(
    problem: Problem,
    quick: bool,
    seeds: int | None,
    only: list[str] | None,
    jobs: int,
    folder: Path | None,
    *,
    as_json: bool,
    report_only: bool,
) -> None:
    _require(baselines=not report_only, text=True)
    from l2x_experiments import imdb as experiment
    from l2x_experiments.imdb_report import report

    prepared = experiment.experiment(problem, quick=quick, seeds=_seeds(seeds, quick), only=only)
    _reproduce(prepared, report, _folder(folder, quick), jobs, as_json=as_json, report_only=report_only)


@app.command()
def adult(
    quick: Quick = False,
    seeds: Seeds = None,
    folder: Folder = None,
    as_json: AsJson = False,
    report_only: ReportOnly = False,
) -> None:
    """Not in the paper: LightGBM on raw census rows, beside Kernel SHAP and TreeSHAP; fetches the data.

    Example:  `l2x reproduce adult --quick`
    """
    from importlib.util import find_spec

    _require(baselines=not report_only)
    if not report_only and find_spec("lightgbm") is None:
        raise MissingExtraError("This needs the package 'lightgbm'; install it with: pip install lightgbm")
    from l2x_experiments import adult as experiment
    from l2x_experiments.adult_report import report

    prepared = experiment.experiment(quick=quick, seeds=_seeds(seeds, quick))
    _reproduce(prepared, report, _folder(folder, quick), 1, as_json=as_json, report_only=report_only)


def _seeds(seeds: int | None, quick: bool) -> int:
    return seeds or (1 if quick else 3)


def _folder(folder: Path | None, quick: bool) -> Path:
    return folder or Path("out" if quick else "results")


def _require(*, baselines: bool, text: bool = False) -> None:
    """Better now than after an hour."""
    for module in ("captum", "shap", "lime") if baselines else ():
        require(module, extra="baselines")
    require("matplotlib", extra="plots")
    for module in ("tokenizers", "sentencex") if text else ():
        require(module, extra="text")


def _reproduce(
    experiment: Experiment,
    report: Callable[[Records], Report],
    folder: Path,
    jobs: int,
    *,
    as_json: bool,
    report_only: bool,
) -> None:
    """Run what is still to do, write the report, and print what there is."""
    from l2x_experiments.runner import run

    if report_only:
        records = experiment.records(folder).select(**experiment.belongs)
    else:
        records = run(experiment, folder, processes=jobs, progress=not as_json)
    file = folder / f"{experiment.name}.json"
    if not records:
        raise InputError(f"'{file}' holds no records of this experiment; run it without --report-only.")
    made = report(records)
    page = made.write(folder)
    if as_json:
        typer.echo(json.dumps(list(records), indent=1))
        return
    made.show()
    typer.echo(f"records  {file}\nfigures  {folder / 'figures'}\npage     {page}")
