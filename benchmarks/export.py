"""Measure exported explainers in onnxruntime: latency for one row, and agreement with torch.

    python benchmarks/export.py [--rows 100000] [--write]

Latencies are ratios of the best alternating rounds in one run: the exported file to `explain` (goal: at most
one third), and to an onnxruntime session of the same network without encoding and top-k (goal: at most 1.5).
Selected features are compared with torch's on all rows of Adult, the synthetic sets and MNIST's test images;
for tables, sampled rows with new categories and missing cells are added up to --rows. --write stores the
records in results/onnx.json. The explainers are trained for 100 steps on formulas over these rows, because
the graph is tested, not the explanation.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

import l2x
from l2x._base.arrays import best
from l2x.datasets import synthetic
from l2x.export._onnx import same_selection
from l2x.export._onnx_parts import graph_inputs
from l2x.learning import only_selectable
from l2x.learning._training import Phase
from l2x_experiments.records import Records, measured_here

ROOT = Path(__file__).parents[1]
PHASE = Phase(100, 3e-3, batch_size=128)
PLAN = l2x.TrainingPlan(PHASE, PHASE, evaluations=2, progress=False)


def session(content: str | bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def bare(explainer: l2x.Explainer, x: torch.Tensor) -> Any:
    """Return a session of the selector alone."""
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            explainer.selector_, (x,), content, dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "n"}}
        )
    return session(content.getvalue())


def best_seconds(works: list[Callable[[], object]], rounds: int = 40, repeat: int = 20) -> list[float]:
    """Return the least seconds of each, measured in turns: a busy machine can only slow them down."""
    times: list[list[float]] = [[] for _ in works]
    for work in works:
        work()
    for _ in range(rounds):
        for work, seconds in zip(works, times, strict=True):
            started = time.perf_counter()
            for _ in range(repeat):
                work()
            seconds.append((time.perf_counter() - started) / repeat)
    return [min(seconds) for seconds in times]


def fit(model: Any, X: Any, **options: Any) -> l2x.Explainer:
    """Train for a few steps, so that scores differ from row to row."""
    return l2x.Explainer(model, k=4, objective="surrogate", training=PLAN, **options).fit(X)


def bright(images: np.ndarray) -> np.ndarray:
    """Return the probability that the upper half is bright."""
    p = np.clip(images[:, :14].mean(axis=(1, 2)) / 80, 0, 1)
    return np.stack([1 - p, p], axis=1)


def by_marriage(people: Any) -> np.ndarray:
    p = np.where(people["marital-status"] == "Married-civ-spouse", 0.9, 0.1)
    return np.stack([1 - p, p], axis=1)


def subjects() -> Iterator[tuple[str, l2x.Explainer, Any]]:
    """Yield names, explainers and rows."""
    for kind in ("xor", "orange_skin", "nonlinear_additive", "switch"):
        data = synthetic(kind, 100_000, seed=1)
        yield kind, fit(data.model, data.X[:5000]), data.X
    people = l2x.datasets.adult().X
    yield "adult", fit(by_marriage, people[:5000]), people
    images = l2x.datasets.mnist(None, split="test").X
    yield "mnist", fit(bright, images[:1000], features=l2x.Patches(4)), images


def identical(explainer: l2x.Explainer, run: Any, X: Any, rows: int) -> tuple[int, int, int]:
    """Return how many rows were compared, have the same indices, and have the same indices up to ties."""
    inputs, k, rng = graph_inputs(explainer.features_), explainer.k, np.random.default_rng(0)
    view, same, alike, done = explainer.features_, 0, 0, 0
    checked = view.check(X)
    while done < rows:
        stop = min(done + 4096, rows)
        if done < len(X):
            stop = min(stop, len(X))
            feed, x = inputs.read(view.take(checked, slice(done, stop)))
        elif isinstance(view, l2x.Columns):
            feed, x = inputs.sample(stop - done, rng)
        else:
            break
        with torch.inference_mode():
            scores = only_selectable(explainer.selector_(x), view.selectable(x), never=-torch.inf).numpy()
        indices = run.run(["indices"], feed | {"k": np.array([k])})[0]
        same += int((indices == best(scores, k)).all(axis=1).sum())
        alike += int(same_selection(scores, indices, k).sum())
        done = stop
    return done, same, alike


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--write", action="store_true", help="write results/onnx.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    records: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, explainer, X in subjects():
            exported = session(str(explainer.export_onnx(Path(folder) / f"{name}.onnx")))
            done, same, alike = identical(explainer, exported, X, arguments.rows)
            records.append(record(f"{name}: rows with the same indices, of {done}", same, goal=done))
            records.append(record(f"{name}: the same but for ties within rounding", alike, goal=done))
            inputs, one = graph_inputs(explainer.features_), explainer.features_.take(X, slice(0, 1))
            feed, x = inputs.read(explainer.features_.check(one))
            feed, network = feed | {"k": np.array([explainer.k])}, bare(explainer, x)
            whole, torch_way, alone = best_seconds(
                [
                    lambda exported=exported, feed=feed: exported.run(["indices"], feed),
                    lambda explainer=explainer, one=one: explainer.explain(one).indices,
                    lambda network=network, x=x: network.run(None, {"x": x.numpy()}),
                ]
            )
            records.append(record(f"{name}: latency, times explain's", whole / torch_way, most=1 / 3))
            records.append(record(f"{name}: latency, times the bare network's", whole / alone, most=1.5))
    print(json.dumps(records, indent=1))
    if arguments.write:
        path = ROOT / "results" / "onnx.json"
        path.unlink(missing_ok=True)
        Records.load(path).add(each | {"seed": 0} | measured_here() for each in records)


def record(
    measure: str, value: float, *, goal: float | None = None, most: float | None = None
) -> dict[str, Any]:
    """Return a measurement with its goal."""
    holds = value == goal if most is None else value <= most
    shown = value if isinstance(value, int) else round(value, 3)
    wanted = goal if most is None else f"at most {most:.3g}"
    return {"measure": measure, "value": shown, "goal": wanted, "holds": bool(holds)}


if __name__ == "__main__":
    main()
