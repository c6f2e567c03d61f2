"""Section 4.3: four of 49 patches explain a digit; 3 against 8, and all ten digits (see bench.py)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import l2x
from l2x import baselines
from l2x.blackbox import as_black_box
from l2x.datasets.mnist import mnist
from l2x.features.patches import Patches
from l2x.foundations.arrays import Array
from l2x_experiments.bench import (
    OURS,
    Bench,
    Explain,
    Method,
    chosen_tasks,
    judge_of,
    measure,
    plain,
    run_tasks,
    scaled,
)
from l2x_experiments.digits import digit_network
from l2x_experiments.results import Record

K, SIZE = 4, 4
# Methods that depend on a seed, and those that learn nothing: measured with the first seed only.
LEARNED = (*OURS, "paper", "random")
FIXED = ("kernel_shap", "kernel_shap-absolute", "lime", "lime-absolute", "search", "saliency", "taylor",
         "taylor-absolute", "deeplift", "deeplift-absolute")  # fmt: skip
THREE_EIGHT, ALL_DIGITS = (3, 8), tuple(range(10))
# Of the search per image; the second and third let it take back what it chose first.
SEARCH_ROUNDS = 3
# Shares of the training images: explainers learn from the first, the judge from the second, and the third
# decides which of our recipes is called l2x.
FOR_EXPLAINERS, FOR_JUDGE = 2 / 3, 1 / 4
EXAMPLES = 10


@dataclass(frozen=True)
class Scale:
    """How much work a run does."""

    steps: int | None = None  # of every network; None: as the view has it
    train_rows: int | None = None  # None: all
    test_rows: int | None = None
    some_rows: int = 2000  # for the search, 588 questions to the model per image
    slow_rows: int = 200  # for LIME and Kernel SHAP, thousands of questions
    network_epochs: int = 8

    @classmethod
    def quick(cls) -> Scale:
        return cls(
            steps=200,
            train_rows=3000,
            test_rows=500,
            some_rows=100,
            slow_rows=5,
            network_epochs=4,
        )


@dataclass(frozen=True)
class Task:
    """One method on one problem."""

    digits: tuple[int, ...]
    seed: int
    method: str

    @property
    def label(self) -> str:
        return f"{digits_name(self.digits)}, {self.method}, seed {self.seed}"

    @property
    def key(self) -> dict[str, Any]:
        return {"digits": list(self.digits), "seed": self.seed, "method": self.method}


@lru_cache(maxsize=2)
def set_up(digits: tuple[int, ...], scale: Scale) -> Bench:
    """The same parts of the images for every seed: the seed is the explainers', not the data's."""
    train, test = mnist(digits, split="train", progress=False), mnist(digits, split="test", progress=False)
    network = digit_network(train, epochs=scale.network_epochs)
    black_box = as_black_box(network, logits=True)
    X = train.X[np.random.default_rng(0).permutation(len(train))][: scale.train_rows]
    first, second = round(FOR_EXPLAINERS * len(X)), round((FOR_EXPLAINERS + FOR_JUDGE) * len(X))
    plan, for_judge = scaled(Patches.recipes.ours.plan, scale.steps), X[first:second]
    judge = judge_of(
        "".join(map(str, digits)),
        f"{digits} {scale} {plan} {hashlib.sha256(for_judge.tobytes()).hexdigest()}",
        black_box,
        Patches(SIZE).fit(for_judge),
        for_judge,
        k=K,
        classes=len(digits),
        plan=plan,
    )
    return Bench(
        k=K,
        train=X[:first],
        validation=X[second:],
        test=test.X[: scale.test_rows],
        labels=test.y[: scale.test_rows],
        network=network,
        black_box=black_box,
        view=Patches(SIZE).fit(X[:first]),
        judge=judge,
        examples=example_rows(len(test.X[: scale.test_rows])),
    )


def learned_methods(bench: Bench, seed: int, scale: Scale) -> dict[str, Method]:
    """Those that depend on a seed."""
    black_box, X = bench.black_box, bench.train

    def ours(value: Any) -> Callable[[], Explain]:
        plan = scaled(Patches.recipes.ours.plan, scale.steps)
        explainer = l2x.Explainer(black_box, K, features=Patches(SIZE), value=value, training=plan, seed=seed)
        return lambda: explainer.fit(X).explain

    plan = scaled(Patches.recipes.paper.plan, scale.steps)
    paper = l2x.Explainer.paper(black_box, K, features=Patches(SIZE), training=plan, seed=seed)
    return {
        "l2x-model": Method(ours("model")),
        "l2x-surrogate": Method(ours("surrogate")),
        "paper": Method(lambda: paper.fit(X).explain),
        "random": Method(plain(baselines.RandomK(features=bench.view, seed=seed), K)),
    }


def fixed_methods(bench: Bench, scale: Scale) -> dict[str, Method]:
    """Those that learn nothing."""
    view, network, black_box = bench.view, bench.network, bench.black_box
    few, some = scale.slow_rows, scale.some_rows
    search = baselines.GreedySearch(black_box, features=view, rounds=SEARCH_ROUNDS, progress=False)
    found = {
        "saliency": Method(plain(baselines.Saliency(network, features=view), K)),
        "search": Method(plain(search, K), some, some),
    }
    # What speaks for the predicted class, as lime_image shows it by default, and what speaks at all.
    for ending, magnitude in (("", False), ("-absolute", True)):
        taylor = baselines.Taylor(network, features=view, magnitude=magnitude)
        deeplift = baselines.DeepLift(network, features=view, magnitude=magnitude)
        # 1,000 samples are lime_image's default.
        lime = baselines.Lime(black_box, features=view, samples=1000, magnitude=magnitude, progress=False)
        shap = baselines.KernelShap(black_box, features=view, magnitude=magnitude, progress=False)
        found |= {
            f"taylor{ending}": Method(plain(taylor, K)),
            f"deeplift{ending}": Method(plain(deeplift, K)),
            f"lime{ending}": Method(plain(lime, K), few, few),
            f"kernel_shap{ending}": Method(plain(shap, K), few, few),
        }
    return found


def example_rows(n: int) -> Array:
    """Ten test images at random, the same for every method."""
    return np.sort(np.random.default_rng(2018).choice(min(n, 100), min(n, EXAMPLES), replace=False))


def run_task(task: Task, scale: Scale, threads: int) -> Record:
    """One method on one problem; runs in a process of its own."""
    torch.set_num_threads(threads)
    bench = set_up(task.digits, scale)
    methods = learned_methods(bench, task.seed, scale) | fixed_methods(bench, scale)
    return task.key | {"patch": SIZE} | measure(bench, methods[task.method], task.method)


def prepare(digits: tuple[int, ...], scale: Scale, threads: int) -> None:
    """Train the model and fit the judge, before many processes want them at once."""
    torch.set_num_threads(threads)
    set_up(digits, scale)


def tasks(digits: Sequence[tuple[int, ...]], seeds: int, only: Sequence[str] | None) -> list[Task]:
    """Everything to run, the first seed first."""
    found = [
        Task(some, seed, method)
        for seed in range(seeds)
        for method in (*LEARNED, *(FIXED if seed == 0 else ()))
        for some in digits
    ]
    return chosen_tasks(found, only)


def run(
    output: Path,
    *,
    quick: bool = False,
    seeds: int = 3,
    digits: list[tuple[int, ...]] | None = None,
    only: list[str] | None = None,
    jobs: int = 1,
    threads: int = 1,
    progress: bool = True,
) -> list[Record]:
    """Run what `output` does not hold yet, method by method, and return all its records."""
    scale = Scale.quick() if quick else Scale()
    digits = digits or [THREE_EIGHT, ALL_DIGITS]
    mnist(None, progress=progress)  # fetched once, before the processes need it
    return run_tasks(
        output,
        tasks(digits, seeds, only),
        partial(run_task, scale=scale, threads=threads),
        first=[partial(prepare, some, scale, threads) for some in digits],
        problem="digits",
        label="MNIST",
        jobs=jobs,
        progress=progress,
    )


def digits_name(digits: tuple[int, ...]) -> str:
    return "all ten digits" if len(digits) == 10 else " against ".join(map(str, digits))
