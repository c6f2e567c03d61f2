"""Tables, figures and a page from results/mnist.json; draws only what the records say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from l2x.datasets.mnist import mnist
from l2x.experiments.mnist import ALL_DIGITS, LEARNED, THREE_EIGHT, digits_name
from l2x.experiments.results import Record
from l2x.explanation import Explanation
from l2x.features.patches import Patches
from l2x.plots.fidelity import plot_fidelity
from l2x.plots.images import plot_images
from l2x.plots.report import Section, write_report
from l2x.plots.style import save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = {
    "search": "search per image",
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
# 0.958 is in the paper's Table 3; the others are in comments of its source.
PRINTED = {"paper": 0.958, "taylor": 0.941, "saliency": 0.759, "kernel_shap": 0.631, "lime": 0.581}
RECIPES = {"l2x-model": "value='model'", "l2x-surrogate": "value='surrogate'"}
SHOWN = ("l2x", "l2x-surrogate", "paper", "taylor", "search")
COLUMNS = ["method", "post-hoc", "printed", "judge", "places", "the rest", "fit s", "s / 1,000"]


def of(records: Sequence[Record], digits: tuple[int, ...], method: str) -> list[Record]:
    return [r for r in records if tuple(r["digits"]) == digits and r["method"] == method]


def shown(records: Sequence[Record], digits: tuple[int, ...]) -> dict[str, list[Record]]:
    """The records of each method, in order; of our recipes the chosen one appears once, as ours."""
    recipes = {record["recipe"] for record in of(records, digits, "l2x")}
    found = {method: of(records, digits, method) for method in NAMES if method not in recipes}
    return {method: some for method, some in found.items() if some}


def mean_sd(records: Sequence[Record], key: str, decimals: int = 3) -> str:
    """Mean over seeds, with the standard deviation where there are several."""
    values = [record[key] for record in records]
    mean = f"{np.mean(values):.{decimals}f}"
    return mean if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):.{decimals}f}"


def summary(records: Sequence[Record], digits: tuple[int, ...]) -> list[list[object]]:
    """One line for each method, by `COLUMNS`."""
    rows: list[list[object]] = []
    for method, some in shown(records, digits).items():
        seconds = np.mean([1000 * r["explain_seconds"] / r["rows"] for r in some])
        printed = PRINTED.get(method) if digits == THREE_EIGHT else None
        rows.append(
            [
                NAMES[method],
                mean_sd(some, "posthoc_accuracy"),
                "–" if printed is None else f"{printed:.3f}",
                mean_sd(some, "judge_accuracy"),
                mean_sd(some, "mask_only_accuracy"),
                mean_sd(some, "complement_accuracy"),
                mean_sd(some, "fit_seconds", 0),
                f"{seconds:.3g}",
            ]
        )
    return rows


def write(records: Sequence[Record], folder: Path) -> Path:
    """Figures (SVG and PNG) and one self-contained page into `folder`."""
    sections = [_introduction(records)]
    for digits in (THREE_EIGHT, ALL_DIGITS):
        if not any(tuple(record["digits"]) == digits for record in records):
            continue
        tag = "".join(map(str, digits))
        fidelity = fidelity_figure(records, digits)
        _save(fidelity, folder / "figures" / f"mnist-accuracy-{tag}")
        examples = []
        for method in SHOWN:
            if some := of(records, digits, method):
                figure = example_figure(some[0])
                _save(figure, folder / "figures" / f"mnist-examples-{tag}-{method}")
                examples.append(figure)
        name = digits_name(digits)
        sections.append(
            Section(
                name[0].upper() + name[1:],
                [_about(records, digits)],
                table=(COLUMNS, summary(records, digits)),
                figures=[fidelity],
                caption=_caption(records, digits),
            )
        )
        sections.append(Section(f"What was selected: {name}", figures=examples))
    return write_report(
        folder / "mnist.html",
        title="Which four patches made it a 3?",
        subtitle="Section 4.3 of Learning to Explain: MNIST, k = 4 of 49 patches of 4 x 4 pixels",
        sections=sections,
    )


def fidelity_figure(records: Sequence[Record], digits: tuple[int, ...]) -> Figure:
    keys = {
        "post-hoc": "posthoc_accuracy",
        "judge": "judge_accuracy",
        "places alone": "mask_only_accuracy",
    }
    methods = {
        NAMES[method]: {label: float(np.mean([r[key] for r in some])) for label, key in keys.items()}
        for method, some in shown(records, digits).items()
    }
    ordered = dict(sorted(methods.items(), key=lambda item: -item[1]["post-hoc"]))
    return plot_fidelity(
        ordered,
        title=f"How much of the model's answer four patches keep: {digits_name(digits)}",
        chance=1 / len(digits),
        caption="Dotted: chance. Post-hoc: the model on the selection. Judge: fitted on random subsets.\n"
        "Places alone: a logistic regression that sees which patches, not what is in them.",
    )


def example_figure(record: Record) -> Figure:
    """The paper's figure, from the selections that the record holds."""
    digits = tuple(record["digits"])
    data = mnist(digits, split="test", progress=False)
    rows = record["example_rows"]
    view = Patches(record["patch"]).fit(data.X[:1])
    scores = np.zeros((len(rows), view.d))
    order = np.arange(record["k"], 0, -1.0)
    np.put_along_axis(scores, np.asarray(record["examples"]), np.tile(order, (len(rows), 1)), axis=1)
    explanation = Explanation(scores, record["k"], view.names_, inputs=data.X[rows], view=view)
    name = NAMES.get(record["method"], record["method"])
    return plot_images(explanation, title=f"{name}: {digits_name(digits)}")


