"""Measure how CPU time and memory of `fit` grow with the number of columns, relative to ten columns.

    python benchmarks/width.py [--columns 10,200,2000] [--rows 20000] [--rounds 1]
    python benchmarks/width.py --truth --columns 200 --rows 100000

Every width is fitted in its own process with one thread. The figures are ratios of CPU time within a round,
the median over rounds, for a tenth of the default plan. Each process trains a few steps first, so that
loading torch does not count. `--truth` uses the whole plan and shows how often the four decisive columns (two
products) are found.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import torch

import l2x
from l2x.learning._training import TrainingPlan
from l2x_experiments.records import machine

TRUE = 4


def model(X: np.ndarray) -> np.ndarray:
    """Return the probabilities for two products of four columns; no column is informative alone."""
    p = 1 / (1 + np.exp(-3 * (X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3])))
    return np.stack([1 - p, p], axis=1)


def learn(columns: int, rows: int, plan: TrainingPlan, objective: str) -> dict[str, float]:
    """Return CPU seconds and peak memory of one fit, and the share of new rows with exactly these columns."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    few = l2x.TrainingPlan(progress=False).with_steps(value=2, selector=2)
    l2x.Explainer(model, k=TRUE, training=few, objective=objective).fit(rng.normal(size=(2000, 10)))
    X = rng.normal(size=(rows, columns))
    started = time.process_time()
    explainer = l2x.Explainer(model, k=TRUE, training=plan, objective=objective).fit(X)
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # KiB on Linux
    exact = explainer.explain(rng.normal(size=(5000, columns))).mask[:, :TRUE].all(axis=1).mean()
    return {"seconds": seconds, "peak_gib": peak, "exact": float(exact)}


def in_a_process(columns: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", str(columns), *sys.argv[1:]]
    figures: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    print(columns, figures, file=sys.stderr)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--columns", default="10,200,2000")
    parser.add_argument("--rows", type=int, default=20_000)
    # The two phases have the same proportion as in the default plan.
    parser.add_argument("--value-steps", type=int, default=400)
    parser.add_argument("--selector-steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--objective", default="both")
    parser.add_argument("--truth", action="store_true")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()

    plan = l2x.TrainingPlan(progress=False)
    if not arguments.truth:
        plan = plan.with_steps(value=arguments.value_steps, selector=arguments.selector_steps)
        # Reduce the evaluations as well, and train all widths for the same number of steps.
        evaluations = max(1, plan.evaluations * arguments.value_steps // l2x.TrainingPlan.value.steps)
        plan = replace(plan, evaluations=evaluations, value=replace(plan.value, patience=None))
    if arguments.one:
        print(json.dumps(learn(arguments.one, arguments.rows, plan, arguments.objective)))
        return
    widths = [int(columns) for columns in arguments.columns.split(",")]
    rounds = [
        {columns: in_a_process(columns) for columns in widths}
        for _ in range(1 if arguments.truth else arguments.rounds)
    ]
    first = widths[0]
    table = {
        columns: {
            "times": round(statistics.median(r[columns]["seconds"] / r[first]["seconds"] for r in rounds), 2),
            "peak_gib": round(max(r[columns]["peak_gib"] for r in rounds), 2),
            "exact": rounds[-1][columns]["exact"],
        }
        for columns in widths
    }
    print(json.dumps({"machine": machine(), "rows": arguments.rows, "columns": table}, indent=2))


if __name__ == "__main__":
    main()
