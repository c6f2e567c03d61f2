"""Section 4.2: ten key words explain a word network, one key sentence explains a hierarchical LSTM.

Both networks are trained on the 25,000 training reviews and explained on the 25,000 test reviews; see
comparison.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache, partial

import numpy as np
from sklearn.base import clone

from l2x._base.arrays import Array
from l2x.baselines import KernelShap, Lime
from l2x.datasets import LabelledData, glove, imdb
from l2x.display import SafeHtml, verdict_table
from l2x.features import FILLER, Sentences, TextView, Words
from l2x.learning import Options
from l2x.model import as_black_box, query
from l2x_experiments import comparison
from l2x_experiments.black_boxes import Problem, review_network
from l2x_experiments.comparison import Comparison, Page, introduction, selection, with_examples
from l2x_experiments.methods import LABELS, Budget, Cost
from l2x_experiments.records import Record, Records
from l2x_experiments.report import Report, Table, name_of
from l2x_experiments.runner import Experiment

K: dict[Problem, int] = {"words": 10, "sentences": 1}
VIEWS: dict[Problem, type[TextView]] = {"words": Words, "sentences": Sentences}
# For words, the evaluator is another kind of network than our surrogate: it reads neighbours together.
EVALUATORS: dict[Problem, Options] = {"words": {"pooling": "window"}, "sentences": {}}
WITHOUT = ("deeplift", "deeplift-absolute", "lime-absolute", "kernel_shap-absolute")
# Shares of the training reviews: for explainers, and for the evaluator.
SHARES = (0.72, 0.2)
# The page shows this many short test reviews of each true class with each predicted class.
EXAMPLES, SHORT = 2, 900
# Records hold the selections in the first test reviews, for `l2x reproduce human`; the paper's study had 500.
ITEMS = 500
# Numbers of test and training reviews for methods that need a gradient or many queries; VMI needs a thousand
# training reviews.
ROWS: dict[Problem, dict[Cost, tuple[int, int]]] = {
    "words": {"search": (200, 1000), "sampling": (200, 1000)},
    "sentences": {"gradient": (4000, 2000), "search": (4000, 2000), "sampling": (4000, 2000)},
}
# A review has 15 sentences at most: 200 subsets of them are enough for LIME and Kernel SHAP.
SENTENCE_SUBSETS = 200

FULL = Budget(train_rows=25_000, test_rows=25_000, search_rows=100, sampling_rows=200, model_steps=3)
QUICK = Budget(
    train_rows=3000, test_rows=300, search_rows=10, sampling_rows=3, model_steps=2,
    value_steps=60, selector_steps=60, paper_steps=60,
)  # fmt: skip


def experiment(
    problem: Problem, *, quick: bool = False, seeds: int = 3, only: Sequence[str] | None = None
) -> Experiment:
    """Return the jobs: every method on words, or on sentences."""

    def fetch(progress: bool) -> None:
        imdb("train", progress=progress)
        glove(progress=progress)

    budget = QUICK if quick else FULL
    return comparison.experiment(
        f"imdb-{problem}",
        "problem",
        [problem],
        partial(set_up, budget=budget),
        seeds=seeds,
        only=only,
        without=WITHOUT,
        fetch=fetch,
    )


@lru_cache(maxsize=1)
def set_up(problem: Problem, budget: Budget) -> Comparison:
    """Train the model, fit the evaluator and split the reviews; the same for every seed."""
    reviews = first_rows(imdb("train", progress=False), budget.train_rows)
    test = first_rows(imdb("test", progress=False), budget.test_rows)
    plain = VIEWS[problem](reads="ids").fit(reviews.X)
    plain.set_params(vocabulary=plain.vocabulary_)  # a fitted copy keeps the network's ids
    view = clone(plain).set_params(vectors=glove(progress=False)).fit(reviews.X)
    trained = review_network(
        problem,
        view,
        reviews.X,
        reviews.y,
        epochs=budget.model_steps,
        vectors=lambda: view.vectors,
    )
    shown = view.check(test.X)
    predictions = query(as_black_box(trained.network, logits=True), view, shown).argmax(axis=1)
    setting = comparison.compare(
        problem,
        trained,
        reviews.X,
        lambda _: view,
        evaluator_view=plain,
        evaluator_options=EVALUATORS[problem],
        shares=SHARES,
        k=K[problem],
        classes=2,
        budget=budget,
        about={},
        test=shown,
        labels=test.y,
        examples=example_rows(test, predictions),
        items=ITEMS,
        # No reader accepts a stop word as a reason: l2x never selects them, at some cost in bits.
        our_features=clone(view).set_params(stop_words="english") if problem == "words" else None,
        # Pretrained vectors shorten the paper's sentence task; the released code has none, and trains longer.
        released_features=view if problem == "sentences" else plain,
        published_features=plain,
    )
    if budget == FULL:
        setting.limits = {**setting.limits, **ROWS[problem]}
    if problem == "sentences":
        setting.options = {method.name: {"samples": SENTENCE_SUBSETS} for method in (Lime, KernelShap)}
    return setting


def example_rows(test: LabelledData, predictions: Array) -> Array:
    """Return the first short reviews of each true class with each predicted class."""
    short = np.array([len(text) <= SHORT for text in test.X])
    pairs = [(truth, predicted) for truth in (1, 0) for predicted in (1, 0)]
    rows = [
        np.flatnonzero(short & (test.y == truth) & (predictions == predicted))[:EXAMPLES]
        for truth, predicted in pairs
    ]
    return np.concatenate(rows)


def first_rows(data: LabelledData, n: int | None) -> LabelledData:
    """Return the first n reviews, or all of them."""
    return LabelledData(data.X[:n], data.y[:n], data.classes)


# In the paper's Table 3 and, for the methods it is compared with, in comments of its LaTeX source.
PRINTED: dict[Problem, dict[str, float]] = {
    "words": {"paper": 0.908},
    "sentences": {"paper": 0.849, "taylor": 0.818, "saliency": 0.621, "kernel_shap": 0.659, "lime": 0.736},
}
# All of them in comments of its LaTeX source.
PRINTED_VMI: dict[Problem, dict[str, float]] = {
    "words": {"paper": 0.222},
    "sentences": {
        "paper": 0.287, "taylor": 0.1022, "saliency": 0.0984, "kernel_shap": 0.0120, "lime": 0.1465
    },
}  # fmt: skip
TITLES: dict[Problem, str] = {"words": "Which ten words decided?", "sentences": "Which sentence decided?"}
SELECTED: dict[Problem, str] = {"words": "ten words", "sentences": "one sentence"}
NETWORKS: dict[Problem, str] = {"words": "word network", "sentences": "hierarchical LSTM"}
_ABOUT_WORDS = (
    "For each method's first seed, frequent words first. Filler: how many of them are in scikit-learn's list "
    "of English stop words, without no and not; mean over seeds. l2x is configured with "
    "Words(stop_words='english'), which never selects those; the other methods may select any word."
)
OWN = ("l2x-told", "l2x", "paper")
SHOWN = (*OWN, "taylor")


def report(records: Records) -> Report:
    """Return the page: a table, a figure, frequent words and examples."""
    problem: Problem = records[0]["problem"]
    methods = Page(records, inputs="reviews", features=problem)
    page = Report(
        f"imdb-{problem}",
        title=TITLES[problem],
        subtitle=f"Section 4.2 of Learning to Explain: IMDB, k = {records[0]['k']}",
    )
    facts = [
        (methods.percent(method), f"post-hoc accuracy with {SELECTED[problem]}: {LABELS[method]}")
        for method in OWN
        if method in methods.groups
    ]
    text = introduction(records, inputs="reviews", features=problem, masked="padding")
    page.add("", text, facts=facts)
    page.add(
        "Every method",
        [_about(methods, problem)],
        table=methods.table(PRINTED[problem], PRINTED_VMI[problem]),
        figures={"": methods.figure(title=f"Accuracy with {SELECTED[problem]}", chance=0.5)},
        caption=methods.caption(),
    )
    if words := words_table(methods):
        page.add("The words selected most often", [_ABOUT_WORDS], table=words)
    for record in with_examples(records, SHOWN):
        heading = f"What was selected: {LABELS[record['method']]}"
        page.add(heading, html=SafeHtml(example_table(record, problem)))
    return page


def filler(words: Iterable[str]) -> int:
    """Return the number of words that are no reasons: English stop words, except "no" and "not"."""
    return sum(word.lower() in FILLER for word in words)


def words_table(methods: Page) -> Table | None:
    """Return the words that each method selected most often, or None if no record holds any."""
    groups = [
        with_words
        for group in methods.groups.values()
        if (with_words := Records(r for r in group if r.get("common_words")))
    ]
    if not groups:
        return None
    return Table.of(
        groups,
        {
            "method": name_of("method", LABELS),
            "filler": lambda group: f"{np.mean([filler(r['common_words']) for r in group]):.3g}",
            "most often": lambda group: ", ".join(group[0]["common_words"]),
        },
    )


def _about(methods: Page, problem: Problem) -> str:
    return (
        f"The {NETWORKS[problem]} is right on {100 * methods.records[0]['model_accuracy']:.2f} % of the test "
        f"reviews. Taylor, LIME and Kernel SHAP rank {problem} by their effect for the predicted class, and "
        "so does the search: these methods are prediction-aware. l2x is prediction-aware only where the "
        "table says so, the paper's L2X never. Taylor, absolute, ranks by the size of the effect, for or "
        "against the class."
    )


def example_table(record: Record, problem: Problem) -> str:
    """Return the paper's table: true class, predicted class, and the review with the selected features."""
    data, rows = imdb("test", progress=False), record["example_rows"]
    texts = [data.X[row] for row in rows]
    view = VIEWS[problem]().fit(texts)
    return verdict_table(
        selection(record, view, view.check(texts)),
        truth=data.y[rows].tolist(),
        predicted=record["example_answers"],
        rows=range(len(rows)),
        classes=data.classes,
    )
