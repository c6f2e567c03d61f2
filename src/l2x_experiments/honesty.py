"""Can the explanations be trusted? The report card of ours, of the paper's recipe, and of three cheaters.

setting   = a data set, a model and rows in three parts: for explainers, for the judge, and to measure on
records   = the report card of every method on every setting and seed, into results/honesty.json
rates     = on switch, over ten seeds: how often the verdict flags a method; the card's error rates

One more set is one more entry in SETTINGS. Nothing here was tuned on these seeds: the verdict's limit comes
from other draws (docs/report-card.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import l2x
from l2x import baselines
from l2x.blackbox import as_black_box
from l2x.conditional import Conditional, FittedQ
from l2x.datasets.invase import INVASE_SETS, InvaseData, InvaseName, invase
from l2x.datasets.synthetic import SyntheticData, synthetic
from l2x.evaluation import fit_judge
from l2x.evaluation.ranks import exact_sets, false_discovery_rate, true_positive_rate
from l2x.features.view import View
from l2x.foundations.arrays import Array
from l2x.foundations.progress import progress_bar
from l2x.training import TrainingPlan
from l2x_experiments.bench import Bench, scaled
from l2x_experiments.results import Record, Results, machine

CARD_METHODS = ("l2x", "paper", "position", "prediction", "marginal")
CHEATERS = CARD_METHODS[2:]
TRUTH_METHODS = ("l2x", "paper")
# Draws of the three parts never share a seed.
JUDGE_SEED, TEST_SEED = 3_000_000, 4_000_000


@dataclass(frozen=True)
class Scale:
    """How much work a run does."""

    train_rows: int = 100_000
    test_rows: int = 5000
    value_steps: int = 1500
    selector_steps: int = 400
    paper_steps: int = 1000
    first_seed: int = 7000  # seeds that nothing was tried on
    verdict_seeds: int = 10  # of switch
    paper_seeds: int = 3  # of those, so many with the paper's recipe too
    network_steps: int | None = None  # of what reads images and texts; None: as the view has it
    dimensions: tuple[int, ...] = (11, 100)

    @classmethod
    def quick(cls) -> Scale:
        return cls(
            train_rows=30_000, test_rows=2000, value_steps=400, selector_steps=200, paper_steps=300,
            first_seed=0, verdict_seeds=2, network_steps=150, dimensions=(11,),
        )  # fmt: skip

    @property
    def plan(self) -> TrainingPlan:
        plan = TrainingPlan(progress=False)
        return replace(
            plan,
            value=replace(plan.value, steps=self.value_steps),
            selector=replace(plan.selector, steps=self.selector_steps),
        )

    @property
    def paper_plan(self) -> TrainingPlan:
        plan = TrainingPlan.paper(progress=False)
        return replace(plan, selector=replace(plan.selector, steps=self.paper_steps))


@dataclass
class Setting:
    """What is explained, and the rows: to learn from, for the readers of the places, to measure on."""

    model: Any
    k: int
    train: Any
    readers: Any
    test: Any
    judge: FittedQ
    plan: TrainingPlan
    paper_plan: TrainingPlan
    features: View | None = None
    truth: Array | None = None
    exact: Conditional | None = None
    known: dict[str, Any] = field(default_factory=dict)  # methods that are ready, by name

    def method(self, name: str, seed: int) -> Any:
        """A method, fitted once: the cheaters build on ours."""
        if name not in self.known:
            self.known[name] = self._build(name, seed)
        return self.known[name]

    def _build(self, name: str, seed: int) -> Any:
        if name == "l2x":
            ours = l2x.Explainer(self.model, self.k, features=self.features, training=self.plan, seed=seed)
            return ours.fit(self.train)
        if name == "paper":
            theirs = l2x.Explainer.paper(
                self.model, self.k, features=self.features, training=self.paper_plan, seed=seed
            )
            return theirs.fit(self.train)
        if name == "position":
            return baselines.ByPosition(self.model, features=self.judge.view, seed=seed)
        ours = self.method("l2x", seed)
        if name == "prediction":
            return baselines.ByPrediction(ours.q_, features=ours.features_)
        some = ours.features_.take(ours.features_.check(self.train), slice(0, 2000))
        return baselines.ByMarginal(ours, ours.q_).fit(some, self.k)


def from_draws(
    draw: Callable[..., SyntheticData | InvaseData], seed: int, scale: Scale, *, k: int | None = None
) -> Setting:
    """A setting of a synthetic set, whose true P(y|x) is explained; every part is a fresh draw."""
    train, readers, test = (
        draw(n, seed=first + seed)
        for n, first in (
            (scale.train_rows, 0), (scale.train_rows, JUDGE_SEED), (scale.test_rows, TEST_SEED)
        )
    )  # fmt: skip
    model, k = as_black_box(train.model), k or train.k
    judge = fit_judge(model, readers.X, k, training=scale.plan, seed=JUDGE_SEED + seed)
    return Setting(
        model=model,
        k=k,
        train=train.X,
        readers=readers.X,
        test=test.X,
        judge=judge,
        plan=scale.plan,
        paper_plan=scale.paper_plan,
        truth=test.truth,
        exact=test.model.conditional(rows=50, seed=JUDGE_SEED - 1),
    )


def from_bench(bench: Bench, steps: int | None, *, readers: int, test: int) -> Setting:
    """A setting of `l2x reproduce mnist` or `imdb-words`: its model, its parts of the data, and its judge,
    which learned from other inputs than the explainers."""
    view = bench.view
    return Setting(
        model=bench.black_box,
        k=bench.k,
        train=bench.train,
        readers=view.take(bench.train, slice(0, readers)),
        test=view.take(bench.test, slice(0, test)),
        judge=bench.judge,
        plan=scaled(view.recipes.ours.plan, steps),
        paper_plan=scaled(view.recipes.paper.plan, steps),
        features=view,
    )


def three_or_eight(seed: int, scale: Scale) -> Setting:
    """MNIST, 3 against 8."""
    from l2x_experiments import mnist

    size = mnist.Scale.quick() if scale.network_steps else mnist.Scale()
    return from_bench(mnist.set_up(mnist.THREE_EIGHT, size), scale.network_steps, readers=8000, test=2000)


def review_words(seed: int, scale: Scale) -> Setting:
    """IMDB, ten words; few reviews, because cheating by prediction asks about each of 400 words."""
    from l2x_experiments import imdb

    size = imdb.Scale.quick() if scale.network_steps else imdb.Scale()
    return from_bench(imdb.set_up("words", size), scale.network_steps, readers=2000, test=500)


# Every set of the table: how a setting of it is made from a seed.
SETTINGS: dict[str, Callable[[int, Scale], Setting]] = {
    "switch": partial(from_draws, partial(synthetic, "switch")),
    "syn4": partial(from_draws, partial(invase, "syn4")),
    "syn5": partial(from_draws, partial(invase, "syn5")),
    "syn6": partial(from_draws, partial(invase, "syn6")),
    # Some rows of Syn4 and Syn5 have five relevant features: with four the best selection leaves one out, and
    # which one it is tells of its value.
    "syn4-k5": partial(from_draws, partial(invase, "syn4"), k=5),
    "syn5-k5": partial(from_draws, partial(invase, "syn5"), k=5),
    "mnist-38": three_or_eight,
    "imdb-words": review_words,
}


def card_record(setting: Setting, name: str, method: str, seed: int, scale: Scale) -> Record:
    """One line of results/honesty.json: a report card."""
    started = time.perf_counter()
    explainer = setting.method(method, seed)
    card = l2x.report_card(
        explainer,
        setting.model,
        setting.readers,
        setting.test,
        setting.k,
        name=method,
        truth=setting.truth,
        exact=setting.exact,
        judge=setting.judge,
        training=setting.plan,
        seed=seed,
    )
    return {
        "kind": "card",
        "set": name,
        "method": method,
        "seed": seed,
        "train_rows": scale.train_rows,
        **card.to_dict(),
        "seconds": time.perf_counter() - started,
        "threads": torch.get_num_threads(),
        "machine": machine(),
    }


def truth_record(name: InvaseName, d: int, method: str, seed: int, scale: Scale) -> Record:
    """One line of results/honesty.json: rates against the truth on one of INVASE's sets."""
    train = invase(name, scale.train_rows, d=d, seed=seed)
    test = invase(name, scale.test_rows, d=d, seed=TEST_SEED + seed)
    build: Callable[..., l2x.Explainer] = l2x.Explainer.paper if method == "paper" else l2x.Explainer
    plan = scale.paper_plan if method == "paper" else scale.plan
    explainer = build(train.model, train.k, training=plan, seed=seed).fit(train.X)
    explanation = explainer.explain(test.X)
    sizes = test.truth.sum(axis=1)
    # As many features as the row truly has: then the share of wrong ones is one minus that of found ones.
    sized = np.take_along_axis(test.truth, np.argsort(-explanation.scores, axis=1, kind="stable"), axis=1)
    found = (sized & (np.arange(d) < sizes[:, None])).sum(axis=1) / sizes
    best = l2x.Explanation(test.truth.astype(float), train.k, explanation.feature_names)
    return {
        "kind": "truth",
        "set": name,
        "d": d,
        "method": method,
        "seed": seed,
        "k": train.k,
        "variant": "code",
        "tpr": true_positive_rate(explanation, test.truth),
        "fdr": false_discovery_rate(explanation, test.truth),
        "best_tpr": true_positive_rate(best, test.truth),
        "best_fdr": false_discovery_rate(best, test.truth),
        "tpr_at_true_size": float(found.mean()),
        "exact": exact_sets(explanation, test.truth),
        "fit_seconds": explainer.fit_seconds_,
        "train_rows": scale.train_rows,
        "test_rows": scale.test_rows,
        "threads": torch.get_num_threads(),
        "machine": machine(),
    }


