"""What the reports of all bench experiments have in common: the table of methods, its figure, its caption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from l2x.explanation import Explanation
from l2x.features.view import View
from l2x.plots.fidelity import plot_fidelity
from l2x.plots.style import save_figure
from l2x_experiments.results import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = {
    "search": "search per input",
    "l2x": "L2X, ours",
    "l2x-model": "L2X, value = model",
    "l2x-surrogate": "L2X, value = surrogate",
    "paper": "L2X, as in the paper",
    "taylor": "Taylor",
    "deeplift": "DeepLIFT",
    "lime": "LIME",
    "kernel_shap": "Kernel SHAP",
    "saliency": "Saliency",
    "taylor-absolute": "Taylor, absolute",
    "deeplift-absolute": "DeepLIFT, absolute",
    "lime-absolute": "LIME, absolute",
    "kernel_shap-absolute": "Kernel SHAP, absolute",
    "random": "random",
}
RECIPES = {"l2x-model": "value='model'", "l2x-surrogate": "value='surrogate'"}
COLUMNS = ["method", "post-hoc", "printed", "judge", "places", "the rest", "fit s", "s / 1,000"]


def by_method(records: Sequence[Record]) -> dict[str, list[Record]]:
    """One problem's records of each method, in order; of our recipes the chosen one appears once, as ours."""
    chosen = {record["recipe"] for record in records if record["method"] == "l2x"}
    found = {
        method: [r for r in records if r["method"] == method] for method in NAMES if method not in chosen
    }
    return {method: some for method, some in found.items() if some}


def mean_sd(records: Sequence[Record], key: str, decimals: int = 3) -> str:
    """Mean over seeds, with the standard deviation where there are several."""
    values = [record[key] for record in records]
    mean = f"{np.mean(values):.{decimals}f}"
    return mean if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):.{decimals}f}"


def summary(records: Sequence[Record], printed: Mapping[str, float]) -> list[list[object]]:
    """One line for each method, by `COLUMNS`; `printed` are the paper's own figures."""
    return [
        [
            NAMES[method],
            mean_sd(some, "posthoc_accuracy"),
            f"{printed[method]:.3f}" if method in printed else "–",
            mean_sd(some, "judge_accuracy"),
            mean_sd(some, "mask_only_accuracy"),
            mean_sd(some, "complement_accuracy"),
            mean_sd(some, "fit_seconds", 0),
            f"{np.mean([1000 * r['explain_seconds'] / r['rows'] for r in some]):.3g}",
        ]
        for method, some in by_method(records).items()
    ]


def fidelity_figure(
    records: Sequence[Record], *, title: str, chance: float, inputs: str, features: str
) -> Figure:
    """Methods by the share of answers that they keep; `inputs` and `features` in the plural."""
    keys = {"post-hoc": "posthoc_accuracy", "judge": "judge_accuracy", "places alone": "mask_only_accuracy"}
    methods = {
        NAMES[method]: {label: float(np.mean([r[key] for r in some])) for label, key in keys.items()}
        for method, some in by_method(records).items()
    }
    return plot_fidelity(
        dict(sorted(methods.items(), key=lambda item: -item[1]["post-hoc"])),
        title=title,
        chance=chance,
        inputs=inputs,
        caption="Dotted: chance. Post-hoc: the model on the selection. Judge: fitted on random subsets.\n"
        f"Places alone: a logistic regression that sees which {features}, not what is in them.",
    )


def caption(records: Sequence[Record], *, inputs: str, features: str) -> str:
    """What the columns are, and what is measured on fewer inputs."""
    whole = max(record["rows"] for record in records)
    fewer = {NAMES[r["method"]]: r["rows"] for r in records if r["rows"] < whole}
    exceptions = "".join(f"; {name}: {rows:,}" for name, rows in fewer.items())
    counts = sorted({len(some) for some in by_method(records).values()} - {1})
    seeds = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else "1"
    return (
        "Printed: in the paper or in comments of its source. Places: a logistic regression that sees which "
        f"{features} were selected. The rest: the model on all but the selection. Fit s and s / 1,000: "
        f"seconds to learn, and to explain 1,000 {inputs}. Measured on {whole:,} test {inputs}{exceptions}. "
        f"Mean ± standard deviation over {seeds} seed(s) where a method learns or draws."
    )


def chosen_recipe(records: Sequence[Record], *, inputs: str) -> str:
    """Which of our recipes is called ours, in a sentence; empty in an unfinished run."""
    recipe = next((r["recipe"] for r in records if r["method"] == "l2x"), None)
    return "" if recipe is None else f"Ours is {RECIPES[recipe]}, the better one on validation {inputs}."


def selection(record: Record, view: View, inputs: Any) -> Explanation:
    """What a record's method selected in its examples, which are `inputs`, best first."""
    places = np.asarray(record["examples"])
    scores = np.full((len(places), view.d), -np.inf)
    np.put_along_axis(scores, places, np.tile(np.arange(record["k"], 0, -1.0), (len(places), 1)), axis=1)
    return Explanation(scores, record["k"], view.names_, inputs=inputs, view=view)


def measured_on(record: Record) -> str:
    """The machine, and a person's remark about the run, such as what else kept it busy."""
    return (
        f"Measured on {record['machine']}, {record['threads']} thread(s) per run. "
        f"{record.get('conditions', '')}"
    ).strip()


def save(figure: Figure, stem: Path) -> None:
    for ending in ("svg", "png"):
        save_figure(figure, stem.with_name(f"{stem.name}.{ending}"))
