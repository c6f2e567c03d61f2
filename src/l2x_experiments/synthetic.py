"""Section 4.1: four synthetic sets, every method, median ranks and clock time.

    problem   = set x variant x model (the true P(y|x), or a trained network) x seed
    records   = what each method scores on 10,000 fresh rows of a problem, into results/synthetic.json

The number of selected features is the number of true ones, as in the paper. Nothing is chosen on test rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

import l2x
from l2x import baselines
from l2x.blackbox import BlackBox, as_black_box
from l2x.conditional import ConditionalModel, FittedQ
from l2x.datasets.synthetic import SETS, SetName, SyntheticData, Variant, synthetic
from l2x.evaluation import exact_sets, information, median_rank, true_positive_rate
from l2x.explanation import Explanation
from l2x.foundations.arrays import Array
from l2x.foundations.progress import progress_bar
from l2x.training import TrainingPlan
from l2x_experiments.networks import train_network
from l2x_experiments.results import Record, Results, machine

ModelName = Literal["true", "network"]

# Seeds of the draws of data: test rows never share a stream with training rows.
TEST_SEED = 1_000_000
BACKGROUND_SEED = 2_000_000
# The search for one subset for all rows asks about hundreds of subsets: many rows, since only few of them
# tell subsets apart (nonlinear additive), each against few draws.
GLOBAL_ROWS, GLOBAL_BACKGROUND = 1000, 20


METHODS: dict[ModelName, tuple[str, ...]] = {
    "true": ("l2x", "paper"),
    # Gradients need a network; LIME, Kernel SHAP and Parzen stand beside them.
    "network": ("l2x", "paper", "taylor", "saliency", "deeplift", "lrp", "lime", "kernel_shap", "parzen",
                "global", "random"),
}  # fmt: skip

# A method learns, and gives back what explains rows.
Explain = Callable[[Array], Explanation]
Learn = Callable[[], Explain]


@dataclass(frozen=True)
class Scale:
    """How much work a run does."""

    train_rows: int = 1_000_000  # as many as the authors' code draws
    test_rows: int = 10_000
    slow_rows: int = 100  # for methods that ask the model thousands of times per row
    network_steps: int = 4000
    bits_rows: int = 2000  # on so many rows bits are measured,
    background: int = 500  # each against so many draws of what is not selected
    plan: TrainingPlan = field(default_factory=lambda: TrainingPlan(progress=False))
    paper_plan: TrainingPlan = field(default_factory=lambda: TrainingPlan.paper(progress=False))

    @classmethod
    def quick(cls) -> Scale:
        paper = TrainingPlan.paper(progress=False)
        short = replace(paper.selector, steps=400)
        return cls(
            train_rows=50_000,
            test_rows=2000,
            slow_rows=5,
            network_steps=600,
            bits_rows=300,
            background=100,
            plan=TrainingPlan.quick(),
            paper_plan=replace(paper, selector=short),
        )


@dataclass(frozen=True)
class Problem:
    """One thing to explain."""

    set: SetName
    variant: Variant
    model: ModelName
    seed: int

    @property
    def label(self) -> str:
        return f"{self.set} ({self.variant}, {self.model}, seed {self.seed})"

    @property
    def canonical(self) -> Problem:
        """XOR and orange skin are the same formula in both variants."""
        return replace(self, variant="code") if self.set in ("xor", "orange_skin") else self

    @property
    def key(self) -> dict[str, Any]:
        return {"set": self.set, "variant": self.variant, "model": self.model, "seed": self.seed}


def problems(*, variants: Sequence[Variant], models: Sequence[ModelName], seeds: int) -> Iterator[Problem]:
    for seed in range(seeds):
        for model in models:
            for variant in variants:
                for name in SETS:
                    yield Problem(name, variant, model, seed)


@dataclass
class Bench:
    """A problem set up: rows to learn from, fresh rows to explain, and the model, which counts its calls."""

    problem: Problem
    scale: Scale
    train: SyntheticData
    test: SyntheticData
    black_box: BlackBox
    network: nn.Module | None
    accuracy: float | None
    bayes_accuracy: float

    @classmethod
    def of(cls, problem: Problem, scale: Scale) -> Bench:
        train = synthetic(problem.set, scale.train_rows, variant=problem.variant, seed=problem.seed)
        test_seed = TEST_SEED + problem.seed
        test = synthetic(problem.set, scale.test_rows, variant=problem.variant, seed=test_seed)
        bayes = float((test.model(test.X).argmax(axis=1) == test.y).mean())
        if problem.model == "true":
            return cls(problem, scale, train, test, as_black_box(train.model), None, None, bayes)
        network = train_network(train.X, train.y, seed=problem.seed, steps=scale.network_steps)
        black_box = as_black_box(network, logits=True)
        accuracy = float((black_box(test.X).argmax(axis=1) == test.y).mean())
        return cls(problem, scale, train, test, black_box, network, accuracy, bayes)

    def conditional(self, rows: int | None = None) -> ConditionalModel:
        """P_m(y | x_S) of the model itself; exact in the limit, because the features are independent."""
        rows = rows or self.scale.background
        background = synthetic(self.problem.set, rows, variant=self.problem.variant, seed=BACKGROUND_SEED)
        return ConditionalModel(self.black_box, background.X)


@dataclass(frozen=True)
class Outcome:
    """What a method did: explained the first rows of the test data, after learning or not."""

    explanation: Explanation
    own_q: FittedQ | None  # a learned explainer's own idea of what its selections tell
    fit_seconds: float
    explain_seconds: float
    model_rows_fit: int
    model_rows_explain: int


def run_method(bench: Bench, rows: int, learn: Learn) -> Outcome:
    """Time the learning and the explaining of a method apart, and count what it asks the model."""
    asked, started = bench.black_box.rows, time.perf_counter()
    explain = learn()
    fit_seconds = time.perf_counter() - started
    explain(bench.test.X[:1])  # imports and first-call set-up are not the price of a row
    learned, asked_learning = time.perf_counter(), bench.black_box.rows
    explanation = explain(bench.test.X[:rows])
    _ = explanation.indices  # ranking is part of the work
    learner = getattr(explain, "__self__", None)
    return Outcome(
        explanation,
        own_q=learner.q_ if isinstance(learner, l2x.Explainer) else None,
        fit_seconds=fit_seconds,
        explain_seconds=time.perf_counter() - learned,
        model_rows_fit=asked_learning - asked,
        model_rows_explain=bench.black_box.rows - asked_learning,
    )


def methods(bench: Bench) -> dict[str, tuple[int, Learn]]:
    """Every method that can explain this problem: how many rows, and how it learns to."""
    k, seed, scale, X = bench.train.k, bench.problem.seed, bench.scale, bench.train.X
    all_rows, few = scale.test_rows, min(scale.slow_rows, scale.test_rows)

    def ours() -> Explain:
        return l2x.Explainer(bench.black_box, k, training=scale.plan, seed=seed).fit(X).explain

    def paper() -> Explain:
        return l2x.Explainer.paper(bench.black_box, k, training=scale.paper_plan, seed=seed).fit(X).explain

    found: dict[str, tuple[int, Learn]] = {
        "l2x": (all_rows, ours),
        "paper": (all_rows, paper),
    }
    if bench.network is not None:
        found |= _baselines(bench, bench.network, all_rows, few)
    return found


def _baselines(bench: Bench, network: nn.Module, all_rows: int, few: int) -> dict[str, tuple[int, Learn]]:
    """The methods that the paper compares with, and controls; gradients need a network."""
    k, seed, X = bench.train.k, bench.problem.seed, bench.train.X
    some = X[:10_000]

    def plain(method: Any) -> Learn:
        return lambda: lambda rows: method.explain(rows, k)

    def parzen() -> Explain:
        method = baselines.Parzen(black_box, seed=seed, progress=False).fit(some)
        return lambda rows: method.explain(rows, k)

    def one_subset() -> Explain:
        method = baselines.GlobalTopK(bench.conditional(GLOBAL_BACKGROUND), rows=GLOBAL_ROWS, seed=seed)
        return method.fit(some, k).explain

    black_box = bench.black_box
    lime = baselines.Lime(black_box, background=some, seed=seed, progress=False)
    shap = baselines.KernelShap(black_box, background=some, seed=seed, progress=False)
    return {
        "saliency": (all_rows, plain(baselines.Saliency(network))),
        "taylor": (all_rows, plain(baselines.Taylor(network))),
        "deeplift": (all_rows, plain(baselines.DeepLift(network))),
        "lrp": (all_rows, plain(baselines.LRP(network))),
        "parzen": (all_rows, parzen),
        "lime": (few, plain(lime)),
        "kernel_shap": (few, plain(shap)),
        "random": (all_rows, plain(baselines.RandomK(seed=seed))),
        "global": (all_rows, one_subset),
    }


def record(bench: Bench, method: str, outcome: Outcome) -> Record:
    """One line of results/synthetic.json; seconds of explaining are for the scale's test rows."""
    rows = len(outcome.explanation)
    truth, explanation = bench.test.truth[:rows], outcome.explanation
    ranks = median_rank(explanation, truth)
    few = min(rows, bench.scale.bits_rows)
    bits = information(bench.conditional(), bench.test.X[:few], explanation[:few])
    claimed = outcome.own_q and information(outcome.own_q, bench.test.X[:few], explanation[:few])
    return bench.problem.key | {
        "method": method,
        "rows": rows,
        "median_rank_mean": float(ranks.mean()),
        "median_rank_sd": float(ranks.std()),
        "median_rank_quantiles": [float(q) for q in np.percentile(ranks, [5, 25, 50, 75, 95])],
        "exact": exact_sets(explanation, truth),
        "true_positive_rate": true_positive_rate(explanation, truth),
        "bits": bits.captured,
        "bits_available": bits.available,
        "bits_claimed": claimed and claimed.captured,
        "fit_seconds": outcome.fit_seconds,
        "explain_seconds": outcome.explain_seconds * bench.scale.test_rows / rows,
        "explain_rows_measured": rows,
        "model_rows_fit": outcome.model_rows_fit,
        "model_rows_per_explanation": outcome.model_rows_explain / rows,
        "model_accuracy": bench.accuracy,
        "bayes_accuracy": bench.bayes_accuracy,
        "train_rows": bench.scale.train_rows,
        "test_rows": bench.scale.test_rows,
        "threads": torch.get_num_threads(),
        "machine": machine(),
    }


