"""Section 4.2: ten key words explain a word network, one key sentence explains a hierarchical LSTM.

Both networks are trained on the 25,000 training reviews and explained on the 25,000 test reviews. The
training reviews are split for explainers, for the judge, and for choosing between our recipes (bench.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

import l2x
from l2x import baselines
from l2x.blackbox import as_black_box
from l2x.data import ask
from l2x.datasets.glove import glove
from l2x.datasets.imdb import TextData, imdb
from l2x.features.sentences import Sentences
from l2x.features.texts import TextView
from l2x.features.words import Words
from l2x.foundations.arrays import Array
from l2x_experiments.bench import (
    Bench,
    Method,
    chosen_tasks,
    judge_of,
    measure,
    plain,
    remembered,
    run_tasks,
    scaled,
)
from l2x_experiments.results import Record
from l2x_experiments.reviews import SentenceNetwork, WordNetwork, train

Problem = Literal["words", "sentences"]

K: dict[Problem, int] = {"words": 10, "sentences": 1}
VIEWS: dict[Problem, type[TextView]] = {"words": Words, "sentences": Sentences}
# Methods that depend on a seed, and those that learn nothing: measured with the first seed only.
LEARNED = ("l2x-model", "l2x-surrogate", "paper", "random")
FIXED = ("kernel_shap", "lime", "search", "saliency", "taylor", "taylor-absolute")
# Training reviews for explainers and for the judge; what is left decides which of our recipes is called l2x.
FOR_EXPLAINERS, FOR_JUDGE = 0.72, 0.2
# Short test reviews whose selections are kept for the page: so many of each truth with each answer.
EXAMPLES, SHORT = 2, 900


@dataclass(frozen=True)
class Scale:
    """How much work a run does."""

    steps: int | None = None  # of every network; None: as the view has it
    train_rows: int = 25_000
    test_rows: int = 25_000
    some_rows: int = 100  # for the search: k times as many questions as a review has words
    slow_rows: int = 200  # for LIME and Kernel SHAP, thousands of questions a review
    lstm_rows: int = 4000  # for gradients through the LSTMs, ten times slower than their answers
    epochs: int = 3

    @classmethod
    def quick(cls) -> Scale:
        return cls(steps=60, train_rows=3000, test_rows=300, some_rows=10, slow_rows=3, epochs=2)


@dataclass(frozen=True)
class Task:
    """One method on one problem."""

    problem: Problem
    seed: int
    method: str

    @property
    def label(self) -> str:
        return f"{self.problem}, {self.method}, seed {self.seed}"

    @property
    def key(self) -> dict[str, Any]:
        return {"problem": self.problem, "seed": self.seed, "method": self.method}


@lru_cache(maxsize=1)
def set_up(problem: Problem, scale: Scale) -> Bench:
    """The model, the judge, and the reviews in their parts; the same for every seed."""
    reviews, test = some(imdb("train", progress=False), scale.train_rows), imdb("test", progress=False)
    test = some(test, scale.test_rows)
    view = VIEWS[problem](reads="ids").fit(reviews.texts)
    view.set_params(vocabulary=view.vocabulary_)  # whoever fits a copy of it keeps the network's ids
    network = review_network(problem, view, reviews, scale)
    black_box = as_black_box(network, logits=True)
    first = round(FOR_EXPLAINERS * len(reviews))
    second = first + round(FOR_JUDGE * len(reviews))
    plan, for_judge = scaled(view.recipes.ours.plan, scale.steps), reviews.texts[first:second]
    judge = judge_of(
        problem,
        f"{scale.epochs} {plan} {fingerprint(reviews.texts)} {first} {second}",
        black_box,
        view,
        for_judge,
        k=K[problem],
        classes=2,
        plan=plan,
    )
    answers = ask(black_box, view, view.check(test.texts), progress=False).argmax(axis=1)
    return Bench(
        k=K[problem],
        train=view.check(reviews.texts[:first]),
        validation=view.check(reviews.texts[second:]),
        test=view.check(test.texts),
        labels=test.y,
        network=network,
        black_box=black_box,
        view=view,
        judge=judge,
        examples=example_rows(test, answers),
    )


def example_rows(test: TextData, answers: Array) -> Array:
    """The first short reviews of each truth with each answer of the model, the same for every method."""
    short = np.array([len(text) <= SHORT for text in test.texts])
    pairs = [(truth, answer) for truth in (1, 0) for answer in (1, 0)]
    found = [
        np.flatnonzero(short & (test.y == truth) & (answers == answer))[:EXAMPLES] for truth, answer in pairs
    ]
    return np.concatenate(found)


def some(data: TextData, n: int) -> TextData:
    return TextData(data.texts[:n], data.y[:n], data.classes)


def review_network(problem: Problem, view: TextView, reviews: TextData, scale: Scale) -> nn.Module:
    """The network that is explained, trained now or taken from the cache."""
    told = f"{scale.epochs} {fingerprint(reviews.texts)}"
    vocabulary = view.vocabulary_
    with torch.random.fork_rng():
        torch.manual_seed(0)  # of the first weights
        network = WordNetwork(len(vocabulary)) if problem == "words" else SentenceNetwork(len(vocabulary))

    def trained() -> nn.Module:
        if isinstance(network, SentenceNetwork):
            network.embedding.weight.data[2:] = pretrained(vocabulary)[2:]
        rate = 1e-3 if problem == "words" else 2e-3
        label = f"network of {problem}"
        return train(
            network,
            view.ids(reviews.texts),
            torch.from_numpy(reviews.y),
            epochs=scale.epochs,
            rate=rate,
            label=label,
        )

    return remembered(f"reviews-{problem}", told, network, trained)


def pretrained(vocabulary: Sequence[str]) -> Tensor:
    """GloVe's vectors for a vocabulary; small random ones for words that it does not have."""
    words, vectors = glove(progress=False)
    place = {word: i for i, word in enumerate(words)}
    found = torch.randn(len(vocabulary), vectors.shape[1], generator=torch.Generator().manual_seed(0)) * 0.1
    for i, word in enumerate(vocabulary):
        if word in place:
            found[i] = torch.from_numpy(vectors[place[word]])
    return found


