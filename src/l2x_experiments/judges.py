"""Judges that are fitted once and kept in the cache, and what they say of a selection."""

from __future__ import annotations

from typing import Any

from torch import nn

from l2x._base.arrays import Array
from l2x.evaluation import fit_judge
from l2x.explanation import Explanation
from l2x.features import View
from l2x.learning import Categorical, FittedQ, NetworkQ, Options, TrainingPlan, networks_of
from l2x.model import BlackBox
from l2x_experiments.cache import Key, fingerprint, remembered, value_key

Judge = FittedQ


def cached_judge(
    name: str,
    key: Key,
    black_box: BlackBox,
    view: View,
    X: Any,
    *,
    k: int,
    classes: int,
    plan: TrainingPlan,
    options: Options,
) -> Judge:
    """A judge fitted on these inputs now, or taken from the cache; `key` is of the black box and the view,
    `options` are the judge's network's."""

    def fit() -> nn.Module:
        judge = fit_judge(black_box, X, k, features=view, training=plan, predictor=options)
        return judge.q.networks["predictor"]

    network = networks_of(view, classes).predictor(**options)
    shapes = {entry: list(tensor.shape) for entry, tensor in network.state_dict().items()}
    key = {**key, "data": fingerprint(X), "k": k, "network": shapes, **value_key(plan)}
    predictor = remembered(f"judge-{name}", key, network, fit)
    return FittedQ(view, NetworkQ(predictor, Categorical(classes)), black_box)


def judge_accuracy(judge: Judge, X: Any, explanation: Explanation, answers: Array) -> float:
    """How often a judge, shown the selection alone, gives the model's class."""
    return float((judge.outputs(X, explanation.mask).argmax(axis=1) == answers).mean())