def _save(figure: Figure, stem: Path) -> None:
    for ending in ("svg", "png"):
        save_figure(figure, stem.with_name(f"{stem.name}.{ending}"))


def _introduction(records: Sequence[Record]) -> Section:
    first = records[0]
    facts = []
    for digits in (THREE_EIGHT, ALL_DIGITS):
        if some := of(records, digits, "l2x"):
            share = np.mean([r["posthoc_accuracy"] for r in some])
            facts.append((f"{100 * share:.1f} %", f"same answer with 4 of 49 patches: {digits_name(digits)}"))
            share = np.mean([r["judge_accuracy"] for r in some])
            facts.append((f"{100 * share:.1f} %", "the same answer by an independent judge"))
    return Section(
        "",
        [
            "Post-hoc accuracy is the share of test images for which the model, shown only the selected "
            "patches and black elsewhere, gives the answer that it gives for the whole image. It can be "
            "reached by patches that make the model say the right thing without being why: the search per "
            "image, which is told the answer, shows how far that goes. Therefore an independent judge stands "
            "beside it, a network fitted on random subsets of images that no explainer saw.",
            f"Explainers learned from {first['train_rows']:,} training images of 3 and 8, the judge from "
            "others, and a third part chose between our recipes; nothing was chosen on test images. "
            f"Measured on {first['machine']}, {first['threads']} thread(s) per run. "
            # A person's remark about the run, such as what else kept the machine busy.
            + first.get("conditions", ""),
        ],
        facts=facts,
    )


def _caption(records: Sequence[Record], digits: tuple[int, ...]) -> str:
    """What the columns are, and what is measured on fewer images."""
    some = [record for record in records if tuple(record["digits"]) == digits]
    whole = max(record["rows"] for record in some)
    fewer = {NAMES[r["method"]]: r["rows"] for r in some if r["rows"] < whole}
    exceptions = "".join(f"; {name}: {rows:,}" for name, rows in fewer.items())
    counts = sorted({len(of(some, digits, method)) for method in LEARNED} - {0})
    seeds = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else "0"
    return (
        "Printed: in the paper or in comments of its source. Places: a logistic regression that sees which "
        "patches were selected. The rest: the model on all but the selection. Fit s and s / 1,000: seconds "
        f"to learn, and to explain 1,000 images. Measured on {whole:,} test images{exceptions}. Mean ± "
        f"standard deviation over {seeds} seed(s) where a method learns or draws."
    )


def _about(records: Sequence[Record], digits: tuple[int, ...]) -> str:
    some = [record for record in records if tuple(record["digits"]) == digits]
    recipe = next((r["recipe"] for r in some if r["method"] == "l2x"), None)
    chosen = "" if recipe is None else f" Ours is {RECIPES[recipe]}, the better one on validation images."
    return (
        f"The model is right on {100 * some[0]['model_accuracy']:.2f} % of the test images.{chosen} "
        "Taylor, DeepLIFT, LIME and Kernel SHAP rank patches by how much they speak for the class that the "
        "model predicted, as the search does: they are told the answer, and L2X is not. Their absolute "
        "versions rank by how much patches speak for or against it. LIME and Kernel SHAP ask the model a "
        "thousand times or more per image, so they explain fewer."
    )
