"""Small tables: breast cancer, 300 rows, three models. Is the default as good as simpler methods?

rows      300 for the model and the explainers; the other 269 in halves: an evaluator that learned from one
          half is used on the other half, and vice versa
methods   the default; the objective "model" alone; the global top-k, chosen by the default's own surrogate;
          Kernel SHAP; random features
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from l2x._base.arrays import Array
from l2x.evaluation import fit_evaluator
from l2x.features import Columns
from l2x.learning import FittedSurrogate, masked_predictions
from l2x.model import as_black_box
from l2x_experiments import robustness
from l2x_experiments.methods import LABELS, Budget, Setting, fitted
from l2x_experiments.records import Record, Records, measured_here, timed
from l2x_experiments.report import Cell, Report, Table, mean_sd, measured_on, name_of
from l2x_experiments.runner import Experiment, Job

PROBLEMS = [name for name in robustness.PROBLEMS if name.startswith("breast cancer")]
COMPARED = ("l2x", "l2x-model", "global", "kernel_shap", "random")
K = 5
# Subsets and background rows of Kernel SHAP: with its defaults a split takes half an hour.
SHAP = {"samples": 500, "background_rows": 20}

FULL = Budget()
QUICK = Budget(value_steps=60, selector_steps=40, evaluations=4)


def experiment(*, quick: bool = False, seeds: int = 5) -> Experiment:
    """Return the jobs: `seeds` splits of each problem."""
    jobs = [
        Job(
            {"problem": problem, "seed": split, "method": method},
            f"{problem}, split {split}",
            (problem, split),
        )
        for split in range(seeds)
        for problem in PROBLEMS
        for method in COMPARED
    ]
    budget = QUICK if quick else FULL
    return Experiment("small", jobs, partial(measure_all, budget=budget), belongs={"quick": quick})


def measure_all(jobs: Sequence[Job], budget: Budget) -> Iterator[Record]:
    """Measure the jobs of one split."""
    split = jobs[0]["seed"]
    setting = set_up(jobs[0]["problem"], split, budget)
    for job in jobs:
        record = measure(setting, job["method"], split)
        yield {**job.key, "quick": budget == QUICK, **record, **measured_here()}


@dataclass(kw_only=True)
class SmallSetting(Setting):
    """Also `halves` of the test rows, each with the evaluator that learned from the other half."""

    features: Columns
    halves: Sequence[tuple[Array, FittedSurrogate]]


def set_up(name: str, split: int, budget: Budget) -> SmallSetting:
    """Split the rows, train the model and fit both evaluators."""
    problem = robustness.PROBLEMS[name]()
    X, train, test = robustness.divided(problem, split)
    rows, unseen = X.iloc[train], X.iloc[test]
    black_box, view = as_black_box(problem.model().fit(rows, problem.y[train])), Columns().fit(rows)
    plans = budget.plans(Columns)
    first, second = np.array_split(np.arange(len(unseen)), 2)
    evaluators = [
        fit_evaluator(black_box, unseen.iloc[half], K, features=view, training=plans.ours)
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
        halves=list(zip((first, second), evaluators, strict=True)),
    )
    # The global top-k is chosen by the default's own surrogate.
    return replace(setting, conditional=lambda _: fitted(setting, "l2x", split).surrogate_)


def measure(setting: SmallSetting, method: str, split: int) -> Record:
    """Return the record of one method and split."""
    explainer, fit_seconds = timed(lambda: fitted(setting, method, split))
    mask = explainer.explain(setting.test, setting.k).mask
    return {
        "k": setting.k,
        "rows": len(mask),
        **accuracies(setting, mask),
        "subsets": len(np.unique(mask, axis=0)),
        "fit_seconds": fit_seconds,
    }


def accuracies(setting: SmallSetting, mask: Array) -> dict[str, float]:
    """Return how often the selected columns, the others, and the evaluator give the model's class."""
    X = setting.features.check(setting.test)
    classes = setting.black_box(setting.test).argmax(axis=1)

    def accuracy(mask: Array) -> float:
        predictions = masked_predictions(setting.black_box, setting.features, X, mask)
        return float((predictions.argmax(axis=1) == classes).mean())

    same = [
        evaluator.outputs(setting.test.iloc[half], mask[half]).argmax(axis=1) == classes[half]
        for half, evaluator in setting.halves
    ]
    return {
        "posthoc_accuracy": accuracy(mask),
        "complement_accuracy": accuracy(~mask),
        "judge_accuracy": float(np.concatenate(same).mean()),
    }


def report(records: Records) -> Report:
    """Return the page: a table for each problem."""
    page = Report(
        "small",
        title="Small tables",
        subtitle="Breast cancer, 300 rows, 30 correlated columns: is the default as good as simpler methods?",
    )
    first = records[0]
    page.add(
        "",
        [
            f"{len(records.distinct('seed'))} splits of each problem; {first['k']} of 30 columns; "
            f"{first['rows']} test rows, on which nothing was chosen. The evaluator of one half of the test "
            "rows learned from the other half.",
            f"{LABELS['global']}: the same columns in every row, chosen by the default's own surrogate. "
            f"Kernel SHAP has {SHAP['samples']} subsets and {SHAP['background_rows']} background rows.",
            measured_on(records),
        ],
    )
    for problem in PROBLEMS:
        if group := records.select(problem=problem):
            page.add(
                problem[0].upper() + problem[1:],
                table=table(group),
                caption="Mean ± standard deviation over splits.",
            )
    page.markdown = page.tables_markdown()
    return page


def table(group: Records) -> Table:
    """Return one line for each method."""
    cells: dict[str, Cell] = {
        "method": name_of("method", LABELS),
        "post-hoc accuracy": mean_sd("posthoc_accuracy"),
        "evaluator": mean_sd("judge_accuracy"),
        "removal test": mean_sd("complement_accuracy"),
        "different subsets": mean_sd("subsets", digits=0),
        "training, s": mean_sd("fit_seconds", digits=1),
    }
    return Table.of(group.groups(method=COMPARED), cells)
