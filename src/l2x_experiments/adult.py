"""A table as people have it: LightGBM on raw census rows, and what k = 1 to 5 columns keep of its answers.

rows      = shuffled once, in parts: the model and the explainers learn from the first, the judge from the
            second; every method is measured on the same test rows in one run (`rows`), and those that are
            fast enough on all of them (`all_rows`); nothing is chosen on test rows
records   = one for each method and seed: entries for k = 1, 2, ... are lists; and a report card of k = 3
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import l2x
from l2x.datasets import adult
from l2x.evaluation import fit_judge, posthoc_accuracy
from l2x.explanation import Explanation
from l2x.features import Columns
from l2x.model import as_black_box
from l2x_experiments.contenders import CONTENDERS, learned
from l2x_experiments.judges import Judge, judge_accuracy
from l2x_experiments.machine import measured_here, timed
from l2x_experiments.records import Record
from l2x_experiments.runner import Experiment, Job
from l2x_experiments.setting import Budget, Setting

if TYPE_CHECKING:
    import pandas as pd

SIZES = (1, 2, 3, 4, 5)
FITTED_K = 3  # one explainer answers for every k
SEEDED = ("l2x", "l2x-told", "l2x-surrogate", "l2x-model")
METHODS = (*SEEDED, "tree_shap", "kernel_shap", "random")
JUDGE_ROWS = 8000

# Rows for all methods are those of Kernel SHAP, which asks the model 200,000 times per row.
FULL = Budget(train_rows=16_000, test_rows=8561, sampling_rows=200)
QUICK = Budget(
    train_rows=16_000, test_rows=1000, sampling_rows=5, value_steps=500, selector_steps=300, evaluations=10
)


def experiment(*, quick: bool = False, seeds: int = 3) -> Experiment:
    jobs = [
        Job({"method": method, "seed": seed}, f"{method}, seed {seed}", group=seed)
        for seed in range(seeds)
        for method in METHODS
        if seed == 0 or method in SEEDED
    ]
    return Experiment(
        "adult",
        jobs,
        partial(measure_all, budget=QUICK if quick else FULL),
        fetch=lambda progress: adult(progress=progress),
    )


@dataclass(kw_only=True)
class Census(Setting):
    """The model, trained on the first part, and the judge, on the second."""

    features: Columns
    judge: Judge
    accuracy: float


def measure_all(jobs: Sequence[Job], budget: Budget) -> Iterator[Record]:
    setting = set_up(budget)
    for job in jobs:
        yield measure(setting, job["method"], job["seed"], rows=budget.sampling_rows)


def set_up(budget: Budget) -> Census:
    from lightgbm import LGBMClassifier

    data = adult(progress=False)
    order, plans = np.random.default_rng(0).permutation(len(data)), budget.plans(Columns)
    first = budget.train_rows or 0
    second = first + JUDGE_ROWS
    train, for_judge, test = order[:first], order[first:second], order[second:][: budget.test_rows]
    X, y = data.X, data.y
    model = LGBMClassifier(n_jobs=1, verbose=-1).fit(X.iloc[train], y[train])
    black_box = as_black_box(model)
    return Census(
        black_box=black_box,
        k=FITTED_K,
        train=X.iloc[train],
        probe_rows=X.iloc[for_judge],
        test=X.iloc[test],
        plans=plans,
        features=Columns().fit(X.iloc[train]),
        model=model,
        judge=fit_judge(black_box, X.iloc[for_judge], FITTED_K, training=plans.ours),
        accuracy=float(np.mean(model.predict(X.iloc[test]) == y[test])),
    )


def measure(setting: Census, method: str, seed: int, *, rows: int) -> Record:
    """One line of results/adult.json."""
    explainer, fit_seconds = timed(lambda: learned(setting, method, seed))
    same = setting.test.iloc[:rows]
    explanation, explain_seconds = timed(lambda: explainer.explain(same, max(SIZES)))
    record = {
        "method": method,
        "seed": seed,
        "k": list(SIZES),
        "rows": len(same),
        "fit_seconds": fit_seconds,
        "explain_seconds": explain_seconds,
        "model_accuracy": setting.accuracy,
        "learn_rows": len(setting.train),
        "columns": setting.features.d,
        "selected_share": explanation.mask.mean(axis=0).tolist(),
        "names": list(setting.features.names_),
        **measured_here(),
        **accuracies(setting, same, explanation),
    }
    if CONTENDERS[method].cost == "sampling":  # too slow for more rows: its card is made of these
        return record | {"card": card(setting, replace(explanation, k=FITTED_K), same, method, seed)}
    record["card"] = card(setting, explainer, setting.test, method, seed)
    everything, seconds = timed(lambda: explainer.explain(setting.test, max(SIZES)))
    record |= {"all_rows": len(setting.test), "all_seconds": seconds}
    shares = accuracies(setting, setting.test, everything)
    return record | {f"all_{name}": values for name, values in shares.items()}


def card(setting: Census, explained: Any, X: pd.DataFrame, method: str, seed: int) -> Record:
    """The report card of k = 3; its probes learn from the judge's rows."""
    made = l2x.report_card(
        explained, setting.black_box, setting.probe_rows, X, FITTED_K, name=method, judge=setting.judge,
        training=setting.plans.ours, seed=seed,
    )  # fmt: skip
    return made.to_dict()


def accuracies(setting: Census, X: pd.DataFrame, explanation: Explanation) -> dict[str, list[float]]:
    """For each k: how often the model, and the judge, give the model's answer from k columns alone."""
    answers = setting.black_box(X)
    selections = [replace(explanation, k=k) for k in SIZES]
    classes = answers.argmax(axis=1)
    return {
        "posthoc_accuracy": [
            posthoc_accuracy(setting.black_box, X, s, responses=answers) for s in selections
        ],
        "judge_accuracy": [judge_accuracy(setting.judge, X, s, classes) for s in selections],
    }