def run_problem(problem: Problem, scale: Scale, names: list[str], threads: int) -> list[Record]:
    """Some methods on one problem; runs in a process of its own."""
    torch.set_num_threads(threads)
    bench = Bench.of(problem, scale)
    known = methods(bench)
    return [record(bench, name, run_method(bench, *known[name])) for name in names]


def run(
    output: Path,
    *,
    quick: bool = False,
    seeds: int = 3,
    variants: Sequence[Variant] = ("code", "paper"),
    models: Sequence[ModelName] = ("true", "network"),
    only: list[str] | None = None,
    jobs: int = 1,
    threads: int = 1,
    progress: bool = True,
) -> list[Record]:
    """Run what `output` does not hold yet, problem by problem, and return all its records.

    What is the same problem in both variants is measured once and listed under both.
    """
    scale = Scale.quick() if quick else Scale()
    results = Results(output)
    wanted = problems(
        variants=variants or ["code", "paper"], models=models or ["true", "network"], seeds=seeds
    )
    todo: dict[Problem, dict[str, list[Problem]]] = {}
    for problem in wanted:
        for name in METHODS[problem.model]:
            if (not only or name in only) and not results.has(
                **problem.key, method=name, train_rows=scale.train_rows
            ):
                todo.setdefault(problem.canonical, {}).setdefault(name, []).append(problem)
    with (
        ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool,
        progress_bar("synthetic problems", len(todo), visible=progress) as advance,
    ):
        running = {
            pool.submit(run_problem, problem, scale, list(names), threads): problem
            for problem, names in todo.items()
        }
        for done, future in enumerate(as_completed(running), start=1):
            problem = running[future]
            results.add(
                [record | twin.key for record in future.result() for twin in todo[problem][record["method"]]]
            )
            advance(done, problem.label)
    return [record for record in results.records if record["train_rows"] == scale.train_rows]
