"""Section 4.2: ten key words explain a word network, one key sentence explains a hierarchical LSTM.

Both networks are trained on the 25,000 training reviews and explained on the 25,000 test reviews; see
comparison.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np
from sklearn.base import clone

from l2x._base.arrays import Array
from l2x.baselines import KernelShap, Lime
from l2x.datasets import TextData, glove, imdb
from l2x.features import Sentences, TextView, Words
from l2x.learning import Options
from l2x.model import as_black_box, query
from l2x_experiments import comparison
from l2x_experiments.black_boxes.reviews import Problem, review_network
from l2x_experiments.comparison import Comparison
from l2x_experiments.contenders import Cost
from l2x_experiments.runner import Experiment
from l2x_experiments.setting import Budget

K: dict[Problem, int] = {"words": 10, "sentences": 1}
VIEWS: dict[Problem, type[TextView]] = {"words": Words, "sentences": Sentences}
# The judge of words is another kind of network than our surrogate: it reads neighbours together.
JUDGES: dict[Problem, Options] = {"words": {"pooling": "window"}, "sentences": {}}
WITHOUT = ("deeplift", "deeplift-absolute", "lime-absolute", "kernel_shap-absolute")
# Of the training reviews: for explainers, and for the judge.
SHARES = (0.72, 0.2)
# Short test reviews whose selections are kept for the page: this many of each truth with each answer.
EXAMPLES, SHORT = 2, 900
# First test reviews whose selections are kept for `l2x reproduce human`: the paper asked people about 500.
ITEMS = 500
# Test reviews that contenders explain, and training reviews, where one takes a gradient or many answers; VMI
# needs a thousand of the latter.
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
    """The model, the judge, and the reviews in their parts; the same for every seed."""
    reviews = first_rows(imdb("train", progress=False), budget.train_rows)
    test = first_rows(imdb("test", progress=False), budget.test_rows)
    plain = VIEWS[problem](reads="ids").fit(reviews.texts)
    plain.set_params(vocabulary=plain.vocabulary_)  # whoever fits a copy of it keeps the network's ids
    view = clone(plain).set_params(vectors=glove(progress=False)).fit(reviews.texts)
    trained = review_network(
        problem,
        view,
        reviews.texts,
        reviews.y,
        epochs=budget.model_steps,
        vectors=lambda: view.vectors,
    )
    shown = view.check(test.texts)
    answers = query(as_black_box(trained.network, logits=True), view, shown).argmax(axis=1)
    setting = comparison.compare(
        problem,
        trained,
        reviews.texts,
        lambda _: view,
        judge_view=plain,
        judge_options=JUDGES[problem],
        shares=SHARES,
        k=K[problem],
        classes=2,
        budget=budget,
        about={},
        test=shown,
        labels=test.y,
        examples=example_rows(test, answers),
        items=ITEMS,
        # What no reader would call a reason is none: ours leaves stop words out, at some cost in bits.
        our_features=clone(view).set_params(stop_words="english") if problem == "words" else None,
        # Pretrained vectors shorten the paper's sentence task; its authors' code has none, and learns longer.
        paper_features=view if problem == "sentences" else plain,
        letter_features=plain,
    )
    if budget == FULL:
        setting.limits = {**setting.limits, **ROWS[problem]}
    if problem == "sentences":
        setting.options = {method.name: {"samples": SENTENCE_SUBSETS} for method in (Lime, KernelShap)}
    return setting


def example_rows(test: TextData, answers: Array) -> Array:
    """The first short reviews of each truth with each answer of the model, the same for every method."""
    short = np.array([len(text) <= SHORT for text in test.texts])
    pairs = [(truth, answer) for truth in (1, 0) for answer in (1, 0)]
    found = [
        np.flatnonzero(short & (test.y == truth) & (answers == answer))[:EXAMPLES] for truth, answer in pairs
    ]
    return np.concatenate(found)


def first_rows(data: TextData, n: int | None) -> TextData:
    return TextData(data.texts[:n], data.y[:n], data.classes)
