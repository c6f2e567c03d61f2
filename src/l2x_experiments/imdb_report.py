"""Table, figure and page from results/imdb-words.json or imdb-sentences.json: what the records say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from l2x.datasets.imdb import imdb
from l2x.plots.report import SafeHtml, Section, write_report
from l2x.plots.texts import verdict_table
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
from l2x_experiments.imdb import VIEWS, Problem
from l2x_experiments.results import Record

# In the paper's Table 3 and, for the methods it is compared with, in comments of its source.
PRINTED: dict[Problem, dict[str, float]] = {
    "words": {"paper": 0.908},
    "sentences": {"paper": 0.849, "taylor": 0.818, "saliency": 0.621, "kernel_shap": 0.659, "lime": 0.736},
}
TITLES: dict[Problem, str] = {"words": "Which ten words decided?", "sentences": "Which sentence decided?"}
KEPT: dict[Problem, str] = {"words": "ten words", "sentences": "one sentence"}
SHOWN = ("l2x", "paper", "taylor")


def write(records: Sequence[Record], problem: Problem, folder: Path) -> Path:
    """A figure (SVG and PNG) and one self-contained page into `folder`."""
    figure = fidelity_figure(
        records,
        title=f"How much of the model's answer {KEPT[problem]} keep{'s' if problem == 'sentences' else ''}",
        chance=0.5,
        inputs="reviews",
        features=problem,
    )
    save(figure, folder / "figures" / f"imdb-{problem}")
    sections = [
        _introduction(records, problem),
        Section(
            "Every method",
            [_about(records, problem)],
            table=(COLUMNS, summary(records, PRINTED[problem])),
            figures=[figure],
            caption=caption(records, inputs="reviews", features=problem),
        ),
    ]
    for method in SHOWN:
        if some := [r for r in records if r["method"] == method and r["examples"]]:
            sections.append(_examples(some[0], problem))
    return write_report(
        folder / f"imdb-{problem}.html",
        title=TITLES[problem],
        subtitle=f"Section 4.2 of Learning to Explain: IMDB, k = {records[0]['k']}",
        sections=sections,
    )


def _introduction(records: Sequence[Record], problem: Problem) -> Section:
    first, facts = records[0], []
    for method, label in (("l2x", "ours"), ("paper", "the paper's recipe")):
        if some := by_method(records).get(method):
            share = np.mean([r["posthoc_accuracy"] for r in some])
            facts.append((f"{100 * share:.1f} %", f"same answer with {KEPT[problem]}: {label}"))
    return Section(
        "",
        [
            "Post-hoc accuracy is the share of test reviews for which the model, shown only the selected "
            f"{problem} and padding elsewhere, gives the answer that it gives for the whole review. "
            "Selections can reach it by making the model say the right thing without being why: the search "
            "per review, which is told the answer, shows how far that goes. Therefore an independent judge "
            "stands beside it, a network fitted on random subsets of reviews that no explainer saw.",
            f"Explainers learned from {first['train_rows']:,} of the training reviews, the judge from "
            "others, and a third part chose between our recipes; nothing was chosen on test reviews. "
            + measured_on(first),
        ],
        facts=facts,
    )


def _about(records: Sequence[Record], problem: Problem) -> str:
    network = "word network" if problem == "words" else "hierarchical LSTM"
    return (
        f"The {network} is right on {100 * records[0]['model_accuracy']:.2f} % of the test reviews. "
        f"{chosen_recipe(records, inputs='reviews')} Taylor, LIME and Kernel SHAP rank {problem} by how much "
        "they speak for the class that the model predicted, as the search does: they are told the answer, "
        "and L2X is not. Taylor, absolute, ranks by how much they speak for or against it."
    )


def _examples(record: Record, problem: Problem) -> Section:
    """The paper's table: truth, the model's answer, and the review with what was selected."""
    data, rows = imdb("test", progress=False), record["example_rows"]
    texts = [data.texts[row] for row in rows]
    view = VIEWS[problem]().fit(texts)
    table = verdict_table(
        selection(record, view, view.check(texts)),
        truth=data.y[rows].tolist(),
        predicted=record["example_answers"],
        rows=range(len(rows)),
        classes=data.classes,
    )
    return Section(f"What was selected: {NAMES[record['method']]}", html=SafeHtml(table))
