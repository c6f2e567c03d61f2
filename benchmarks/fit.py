"""Measure how long `fit` takes, and what the default plan loses compared with `TrainingPlan.thorough()`.

    python benchmarks/fit.py [--cases switch adult ...] [--seeds 3] [--write]

For each case and seed the same rows, model and seed are used for both plans, one after the other, with one
thread; run it on an idle machine. Every line has the CPU seconds, the wall seconds and the quality:

    synthetic sets   the share of exact sets on 10,000 new rows; 100,000 training rows
    adult            post-hoc accuracy and evaluator on the test rows, k = 3
    breast cancer    the same for three models, k = 5; a seed is a split

The floor is the time of the matrix products that the default plan needs, and nothing else. Kernel SHAP and
TreeSHAP explain 100 rows. --write stores the records and the goals in results/fit.json.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import l2x
from l2x.datasets import SETS, synthetic
from l2x_experiments import adult, small
from l2x_experiments.cache import evaluator_accuracy
from l2x_experiments.records import Record, Records, measured_here

PATH = Path(__file__).parents[1] / "results" / "fit.json"
PLANS = {"default": l2x.TrainingPlan(progress=False), "thorough": l2x.TrainingPlan.thorough(progress=False)}
SYNTHETIC = [f"{name}, {variant}" for name, variant in product(SETS, ("code", "paper"))]
CASES = [*SYNTHETIC, "adult", *small.PROBLEMS]
TRAIN, TEST, EXPLAINED = 100_000, 10_000, 100
REPEATS = 100  # of the matrix products of one step


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Return the result of `work`, and its CPU and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = work()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return result, {"cpu_seconds": round(cpu, 3), "wall_seconds": round(wall, 3)}


Quality = Callable[[Any, int], dict[str, float]]


def problem(case: str, seed: int) -> tuple[Any, Any, int, Quality]:
    """Return model, training rows, k, and the quality of an explainer on the first n test rows of a case."""
    if case in SYNTHETIC:
        name, variant = case.split(", ")
        data, test = (
            synthetic(name, n, variant=variant, seed=s) for n, s in ((TRAIN, seed), (TEST, 1000 + seed))
        )

        def exact(explainer: Any, n: int) -> dict[str, float]:
            mask = explainer.explain(test.X[:n], test.k).mask
            return {"exact_sets": float((mask == test.truth[:n]).all(axis=1).mean())}

        return data.model, data.X, data.k, exact
    if case == "adult":
        census = adult.set_up(adult.FULL)
        classes = census.black_box(census.test).argmax(axis=1)

        def accuracies(explainer: Any, n: int) -> dict[str, float]:
            X, explanation = census.test.iloc[:n], explainer.explain(census.test.iloc[:n], census.k)
            return {
                "posthoc_accuracy": float(l2x.evaluation.posthoc_accuracy(census.black_box, X, explanation)),
                "judge_accuracy": evaluator_accuracy(census.evaluator, X, explanation, classes[:n]),
            }

        return census.model, census.train, census.k, accuracies
    setting = small.set_up(case, seed, small.FULL)

    def both(explainer: Any, n: int) -> dict[str, float]:
        record = small.accuracies(setting, explainer.explain(setting.test, setting.k).mask)
        return {name: record[name] for name in ("posthoc_accuracy", "judge_accuracy")}

    return setting.black_box, setting.train, setting.k, both


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


def peers(case: str, model: Any, X: Any, k: int) -> dict[str, Any]:
    """Return Kernel SHAP and, for trees, TreeSHAP; `l2x reproduce small` compares them on breast cancer."""
    if case in small.PROBLEMS:
        return {}
    found = {"kernel_shap": l2x.baselines.KernelShap(model, background=X, progress=False)}
    if case == "adult":
        found["tree_shap"] = l2x.baselines.TreeShap(model)
    return found


def measure(case: str, seed: int) -> Iterator[Record]:
    """Yield the records of both plans, of the floor and, for the first seed, of the peers."""
    model, X, k, quality = problem(case, seed)
    key = {"case": case, "seed": seed, "rows": len(X), "k": k, **measured_here()}
    for name, plan in PLANS.items():
        explainer, spent = timed(lambda plan=plan: l2x.Explainer(model, k, training=plan, seed=seed).fit(X))
        yield {**key, "timed": name, **spent, **quality(explainer, TEST)}
        if name == "default":
            yield {**key, "timed": "matrix products alone", **floor(explainer, plan, len(X))}
            if not seed and case not in small.PROBLEMS:
                yield {
                    **key,
                    "timed": "default",
                    "tested": EXPLAINED,
                    **spent,
                    **quality(explainer, EXPLAINED),
                }
    for name, method in peers(case, model, X, k).items() if not seed else ():
        found, spent = timed(lambda method=method: quality(method, EXPLAINED))
        yield {**key, "timed": name, "tested": EXPLAINED, **spent, **found}


def goals(records: Records) -> Iterator[Record]:
    """Yield ratios of the default to the thorough plan and to the floor, and differences of quality."""
    groups = {
        "four synthetic sets, both variants": SYNTHETIC,
        "adult": ["adult"],
        "breast cancer": small.PROBLEMS,
    }
    for label, cases in groups.items():
        whole = Records(r for r in records if r["case"] in cases and "tested" not in r)
        seconds = {
            m: np.mean(whole.select(timed=m).values("cpu_seconds")) for m in (*PLANS, "matrix products alone")
        }
        ratio = seconds["default"] / seconds["thorough"]
        most = 1 / 4 if label == "breast cancer" else 1 / 5
        yield _goal(f"{label}: CPU time, of the thorough plan's", ratio, f"at most {most}", ratio <= most)
        above = seconds["default"] / seconds["matrix products alone"]
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
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    torch.randn(9, 9) @ torch.randn(9, 9)
    records = Records((r for r in Records.load(PATH) if "case" in r), PATH) if given.write else Records()
    for seed, case in product(range(given.seeds), given.cases):
        if not records.has(case=case, seed=seed, timed="thorough"):
            new = list(measure(case, seed))
            for record in new:
                shown = {name: value for name, value in record.items() if name not in ("machine", "threads")}
                print(shown, flush=True)
            records.add(new)
    found = list(goals(records)) if set(given.cases) == set(CASES) else []
    for goal in found:
        print(goal)
    records.add(found)


if __name__ == "__main__":
    main()
