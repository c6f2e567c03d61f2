"""Measure how long `fit` takes, and what the default plan loses compared with `TrainingPlan.thorough()`.

    python benchmarks/fit.py [--cases "switch, code" adult ...] [--seeds 3] [--write]
    python benchmarks/fit.py --cases "ten digits" "one sentence" --seeds 1 --quick

For each case and seed the same rows, model and seed are used for both plans, one after the other, with one
thread. Every line has the CPU seconds, the wall seconds and the quality; only the CPU seconds are comparable
if the machine is busy:

    synthetic sets   the share of exact sets on 10,000 new rows; 100,000 training rows
    adult            post-hoc accuracy and evaluator on the test rows, k = 3
    breast cancer    the same for three models, k = 5; a seed is a split
    digits           the same on the test images, k = 4 of 49 patches: 3 versus 8, and all ten
    reviews          the same on 5,000 test reviews, ten words or one sentence; explainers learn from 8,640
                     reviews, so that the thorough plan ends in time

The floor is the time of the matrix products that the default plan needs, and nothing else; it is measured for
tables. Kernel SHAP and TreeSHAP explain 100 rows. --write stores each record in results/fit.json as soon as
it is measured, and the goals of the groups whose records are complete; what is there is not measured again.
--quick shows in minutes that digits and reviews run: it has few rows and few training steps, and its figures
mean nothing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import l2x
from l2x.datasets import SETS, synthetic
from l2x_experiments import adult, imdb, mnist, small
from l2x_experiments.cache import evaluator_accuracy
from l2x_experiments.comparison import Comparison
from l2x_experiments.records import Record, Records, measured_here

PATH = Path(__file__).parents[1] / "results" / "fit.json"
PLANS = ("default", "thorough")
FLOOR = "matrix products alone"
SYNTHETIC = [f"{name}, {variant}" for name, variant in product(SETS, ("code", "paper"))]
COMPARISONS: dict[str, Callable[[bool], Comparison]] = {
    "3 versus 8": lambda quick: mnist.set_up(mnist.THREE_EIGHT, mnist.QUICK if quick else mnist.FULL),
    "ten digits": lambda quick: mnist.set_up(list(range(10)), mnist.QUICK if quick else mnist.FULL),
    "ten words": lambda quick: imdb.set_up("words", imdb.QUICK if quick else REVIEWS),
    "one sentence": lambda quick: imdb.set_up("sentences", imdb.QUICK if quick else REVIEWS),
}
GROUPS = {
    "four synthetic sets, both variants": SYNTHETIC,
    "adult": ["adult"],
    "breast cancer": small.PROBLEMS,
} | {name: [name] for name in COMPARISONS}
CASES = [case for cases in GROUPS.values() for case in cases]
REVIEWS = replace(imdb.FULL, train_rows=12_000, test_rows=5_000)
TRAIN, TEST, EXPLAINED = 100_000, 10_000, 100
QUICK_STEPS = 20  # per phase
REPEATS = 100  # of the matrix products of one step


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Return the result of `work`, and its CPU and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = work()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return result, {"cpu_seconds": round(cpu, 3), "wall_seconds": round(wall, 3)}


Quality = Callable[[Any, int], dict[str, float]]


def problem(case: str, seed: int, *, quick: bool) -> tuple[Any, Any, int, Quality, l2x.features.View | None]:
    """Return model, training rows, k, the quality of an explainer on the first n test rows, and the view."""
    if case in SYNTHETIC:
        name, variant = case.split(", ")
        data, test = (
            synthetic(name, n, variant=variant, seed=s) for n, s in ((TRAIN, seed), (TEST, 1000 + seed))
        )

        def exact(explainer: Any, n: int) -> dict[str, float]:
            mask = explainer.explain(test.X[:n], test.k).mask
            return {"exact_sets": float((mask == test.truth[:n]).all(axis=1).mean())}

        return data.model, data.X, data.k, exact, None
    if case == "adult":
        census = adult.set_up(adult.FULL)
        classes = census.black_box(census.test).argmax(axis=1)

        def accuracies(explainer: Any, n: int) -> dict[str, float]:
            X, explanation = census.test.iloc[:n], explainer.explain(census.test.iloc[:n], census.k)
            return {
                "posthoc_accuracy": float(l2x.evaluation.posthoc_accuracy(census.black_box, X, explanation)),
                "judge_accuracy": evaluator_accuracy(census.evaluator, X, explanation, classes[:n]),
            }

        return census.model, census.train, census.k, accuracies, None
    if case in COMPARISONS:
        comparison = COMPARISONS[case](quick)
        view = comparison.our_features or comparison.features

        def measured(explainer: Any, n: int) -> dict[str, float]:
            X = comparison.features.take(comparison.test, slice(n))
            explanation, predictions = explainer.explain(X, comparison.k), comparison.test_predictions[:n]
            classes = predictions.argmax(axis=1)
            return {
                "posthoc_accuracy": float(
                    l2x.evaluation.posthoc_accuracy(
                        comparison.black_box, X, explanation, predictions=predictions
                    )
                ),
                "judge_accuracy": evaluator_accuracy(comparison.evaluator, X, explanation, classes),
            }

        return comparison.black_box, comparison.train, comparison.k, measured, view
    setting = small.set_up(case, seed, small.FULL)

    def both(explainer: Any, n: int) -> dict[str, float]:
        record = small.accuracies(setting, explainer.explain(setting.test, setting.k).mask)
        return {name: record[name] for name in ("posthoc_accuracy", "judge_accuracy")}

    return setting.black_box, setting.train, setting.k, both, None


def floor(explainer: l2x.Explainer, plan: l2x.TrainingPlan, rows: int) -> dict[str, float]:
    """Time the matrix products of the steps that training took, forward and backward."""
    predictor = explainer.surrogate_.surrogate.networks["predictor"]
    surrogate, selector = (
        max(entry["step"] for entry in explainer.history_ if name in entry["phase"])
        for name in ("surrogate", "selector")
    )
    batch, few = plan.value.rows_per_step(rows), plan.selector.rows_per_step(rows)
    work = [
        (surrogate, list(_products(predictor, batch, backward=True))),
        (selector, list(_products(explainer.selector_, few, backward=True))),
        (selector, list(_products(predictor, l2x.samplers.PlackettLuce().samples * few, backward=False))),
    ]
    seconds = 0.0
    for times, pairs in work:
        _, spent = timed(lambda pairs=pairs: _multiply(pairs, REPEATS))
        seconds += times * spent["cpu_seconds"] / REPEATS
    return {"cpu_seconds": round(seconds, 3), "wall_seconds": round(seconds, 3)}


def _multiply(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]], repeats: int) -> None:
    for _ in range(repeats):
        for a, b in pairs:
            a @ b


def _products(
    network: nn.Module, rows: int, *, backward: bool
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the factors of the matrix products of one pass through the dense layers of a network."""
    layers = [layer for layer in network.modules() if isinstance(layer, nn.Linear)]
    for i, layer in enumerate(layers):
        x, w, y = (torch.randn(*shape) for shape in (
            (rows, layer.in_features), (layer.in_features, layer.out_features), (rows, layer.out_features)
        ))  # fmt: skip
        yield x, w
        if backward:
            yield x.T, y
        if backward and i:  # the inputs need no gradient
            yield y, w.T


