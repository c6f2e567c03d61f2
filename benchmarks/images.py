"""Measure how CPU time and memory of `fit` and `explain` change if images have twice the side length.

    python benchmarks/images.py [--sides 224,448] [--images 300] [--steps 40] [--rounds 1]

Every side is fitted in its own process with one thread: 196 patches, the networks of the default plan, which
read one small vector per patch, and the steps given. The model is a cheap function of the mean colour, whose
own time is not counted. Each process trains a few steps first, so that loading torch does not count. The fit
of 5,000 composites at 224 x 224 with a network is measured by `l2x reproduce composites`.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

import numpy as np
import torch

import l2x
from l2x_experiments.records import machine

GRID = 14


class Redness:
    """The model: which of two colours is stronger; it measures its own time."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return two probabilities for each image."""
        started = time.process_time()
        means = X[:, ::8, ::8].mean(axis=(1, 2))
        p = 1 / (1 + np.exp((means[:, 2] - means[:, 0]) / 10))
        self.seconds += time.process_time() - started
        return np.stack([1 - p, p], axis=1)


def learn(side: int, images: int, steps: int) -> dict[str, float]:
    """Return CPU seconds of fit without the model's, CPU milliseconds of explain, and peak memory."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, size=(images, 28, 28, 3), dtype=np.uint8)
    X = coarse.repeat(side // 28, axis=1).repeat(side // 28, axis=2)
    view, model = l2x.Patches(side // GRID, masking="colour"), Redness()

    def fit(X: np.ndarray, steps: int) -> l2x.Explainer:
        plan = l2x.TrainingPlan.quick(view).with_steps(value=steps, selector=steps)
        return l2x.Explainer(model, k=12, features=view, training=plan).fit(X)

    fit(X[:40], 2)
    model.seconds, started = 0.0, time.process_time()
    explainer = fit(X, steps)
    seconds = time.process_time() - started - model.seconds
    started = time.process_time()
    explainer.explain(X, polish=False)
    milliseconds = 1000 * (time.process_time() - started) / images
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # KiB on Linux
    return {"seconds": seconds, "explain_ms": milliseconds, "peak_gib": peak, "queries": explainer.queries_}


def in_a_process(side: int) -> dict[str, float]:
    """Measure one side in a process of its own."""
    command = [sys.executable, "-W", "ignore", __file__, "--one", str(side), *sys.argv[1:]]
    figures: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    print(side, figures, file=sys.stderr)
    return figures


def main() -> None:
    """Measure every side; print the figures and the ratio of the last side to the first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sides", default="224,448")
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(learn(given.one, given.images, given.steps)))
        return
    sides = [int(side) for side in given.sides.split(",")]
    rounds = [{side: in_a_process(side) for side in sides} for _ in range(given.rounds)]
    for side in sides:
        seconds = statistics.median(each[side]["seconds"] for each in rounds)
        ratio = statistics.median(each[side]["seconds"] / each[sides[0]]["seconds"] for each in rounds)
        explained = statistics.median(each[side]["explain_ms"] for each in rounds)
        peak = max(each[side]["peak_gib"] for each in rounds)
        print(
            f"{side} x {side}: fit {seconds:.1f} s, {ratio:.2f} times {sides[0]} x {sides[0]}; "
            f"explain {explained:.2f} ms per image; at most {peak:.2f} GiB"
        )
    print(machine())


if __name__ == "__main__":
    main()
