"""Section 4.3: four of 49 patches explain a digit; 3 against 8, and all ten digits (see comparison.py)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np

from l2x.blackbox import as_black_box
from l2x.datasets.mnist import mnist
from l2x.features.patches import Patches
from l2x.foundations.arrays import Array
from l2x_experiments.black_boxes.digits import digit_network, network_key
from l2x_experiments.budget import Budget
from l2x_experiments.cache import fingerprint
from l2x_experiments.comparison import OURS, Comparison, cached_judge, jobs, measure_all, with_chosen
from l2x_experiments.runner import Experiment, only_methods

K, SIZE = 4, 4
METHODS = ("search", *OURS, "paper", "taylor", "deeplift", "lime", "kernel_shap", "saliency", "taylor-absolute",
           "deeplift-absolute", "lime-absolute", "kernel_shap-absolute", "random")  # fmt: skip
SEEDED = (*OURS, "paper", "random")
THREE_EIGHT, ALL_DIGITS = (3, 8), tuple(range(10))
# Of the search per image, the second and third round let it take back what it chose first; 1,000 samples are
# lime_image's default.
OPTIONS = {"Greedy search": {"rounds": 3}, "LIME": {"samples": 1000}}
# Shares of the training images: explainers learn from the first, the judge from the second, and the third
# decides which of our recipes is called l2x.
FOR_EXPLAINERS, FOR_JUDGE = 2 / 3, 1 / 4
EXAMPLES = 10

FULL = Budget(search_rows=2000, sampling_rows=200, model_steps=8)
QUICK = Budget(
    train_rows=3000, test_rows=500, search_rows=100, sampling_rows=5, model_steps=4,
    value_steps=200, selector_steps=200, paper_steps=200,
)  # fmt: skip


def experiment(*, quick: bool = False, seeds: int = 3, only: Sequence[str] | None = None) -> Experiment:
    budget, problems = QUICK if quick else FULL, [list(THREE_EIGHT), list(ALL_DIGITS)]
    return Experiment(
        "mnist",
        only_methods(jobs("digits", problems, METHODS, SEEDED, seeds), only),
        partial(measure_all, set_up=partial(digits_setting, budget=budget), problem="digits"),
        fetch=lambda progress: mnist(None, progress=progress),
        prepare=[partial(digits_setting, digits, budget=budget) for digits in problems],
        derive=partial(with_chosen, problem="digits"),
    )


def digits_setting(digits: Sequence[int], budget: Budget) -> Comparison:
    return _set_up(tuple(digits), budget)


@lru_cache(maxsize=2)
def _set_up(digits: tuple[int, ...], budget: Budget) -> Comparison:
    """The same parts of the images for every seed: the seed is the explainers', not the data's."""
    train, test = mnist(digits, split="train", progress=False), mnist(digits, split="test", progress=False)
    network = digit_network(train, epochs=budget.model_steps)
    black_box = as_black_box(network, logits=True)
    X = train.X[np.random.default_rng(0).permutation(len(train))][: budget.train_rows]
    first, second = round(FOR_EXPLAINERS * len(X)), round((FOR_EXPLAINERS + FOR_JUDGE) * len(X))
    plans, for_judge = budget.plans(Patches), X[first:second]
    judge = cached_judge(
        "".join(map(str, digits)),
        {
            "model": network_key(train, seed=0, epochs=budget.model_steps),
            "data": fingerprint([for_judge.tobytes()]),
            "patch": SIZE,
        },
        black_box,
        Patches(SIZE).fit(for_judge),
        for_judge,
        k=K,
        classes=len(digits),
        plan=plans.ours,
    )
    return Comparison(
        black_box=black_box,
        k=K,
        train=X[:first],
        validation=X[second:],
        test=test.X[: budget.test_rows],
        labels=test.y[: budget.test_rows],
        plans=plans,
        features=Patches(SIZE).fit(X[:first]),
        model=network,
        judge=judge,
        signed=True,
        about={"patch": SIZE},
        options=OPTIONS,
        examples=example_rows(len(test.X[: budget.test_rows])),
        limits={"search": (budget.search_rows,) * 2, "sampling": (budget.sampling_rows,) * 2},
    )


def example_rows(n: int) -> Array:
    """Ten test images at random, the same for every method."""
    return np.sort(np.random.default_rng(2018).choice(min(n, 100), min(n, EXAMPLES), replace=False))


def digits_name(digits: Sequence[int]) -> str:
    return "all ten digits" if len(digits) == 10 else " against ".join(map(str, digits))
