"""`l2x reproduce`: the paper's experiments from the command line. Heavy imports wait inside the commands."""

from __future__ import annotations

import json
from dataclasses import replace
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    no_args_is_help=True,
    help="Run the paper's experiments: records, figures and a page. An interrupted run resumes: what the "
    "results file holds is not measured again.",
)

Quick = Annotated[bool, typer.Option("--quick", help="Minutes instead of hours; far from the best numbers.")]
Seeds = Annotated[int | None, typer.Option("--seeds", help="Seeds of each problem: 3, or 1 if quick.")]
Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="METHOD", help="Only this method; repeat for more.")
]
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="SET", help="Only this set; repeat for more.")
]
Jobs = Annotated[int, typer.Option("--jobs", help="Processes that work side by side.")]
Folder = Annotated[
    Path | None, typer.Option("--folder", help="Where results go: `results`, or `out` if quick.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the records instead of tables.")]
ReportOnly = Annotated[
    bool, typer.Option("--report-only", help="Run nothing: draw figures and page from the records.")
]

# The modules that an extra brings.
BASELINES = {"captum": "baselines", "shap": "baselines", "lime": "baselines"}
TEXT = {"tokenizers": "text", "sentencex": "text"}


class VariantChoice(StrEnum):
    both = "both"
    paper = "paper"
    code = "code"