def fingerprint(texts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode())
    return digest.hexdigest()


def methods(bench: Bench, seed: int, scale: Scale) -> dict[str, Method]:
    """Every method of the paper's comparison, our recipes, chance and the search."""
    view, black_box, k = bench.view, bench.black_box, bench.k

    def learn(explainer: l2x.Explainer) -> Callable[[], Any]:
        return lambda: explainer.fit(bench.train).explain

    def ours(value: Any) -> l2x.Explainer:
        sampler = l2x.sampling.ExactSum() if k == 1 else None
        plan = scaled(view.recipes.ours.plan, scale.steps)
        return l2x.Explainer(
            black_box, k, features=view, value=value, sampler=sampler, training=plan, seed=seed
        )

    plan = scaled(view.recipes.paper.plan, scale.steps)
    paper = l2x.Explainer.paper(black_box, k, features=view, training=plan, seed=seed)
    of_words = isinstance(bench.network, WordNetwork)
    # Both methods ask thousands of times per review, which the LSTMs answer ten times more slowly.
    few = scale.slow_rows if of_words else max(2, scale.slow_rows // 10)
    many = scale.some_rows

    def taylor(*, magnitude: bool) -> Any:
        return baselines.Taylor(bench.network, features=view, magnitude=magnitude)

    def gradient(method: Any) -> Method:
        if of_words:
            return Method(plain(method, k))
        return Method(plain(method, k), scale.lstm_rows, mask_rows=2000)

    lime = baselines.Lime(black_box, features=view, magnitude=False, progress=False)
    shap = baselines.KernelShap(black_box, features=view, magnitude=False, progress=False)
    search = baselines.GreedySearch(black_box, features=view, progress=False)
    return {
        "l2x-model": Method(learn(ours("model"))),
        "l2x-surrogate": Method(learn(ours("surrogate"))),
        "paper": Method(learn(paper)),
        "random": Method(plain(baselines.RandomK(features=view, seed=seed), k)),
        "taylor": gradient(taylor(magnitude=False)),
        "taylor-absolute": gradient(taylor(magnitude=True)),
        "saliency": gradient(baselines.Saliency(bench.network, features=view)),
        "lime": Method(plain(lime, k), few, few),
        "kernel_shap": Method(plain(shap, k), few, few),
        "search": Method(plain(search, k), many, many),
    }


def run_task(task: Task, scale: Scale, threads: int) -> Record:
    """One method on one problem; runs in a process of its own."""
    torch.set_num_threads(threads)
    bench = set_up(task.problem, scale)
    method = methods(bench, task.seed, scale)[task.method]
    return task.key | measure(bench, method, task.method)


def prepare(problem: Problem, scale: Scale, threads: int) -> None:
    torch.set_num_threads(threads)
    set_up(problem, scale)


def tasks(problem: Problem, seeds: int, only: Sequence[str] | None = None) -> list[Task]:
    """Everything to run, the first seed first."""
    found = [
        Task(problem, seed, method)
        for seed in range(seeds)
        for method in (*LEARNED, *(FIXED if seed == 0 else ()))
    ]
    return chosen_tasks(found, only)


def run(
    output: Path,
    problem: Problem,
    *,
    quick: bool = False,
    seeds: int = 3,
    only: list[str] | None = None,
    jobs: int = 1,
    threads: int = 1,
    progress: bool = True,
) -> list[Record]:
    """Run what `output` does not hold yet, method by method, and return all its records."""
    scale = Scale.quick() if quick else Scale()
    imdb("train", progress=progress)  # fetched once, before the processes need them
    if problem == "sentences":
        glove(progress=progress)
    return run_tasks(
        output,
        tasks(problem, seeds, only),
        partial(run_task, scale=scale, threads=threads),
        first=[partial(prepare, problem, scale, threads)],
        problem="problem",
        label=f"IMDB, {problem}",
        jobs=jobs,
        progress=progress,
    )
