"""Small tables: breast cancer, 300 rows, three models. Is the default as good as what is simpler?

rows      = 300 for the model and the explainers; of the other 269, halves: a judge that learned from one half
            judges the other, and the other way round
methods   = the default; the model alone as the value; one subset for all rows, the best by the default's own
            q; Kernel SHAP; chance
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from l2x._base.arrays import Array
from l2x.evaluation import fit_judge
from l2x.features import Columns
from l2x.learning import FittedQ, masked_answers
from l2x.model import as_black_box
from l2x_experiments import robustness
from l2x_experiments.contenders import learned
from l2x_experiments.machine import measured_here, timed
from l2x_experiments.records import Record
from l2x_experiments.runner import Experiment, Job
from l2x_experiments.setting import Budget, Setting

PROBLEMS = [name for name in robustness.PROBLEMS if name.startswith("breast cancer")]
METHODS = ("l2x", "l2x-model", "global", "kernel_shap", "random")
K = 5
# Subsets and background rows of Kernel SHAP: with its defaults a split takes half an hour.
SHAP = {"samples": 500, "background_rows": 20}

FULL = Budget()
QUICK = Budget(value_steps=60, selector_steps=40, evaluations=4)


def experiment(*, quick: bool = False, seeds: int = 5) -> Experiment:
    """`seeds` splits of each problem."""
    jobs = [
        Job(
            {"problem": problem, "seed": split, "method": method},
            f"{problem}, split {split}",
            (problem, split),
        )
        for split in range(seeds)
        for problem in PROBLEMS
        for method in METHODS
    ]
    budget = QUICK if quick else FULL
    return Experiment("small", jobs, partial(measure_all, budget=budget), belongs={"quick": quick})


def measure_all(jobs: Sequence[Job], budget: Budget) -> Iterator[Record]:
    """The records of one split."""
    split = jobs[0]["seed"]
    setting = set_up(jobs[0]["problem"], split, budget)
    for job in jobs:
        found = measure(setting, job["method"], split)
        yield {**job.key, "quick": budget == QUICK, **found, **measured_here()}


@dataclass(kw_only=True)
class SmallSetting(Setting):
    """`halves` of the test rows, each with the judge that learned from the other."""

    features: Columns
    halves: Sequence[tuple[Array, FittedQ]]


def set_up(name: str, split: int, budget: Budget) -> SmallSetting:
    problem = robustness.PROBLEMS[name]()
    X, train, test = robustness.divided(problem, split)
    rows, unseen = X.iloc[train], X.iloc[test]
    black_box, view = as_black_box(problem.model().fit(rows, problem.y[train])), Columns().fit(rows)
    plans = budget.plans(Columns)
    first, second = np.array_split(np.arange(len(unseen)), 2)
    judges = [
        fit_judge(black_box, unseen.iloc[half], K, features=view, training=plans.ours)
        for half in (second, first)
    ]
    setting = SmallSetting(
        black_box=black_box,
        k=K,
        train=rows,
        test=unseen,
        plans=plans,
        features=view,
        background=rows,
        options={"Kernel SHAP": SHAP},
        halves=list(zip((first, second), judges, strict=True)),
    )
    # One subset for all rows is searched for by what the default goes by.
    return replace(setting, conditional=lambda _: learned(setting, "l2x", split).q_)


def measure(setting: SmallSetting, method: str, split: int) -> Record:
    explainer, fit_seconds = timed(lambda: learned(setting, method, split))
    mask = explainer.explain(setting.test, setting.k).mask
    X = setting.features.check(setting.test)
    classes = setting.black_box(setting.test).argmax(axis=1)

    def kept(mask: Array) -> float:
        said = masked_answers(setting.black_box, setting.features, X, mask)
        return float((said.argmax(axis=1) == classes).mean())

    judged = [
        judge.outputs(setting.test.iloc[half], mask[half]).argmax(axis=1) == classes[half]
        for half, judge in setting.halves
    ]
    return {
        "k": setting.k,
        "rows": len(mask),
        "posthoc_accuracy": kept(mask),
        "complement_accuracy": kept(~mask),
        "judge_accuracy": float(np.concatenate(judged).mean()),
        "subsets": len(np.unique(mask, axis=0)),
        "fit_seconds": fit_seconds,
    }
