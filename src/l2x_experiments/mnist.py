"""Section 4.3: four of 49 patches explain a digit; 3 versus 8, and all ten digits (see comparison.py)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from l2x._base.arrays import Array
from l2x.datasets import mnist
from l2x.display import plot_images
from l2x.features import Patches
from l2x_experiments import comparison
from l2x_experiments.black_boxes import digit_network
from l2x_experiments.comparison import Comparison, Page, introduction, selection, with_examples
from l2x_experiments.methods import LABELS, Budget
from l2x_experiments.records import Record, Records
from l2x_experiments.report import Report
from l2x_experiments.runner import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

K, SIZE = 4, 4
THREE_EIGHT = [3, 8]
PROBLEMS = [THREE_EIGHT, list(range(10))]
# In its second and third round the search may replace patches that it selected first. 1,000 samples are the
# default of lime_image.
OPTIONS = {"Greedy search": {"rounds": 3}, "LIME": {"samples": 1000}}
# Shares of the training images: for explainers, and for the evaluator.
SHARES = (2 / 3, 1 / 4)
EXAMPLES = 10

FULL = Budget(search_rows=2000, sampling_rows=200, model_steps=8)
QUICK = Budget(
    train_rows=3000, test_rows=500, search_rows=100, sampling_rows=5, model_steps=4,
    value_steps=200, selector_steps=200, paper_steps=200,
)  # fmt: skip


def experiment(*, quick: bool = False, seeds: int = 3, only: Sequence[str] | None = None) -> Experiment:
    """Return the jobs: every method on both problems."""
    return comparison.experiment(
        "mnist",
        "digits",
        PROBLEMS,
        partial(set_up, budget=QUICK if quick else FULL),
        seeds=seeds,
        only=only,
        fetch=lambda progress: mnist(None, progress=progress),
    )


def set_up(digits: Sequence[int], budget: Budget) -> Comparison:
    """Return the setting of these digits; it is set up only once."""
    return _set_up(tuple(digits), budget)


@lru_cache(maxsize=2)
def _set_up(digits: tuple[int, ...], budget: Budget) -> Comparison:
    """Split the images, train the network and fit the evaluator; seeds vary only the explainers."""
    train, test = mnist(digits, split="train", progress=False), mnist(digits, split="test", progress=False)
    X = train.X[np.random.default_rng(0).permutation(len(train))][: budget.train_rows]
    shown = test.X[: budget.test_rows]
    return comparison.compare(
        "".join(map(str, digits)),
        digit_network(train, epochs=budget.model_steps),
        X,
        lambda images: Patches(SIZE).fit(images),
        shares=SHARES,
        k=K,
        classes=len(digits),
        budget=budget,
        test=shown,
        labels=test.y[: len(shown)],
        examples=example_rows(len(shown)),
        options=OPTIONS,
        about={"patch": SIZE},
    )


def example_rows(n: int) -> Array:
    """Return the rows of ten random test images, the same for every method."""
    return np.sort(np.random.default_rng(2018).choice(min(n, 100), min(n, EXAMPLES), replace=False))


def digits_name(digits: Sequence[int]) -> str:
    """Return the name of a problem."""
    return "all ten digits" if len(digits) == 10 else " versus ".join(map(str, digits))


# 0.958 is in the paper's Table 3; the others are in comments of its LaTeX source.
PRINTED = {"paper": 0.958, "taylor": 0.941, "saliency": 0.759, "kernel_shap": 0.631, "lime": 0.581}
PRINTED_VMI = {"paper": 0.564, "taylor": 0.524, "saliency": 0.098, "kernel_shap": 0.029, "lime": 0.013}
SHOWN = ("l2x", "l2x-told", "paper", "taylor", "search")
NOUNS = {"inputs": "images", "features": "patches"}


def report(records: Records) -> Report:
    """Return the page: for each problem a table, a figure and examples."""
    page = Report(
        "mnist",
        title="Which four patches made it a 3?",
        subtitle="Section 4.3 of Learning to Explain: MNIST, k = 4 of 49 patches of 4 x 4 pixels",
    )
    problems = [Page(group, **NOUNS) for group in records.groups(digits=PROBLEMS)]
    facts = []
    for problem in problems:
        if "l2x" in problem.groups:
            name = digits_name(problem.records[0]["digits"])
            facts.append((problem.percent("l2x"), f"post-hoc accuracy with 4 of 49 patches: {name}"))
            facts.append((problem.percent("l2x", "judge_accuracy"), "accuracy of an independent evaluator"))
    page.add("", introduction(records, masked="black", about=" of 3 and 8", **NOUNS), facts=facts)
    for problem in problems:
        _add_problem(page, problem)
    return page


def _add_problem(page: Report, problem: Page) -> None:
    digits = problem.records[0]["digits"]
    name, tag = digits_name(digits), "".join(map(str, digits))
    figure = problem.figure(title=f"Accuracy with four patches: {name}", chance=1 / len(digits))
    page.add(
        name[0].upper() + name[1:],
        [_about(problem)],
        table=problem.table(*(PRINTED, PRINTED_VMI) if digits == THREE_EIGHT else ({}, {})),
        figures={f"accuracy-{tag}": figure},
        caption=problem.caption(),
    )
    examples = with_examples(problem.records, SHOWN)
    figures = {f"examples-{tag}-{record['method']}": example_figure(record) for record in examples}
    page.add(f"What was selected: {name}", figures=figures)


def example_figure(record: Record) -> Figure:
    """Draw the paper's figure from the selections in a record."""
    data = mnist(tuple(record["digits"]), split="test", progress=False)
    view = Patches(record["patch"]).fit(data.X[:1])
    title = f"{LABELS[record['method']]}: {digits_name(record['digits'])}"
    return plot_images(selection(record, view, data.X[record["example_rows"]]), title=title)


def _about(problem: Page) -> str:
    return (
        f"The model is right on {100 * problem.records[0]['model_accuracy']:.2f} % of the test images. "
        "Taylor, DeepLIFT, LIME and Kernel SHAP rank patches by their effect for the predicted class, and so "
        "does the search: these methods are prediction-aware. l2x is prediction-aware only where the table "
        "says so, the paper's L2X never. The absolute versions rank by the size of the effect, for or "
        "against the class. LIME and Kernel SHAP need a thousand queries or more per image, so they explain "
        "fewer images."
    )
