"""The report of results/imdb-words.json or imdb-sentences.json; draws only what the records say."""

from __future__ import annotations

import numpy as np

from l2x.datasets import imdb
from l2x.display import SafeHtml, verdict_table
from l2x.evaluation import filler
from l2x_experiments.black_boxes.reviews import Problem
from l2x_experiments.comparison_report import Methods, introduction, selection, with_examples
from l2x_experiments.contenders import LABELS
from l2x_experiments.imdb import VIEWS
from l2x_experiments.records import Record, Records
from l2x_experiments.report import Report
from l2x_experiments.tables import Table, name_of

# In the paper's Table 3 and, for the methods it is compared with, in comments of its source.
PRINTED: dict[Problem, dict[str, float]] = {
    "words": {"paper": 0.908},
    "sentences": {"paper": 0.849, "taylor": 0.818, "saliency": 0.621, "kernel_shap": 0.659, "lime": 0.736},
}
# In comments of its source, all of them.
PRINTED_VMI: dict[Problem, dict[str, float]] = {
    "words": {"paper": 0.222},
    "sentences": {
        "paper": 0.287, "taylor": 0.1022, "saliency": 0.0984, "kernel_shap": 0.0120, "lime": 0.1465
    },
}  # fmt: skip
TITLES: dict[Problem, str] = {"words": "Which ten words decided?", "sentences": "Which sentence decided?"}
KEPT: dict[Problem, str] = {"words": "ten words", "sentences": "one sentence"}
NETWORKS: dict[Problem, str] = {"words": "word network", "sentences": "hierarchical LSTM"}
_ABOUT_WORDS = (
    "Of each method's first seed, frequent ones first. Filler: how many of them are in scikit-learn's list "
    "of English stop words, without no and not; the mean over seeds. Ours has Words(stop_words='english'), "
    "which never selects those; the other methods may select any word."
)
OWN = (("l2x-told", "ours, told the answer"), ("l2x", "ours"), ("paper", "the paper's recipe"))
SHOWN = ("l2x-told", "l2x", "paper", "taylor")


def report(records: Records) -> Report:
    problem: Problem = records[0]["problem"]
    methods = Methods(records, inputs="reviews", features=problem)
    page = Report(
        f"imdb-{problem}",
        title=TITLES[problem],
        subtitle=f"Section 4.2 of Learning to Explain: IMDB, k = {records[0]['k']}",
    )
    facts = [
        (methods.percent(method), f"same answer with {KEPT[problem]}: {whose}")
        for method, whose in OWN
        if method in methods.groups
    ]
    text = introduction(records, inputs="reviews", features=problem, removed="padding")
    page.add("", text, facts=facts)
    verb = "keeps" if problem == "sentences" else "keep"
    figure = methods.figure(title=f"How much of the model's answer {KEPT[problem]} {verb}", chance=0.5)
    page.add(
        "Every method",
        [_about(methods, problem)],
        table=methods.table(PRINTED[problem], PRINTED_VMI[problem]),
        figures={"": figure},
        caption=methods.caption(),
    )
    if words := words_table(methods):
        page.add("The words selected most often", [_ABOUT_WORDS], table=words)
    for record in with_examples(records, SHOWN):
        heading = f"What was selected: {LABELS[record['method']]}"
        page.add(heading, html=SafeHtml(example_table(record, problem)))
    return page


def words_table(methods: Methods) -> Table | None:
    """The words that each contender selected most often, and how many of them are filler; None where no
    record tells."""
    groups = [
        told
        for group in methods.groups.values()
        if (told := Records(r for r in group if r.get("common_words")))
    ]
    if not groups:
        return None
    return Table.of(
        groups,
        {
            "method": name_of("method", LABELS),
            "filler": lambda group: f"{np.mean([len(filler(r['common_words'])) for r in group]):.3g}",
            "most often": lambda group: ", ".join(group[0]["common_words"]),
        },
    )


def _about(methods: Methods, problem: Problem) -> str:
    return (
        f"The {NETWORKS[problem]} is right on {100 * methods.records[0]['model_accuracy']:.2f} % of the test "
        f"reviews. Taylor, LIME and Kernel SHAP rank {problem} by how much they speak for "
        "the class that the model predicted, as the search does: they are told the answer, "
        "and L2X only where the table says so. "
        "Taylor, absolute, ranks by how much they speak for or against it."
    )


def example_table(record: Record, problem: Problem) -> str:
    """The paper's table: truth, the model's answer, and the review with what was selected."""
    data, rows = imdb("test", progress=False), record["example_rows"]
    texts = [data.texts[row] for row in rows]
    view = VIEWS[problem]().fit(texts)
    return verdict_table(
        selection(record, view, view.check(texts)),
        truth=data.y[rows].tolist(),
        predicted=record["example_answers"],
        rows=range(len(rows)),
        classes=data.classes,
    )
