"""The report of results/mnist.json; draws only what the records say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from l2x.datasets import mnist
from l2x.display import plot_images
from l2x.features import Patches
from l2x_experiments.comparison_report import Methods, introduction, selection, with_examples
from l2x_experiments.contenders import LABELS
from l2x_experiments.mnist import PROBLEMS, THREE_EIGHT, digits_name
from l2x_experiments.records import Record, Records
from l2x_experiments.report import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# 0.958 is in the paper's Table 3; the others are in comments of its source.
PRINTED = {"paper": 0.958, "taylor": 0.941, "saliency": 0.759, "kernel_shap": 0.631, "lime": 0.581}
PRINTED_VMI = {"paper": 0.564, "taylor": 0.524, "saliency": 0.098, "kernel_shap": 0.029, "lime": 0.013}
SHOWN = ("l2x", "l2x-told", "paper", "taylor", "search")
WORDS = {"inputs": "images", "features": "patches"}


def report(records: Records) -> Report:
    page = Report(
        "mnist",
        title="Which four patches made it a 3?",
        subtitle="Section 4.3 of Learning to Explain: MNIST, k = 4 of 49 patches of 4 x 4 pixels",
    )
    problems = [Methods(group, **WORDS) for group in records.groups(digits=PROBLEMS)]
    facts = []
    for methods in problems:
        if "l2x" in methods.groups:
            name = digits_name(methods.records[0]["digits"])
            facts.append((methods.percent("l2x"), f"same answer with 4 of 49 patches: {name}"))
            facts.append(
                (methods.percent("l2x", "judge_accuracy"), "the same answer by an independent judge")
            )
    page.add("", introduction(records, removed="black", of=" of 3 and 8", **WORDS), facts=facts)
    for methods in problems:
        _add_problem(page, methods)
    return page


def _add_problem(page: Report, methods: Methods) -> None:
    digits = methods.records[0]["digits"]
    name, tag = digits_name(digits), "".join(map(str, digits))
    figure = methods.figure(
        title=f"How much of the model's answer four patches keep: {name}", chance=1 / len(digits)
    )
    page.add(
        name[0].upper() + name[1:],
        [_about(methods)],
        table=methods.table(*(PRINTED, PRINTED_VMI) if digits == THREE_EIGHT else ({}, {})),
        figures={f"accuracy-{tag}": figure},
        caption=methods.caption(),
    )
    examples = with_examples(methods.records, SHOWN)
    figures = {f"examples-{tag}-{record['method']}": example_figure(record) for record in examples}
    page.add(f"What was selected: {name}", figures=figures)


def example_figure(record: Record) -> Figure:
    """The paper's figure, from the selections that the record holds."""
    data = mnist(tuple(record["digits"]), split="test", progress=False)
    view = Patches(record["patch"]).fit(data.X[:1])
    title = f"{LABELS[record['method']]}: {digits_name(record['digits'])}"
    return plot_images(selection(record, view, data.X[record["example_rows"]]), title=title)


def _about(methods: Methods) -> str:
    return (
        f"The model is right on {100 * methods.records[0]['model_accuracy']:.2f} % of the test images. "
        f"Taylor, DeepLIFT, LIME and Kernel SHAP rank patches by how much they speak for "
        "the class that the model predicted, as the search does: they are told the answer, "
        "and L2X only where the table says so. "
        "Their absolute versions rank by how much patches speak for or against it. LIME and Kernel SHAP ask "
        "the model a thousand times or more per image, so they explain fewer."
    )
