"""As many features as a row needs, `explain(X, keep=...)`, beside the same number of them in every row.

accuracies = of model and judge, from sizes that differ, and from one size for all rows with the same mean
             (between two whole sizes: a draw decides which rows have the larger one, in expectation)
rates      = against the truth, on INVASE's six sets, where rows have two to five relevant features
card       = the report card of keep=0.95: a size is chosen by what the explainer knows of the row, and could
             give the answer away as a choice of features can
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

import l2x
from l2x._base.arrays import Array
from l2x.datasets import INVASE_SETS, invase
from l2x.datasets._invase import InvaseName
from l2x.evaluation import false_discovery_rate, true_positive_rate
from l2x.explanation import Explanation
from l2x.features import fitted_view
from l2x.learning import masked_answers
from l2x_experiments import adult, honesty
from l2x_experiments.contenders import learned
from l2x_experiments.honesty import CardBudget
from l2x_experiments.machine import measured_here
from l2x_experiments.records import Record
from l2x_experiments.runner import Experiment, Job
from l2x_experiments.setting import Setting

KEEP = (0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
CARD = 0.95  # the share that the report card is of
# The most features a row may keep; no row of INVASE's sets has more relevant ones.
MOST = {"adult": 5, "mnist-38": 4} | dict.fromkeys(INVASE_SETS, 5)
FULL, QUICK = honesty.FULL, honesty.QUICK
# With this many columns the budget's steps do not find Syn5's product: the view's own plan is run.
WIDE = 100
# Draws that nothing was tried on: those of `honesty`, and others since, were looked at with rules of before.
FRESH = {11: 1300, WIDE: 1600}


def experiment(
    *, quick: bool = False, seeds: int = 3, sets: Sequence[str] | None = None, wide: bool = True
) -> Experiment:
    budget = QUICK if quick else FULL
    problems = [(name, 11) for name in INVASE_SETS] + [("adult", None), ("mnist-38", None)]
    problems += [(name, WIDE) for name in INVASE_SETS] if wide and not quick else []
    jobs = [
        Job({"set": name, "d": d, "seed": seed}, f"{name}, seed {seed}", group=(name, d, seed))
        for name, d in problems
        for seed in range(seeds)
        if not sets or name in sets
    ]
    return Experiment("sizes", jobs, partial(measure_all, budget=budget))


def measure_all(jobs: Sequence[Job], budget: CardBudget) -> Iterator[Record]:
    for job in jobs:
        setting = replace(set_up(job["set"], job["d"], job["seed"], budget), learned={})
        yield {**job.key, **measure(setting, job["seed"]), **measured_here()}


def set_up(name: str, d: int | None, seed: int, budget: CardBudget) -> Setting:
    """The problem with its judge, explained with the most features that a row may keep."""
    if name == "adult":
        return replace(adult.set_up(adult.QUICK if budget.quick else adult.FULL), k=MOST[name])
    if name == "mnist-38":
        return replace(honesty.three_or_eight(seed, budget), k=MOST[name])
    if d == WIDE:
        budget = replace(budget, value_steps=None, selector_steps=None)
    assert d is not None
    draw = partial(invase, cast(InvaseName, name), d=d)
    return honesty.judged(draw, budget.first_seed + FRESH[d] + seed, budget, k=MOST[name])


def measure(setting: Setting, seed: int) -> Record:
    explainer, X = learned(setting, "l2x", seed), setting.test
    whole = explainer.explain(X)
    kept = [explainer.explain(X, keep=share) for share in KEEP]
    sizes = [explanation.sizes.mean() for explanation in kept]
    same = agreement(setting, [replace(whole, k=size) for size in range(1, setting.k + 1)])
    found = agreement(setting, kept)
    record = {
        "k": setting.k,
        "rows": len(whole),
        "keep": list(KEEP),
        "mean_size": [float(size) for size in sizes],
        **found,
        **{f"fixed_{name}": [at_size(shares, size) for size in sizes] for name, shares in same.items()},
        "fit_seconds": explainer.fit_seconds_,
    }
    if explainer.n_features_in_ < WIDE:  # of these a card would take longer than all the rest
        record["card"] = card(setting, explainer, seed)
    if setting.truth is not None:
        record["tpr"] = [true_positive_rate(explanation, setting.truth) for explanation in kept]
        record["fdr"] = [false_discovery_rate(explanation, setting.truth) for explanation in kept]
    return record


def card(setting: Setting, explainer: l2x.Explainer, seed: int) -> Record:
    """The report card of one share; its probes learn from the judge's rows."""
    made = l2x.report_card(
        explainer, setting.black_box, setting.probe_rows, setting.test, setting.k, keep=CARD,
        name=f"l2x, keep={CARD}", truth=setting.truth, judge=setting.judge, training=setting.plans.ours,
        seed=seed,
    )  # fmt: skip
    return made.to_dict()


def agreement(setting: Setting, explanations: Sequence[Explanation]) -> dict[str, list[float]]:
    """For each explanation: how often model and judge give the model's class from what was selected, and the
    model from all the rest."""
    view, judge = fitted_view(setting.features, setting.train), setting.judge
    assert judge is not None
    X = view.check(setting.test)
    classes = judge.answers(setting.test).argmax(axis=1)

    def share(answers: Array) -> float:
        return float((answers.argmax(axis=1) == classes).mean())

    masks = [explanation.mask for explanation in explanations]
    return {
        "posthoc_accuracy": [share(masked_answers(setting.black_box, view, X, mask)) for mask in masks],
        "complement_accuracy": [share(masked_answers(setting.black_box, view, X, ~mask)) for mask in masks],
        "judge_accuracy": [share(judge.outputs(setting.test, mask)) for mask in masks],
    }


def at_size(shares: Sequence[float], size: float) -> float:
    """What sizes 1, 2, ... give, between two of them as their mixture does."""
    return float(np.interp(size, np.arange(1, len(shares) + 1), shares))
