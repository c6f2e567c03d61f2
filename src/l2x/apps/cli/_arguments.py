"""Arguments and options that several commands share, and how MODEL, --paper and --quick are interpreted."""

from __future__ import annotations

import importlib
import sys
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

if TYPE_CHECKING:
    from l2x.features import View
    from l2x.learning import TrainingPlan
    from l2x.model import BlackBox

# DATA and OUT may be "-": standard input and standard output.
STANDARD = Path("-")

Model = Annotated[
    str,
    Argument(
        metavar="MODEL",
        help="The model to explain: `module:attribute`, imported from the current folder (an estimator, a "
        "booster, a torch module or a function); an `.onnx` file; or the URL of a model service, whose "
        "access token is read from the environment variable L2X_TOKEN.",
    ),
]
FORMATS = (
    "A .csv or .parquet file with a header, a .txt file with one text per line, or - for standard input "
    "(CSV or JSON lines)."
)
Data = Annotated[Path, Argument(metavar="DATA", help=FORMATS)]
DataOrFolder = Annotated[
    str,
    Argument(
        metavar="DATA",
        help=f"{FORMATS} With --engine ray also a folder of .parquet files, or its URL, such as "
        "`s3://bucket/folder`.",
    ),
]


Engine = Annotated[
    Literal["local", "ray"], Option(help="Run on this machine, or on a Ray cluster (extra `ray`).")
]
Address = Annotated[
    str | None,
    Option(
        metavar="HOST:PORT", help="Address of the Ray cluster; by default Ray is started on this machine."
    ),
]
Saved = Annotated[Path, Argument(metavar="FILE", help="An explainer saved by `l2x fit`.")]
Drop = Annotated[list[str] | None, Option(metavar="COLUMN", help="Ignore this column; can be repeated.")]
Column = Annotated[
    str | None, Option(metavar="COLUMN", help="The column with the texts, if DATA has several text columns.")
]
OptionalK = Annotated[
    int | None, Option(help="Number of features to select; by default the explainer's own k.")
]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print nothing except errors.")]
Seed = Annotated[int, Option(min=0, help="Random seed; the same seed and data give the same result.")]


def load_black_box(spec: str, **options: Any) -> BlackBox:
    """Return the model that MODEL names, wrapped; `options` are as for `load_model`."""
    from l2x.model import as_black_box

    return as_black_box(load_model(spec, **options))


def load_model(spec: str, **options: Any) -> Any:
    """Return the model that MODEL names, unwrapped, for methods that inspect it.

    `options` are arguments of `Endpoint`, for a URL only; those that are None keep their default.
    """
    from l2x.errors import InputError
    from l2x.model import Endpoint

    options = {name: value for name, value in options.items() if value is not None}
    if spec.startswith(("http://", "https://")):
        return Endpoint(spec, **options)
    if options:
        name = next(iter(options)).replace("_", "-")
        raise InputError(f"--{name} applies only if MODEL is a URL (https://...); MODEL is '{spec}'.")
    if spec.endswith(".onnx"):
        return Path(spec)
    module, _, attribute = spec.partition(":")
    if not attribute:
        raise InputError(
            f"MODEL is '{spec}'; expected module:attribute (churn:model), an .onnx file, or a URL"
        )
    return _imported(spec, module, attribute)


def _imported(spec: str, module: str, attribute: str) -> Any:
    """Import `attribute` of `module`, which may be a file in the current folder."""
    from l2x.errors import InputError

    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return attrgetter(attribute)(importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise InputError(f"Cannot load MODEL '{spec}': {error}.") from error
    except Exception as error:  # the user's own module may raise anything while it is imported
        raise InputError(f"Importing MODEL '{spec}' raised {type(error).__name__}: {error}") from error


def training_plan(view: View | None, *, paper: bool, quick: bool, progress: bool) -> TrainingPlan:
    """Return the training plan for a view, or for `Columns()` if it is None.

    It is the library's plan or, for `paper`, that of the released code; `quick` plans have far fewer steps.
    """
    from dataclasses import replace

    from l2x.features import Columns
    from l2x.learning import TrainingPlan, recipes_of

    view = view or Columns()
    recipe = recipes_of(view).released if paper else recipes_of(view).ours
    plan = replace(recipe.plan, progress=progress)
    if not quick:
        return plan
    if not paper:
        return TrainingPlan.quick(view, progress=progress)
    shorter = plan.with_steps(
        value=max(1, plan.value.steps // 10), selector=max(1, plan.selector.steps // 10)
    )
    return replace(shorter, evaluations=min(plan.evaluations, 10))
