"""Section 4.3: four of 49 patches explain a digit; 3 against 8, and all ten digits (see comparison.py)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np

from l2x._base.arrays import Array
from l2x.datasets import mnist
from l2x.features import Patches
from l2x_experiments import comparison
from l2x_experiments.black_boxes.digits import digit_network
from l2x_experiments.comparison import Comparison
from l2x_experiments.runner import Experiment
from l2x_experiments.setting import Budget

K, SIZE = 4, 4
THREE_EIGHT = [3, 8]
PROBLEMS = [THREE_EIGHT, list(range(10))]
# Of the search per image, the second and third round let it take back what it chose first; 1,000 samples are
# lime_image's default.
OPTIONS = {"Greedy search": {"rounds": 3}, "LIME": {"samples": 1000}}
# Of the training images: for explainers, and for the judge.
SHARES = (2 / 3, 1 / 4)
EXAMPLES = 10

FULL = Budget(search_rows=2000, sampling_rows=200, model_steps=8)
QUICK = Budget(
    train_rows=3000, test_rows=500, search_rows=100, sampling_rows=5, model_steps=4,
    value_steps=200, selector_steps=200, paper_steps=200,
)  # fmt: skip


def experiment(*, quick: bool = False, seeds: int = 3, only: Sequence[str] | None = None) -> Experiment:
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
    return _set_up(tuple(digits), budget)


@lru_cache(maxsize=2)
def _set_up(digits: tuple[int, ...], budget: Budget) -> Comparison:
    """The same parts of the images for every seed: the seed is the explainers', not the data's."""
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
    """Ten test images at random, the same for every method."""
    return np.sort(np.random.default_rng(2018).choice(min(n, 100), min(n, EXAMPLES), replace=False))


def digits_name(digits: Sequence[int]) -> str:
    return "all ten digits" if len(digits) == 10 else " against ".join(map(str, digits))