def rates(records: Sequence[Record]) -> dict[str, tuple[int, int]]:
    """How often the verdict flags each method on switch: {method: (flagged, seeds)}."""
    cards = [record for record in records if record["kind"] == "card" and record["set"] == "switch"]
    return {
        method: (sum(record["finding"] == "encodes" for record in some), len(some))
        for method in CARD_METHODS
        if (some := [record for record in cards if record["method"] == method])
    }


def run(
    output: Path,
    *,
    quick: bool = False,
    seeds: int = 1,
    sets: Sequence[str] | None = None,
    with_truth: bool = True,
    progress: bool = True,
) -> list[Record]:
    """Run what `output` does not hold yet, and return its records of this scale."""
    scale = Scale.quick() if quick else Scale()
    results = Results(output)
    wanted = list(SETTINGS) if sets is None else list(sets)
    first = scale.first_seed
    cards = [
        (name, seed)
        for name in wanted
        for seed in range(first, first + (scale.verdict_seeds if name == "switch" else seeds))
    ]
    truths = [
        (name, d, method, seed)
        for d in scale.dimensions
        for name in INVASE_SETS
        for method in TRUTH_METHODS
        for seed in range(first, first + seeds)
    ]
    with progress_bar("honesty", len(cards) + len(truths), visible=progress) as advance:
        for done, (name, seed) in enumerate(cards):
            advance(done, f"{name}, seed {seed}")
            _run_cards(results, name, seed, scale)
        for done, (name, d, method, seed) in enumerate(truths if with_truth else [], start=len(cards)):
            advance(done, f"{name}, {d} dimensions, {method}")
            key = {"kind": "truth", "set": name, "d": d, "method": method, "seed": seed}
            if not results.has(**key, train_rows=scale.train_rows):
                results.add([truth_record(name, d, method, seed, scale)])
    return [record for record in results.records if record["train_rows"] == scale.train_rows]


def _run_cards(results: Results, name: str, seed: int, scale: Scale) -> None:
    missing = [
        method
        for method in CARD_METHODS
        if (method != "paper" or seed < scale.first_seed + scale.paper_seeds)
        and not results.has(kind="card", set=name, method=method, seed=seed, train_rows=scale.train_rows)
    ]
    if not missing:
        return
    setting = SETTINGS[name](seed, scale)
    for method in missing:
        results.add([card_record(setting, name, method, seed, scale)])
