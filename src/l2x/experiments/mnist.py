"""Section 4.3: four of 49 patches explain a digit; every method, 3 against 8 and all ten digits.

task      = digits x seed x method; a run that was interrupted goes on where it stopped
rows      = the training images in three parts - for explainers, for the judge, for choosing between our
            recipes - and the test images, on which nothing is chosen
records   = what each method scores on the test images, into results/mnist.json
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import l2x
from l2x import baselines
from l2x.blackbox import BlackBox, as_black_box
from l2x.datasets.mnist import ImageData, mnist
from l2x.errors import InputError
from l2x.experiments.digits import digit_network, remembered
from l2x.experiments.results import Record, Results, machine
from l2x.explanation import Array, Explanation
from l2x.features.patches import Patches
from l2x.metrics import fit_judge, mask_only_accuracy, posthoc_accuracy
from l2x.objective import Categorical
from l2x.training import TrainingPlan, progress_bar
from l2x.values import FittedValue, NetworkValue

K, SIZE = 4, 4
# Our recipes: the better one on validation images is listed as l2x, too.
OURS = ("l2x-model", "l2x-surrogate")
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

Learn = Callable[[], Callable[[Array], Explanation]]


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

    @property
    def plan(self) -> TrainingPlan:
        return self._of(Patches.plan)

    @property
    def paper_plan(self) -> TrainingPlan:
        return self._of(Patches.paper_plan)

    def _of(self, plan: TrainingPlan) -> TrainingPlan:
        value = replace(plan.value, steps=self.steps or plan.value.steps)
        selector = replace(plan.selector, steps=self.steps or plan.selector.steps)
        return replace(plan, value=value, selector=selector, progress=False)


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


@dataclass(frozen=True)
class Bench:
    """Some digits set up: images, the model, and the judge, which are the same for every seed."""

    scale: Scale
    train: Array
    validation: Array
    test: ImageData
    network: nn.Module
    black_box: BlackBox
    accuracy: float
    view: Patches
    judge: FittedValue


@lru_cache(maxsize=2)
def set_up(digits: tuple[int, ...], scale: Scale) -> Bench:
    """The same parts of the images for every seed: the seed is the explainers', not the data's."""
    train, test = mnist(digits, split="train", progress=False), mnist(digits, split="test", progress=False)
    test = ImageData(test.X[: scale.test_rows], test.y[: scale.test_rows], test.digits)
    network = digit_network(train, epochs=scale.network_epochs)
    black_box = as_black_box(network, logits=True)
    accuracy = float((black_box(test.X).argmax(axis=1) == test.y).mean())
    X = train.X[np.random.default_rng(0).permutation(len(train))][: scale.train_rows]
    first, second = round(FOR_EXPLAINERS * len(X)), round((FOR_EXPLAINERS + FOR_JUDGE) * len(X))
    judge = judge_of(black_box, X[first:second], digits, scale)
    view = Patches(SIZE).fit(X[:first])
    return Bench(scale, X[:first], X[second:], test, network, black_box, accuracy, view, judge)


def judge_of(black_box: BlackBox, X: Array, digits: tuple[int, ...], scale: Scale) -> FittedValue:
    """The judge of these images, fitted now or taken from the cache."""
    view, classes = Patches(SIZE).fit(X), len(digits)
    told = f"{digits} {scale} {scale.plan} {hashlib.sha256(X.tobytes()).hexdigest()}"

    def fit() -> nn.Module:
        value = fit_judge(black_box, X, K, features=Patches(SIZE), training=scale.plan).value
        assert isinstance(value, NetworkValue)
        return value.predictor

    predictor = remembered(f"judge-{''.join(map(str, digits))}", told, view.predictor(classes), fit)
    return FittedValue(view, NetworkValue(predictor, Categorical(classes)), black_box)


@dataclass(frozen=True)
class Method:
    """How a method is run: how it learns to explain, and on how many test images it is measured."""

    learn: Learn
    rows: int | None = None  # None: all
    mask_rows: int = 8000  # training images whose selections teach the mask-only predictor


def learned_methods(bench: Bench, seed: int) -> dict[str, Method]:
    """Those that depend on a seed."""
    scale, X = bench.scale, bench.train

    def ours(value: Any) -> Learn:
        explainer = l2x.Explainer(
            bench.black_box, K, features=Patches(SIZE), value=value, training=scale.plan, seed=seed
        )
        return lambda: explainer.fit(X).explain

    paper = l2x.Explainer.paper(
        bench.black_box, K, features=Patches(SIZE), training=scale.paper_plan, seed=seed
    )

    return {
        "l2x-model": Method(ours("model")),
        "l2x-surrogate": Method(ours("surrogate")),
        "paper": Method(lambda: paper.fit(X).explain),
        "random": Method(_plain(baselines.RandomK(features=bench.view, seed=seed))),
    }


def fixed_methods(bench: Bench) -> dict[str, Method]:
    """Those that learn nothing."""
    view, network, black_box = bench.view, bench.network, bench.black_box
    few, some = bench.scale.slow_rows, bench.scale.some_rows
    search = baselines.GreedySearch(black_box, features=view, rounds=SEARCH_ROUNDS, progress=False)
    found = {
        "saliency": Method(_plain(baselines.Saliency(network, features=view))),
        "search": Method(_plain(search), some, some),
    }
    # What speaks for the predicted class, as lime_image shows it by default, and what speaks at all.
    for ending, magnitude in (("", False), ("-absolute", True)):
        taylor = baselines.Taylor(network, features=view, magnitude=magnitude)
        deeplift = baselines.DeepLift(network, features=view, magnitude=magnitude)
        # 1,000 samples are lime_image's default.
        lime = baselines.Lime(black_box, features=view, samples=1000, magnitude=magnitude, progress=False)
        shap = baselines.KernelShap(black_box, features=view, magnitude=magnitude, progress=False)
        found |= {
            f"taylor{ending}": Method(_plain(taylor)),
            f"deeplift{ending}": Method(_plain(deeplift)),
            f"lime{ending}": Method(_plain(lime), few, few),
            f"kernel_shap{ending}": Method(_plain(shap), few, few),
        }
    return found


def _plain(method: Any) -> Learn:
    return lambda: lambda X: method.explain(X, K)


def measure(bench: Bench, task: Task, method: Method) -> Record:
    """One line of results/mnist.json."""
    X = bench.test.X[: method.rows]
    started = time.perf_counter()
    explain = method.learn()
    learned = time.perf_counter()
    explanation = explain(X)
    _ = explanation.indices  # ranking is part of the work
    explained = time.perf_counter()
    answers = bench.black_box(X).argmax(axis=1)
    judged = bench.judge.probabilities(X, explanation.mask).argmax(axis=1)
    seen = bench.train[: method.mask_rows]
    examples = example_rows(len(X))
    return task.key | {
        "k": K,
        "patch": SIZE,
        "rows": len(X),
        "posthoc_accuracy": posthoc_accuracy(bench.black_box, X, explanation),
        "judge_accuracy": float((judged == answers).mean()),
        "mask_only_accuracy": mask_only_accuracy(
            explain(seen).mask, bench.black_box(seen).argmax(axis=1), explanation.mask, answers
        ),
        "complement_accuracy": posthoc_accuracy(bench.black_box, X, explanation, complement=True),
        "validation_posthoc": _validation(bench, task.method, explain),
        "fit_seconds": learned - started,
        "explain_seconds": explained - learned,
        "model_accuracy": bench.accuracy,
        "train_rows": len(bench.train),
        "mask_rows": len(seen),
        "example_rows": examples.tolist(),
        "examples": explanation[examples].indices.tolist(),
        "threads": torch.get_num_threads(),
        "machine": machine(),
    }


def _validation(bench: Bench, name: str, explain: Callable[[Array], Explanation]) -> float | None:
    """Post-hoc accuracy on rows that are neither trained on nor tested: what chooses between our recipes."""
    if name not in OURS:
        return None
    return posthoc_accuracy(bench.black_box, bench.validation, explain(bench.validation))


def example_rows(n: int) -> Array:
    """Ten test images at random, the same for every method."""
    return np.sort(np.random.default_rng(2018).choice(min(n, 100), min(n, EXAMPLES), replace=False))


def run_task(task: Task, scale: Scale, threads: int) -> Record:
    """One method on one problem; runs in a process of its own."""
    torch.set_num_threads(threads)
    bench = set_up(task.digits, scale)
    methods = learned_methods(bench, task.seed) | fixed_methods(bench)
    return measure(bench, task, methods[task.method])


def prepare(digits: tuple[int, ...], scale: Scale, threads: int) -> None:
    """Train the model and fit the judge, before many processes want them at once."""
    torch.set_num_threads(threads)
    set_up(digits, scale)


def tasks(digits: Sequence[tuple[int, ...]], seeds: int, only: Sequence[str] | None) -> list[Task]:
    """Everything to run, the first seed first."""
    if unknown := sorted(set(only or ()) - {*LEARNED, *FIXED}):
        raise InputError(f"There is no method {unknown[0]!r}; choose among {', '.join((*LEARNED, *FIXED))}.")
    found = [
        Task(some, seed, method)
        for seed in range(seeds)
        for method in (*LEARNED, *(FIXED if seed == 0 else ()))
        for some in digits
    ]
    return [task for task in found if not only or task.method in only]


def with_chosen(records: list[Record]) -> list[Record]:
    """The records and, as `l2x`, those of the recipe of ours that is better on the validation images."""
    records = [record for record in records if record["method"] != "l2x"]
    chosen: list[Record] = []
    for digits in {tuple(record["digits"]): None for record in records}:
        ours: dict[str, list[Record]] = {}
        for record in records:
            if record["digits"] == list(digits) and record["method"] in OURS:
                ours.setdefault(record["method"], []).append(record)
        if set(ours) == set(OURS):  # in an unfinished run there is nothing to choose yet
            best = max(ours, key=lambda name: np.mean([r["validation_posthoc"] for r in ours[name]]))
            chosen += [record | {"method": "l2x", "recipe": best} for record in ours[best]]
    return chosen + records


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
    results = Results(output)
    digits = digits or [THREE_EIGHT, ALL_DIGITS]
    todo = [task for task in tasks(digits, seeds, only) if not results.has(**task.key)]
    if not todo:
        return results.records
    mnist(None, progress=progress)  # fetched once, before the processes need it
    with (
        ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool,
        progress_bar("MNIST", len(todo), visible=progress) as advance,
    ):
        advance(0, "models and judges")
        for ready in [pool.submit(prepare, some, scale, threads) for some in digits]:
            ready.result()
        running = {pool.submit(run_task, task, scale, threads): task for task in todo}
        for done, future in enumerate(as_completed(running), start=1):
            results.records = with_chosen([*results.records, future.result()])
            results.add([])
            advance(done, running[future].label)
    return results.records


def digits_name(digits: tuple[int, ...]) -> str:
    return "all ten digits" if len(digits) == 10 else " against ".join(map(str, digits))
