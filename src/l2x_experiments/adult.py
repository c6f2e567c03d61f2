"""A table as people have it: LightGBM on raw census rows, and what k = 1 to 5 columns keep of its answers.

rows      = shuffled once, in parts: the model and the explainers learn from the first, the judge from the
            second; every method is measured on the same test rows in one run (`rows`), and those that are
            fast enough on all of them (`all_rows`); nothing is chosen on test rows
records   = one for each method and seed, into results/adult.json: figures for k = 1, 2, ... are lists, and a
            report card of k = 3
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import l2x
from l2x import baselines
from l2x.blackbox import BlackBox, as_black_box
from l2x.conditional import FittedQ
from l2x.datasets.adult import AdultData, adult
from l2x.evaluation import fit_judge, posthoc_accuracy
from l2x.explanation import Explanation
from l2x.features.columns import Columns
from l2x.foundations.arrays import Array
from l2x.foundations.progress import progress_bar
from l2x.training import TrainingPlan
from l2x.values import ValueName
from l2x_experiments.results import Record, Results, machine

if TYPE_CHECKING:
    import pandas as pd

SIZES = (1, 2, 3, 4, 5)
FITTED_K = 3  # one explainer answers for every k
LEARNED: dict[str, ValueName] = {"l2x": "surrogate", "l2x-model": "model"}
FIXED = ("tree_shap", "kernel_shap", "random")


@dataclass(frozen=True)
class Scale:
    """How much work a run does."""

    plan: TrainingPlan
    learn: int = 16_000
    judge: int = 8_000
    rows: int = 200  # for all methods: Kernel SHAP asks the model 200,000 times per row
    all_rows: int = 8_561

    @classmethod
    def full(cls) -> Scale:
        return cls(TrainingPlan(progress=False))

    @classmethod
    def quick(cls) -> Scale:
        return cls(TrainingPlan.quick(), rows=5, all_rows=1000)


@dataclass(frozen=True)
class Bench:
    """Everything that methods are measured with."""

    scale: Scale
    learn: pd.DataFrame
    judged: pd.DataFrame
    test: pd.DataFrame
    model: Any
    black_box: BlackBox
    accuracy: float
    view: Columns
    judge: FittedQ


def set_up(scale: Scale, data: AdultData) -> Bench:
    """The model, trained on the first part, and the judge, on the second."""
    from lightgbm import LGBMClassifier

    order = np.random.default_rng(0).permutation(len(data))
    first, second = scale.learn, scale.learn + scale.judge
    learn, judged, rest = order[:first], order[first:second], order[second : second + scale.all_rows]
    X, y = data.X, data.y
    model = LGBMClassifier(n_jobs=1, verbose=-1).fit(X.iloc[learn], y[learn])
    black_box = as_black_box(model)
    accuracy = float(np.mean(model.predict(X.iloc[rest]) == y[rest]))
    judge = fit_judge(black_box, X.iloc[judged], FITTED_K, training=scale.plan)
    view = Columns().fit(X.iloc[learn])
    parts = X.iloc[learn], X.iloc[judged], X.iloc[rest]
    return Bench(scale, *parts, model, black_box, accuracy, view, judge)


def learned(bench: Bench, method: str, seed: int) -> Any:
    """What has explain(X, k), after whatever the method has to learn."""
    view, model = bench.view, bench.model
    if method in LEARNED:
        value, plan = LEARNED[method], bench.scale.plan
        explainer = l2x.Explainer(bench.black_box, FITTED_K, value=value, training=plan, seed=seed)
        return explainer.fit(bench.learn)
    found: dict[str, Any] = {
        "tree_shap": baselines.TreeShap(model, features=view),
        "kernel_shap": baselines.KernelShap(model, features=view, seed=seed, progress=False),
        "random": baselines.RandomK(features=view, seed=seed),
    }
    return found[method]


def measure(bench: Bench, method: str, seed: int) -> Record:
    """One line of results/adult.json."""
    started = time.perf_counter()
    explainer = learned(bench, method, seed)
    ready = time.perf_counter()
    same = bench.test.iloc[: bench.scale.rows]
    explanation = explainer.explain(same, max(SIZES))
    explained = time.perf_counter()
    record = {
        "method": method,
        "seed": seed,
        "k": list(SIZES),
        "rows": len(same),
        "fit_seconds": ready - started,
        "explain_seconds": explained - ready,
        "model_accuracy": bench.accuracy,
        "learn_rows": len(bench.learn),
        "columns": bench.view.d,
        "selected_share": explanation.mask.mean(axis=0).tolist(),
        "names": list(bench.view.names_),
        "threads": torch.get_num_threads(),
        "machine": machine(),
    } | figures(bench, same, explanation)
    if method == "kernel_shap":  # too slow for more rows: its card is made of these
        few = Explanation(explanation.scores, FITTED_K, explanation.feature_names, same, bench.view)
        return record | {"card": card(bench, few, same, method, seed)}
    record["card"] = card(bench, explainer, bench.test, method, seed)
    begun = time.perf_counter()
    everything = explainer.explain(bench.test, max(SIZES))
    record["all_rows"], record["all_seconds"] = len(bench.test), time.perf_counter() - begun
    return record | {f"all_{name}": some for name, some in figures(bench, bench.test, everything).items()}


def card(bench: Bench, explained: Any, X: pd.DataFrame, method: str, seed: int) -> Record:
    """The report card of k = 3; its readers learn from the judge's rows."""
    made = l2x.report_card(
        explained, bench.black_box, bench.judged, X, FITTED_K, name=method, judge=bench.judge,
        training=bench.scale.plan, seed=seed,
    )  # fmt: skip
    return made.to_dict()


def figures(bench: Bench, X: pd.DataFrame, explanation: Explanation) -> dict[str, list[float]]:
    """For each k: how often the model, and the judge, give the model's answer from k columns alone."""
    answers = bench.black_box(X)
    kept, judged = [], []
    for k in SIZES:
        some = Explanation(explanation.scores, k, explanation.feature_names, X, bench.view)
        kept.append(posthoc_accuracy(bench.black_box, X, some, responses=answers))
        judged.append(_agreement(bench.judge.predict(X, some.mask), answers))
    return {"posthoc_accuracy": kept, "judge_accuracy": judged}


def _agreement(guessed: Array, answers: Array) -> float:
    return float((guessed.argmax(axis=1) == answers.argmax(axis=1)).mean())


def run(
    output: Path,
    *,
    scale: Scale,
    seeds: int = 3,
    data: AdultData | None = None,
    progress: bool = True,
) -> list[Record]:
    """Run what `output` does not hold yet, and return all its records."""
    torch.set_num_threads(1)
    results = Results(output)
    methods = [(method, seed) for seed in range(seeds) for method in (*LEARNED, *(FIXED if not seed else ()))]
    todo = [(method, seed) for method, seed in methods if not results.has(method=method, seed=seed)]
    if not todo:
        return results.records
    data = data or adult(progress=progress)
    with progress_bar("Adult", len(todo), visible=progress) as advance:
        advance(0, "model and judge")
        bench = set_up(scale, data)
        for done, (method, seed) in enumerate(todo, start=1):
            results.add([measure(bench, method, seed)])
            advance(done, f"{method}, seed {seed}")
    return results.records
