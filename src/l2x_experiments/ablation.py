"""What it takes to reproduce L2X: pieces between the text and its authors' runs, put in on XOR and MNIST.

    problem   = XOR, the formula explained: the share of exact sets;
                MNIST 3 against 8, a network explained: post-hoc accuracy
    recipe    = the text's settings with one piece or several put in

Steps are those of the recipes; see docs/reproduce.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import l2x
from l2x.datasets import mnist as fetch_mnist
from l2x.datasets import synthetic
from l2x.evaluation import exact_sets, posthoc_accuracy
from l2x.learning import Recipe
from l2x.learning.networks import _columns as columns
from l2x.learning.networks import _patches as patches
from l2x_experiments import mnist
from l2x_experiments.machine import measured_here, timed
from l2x_experiments.records import Record
from l2x_experiments.runner import Experiment, Job
from l2x_experiments.setting import Budget
from l2x_experiments.synthetic import TEST_SEED

Problem = Literal["xor", "mnist"]


def with_networks(recipe: Recipe, *, selector: Mapping[str, Any], predictor: Mapping[str, Any]) -> Recipe:
    """The recipe with these options of its networks."""
    return replace(
        recipe, selector={**recipe.selector, **selector}, predictor={**recipe.predictor, **predictor}
    )


def with_phase(recipe: Recipe, **settings: Any) -> Recipe:
    """The recipe with these settings of its only phase."""
    plan = recipe.plan
    return replace(recipe, plan=replace(plan, selector=replace(plan.selector, **settings)))


def normalised(recipe: Recipe) -> Recipe:
    return with_networks(recipe, selector={}, predictor={"normalise": True})


def glorot(recipe: Recipe) -> Recipe:
    return with_networks(recipe, selector={"initial": "glorot"}, predictor={"initial": "glorot"})


adam = partial(with_phase, optimizer="adam")
last = partial(with_phase, choose="last")
TABLE, IMAGE = columns.LETTER, patches.LETTER

RECIPES: dict[Problem, dict[str, Recipe]] = {
    "xor": {
        "the text": TABLE,
        "+ batch normalisation in q": normalised(TABLE),
        "+ Glorot's weights": glorot(TABLE),
        "+ Adam": adam(TABLE),
        "+ all three": normalised(glorot(adam(TABLE))),
        "as its authors ran it": columns.PAPER,
        "as its authors ran it, without batch normalisation": with_networks(
            columns.PAPER, selector={}, predictor={"normalise": False}
        ),
    },
    "mnist": {
        "the text": IMAGE,
        "+ the last weights": last(IMAGE),
        "+ batch normalisation in q": normalised(IMAGE),
        "+ both": normalised(last(IMAGE)),
        "+ both, 280 steps": patches.PAPER,
    },
}


@dataclass(frozen=True, kw_only=True)
class AblationBudget(Budget):
    """`images`: the budget of MNIST's model and judge."""

    images: Budget


FULL = AblationBudget(train_rows=1_000_000, test_rows=10_000, images=mnist.FULL)
QUICK = AblationBudget(train_rows=20_000, test_rows=1000, paper_steps=100, images=mnist.QUICK)


def experiment(*, quick: bool = False, seeds: int = 3) -> Experiment:
    budget = QUICK if quick else FULL
    belongs = {"steps": budget.paper_steps}
    jobs = [
        Job({"problem": problem, "recipe": recipe, "seed": seed} | belongs, f"{problem}, {recipe}", problem)
        for problem, recipes in RECIPES.items()
        for seed in range(seeds)
        for recipe in recipes
    ]
    return Experiment(
        "ablation",
        jobs,
        partial(measure_all, budget=budget),
        fetch=lambda progress: fetch_mnist(None, progress=progress),
        belongs=belongs,
    )


def measure_all(jobs: Sequence[Job], budget: AblationBudget) -> Iterator[Record]:
    """All recipes of one problem."""
    for job in jobs:
        problem, seed = job["problem"], job["seed"]
        recipe = RECIPES[problem][job["recipe"]]
        plan = replace(recipe.plan.with_steps(selector=budget.paper_steps), progress=False)
        build = partial(
            l2x.Explainer.paper,
            selector=dict(recipe.selector),
            predictor=dict(recipe.predictor),
            training=plan,
            seed=seed,
        )
        found, fit_seconds = MEASURES[problem](build, seed, budget)
        yield {**job.key, "share": found, "fit_seconds": fit_seconds, **measured_here()}


def on_xor(build: Callable[..., l2x.Explainer], seed: int, budget: AblationBudget) -> tuple[float, float]:
    """The share of exact sets, and the seconds that learning took."""
    train = synthetic("xor", budget.train_rows or 0, seed=seed)
    test = synthetic("xor", budget.test_rows or 0, seed=TEST_SEED + seed)
    explainer, seconds = timed(lambda: build(train.model, train.k).fit(train.X))
    return exact_sets(explainer.explain(test.X), test.truth), seconds


def on_mnist(build: Callable[..., l2x.Explainer], _: int, budget: AblationBudget) -> tuple[float, float]:
    """Post-hoc accuracy, and the seconds that learning took."""
    setting = mnist.set_up(mnist.THREE_EIGHT, budget.images)
    unfitted = build(setting.black_box, setting.k, features=setting.features)
    explainer, seconds = timed(lambda: unfitted.fit(setting.train))
    explanation = explainer.explain(setting.test)
    found = posthoc_accuracy(setting.black_box, setting.test, explanation, responses=setting.test_answers)
    return found, seconds


MEASURES: dict[Problem, Callable[..., tuple[float, float]]] = {"xor": on_xor, "mnist": on_mnist}