def peers(case: str, model: Any, X: Any) -> dict[str, Any]:
    """Return Kernel SHAP and, for trees, TreeSHAP; other experiments compare them on the other cases."""
    if case in small.PROBLEMS or case in COMPARISONS:
        return {}
    found = {"kernel_shap": l2x.baselines.KernelShap(model, background=X, progress=False)}
    if case == "adult":
        found["tree_shap"] = l2x.baselines.TreeShap(model)
    return found


def measure(case: str, seed: int, done: Callable[[str], bool], *, quick: bool) -> Iterator[Record]:
    """Yield the records of both plans, of the floor and, for the first seed, of the peers, if not `done`."""
    if done("thorough") and done("default"):
        return
    model, X, k, quality, view = problem(case, seed, quick=quick)
    key = {"case": case, "seed": seed, "rows": len(X), "k": k, **measured_here()}
    for name in PLANS:
        if done(name):
            continue
        plan = replace(l2x.learning.recipes_of(view or l2x.Columns).ours.plan, progress=False)
        plan = plan if name == "default" else l2x.TrainingPlan.thorough(view, progress=False)
        plan = plan.with_steps(value=QUICK_STEPS, selector=QUICK_STEPS) if quick else plan
        options = {"training": plan, "features": view, "seed": seed}
        explainer, spent = timed(lambda options=options: l2x.Explainer(model, k, **options).fit(X))
        yield {**key, "timed": name, **spent, **quality(explainer, TEST), "queries": explainer.queries_}
        if name == "default" and view is None:
            yield {**key, "timed": FLOOR, **floor(explainer, plan, len(X))}
        if name == "default" and not seed and (others := peers(case, model, X)):
            few = {"tested": EXPLAINED}
            yield {**key, "timed": name, **few, **spent, **quality(explainer, EXPLAINED)}
            for peer, method in others.items():
                found, spent = timed(lambda method=method: quality(method, EXPLAINED))
                yield {**key, "timed": peer, **few, **spent, **found}


