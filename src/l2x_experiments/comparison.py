"""How sections 4.2 and 4.3 compare: every contender selects k features, and how much of the answer do they keep?

The training inputs are split in three parts: for explainers, for the judge, and for choosing between our
recipes; nothing is chosen on test inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from torch import nn

from l2x.blackbox import BlackBox
from l2x.data import ask
from l2x.evaluation import fit_judge, mask_only_accuracy, posthoc_accuracy
from l2x.explanation import Explanation
from l2x.features.view import View
from l2x.foundations.arrays import Array
from l2x.likelihood import Categorical
from l2x.training import TrainingPlan
from l2x.values import FittedValue, NetworkValue
from l2x_experiments.cache import Key, remembered, value_key
from l2x_experiments.contenders import CONTENDERS, Cost, learned
from l2x_experiments.machine import measured_here, timed
from l2x_experiments.records import Record
from l2x_experiments.runner import Job
from l2x_experiments.setting import Setting

# Our recipes: the better one on validation inputs is listed as l2x, too.
OURS = ("l2x-model", "l2x-surrogate")
# Training inputs whose selections teach the mask-only predictor.
MASK_ROWS = 8000


@dataclass(kw_only=True)
class Comparison(Setting):
    """A problem of sections 4.2 and 4.3; the same for every seed, which is the explainers'.

    Attributes
    ----------
    features, judge : always there
    validation : inputs on which our recipes are chosen
    labels : of the test inputs
    examples : rows of the test inputs whose selections are kept, to be shown
    about : entries of every record
    limits : test inputs to explain, and training inputs for the mask-only predictor, by what one input costs
    """

    features: View
    judge: FittedValue
    validation: Any
    labels: Array
    examples: Array
    about: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[Cost, tuple[int, int]] = field(default_factory=dict)

    def answers(self, X: Any) -> Array:
        """P_m(y|x) of each input."""
        return ask(self.black_box, self.features, self.features.check(X), progress=False)

    @cached_property
    def test_answers(self) -> Array:
        return self.answers(self.test)

    @cached_property
    def train_classes(self) -> Array:
        """The model's class for each training input."""
        return np.asarray(self.answers(self.train).argmax(axis=1))


def jobs(
    name: str, problems: Sequence[Any], methods: Sequence[str], seeded: Sequence[str], seeds: int
) -> list[Job]:
    """Every contender on every problem, which the entry `name` of its records tells; the first seed first, and
    other seeds only for contenders that depend on them."""
    return [
        Job(
            {name: problem, "seed": seed, "method": method},
            f"{problem}, {method}, seed {seed}",
            group=(str(problem), method, seed),
        )
        for seed in range(seeds)
        for method in methods
        if seed == 0 or method in seeded
        for problem in problems
    ]


def measure_all(
    jobs: Sequence[Job], *, set_up: Callable[[Any], Comparison], problem: str
) -> Iterator[Record]:
    """The records of some jobs; `problem` is the entry that says which setting they are about."""
    for job in jobs:
        setting = set_up(job[problem])
        yield {**job.key, **setting.about, **measure(setting, job["method"], job["seed"])}


def measure(setting: Comparison, method: str, seed: int) -> Record:
    """What a contender scores; post-hoc accuracy never without its companions."""
    view, k = setting.features, setting.k
    rows, mask_rows = setting.limits.get(CONTENDERS[method].cost, (len(setting.test), MASK_ROWS))
    X, responses = view.take(setting.test, slice(rows)), setting.test_answers[:rows]
    answers, seen = responses.argmax(axis=1), view.take(setting.train, slice(mask_rows))
    explainer, fit_seconds = timed(lambda: learned(setting, method, seed))
    explanation, explain_seconds = timed(lambda: ranked(explainer.explain(X, k)))
    shown = setting.examples[setting.examples < len(X)]
    validation = None
    if method in OURS:  # only between them is there anything to choose
        chosen = explainer.explain(setting.validation, k)
        validation = posthoc_accuracy(setting.black_box, setting.validation, chosen)

    def kept(*, complement: bool = False) -> float:
        return posthoc_accuracy(setting.black_box, X, explanation, complement=complement, responses=responses)

    return {
        "k": k,
        "rows": len(X),
        "posthoc_accuracy": kept(),
        "judge_accuracy": judge_accuracy(setting.judge, X, explanation, answers),
        "mask_only_accuracy": mask_only_accuracy(
            explainer.explain(seen, k).mask, setting.train_classes[:mask_rows], explanation.mask, answers
        ),
        "complement_accuracy": kept(complement=True),
        "validation_posthoc": validation,
        "fit_seconds": fit_seconds,
        "explain_seconds": explain_seconds,
        "model_accuracy": float((setting.test_answers.argmax(axis=1) == setting.labels).mean()),
        "majority": float(max((answers == label).mean() for label in set(answers.tolist()))),
        "train_rows": len(setting.train),
        "mask_rows": len(seen),
        "example_rows": shown.tolist(),
        "examples": explanation.indices[shown].tolist(),
        "example_answers": answers[shown].tolist(),
    } | measured_here()


def ranked(explanation: Explanation) -> Explanation:
    """The explanation, with its features in order: ranking is part of the work that is timed."""
    _ = explanation.indices
    return explanation


def judge_accuracy(judge: FittedValue, X: Any, explanation: Explanation, answers: Array) -> float:
    """How often a judge, shown the selection alone, gives the model's class."""
    return float((judge.probabilities(X, explanation.mask).argmax(axis=1) == answers).mean())


def with_chosen(records: Sequence[Record], problem: str) -> list[Record]:
    """The records and, as `l2x`, those of the recipe of ours that is better on the validation inputs.

    `problem` is the entry that tells one problem's records from another's.
    """
    records = [record for record in records if record["method"] != "l2x"]
    chosen: list[Record] = []
    for which in {str(record[problem]): None for record in records}:
        recipes: dict[str, list[Record]] = {}
        for record in records:
            if str(record[problem]) == which and record["method"] in OURS:
                recipes.setdefault(record["method"], []).append(record)
        if set(recipes) == set(OURS):  # in an unfinished run there is nothing to choose yet
            scores = {
                name: np.mean([r["validation_posthoc"] for r in some]) for name, some in recipes.items()
            }
            best = max(scores, key=lambda name: scores[name])
            chosen += [record | {"method": "l2x", "recipe": best} for record in recipes[best]]
    return chosen + records


def cached_judge(
    name: str, key: Key, black_box: BlackBox, view: View, X: Any, *, k: int, classes: int, plan: TrainingPlan
) -> FittedValue:
    """A judge fitted on these inputs now, or taken from the cache; `key` is of the inputs and the model."""

    def fit() -> nn.Module:
        value = fit_judge(black_box, X, k, features=view, training=plan).value
        assert isinstance(value, NetworkValue)
        return value.predictor

    key = {**key, "k": k, "classes": classes, **value_key(plan)}
    predictor = remembered(f"judge-{name}", key, view.predictor(classes), fit)
    return FittedValue(view, NetworkValue(predictor, Categorical(classes)), black_box)
