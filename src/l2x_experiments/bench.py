"""One problem, many methods: how sections 4.2 and 4.3 measure an explainer.

bench     = a trained model, a judge, inputs in three parts - for explainers, for the judge, for choosing
            between our recipes - and test inputs, on which nothing is chosen
task      = one method with one seed on one bench
records   = what each task scores on the test inputs; a run that was interrupted goes on where it stopped
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from safetensors.torch import load as read_weights
from safetensors.torch import save as weight_bytes
from torch import nn

from l2x.blackbox import BlackBox
from l2x.conditional import FittedQ, NetworkQ
from l2x.data import ask
from l2x.datasets.fetching import data_folder
from l2x.errors import InputError
from l2x.evaluation import fit_judge, mask_only_accuracy, posthoc_accuracy
from l2x.explanation import Explanation
from l2x.features.view import View
from l2x.foundations.arrays import Array
from l2x.foundations.atomic import write_atomically
from l2x.foundations.progress import progress_bar
from l2x.likelihood import Categorical
from l2x.training import TrainingPlan
from l2x_experiments.results import Record, Results, machine

# Our recipes: the better one on validation inputs is listed as l2x, too.
OURS = ("l2x-model", "l2x-surrogate")

Explain = Callable[[Any], Explanation]


@dataclass(frozen=True)
class Bench:
    """A problem set up; the same for every seed, which is the explainers'."""

    k: int
    train: Any
    validation: Any
    test: Any
    labels: Array
    network: nn.Module
    black_box: BlackBox
    view: View
    judge: FittedQ
    examples: Array  # rows of the test inputs whose selections are kept, to be shown

    def responses(self, X: Any) -> Array:
        """P_m(y|x) of each input."""
        return ask(self.black_box, self.view, self.view.check(X), progress=False)

    @cached_property
    def test_responses(self) -> Array:
        return self.responses(self.test)

    @cached_property
    def train_answers(self) -> Array:
        """The model's class for each training input."""
        return np.asarray(self.responses(self.train).argmax(axis=1))


@dataclass(frozen=True)
class Method:
    """How a method is run: how it learns to explain, and on how many test inputs it is measured."""

    learn: Callable[[], Explain]
    rows: int | None = None  # None: all
    mask_rows: int = 8000  # training inputs whose selections teach the mask-only predictor


def plain(method: Any, k: int) -> Callable[[], Explain]:
    """A method that has nothing to learn."""
    return lambda: lambda X: method.explain(X, k)


class Task(Protocol):
    """One method on one problem; `key` is what tells its record from others."""

    @property
    def key(self) -> dict[str, Any]: ...

    @property
    def label(self) -> str: ...


AnyTask = TypeVar("AnyTask", bound=Task)


def measure(bench: Bench, method: Method, name: str) -> Record:
    """What a method scores; post-hoc accuracy never without its companions."""
    view = bench.view
    X, responses = view.take(bench.test, slice(method.rows)), bench.test_responses[: method.rows]
    answers = responses.argmax(axis=1)
    started = time.perf_counter()
    explain = method.learn()
    learned = time.perf_counter()
    explanation = explain(X)
    _ = explanation.indices  # ranking is part of the work
    explained = time.perf_counter()
    judged = bench.judge.predict(X, explanation.mask).argmax(axis=1)
    seen = view.take(bench.train, slice(method.mask_rows))
    shown = bench.examples[bench.examples < len(X)]
    validation = None
    if name in OURS:  # only between them is there anything to choose
        validation = posthoc_accuracy(bench.black_box, bench.validation, explain(bench.validation))

    def kept(*, complement: bool = False) -> float:
        return posthoc_accuracy(bench.black_box, X, explanation, complement=complement, responses=responses)

    return {
        "k": bench.k,
        "rows": len(X),
        "posthoc_accuracy": kept(),
        "judge_accuracy": float((judged == answers).mean()),
        "mask_only_accuracy": mask_only_accuracy(
            explain(seen).mask, bench.train_answers[: method.mask_rows], explanation.mask, answers
        ),
        "complement_accuracy": kept(complement=True),
        "validation_posthoc": validation,
        "fit_seconds": learned - started,
        "explain_seconds": explained - learned,
        "model_accuracy": float((bench.test_responses.argmax(axis=1) == bench.labels).mean()),
        "majority": float(max((answers == label).mean() for label in set(answers.tolist()))),
        "train_rows": len(bench.train),
        "mask_rows": len(seen),
        "example_rows": shown.tolist(),
        "examples": explanation.indices[shown].tolist(),
        "example_answers": answers[shown].tolist(),
        "threads": torch.get_num_threads(),
        "machine": machine(),
    }