@app.command()
def synthetic(
    quick: Quick = False,
    seeds: Seeds = None,
    variant: Annotated[
        VariantChoice | None,
        typer.Option("--variant", help="Formulas of the paper or of its code: both, or code if quick."),
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
    chosen = variant or (VariantChoice.code if quick else VariantChoice.both)
    options = {
        "variants": ("code", "paper") if chosen == VariantChoice.both else (chosen.value,),
        "models": ("network",) if quick else ("true", "network"),
        "only": only,
    }
    _reproduce("synthetic", quick, seeds, folder, jobs, as_json, report_only, BASELINES, **options)


@app.command()
def honesty(
    quick: Quick = False,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", help="Seeds of each set: 3, or 1 if quick; switch always has 10, or 2."),
    ] = None,
    sets: Sets = None,
    truth: Annotated[bool, typer.Option(help="Also INVASE's six sets against the truth.")] = True,
    jobs: Jobs = 1,
    folder: Folder = None,
    as_json: AsJson = False,
    report_only: ReportOnly = False,
) -> None:
    """Report cards of ours, the paper's recipe and three cheaters, and the verdict's error rates on switch.

    Example:  `l2x reproduce honesty --quick --set switch`
    """
    _reproduce("honesty", quick, seeds, folder, jobs, as_json, report_only, sets=sets, truth=truth)


@app.command()
def ablation(
    quick: Quick = False,
    seeds: Seeds = None,
    jobs: Jobs = 1,
    folder: Folder = None,
    as_json: AsJson = False,
    report_only: ReportOnly = False,
) -> None:
    """What it takes to reproduce L2X: pieces of its authors' recipe, on XOR and MNIST; fetches MNIST.

    Example:  `l2x reproduce ablation --quick`
    """
    _reproduce("ablation", quick, seeds, folder, jobs, as_json, report_only)


@app.command()
def sizes(
    quick: Quick = False,
    seeds: Seeds = None,
    sets: Sets = None,
    wide: Annotated[bool, typer.Option(help="Also INVASE's six sets with 100 columns.")] = True,
    jobs: Jobs = 1,
    folder: Folder = None,
    as_json: AsJson = False,
    report_only: ReportOnly = False,
) -> None:
    """Not in the paper: as many features as a row needs, on INVASE's six sets, Adult and MNIST.

    Example:  `l2x reproduce sizes --quick --set syn4`
    """
    _reproduce("sizes", quick, seeds, folder, jobs, as_json, report_only, sets=sets, wide=wide)


@app.command()
def adult(
    quick: Quick = False,
    seeds: Seeds = None,
    jobs: Jobs = 1,
    folder: Folder = None,
    as_json: AsJson = False,
    report_only: ReportOnly = False,
) -> None:
    """Not in the paper: LightGBM on raw census rows, beside Kernel SHAP and TreeSHAP; fetches the data.

    Example:  `l2x reproduce adult --quick`
    """
    _require_lightgbm(report_only)
    _reproduce("adult", quick, seeds, folder, jobs, as_json, report_only, BASELINES)


@app.command()
def robustness(
    quick: Quick = False,
    splits: Annotated[
        int | None, typer.Option("--splits", help="Splits of each of the five problems: 4, or 1 if quick.")
    ] = None,
    jobs: Jobs = 1,
    folder: Folder = None,
    as_json: AsJson = False,
    report_only: ReportOnly = False,
) -> None:
    """Not in the paper: does the self-check say so when a selection is no better than chance? Fetches Adult.

    Example:  `l2x reproduce robustness --quick`
    """
    _require_lightgbm(report_only)
    splits = splits or (1 if quick else 4)
    _reproduce("robustness", quick, splits, folder, jobs, as_json, report_only)


@app.command()
def small(
    quick: Quick = False,
    splits: Annotated[
        int | None, typer.Option("--splits", help="Splits of each of the three problems: 5, or 1 if quick.")
    ] = None,
    jobs: Jobs = 1,
    folder: Folder = None,
    as_json: AsJson = False,
    report_only: ReportOnly = False,
) -> None:
    """Not in the paper: tables of a few hundred rows, beside one subset for all rows and Kernel SHAP.

    Example:  `l2x reproduce small --quick`
    """
    _require_lightgbm(report_only)
    splits = splits or (1 if quick else 5)
    _reproduce("small", quick, splits, folder, jobs, as_json, report_only, {"shap": "baselines"})


def _require_lightgbm(report_only: bool) -> None:
    from l2x.errors import MissingExtraError

    if not report_only and find_spec("lightgbm") is None:
        raise MissingExtraError("This needs the package 'lightgbm'; install it with: pip install lightgbm")


@app.command()
def human(
    quick: Quick = False,
    source: Annotated[
        Path,
        typer.Option("--from", metavar="FOLDER", help="Where the records of imdb-words and -sentences are."),
    ] = Path("results"),
    folder: Folder = None,
    as_json: AsJson = False,
    report_only: ReportOnly = False,
) -> None:
    """Section 4.2: what readers see in the selections; here, readers are simulated by a sentiment lexicon.

    Takes the selections that `l2x reproduce imdb-words` and `imdb-sentences` kept; fetches IMDB.

    Example:  `l2x reproduce human`
    """
    needed = {"vaderSentiment": "study", "krippendorff": "study", **TEXT}
    _reproduce("human", quick, 1, folder, 1, as_json, report_only, needed, source=source)


def _comparison(name: str, module: str, extras: dict[str, str], summary: str, **options: Any) -> None:
    """Add the command of an experiment of sections 4.2 and 4.3: they differ in their data."""

    @app.command(name, help=f"{summary}\n\nExample:  `l2x reproduce {name} --quick --jobs 2`")
    def command(
        quick: Quick = False,
        seeds: Seeds = None,
        only: Only = None,
        jobs: Jobs = 1,
        folder: Folder = None,
        as_json: AsJson = False,
        report_only: ReportOnly = False,
    ) -> None:
        _reproduce(
            module, quick, seeds, folder, jobs, as_json, report_only, BASELINES | extras, only=only, **options
        )


_comparison(
    "mnist", "mnist", {}, "Section 4.3: four patches of a 3 or an 8, and of all ten digits; fetches MNIST."
)
_comparison(
    "imdb-words", "imdb", TEXT, "Section 4.2: ten key words of a review, for a word network; fetches IMDB.",
    problem="words",
)  # fmt: skip
_comparison(
    "imdb-sentences", "imdb", TEXT,
    "Section 4.2: the key sentence of a review, for a hierarchical LSTM; fetches IMDB and GloVe.",
    problem="sentences",
)  # fmt: skip


def _reproduce(
    module: str,
    quick: bool,
    seeds: int | None,
    folder: Path | None,
    jobs: int,
    as_json: bool,
    report_only: bool,
    extras: dict[str, str] | None = None,
    **options: Any,
) -> None:
    """Run what is still to do, write the report, and print what there is."""
    from l2x.errors import InputError, require

    # Better now than after an hour.
    for needed, extra in {"matplotlib": "plots", **({} if report_only else extras or {})}.items():
        require(needed, extra=extra)
    seeds, folder = seeds or (1 if quick else 3), folder or Path("out" if quick else "results")
    experiment = import_module(f"l2x_experiments.{module}").experiment(quick=quick, seeds=seeds, **options)
    file = folder / f"{experiment.name}.json"
    if report_only:
        experiment = replace(experiment, jobs=())
    run = import_module("l2x_experiments.runner").run
    records = run(experiment, folder, processes=jobs, progress=not as_json)
    if not records:
        raise InputError(f"'{file}' holds no records of this experiment; run it without --report-only.")
    report = import_module(f"l2x_experiments.{module}_report").report(records)
    page = report.write(folder)
    if as_json:
        typer.echo(json.dumps(list(records), indent=1))
        return
    report.show()
    typer.echo(f"records  {file}\nfigures  {folder / 'figures'}\npage     {page}")
