"""What it takes to reproduce L2X: the settings that differ between L2X as published and L2X as released.

    problem   XOR, explaining the formula: the share of exact sets;
              MNIST 3 versus 8, explaining a network: post-hoc accuracy
    recipe    the published settings with one or several of the released ones

Training steps are those of the recipes; see docs/benchmarks/reproduce.md.
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
from l2x.features import Columns, Patches
from l2x.learning import Recipe, recipes_of
from l2x_experiments import mnist
from l2x_experiments.methods import Budget
from l2x_experiments.records import Record, Records, measured_here, timed
from l2x_experiments.report import Cell, Report, Table, mean_sd, measured_on
from l2x_experiments.runner import Experiment, Job
from l2x_experiments.synthetic import TEST_SEED

Problem = Literal["xor", "mnist"]


def with_networks(recipe: Recipe, *, selector: Mapping[str, Any], predictor: Mapping[str, Any]) -> Recipe:
    """Return the recipe with these options of its networks."""
    return replace(
        recipe, selector={**recipe.selector, **selector}, predictor={**recipe.predictor, **predictor}
    )


def with_phase(recipe: Recipe, **settings: Any) -> Recipe:
    """Return the recipe with these settings of its only phase."""
    plan = recipe.plan
    return replace(recipe, plan=replace(plan, selector=replace(plan.selector, **settings)))


def normalised(recipe: Recipe) -> Recipe:
    """Return the recipe with batch normalisation in the surrogate."""
    return with_networks(recipe, selector={}, predictor={"normalise": True})


def glorot(recipe: Recipe) -> Recipe:
    """Return the recipe with Glorot's initial weights."""
    return with_networks(recipe, selector={"initial": "glorot"}, predictor={"initial": "glorot"})


adam = partial(with_phase, optimizer="adam")
last = partial(with_phase, choose="last")
TABLE, IMAGE = recipes_of(Columns), recipes_of(Patches)

# By the names that the records hold.
RECIPES: dict[Problem, dict[str, Recipe]] = {
    "xor": {
        "the text": TABLE.published,
        "+ batch normalisation in q": normalised(TABLE.published),
        "+ Glorot's weights": glorot(TABLE.published),
        "+ Adam": adam(TABLE.published),
        "+ all three": normalised(glorot(adam(TABLE.published))),
        "as its authors ran it": TABLE.released,
        "as its authors ran it, without batch normalisation": with_networks(
            TABLE.released, selector={}, predictor={"normalise": False}
        ),
    },
    "mnist": {
        "the text": IMAGE.published,
        "+ the last weights": last(IMAGE.published),
        "+ batch normalisation in q": normalised(IMAGE.published),
        "+ both": normalised(last(IMAGE.published)),
        "+ both, 280 steps": IMAGE.released,
    },
}
# Names of the recipes on the pages, where they differ from the names in the records.
RECIPE_NAMES = {
    "the text": "L2X as published",
    "+ batch normalisation in q": "+ batch normalisation in the surrogate",
    "as its authors ran it": "L2X as released",
    "as its authors ran it, without batch normalisation": "L2X as released, without batch normalisation",
}


@dataclass(frozen=True, kw_only=True)
class AblationBudget(Budget):
    """Also `images`, the budget of MNIST's model and evaluator."""

    images: Budget


FULL = AblationBudget(train_rows=1_000_000, test_rows=10_000, images=mnist.FULL)
QUICK = AblationBudget(train_rows=20_000, test_rows=1000, paper_steps=100, images=mnist.QUICK)


def experiment(*, quick: bool = False, seeds: int = 3) -> Experiment:
    """Return the jobs: every recipe on both problems."""
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
    """Measure all recipes of one problem."""
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
        share, fit_seconds = MEASURES[problem](build, seed, budget)
        yield {**job.key, "share": share, "fit_seconds": fit_seconds, **measured_here()}


def on_xor(build: Callable[..., l2x.Explainer], seed: int, budget: AblationBudget) -> tuple[float, float]:
    """Return the share of exact sets, and the seconds of training."""
    train = synthetic("xor", budget.train_rows or 0, seed=seed)
    test = synthetic("xor", budget.test_rows or 0, seed=TEST_SEED + seed)
    explainer, seconds = timed(lambda: build(train.model, train.k).fit(train.X))
    return float(exact_sets(explainer.explain(test.X), test.truth).mean()), seconds


def on_mnist(build: Callable[..., l2x.Explainer], _: int, budget: AblationBudget) -> tuple[float, float]:
    """Return post-hoc accuracy, and the seconds of training."""
    setting = mnist.set_up(mnist.THREE_EIGHT, budget.images)
    unfitted = build(setting.black_box, setting.k, features=setting.features)
    explainer, seconds = timed(lambda: unfitted.fit(setting.train))
    explanation = explainer.explain(setting.test)
    accuracy = posthoc_accuracy(
        setting.black_box, setting.test, explanation, predictions=setting.test_predictions
    )
    return accuracy, seconds


MEASURES: dict[Problem, Callable[..., tuple[float, float]]] = {"xor": on_xor, "mnist": on_mnist}


TITLES: dict[Problem, str] = {"xor": "XOR: exact sets", "mnist": "MNIST 3 versus 8: post-hoc accuracy"}
CELLS: dict[str, Cell] = {
    "recipe": lambda group: RECIPE_NAMES.get(group[0]["recipe"], str(group[0]["recipe"])),
    "each seed": lambda group: " ".join(f"{r['share']:.3f}" for r in sorted(group, key=lambda r: r["seed"])),
    "mean": mean_sd("share"),
}


def report(records: Records) -> Report:
    """Return the page: a table for each problem."""
    page = Report(
        "ablation",
        title="What it takes to reproduce L2X",
        subtitle="The settings that differ between L2X as published and L2X as released, one by one",
    )
    page.add("", [measured_on(records)])
    for group in records.groups(problem=TITLES):
        problem: Problem = group[0]["problem"]
        page.add(TITLES[problem], table=Table.of(group.groups(recipe=RECIPES[problem]), CELLS))
    page.markdown = page.tables_markdown()
    return page