def goals(records: Records, seeds: int) -> Iterator[Record]:
    """Yield ratios of the default to the thorough plan and to the floor, and differences of quality."""
    for label, cases in GROUPS.items():
        whole = Records(r for r in records if r["case"] in cases and "tested" not in r)
        if not all(whole.has(case=c, seed=s, timed="thorough") for c, s in product(cases, range(seeds))):
            continue
        seconds = {m: np.mean(whole.select(timed=m).values("cpu_seconds")) for m in PLANS}
        ratio = seconds["default"] / seconds["thorough"]
        most = 1 / 5 if label in list(GROUPS)[:2] else 1 / 4
        yield _goal(f"{label}: CPU time, of the thorough plan's", ratio, f"at most {most}", ratio <= most)
        if products := whole.select(timed=FLOOR).values("cpu_seconds"):
            above = seconds["default"] / np.mean(products)
            yield _goal(f"{label}: CPU time, times the matrix products", above, "at most 4", above <= 4)
        if label == "breast cancer":
            yield _goal(f"{label}: CPU seconds", seconds["default"], "at most 8", seconds["default"] <= 8)
        for measure in ("exact_sets", "posthoc_accuracy", "judge_accuracy"):
            if not (values := [whole.select(timed=m).values(measure) for m in PLANS])[0]:
                continue
            difference = np.mean(values[0]) - np.mean(values[1])
            yield _goal(
                f"{label}: {measure}, default minus thorough",
                difference,
                "at least -0.003",
                difference >= -0.003,
            )


def _goal(measure: str, value: float, goal: str, holds: bool) -> Record:
    return {"measure": measure, "value": round(float(value), 4), "goal": goal, "holds": bool(holds)}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cases", nargs="+", choices=CASES, default=CASES, metavar="CASE", help=", ".join(CASES)
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--write", action="store_true", help=f"add to {PATH.parent.name}/{PATH.name}, and resume it"
    )
    parser.add_argument("--quick", action="store_true", help="few rows and steps, to see that a case runs")
    given = parser.parse_args(arguments)
    if given.quick and given.write:
        parser.error("--quick measures nothing to write: leave out --quick or --write.")
    torch.set_num_threads(1)
    torch.randn(9, 9) @ torch.randn(9, 9)
    records = Records((r for r in Records.load(PATH) if "case" in r), PATH) if given.write else Records()
    for seed, case in product(range(given.seeds), given.cases):
        done = partial(_measured, records, case, seed)
        for record in measure(case, seed, done, quick=given.quick):
            shown = {name: value for name, value in record.items() if name not in ("machine", "threads")}
            print(shown, flush=True)
            records.add([record])
    found = list(goals(records, given.seeds))
    for goal in found:
        print(goal)
    records.add(found)


def _measured(records: Records, case: str, seed: int, name: str) -> bool:
    return records.has(case=case, seed=seed, timed=name)


if __name__ == "__main__":
    main()
