"""How much explaining adds to the bare forward pass of the selector: throughput and single-row latency.

    python benchmarks/explain.py [--threads N]

Every figure is a ratio of two times from the same run, the median over alternating repetitions.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch

import l2x
from l2x.datasets import synthetic
from l2x.features.view import as_tensor
from l2x.training import Phase
from l2x_experiments.machine import machine


def seconds(work: Callable[[], object], repeat: int = 1) -> float:
    started = time.perf_counter()
    for _ in range(repeat):
        work()
    return (time.perf_counter() - started) / repeat


def alternate(
    a: Callable[[], object], b: Callable[[], object], *, rounds: int, repeat: int = 1
) -> tuple[float, float]:
    """Median seconds of a and of b, measured in turns, so that a noisy moment hits both."""
    a(), b()
    pairs = [(seconds(a, repeat), seconds(b, repeat)) for _ in range(rounds)]
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rows", type=int, default=100_000)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    data = synthetic("switch", arguments.rows, seed=0)
    # The weights do not matter for the speed: a few steps of training make the real objects.
    plan = l2x.TrainingPlan(Phase(2, 1e-3), Phase(2, 1e-3), progress=False)
    explainer = l2x.Explainer(data.model, k=5, training=plan).fit(data.X[:2000])
    network, tensor, one = explainer.selector_, as_tensor(data.X), as_tensor(data.X[:1])

    @torch.inference_mode()
    def forward() -> list[torch.Tensor]:
        """In the same batches as `explain`: faster than all rows at once, which leave the cache."""
        return [network(rows) for rows in tensor.split(explainer.features_.recipes.rows_at_once)]

    @torch.inference_mode()
    def forward_one() -> torch.Tensor:
        return network(one)

    bare, explain = alternate(forward, lambda: explainer.explain(data.X).indices, rounds=15)
    bare_one, explain_one = alternate(
        forward_one, lambda: explainer.explain(data.X[:1]).indices, rounds=15, repeat=300
    )
    print(
        json.dumps(
            {
                "machine": machine(),
                "threads": torch.get_num_threads(),
                "rows": arguments.rows,
                "forward_rows_per_second": round(arguments.rows / bare),
                "explain_rows_per_second": round(arguments.rows / explain),
                "throughput_ratio": round(bare / explain, 3),
                "forward_one_row_microseconds": round(1e6 * bare_one, 1),
                "explain_one_row_microseconds": round(1e6 * explain_one, 1),
                "latency_ratio": round(explain_one / bare_one, 2),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