def with_chosen(records: list[Record], problem: str) -> list[Record]:
    """The records and, as `l2x`, those of the recipe of ours that is better on the validation inputs.

    `problem` is the key that tells one problem's records from another's.
    """
    records = [record for record in records if record["method"] != "l2x"]
    chosen: list[Record] = []
    for which in {str(record[problem]): None for record in records}:
        ours: dict[str, list[Record]] = {}
        for record in records:
            if str(record[problem]) == which and record["method"] in OURS:
                ours.setdefault(record["method"], []).append(record)
        if set(ours) == set(OURS):  # in an unfinished run there is nothing to choose yet
            best = max(
                ours, key=lambda name: sum(r["validation_posthoc"] for r in ours[name]) / len(ours[name])
            )
            chosen += [record | {"method": "l2x", "recipe": best} for record in ours[best]]
    return chosen + records


def run_tasks(
    output: Path,
    tasks: Sequence[AnyTask],
    run: Callable[[AnyTask], Record],
    *,
    first: Sequence[Callable[[], object]],
    problem: str,
    label: str,
    jobs: int = 1,
    progress: bool = True,
) -> list[Record]:
    """Run what `output` does not hold yet, each task in a process of a pool, and return all its records.

    `first` is done before the tasks: models and judges, which many processes would otherwise train at once.
    """
    results = Results(output)
    todo = [task for task in tasks if not results.has(**task.key)]
    if not todo:
        return results.records
    with (
        ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool,
        progress_bar(label, len(todo), visible=progress) as advance,
    ):
        advance(0, "models and judges")
        for ready in [pool.submit(prepare) for prepare in first]:
            ready.result()
        running = {pool.submit(run, task): task for task in todo}
        for done, future in enumerate(as_completed(running), start=1):
            results.records = with_chosen([*results.records, future.result()], problem)
            results.add([])
            advance(done, running[future].label)
    return results.records


def chosen_tasks(tasks: Sequence[AnyTask], only: Sequence[str] | None) -> list[AnyTask]:
    """The tasks of the methods that were asked for; all if none was."""
    known = {str(task.key["method"]): None for task in tasks}
    if unknown := sorted(set(only or ()) - set(known)):
        raise InputError(f"There is no method {unknown[0]!r}; choose among {', '.join(known)}.")
    return [task for task in tasks if not only or task.key["method"] in only]


def scaled(plan: TrainingPlan, steps: int | None) -> TrainingPlan:
    """The plan without progress bars, and with so many steps in each phase if they are given."""
    return replace(plan.with_steps(value=steps, selector=steps), progress=False)


def judge_of(
    name: str, told: str, black_box: BlackBox, view: View, X: Any, *, k: int, classes: int, plan: TrainingPlan
) -> FittedQ:
    """A judge fitted on these inputs now, or taken from the cache."""

    def fit() -> nn.Module:
        value = fit_judge(black_box, X, k, features=view, training=plan).value
        assert isinstance(value, NetworkQ)
        return value.predictor

    predictor = remembered(f"judge-{name}", told, view.predictor(classes), fit)
    return FittedQ(view, NetworkQ(predictor, Categorical(classes)), black_box)


def remembered(name: str, told: str, network: nn.Module, train: Callable[[], nn.Module]) -> nn.Module:
    """`network` with the weights that `train` once gave; `told` has to change with whatever changes them."""
    mark = hashlib.sha256(told.encode()).hexdigest()[:12]
    path = data_folder() / "models" / f"{name}-{mark}.safetensors"
    if path.exists():
        network.load_state_dict(read_weights(path.read_bytes()))
        return network.eval().requires_grad_(requires_grad=False)
    network = train()
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = {key: tensor.contiguous() for key, tensor in network.state_dict().items()}
    write_atomically(path, weight_bytes(weights))
    return network
