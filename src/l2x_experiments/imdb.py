"""Section 4.2: ten key words explain a word network, one key sentence explains a hierarchical LSTM.

Both networks are trained on the 25,000 training reviews and explained on the 25,000 test reviews; see
comparison.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from l2x.blackbox import as_black_box
from l2x.data import ask
from l2x.datasets.glove import glove
from l2x.datasets.imdb import TextData, imdb
from l2x.features.sentences import Sentences
from l2x.features.texts import TextView
from l2x.features.words import Words
from l2x.foundations.arrays import Array
from l2x_experiments.black_boxes.reviews import Problem, network_key, review_network
from l2x_experiments.budget import Budget
from l2x_experiments.comparison import OURS, Comparison, cached_judge, jobs, measure_all, with_chosen
from l2x_experiments.contenders import Cost
from l2x_experiments.runner import Experiment, only_methods

K: dict[Problem, int] = {"words": 10, "sentences": 1}
VIEWS: dict[Problem, type[TextView]] = {"words": Words, "sentences": Sentences}
METHODS = ("search", *OURS, "paper", "taylor", "lime", "kernel_shap", "saliency", "taylor-absolute", "random")
SEEDED = (*OURS, "paper", "random")
# Training reviews for explainers and for the judge; the rest decides which of our recipes is called l2x.
FOR_EXPLAINERS, FOR_JUDGE = 0.72, 0.2
# Short test reviews whose selections are kept for the page: this many of each truth with each answer.
EXAMPLES, SHORT = 2, 900
# Gradients through the LSTMs are ten times slower than their answers, and so are answers than the word
# network's: fewer reviews for what needs many of them.
LSTM_GRADIENTS, LSTM_SLOWER = (4000, 2000), 10

FULL = Budget(train_rows=25_000, test_rows=25_000, search_rows=100, sampling_rows=200, model_steps=3)
QUICK = Budget(
    train_rows=3000, test_rows=300, search_rows=10, sampling_rows=3, model_steps=2,
    value_steps=60, selector_steps=60, paper_steps=60,
)  # fmt: skip


def experiment(
    problem: Problem, *, quick: bool = False, seeds: int = 3, only: Sequence[str] | None = None
) -> Experiment:
    budget = QUICK if quick else FULL
    return Experiment(
        f"imdb-{problem}",
        only_methods(jobs("problem", [problem], METHODS, SEEDED, seeds), only),
        partial(measure_all, set_up=partial(reviews_setting, budget=budget), problem="problem"),
        fetch=partial(fetch, problem),
        prepare=[partial(reviews_setting, problem, budget=budget)],
        derive=partial(with_chosen, problem="problem"),
    )


def fetch(problem: Problem, progress: bool) -> None:
    imdb("train", progress=progress)
    if problem == "sentences":
        glove(progress=progress)


@lru_cache(maxsize=1)
def reviews_setting(problem: Problem, budget: Budget) -> Comparison:
    """The model, the judge, and the reviews in their parts; the same for every seed."""
    reviews = first_rows(imdb("train", progress=False), budget.train_rows)
    test = first_rows(imdb("test", progress=False), budget.test_rows)
    view = VIEWS[problem](reads="ids").fit(reviews.texts)
    view.set_params(vocabulary=view.vocabulary_)  # whoever fits a copy of it keeps the network's ids
    epochs, plans = budget.model_steps, budget.plans(view)
    network = review_network(
        problem, view, reviews.texts, reviews.y, epochs=epochs, vectors=partial(glove, progress=False)
    )
    black_box = as_black_box(network, logits=True)
    first = round(FOR_EXPLAINERS * len(reviews))
    second = first + round(FOR_JUDGE * len(reviews))
    model_key = network_key(problem, reviews.texts, reviews.y, epochs=epochs)
    judge = cached_judge(
        problem,
        {"model": model_key, "rows": [first, second]},
        black_box,
        view,
        reviews.texts[first:second],
        k=K[problem],
        classes=2,
        plan=plans.ours,
    )
    answers = ask(black_box, view, view.check(test.texts), progress=False).argmax(axis=1)
    return Comparison(
        black_box=black_box,
        k=K[problem],
        train=view.check(reviews.texts[:first]),
        validation=view.check(reviews.texts[second:]),
        test=view.check(test.texts),
        labels=test.y,
        plans=plans,
        features=view,
        model=network,
        judge=judge,
        signed=True,
        examples=example_rows(test, answers),
        limits=row_limits(problem, budget),
    )


def row_limits(problem: Problem, budget: Budget) -> dict[Cost, tuple[int, int]]:
    """On how many reviews slow contenders are measured; all in the words' problem have fast gradients."""
    search, few = budget.search_rows, budget.sampling_rows
    if problem == "words":
        return {"search": (search, search), "sampling": (few, few)}
    few = max(2, few // LSTM_SLOWER)
    return {"search": (search, search), "sampling": (few, few), "gradient": LSTM_GRADIENTS}


def example_rows(test: TextData, answers: Array) -> Array:
    """The first short reviews of each truth with each answer of the model, the same for every method."""
    short = np.array([len(text) <= SHORT for text in test.texts])
    pairs = [(truth, answer) for truth in (1, 0) for answer in (1, 0)]
    found: list[Any] = [
        np.flatnonzero(short & (test.y == truth) & (answers == answer))[:EXAMPLES] for truth, answer in pairs
    ]
    return np.concatenate(found)


def first_rows(data: TextData, n: int | None) -> TextData:
    return TextData(data.texts[:n], data.y[:n], data.classes)
