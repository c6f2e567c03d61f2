"""Tables, figures and a page from results/mnist.json; draws only what the records say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from l2x.datasets.mnist import mnist
from l2x.features.patches import Patches
from l2x.plots.images import plot_images
from l2x.plots.report import Section, write_report
from l2x_experiments.bench_report import (
    COLUMNS,
    NAMES,
    by_method,
    caption,
    chosen_recipe,
    fidelity_figure,
    measured_on,
    save,
    selection,
    summary,
)
from l2x_experiments.mnist import ALL_DIGITS, THREE_EIGHT, digits_name
from l2x_experiments.results import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# 0.958 is in the paper's Table 3; the others are in comments of its source.
PRINTED = {"paper": 0.958, "taylor": 0.941, "saliency": 0.759, "kernel_shap": 0.631, "lime": 0.581}
SHOWN = ("l2x", "l2x-surrogate", "paper", "taylor", "search")


def of(records: Sequence[Record], digits: tuple[int, ...]) -> list[Record]:
    return [record for record in records if tuple(record["digits"]) == digits]


def write(records: Sequence[Record], folder: Path) -> Path:
    """Figures (SVG and PNG) and one self-contained page into `folder`."""
    sections = [_introduction(records)]
    for digits in (THREE_EIGHT, ALL_DIGITS):
        some, name = of(records, digits), digits_name(digits)
        if not some:
            continue
        tag = "".join(map(str, digits))
        fidelity = fidelity_figure(
            some,
            title=f"How much of the model's answer four patches keep: {name}",
            chance=1 / len(digits),
            inputs="images",
            features="patches",
        )
        save(fidelity, folder / "figures" / f"mnist-accuracy-{tag}")
        examples = []
        for method in SHOWN:
            if found := [r for r in some if r["method"] == method and r["examples"]]:
                figure = example_figure(found[0])
                save(figure, folder / "figures" / f"mnist-examples-{tag}-{method}")
                examples.append(figure)
        sections.append(
            Section(
                name[0].upper() + name[1:],
                [_about(some)],
                table=(COLUMNS, summary(some, PRINTED if digits == THREE_EIGHT else {})),
                figures=[fidelity],
                caption=caption(some, inputs="images", features="patches"),
            )
        )
        sections.append(Section(f"What was selected: {name}", figures=examples))
    return write_report(
        folder / "mnist.html",
        title="Which four patches made it a 3?",
        subtitle="Section 4.3 of Learning to Explain: MNIST, k = 4 of 49 patches of 4 x 4 pixels",
        sections=sections,
    )


def example_figure(record: Record) -> Figure:
    """The paper's figure, from the selections that the record holds."""
    digits = tuple(record["digits"])
    data = mnist(digits, split="test", progress=False)
    rows = record["example_rows"]
    view = Patches(record["patch"]).fit(data.X[:1])
    title = f"{NAMES[record['method']]}: {digits_name(digits)}"
    return plot_images(selection(record, view, data.X[rows]), title=title)


def _introduction(records: Sequence[Record]) -> Section:
    first = records[0]
    facts = []
    for digits in (THREE_EIGHT, ALL_DIGITS):
        if some := by_method(of(records, digits)).get("l2x"):
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
            + measured_on(first),
        ],
        facts=facts,
    )


def _about(records: Sequence[Record]) -> str:
    return (
        f"The model is right on {100 * records[0]['model_accuracy']:.2f} % of the test images. "
        f"{chosen_recipe(records, inputs='images')} "
        "Taylor, DeepLIFT, LIME and Kernel SHAP rank patches by how much they speak for the class that the "
        "model predicted, as the search does: they are told the answer, and L2X is not. Their absolute "
        "versions rank by how much patches speak for or against it. LIME and Kernel SHAP ask the model a "
        "thousand times or more per image, so they explain fewer."
    )
