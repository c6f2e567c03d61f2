"""Measure what `explain` adds to the bare forward pass of the selector: throughput and single-row latency.

    python benchmarks/explain.py [--threads N] [--rows 100000] [--write]

For an array of numbers the goals are 0.85 of the forward pass's rows per second, and at most 1.9 times its
latency for one row. For a pandas frame with as many numbers as categories the latency may be at most five
times that of its forward pass. Only l2x's own part counts: selections are not polished, so the model is not
called. Polishing adds one call of the model, and LightGBM alone needs 2 ms to convert a frame of one row.
`keep=` is measured, too: it queries the surrogate for 0 .. k features of every row; and
selector="sequential", whose k steps may take k + 1 times as long as the default selector.

Every figure is a ratio of two times from the same run, the best of alternating repetitions, because other
processes can only slow them down. --write stores the records in results/explain.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import l2x
from l2x.datasets import synthetic
from l2x.learning._training import Phase
from l2x_experiments.records import Records, measured_here

PATH = Path(__file__).parents[1] / "results" / "explain.json"
# The speed does not depend on the weights: a few training steps are enough.
PLAN = l2x.TrainingPlan(Phase(2, 1e-3), Phase(2, 1e-3), progress=False)
THROUGHPUT, LATENCY, MIXED_LATENCY = 0.85, 1.9, 5  # goals; the last is for the frame
COLUMNS = 5  # numbers, and as many categories
CATEGORIES = [f"category {i}" for i in range(8)]


def seconds(work: Callable[[], object], repeat: int = 1) -> float:
    started = time.perf_counter()
    for _ in range(repeat):
        work()
    return (time.perf_counter() - started) / repeat


def alternate(
    a: Callable[[], object], b: Callable[[], object], *, rounds: int, repeat: int = 1
) -> tuple[float, float]:
    """Return the least seconds of a and b, measured in turns, so that a noisy moment affects both."""
    a(), b()
    pairs = [(seconds(a, repeat), seconds(b, repeat)) for _ in range(rounds)]
    return min(p[0] for p in pairs), min(p[1] for p in pairs)


def numbers(rows: int) -> tuple[Any, Any]:
    """Return a model and an array."""
    data = synthetic("switch", rows, seed=0)
    return data.model, data.X


def frame(rows: int) -> tuple[Any, Any]:
    """Return a model of the first number, and a frame with categories."""
    rng = np.random.default_rng(0)
    columns = {f"number_{i}": rng.normal(size=rows) for i in range(COLUMNS)}
    texts = {f"text_{i}": rng.choice(CATEGORIES, size=rows) for i in range(COLUMNS)}

    def model(X: pd.DataFrame) -> Any:
        p = 1 / (1 + np.exp(-X["number_0"].to_numpy()))
        return np.stack([1 - p, p], axis=1)

    return model, pd.DataFrame(columns | texts)


def measure(name: str, model: Any, X: Any) -> dict[str, Any]:
    explainer = l2x.Explainer(model, k=5, training=PLAN).fit(X[:2000])
    network, view, one = explainer.selector_, explainer.features_, X[:1]
    encoded, encoded_one = view.encode(X), view.encode(one)

    @torch.inference_mode()
    def forward() -> list[torch.Tensor]:
        """Use the batches of `explain`: all rows at once do not fit into the cache and are slower."""
        return [network(rows) for rows in encoded.split(view.rows_at_once)]

    @torch.inference_mode()
    def forward_one() -> torch.Tensor:
        scores: torch.Tensor = network(encoded_one)
        return scores

    bare, explain = alternate(forward, lambda: explainer.explain(X, polish=False).indices, rounds=40)
    bare_one, explain_one = alternate(
        forward_one, lambda: explainer.explain(one, polish=False).indices, rounds=500, repeat=5
    )
    return {
        "inputs": name,
        "rows": len(X),
        "forward_rows_per_second": round(len(X) / bare),
        "explain_rows_per_second": round(len(X) / explain),
        "throughput_ratio": round(bare / explain, 3),
        "forward_one_row_microseconds": round(1e6 * bare_one, 1),
        "explain_one_row_microseconds": round(1e6 * explain_one, 1),
        "latency_ratio": round(explain_one / bare_one, 2),
        **measured_here(),
    }


def keeping(model: Any, X: Any) -> dict[str, Any]:
    """Compare `keep=`, a variable number of features, with k features in every row."""
    explainer = l2x.Explainer(model, k=5, training=l2x.TrainingPlan.quick()).fit(X[:5000])
    assert explainer.sizes_ is not None
    assert explainer.sizes_.by_surrogate is not None, "the surrogate is not queried: nothing to measure"
    fixed, variable = alternate(
        lambda: explainer.explain(X, polish=False).indices,
        lambda: explainer.explain(X, keep=0.9).sizes,
        rounds=10,
    )
    return {
        "measure": "array: seconds with keep=0.9, times those without",
        "value": round(variable / fixed, 2),
        "goal": "–",
        "holds": None,
        "inputs": "array",
        "rows": len(X),
        "k": explainer.k,
        "kept_rows_per_second": round(len(X) / variable),
        **measured_here(),
    }


def in_steps(model: Any, X: Any) -> dict[str, Any]:
    """Compare the sequential selector, k steps for every row, with the default selector's forward pass."""
    plan = l2x.TrainingPlan.quick()
    default = l2x.Explainer(model, k=5, training=plan).fit(X[:5000])
    sequential = l2x.Explainer(model, k=5, selector="sequential", training=plan).fit(X[:5000])
    one, steps = alternate(
        lambda: default.explain(X, polish=False).indices, lambda: sequential.explain(X).indices, rounds=10
    )
    value, most = round(steps / one, 2), sequential.k + 1
    return {
        "measure": "array: seconds with selector='sequential', times those of the default",
        "value": value,
        "goal": f"at most {most}",
        "holds": value <= most,
        "inputs": "array",
        "rows": len(X),
        "k": sequential.k,
        "explain_rows_per_second": round(len(X) / steps),
        **measured_here(),
    }


def records(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the two ratios, and for an array whether they reach their goals."""
    inputs, goals = measured["inputs"], measured["inputs"] == "array"
    most = LATENCY if goals else MIXED_LATENCY
    throughput, latency = measured["throughput_ratio"], measured["latency_ratio"]
    return [
        {
            "measure": f"{inputs}: rows per second, of the forward pass's",
            "value": throughput,
            "goal": f"at least {THROUGHPUT}" if goals else "–",
            "holds": throughput >= THROUGHPUT if goals else None,
            **measured,
        },
        {
            "measure": f"{inputs}: latency of one row, times the forward pass's",
            "value": latency,
            "goal": f"at most {most}",
            "holds": latency <= most,
            **measured,
        },
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--write", action="store_true", help=f"write {PATH.parent.name}/{PATH.name}")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    others = [keeping(*numbers(arguments.rows)), in_steps(*numbers(arguments.rows))]
    measurements = [
        measure("array", *numbers(arguments.rows)),
        measure("frame with categories", *frame(arguments.rows)),
    ]
    print(json.dumps([*measurements, *others], indent=2))
    print("The model was not called: its own conversion of frames is not part of these figures.")
    if arguments.write:
        PATH.unlink(missing_ok=True)
        Records.load(PATH).add([record for measured in measurements for record in records(measured)] + others)


if __name__ == "__main__":
    main()
