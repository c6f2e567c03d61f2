"""Section 4.1: four synthetic sets, every method, median ranks and clock time.

    problem   = set x variant x model (the true P(y|x), or a trained network) x seed
    records   = what each method scores on 10,000 fresh rows of a problem

The number of selected features is the number of true ones, as in the paper. Nothing is chosen on test rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

import l2x
from l2x.datasets import SETS, SyntheticData, synthetic
from l2x.datasets._synthetic import SetName, Variant
from l2x.evaluation import exact_sets, information, median_rank, true_positive_rate
from l2x.features import Columns
from l2x.learning import ConditionalModel
from l2x.model import as_black_box
from l2x_experiments.black_boxes.columns import train_network
from l2x_experiments.comparison import ranked
from l2x_experiments.contenders import CONTENDERS, learned
from l2x_experiments.machine import measured_here, timed
from l2x_experiments.records import Record
from l2x_experiments.runner import Experiment, Job, only_methods
from l2x_experiments.setting import Budget, Setting

ModelName = Literal["true", "network"]

# Seeds of the draws of data: test rows never share a stream with training rows.
TEST_SEED = 1_000_000
BACKGROUND_SEED = 2_000_000
# Rows that LIME, Kernel SHAP, Parzen and the search for one subset compare with or learn from.
BACKGROUND_ROWS = 10_000

METHODS: dict[ModelName, tuple[str, ...]] = {
    "true": ("l2x", "paper", "paper-letter"),
    # Gradients need a network; LIME, Kernel SHAP and Parzen stand beside them.
    "network": ("l2x", "paper", "paper-letter", "taylor", "saliency", "deeplift", "kernel_shap", "lime",
                "lrp", "parzen", "global", "random"),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SyntheticBudget(Budget):
    """`bits_rows`: test rows on which bits are measured, each against `background` draws of what is not
    selected."""

    bits_rows: int = 2000
    background: int = 500


# The authors' code has SELU on these two sets and ReLU on the others; with SELU XOR is not found.
PAPER_NETWORKS = {name: {"activation": "selu"} for name in ("nonlinear_additive", "switch")}

# A million rows are what the authors' code draws.
FULL = SyntheticBudget(train_rows=1_000_000, test_rows=10_000, sampling_rows=100, model_steps=4000)
QUICK = SyntheticBudget(
    train_rows=50_000, test_rows=2000, sampling_rows=5, model_steps=600, bits_rows=300, background=100,
    value_steps=500, selector_steps=300, paper_steps=400, evaluations=10,
)  # fmt: skip


class Problem(NamedTuple):
    """One thing to explain."""

    set: SetName
    variant: Variant
    model: ModelName
    seed: int

    @property
    def canonical(self) -> Problem:
        """XOR and orange skin are the same formula in both variants."""
        return self._replace(variant="code") if self.set in ("xor", "orange_skin") else self


def experiment(
    *,
    quick: bool = False,
    seeds: int = 3,
    variants: Sequence[Variant] = ("code", "paper"),
    models: Sequence[ModelName] = ("true", "network"),
    only: Sequence[str] | None = None,
) -> Experiment:
    """What is the same problem in both variants is one group: measured once, and listed under both."""
    budget = QUICK if quick else FULL
    belongs = {"train_rows": budget.train_rows}
    problems = [
        Problem(name, variant, model, seed)
        for seed in range(seeds)
        for model in models
        for variant in variants
        for name in SETS
    ]
    jobs = [
        Job(
            problem._asdict() | {"method": method} | belongs,
            f"{problem.set} ({problem.variant}, {problem.model}, seed {problem.seed})",
            group=problem.canonical,
        )
        for problem in problems
        for method in METHODS[problem.model]
    ]
    return Experiment(
        "synthetic", only_methods(jobs, only), partial(measure_all, budget=budget), belongs=belongs
    )


def measure_all(jobs: Sequence[Job], budget: SyntheticBudget) -> Iterator[Record]:
    """One problem: each method once, for all jobs that ask for it."""
    problem = jobs[0].group
    assert isinstance(problem, Problem)
    setting = set_up(problem, budget)
    for method in dict.fromkeys(job["method"] for job in jobs):
        record = measure(setting, method)
        yield from (record | dict(job.key) for job in jobs if job["method"] == method)


@dataclass(kw_only=True)
class SyntheticSetting(Setting):
    """A problem set up: rows to learn from, fresh rows to explain, and the model, which counts its calls."""

    problem: Problem
    budget: SyntheticBudget
    accuracy: float | None
    bayes_accuracy: float


def set_up(problem: Problem, budget: SyntheticBudget) -> SyntheticSetting:
    def draw(rows: int | None, seed: int) -> SyntheticData:
        return synthetic(problem.set, rows or 0, variant=problem.variant, seed=seed)

    train, test = draw(budget.train_rows, problem.seed), draw(budget.test_rows, TEST_SEED + problem.seed)
    network, black_box, accuracy = None, as_black_box(train.model), None
    if problem.model == "network":
        network = train_network(train.X, train.y, seed=problem.seed, steps=budget.model_steps)
        black_box = as_black_box(network, logits=True)
        accuracy = float((black_box(test.X).argmax(axis=1) == test.y).mean())
    return SyntheticSetting(
        black_box=black_box,
        k=train.k,
        train=train.X,
        test=test.X,
        plans=budget.plans(Columns),
        paper_networks=PAPER_NETWORKS.get(problem.set, {}),
        model=network,
        background=train.X[:BACKGROUND_ROWS],
        # Exact in the limit, because the features are independent.
        conditional=lambda rows: ConditionalModel(black_box, draw(rows, BACKGROUND_SEED).X),
        problem=problem,
        budget=budget,
        truth=test.truth,
        accuracy=accuracy,
        bayes_accuracy=float((test.model(test.X).argmax(axis=1) == test.y).mean()),
    )


def measure(setting: SyntheticSetting, method: str) -> Record:
    """One line of results/synthetic.json; seconds of explaining are for the budget's test rows."""
    budget, seed, k, asked = setting.budget, setting.problem.seed, setting.k, setting.black_box
    few = CONTENDERS[method].cost == "sampling"
    X = setting.test[: budget.sampling_rows if few else None]
    before = asked.rows
    explainer, fit_seconds = timed(lambda: learned(setting, method, seed))
    explainer.explain(setting.test[:1], k)  # imports and first-call set-up are not the price of a row
    between = asked.rows
    explanation, seconds = timed(lambda: ranked(explainer.explain(X, k)))
    after = asked.rows
    assert setting.truth is not None
    truth = setting.truth[: len(X)]
    ranks = median_rank(explanation, truth)
    return {
        **setting.problem._asdict(),
        "method": method,
        "rows": len(X),
        "median_rank_mean": float(ranks.mean()),
        "median_rank_sd": float(ranks.std()),
        "median_rank_quantiles": [float(q) for q in np.percentile(ranks, [5, 25, 50, 75, 95])],
        "exact": exact_sets(explanation, truth),
        "true_positive_rate": true_positive_rate(explanation, truth),
        **bits(setting, explainer, explanation),
        "fit_seconds": fit_seconds,
        "explain_seconds": seconds * len(setting.test) / len(X),
        "explain_rows_measured": len(X),
        "model_rows_fit": between - before,
        "model_rows_per_explanation": (after - between) / len(X),
        "model_accuracy": setting.accuracy,
        "bayes_accuracy": setting.bayes_accuracy,
        "train_rows": budget.train_rows,
        "test_rows": budget.test_rows,
        **measured_here(),
    }


def bits(setting: SyntheticSetting, explainer: Any, explanation: l2x.Explanation) -> Record:
    """Bits that the selections capture, that there are, and that a learned explainer's own q claims."""
    few = explanation[: setting.budget.bits_rows]
    X = setting.test[: len(few)]
    assert setting.conditional is not None
    found = information(setting.conditional(setting.budget.background), X, few)
    own = explainer.q_ if isinstance(explainer, l2x.Explainer) else None
    claimed = own and information(own, X, few).captured
    return {"bits": found.captured, "bits_available": found.available, "bits_claimed": claimed}
