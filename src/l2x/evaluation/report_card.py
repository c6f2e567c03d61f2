"""`report_card`: everything that can be measured about explanations, put together."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from l2x.blackbox import as_black_box
from l2x.data import ask
from l2x.errors import InputError
from l2x.evaluation.bench import Bench
from l2x.evaluation.bootstrap import Bootstrap
from l2x.evaluation.card import ReportCard
from l2x.evaluation.judge import fit_judge
from l2x.evaluation.parts import (
    cost_part,
    fidelity_part,
    information_part,
    judge_part,
    stability_part,
    truth_part,
)
from l2x.evaluation.subject import subject_of
from l2x.evaluation.verdict import encoding_part
from l2x.explanation import Explanation
from l2x.features.columns import Columns
from l2x.foundations.arrays import Array
from l2x.likelihood import Gaussian
from l2x.training import TrainingPlan
from l2x.values import FittedValue, SubsetValue


def report_card(
    explainers: Any,
    model: Any,
    X_train: Any,
    X_test: Any,
    k: int | None = None,
    *,
    name: str | None = None,
    truth: Array | None = None,
    exact: SubsetValue | None = None,
    randomised: Any = None,
    judge: FittedValue | None = None,
    training: TrainingPlan | None = None,
    seed: int = 0,
) -> ReportCard:
    """Can this explanation be trusted? Seven kinds of evidence, each figure with its 95 % bootstrap interval.

    Parameters
    ----------
    explainers : an Explainer, anything with explain(X, k), explanations of X_test, or a list of one kind
        The first is judged; the others, the same method with other seeds, show how stable it is. For ready
        explanations the readers of the places learn from one half of X_test and are measured on the other.
    model : the model that is explained
    X_train : rows for the judge and for the readers of the places, best rows that no explainer was fitted on
    X_test : rows on which everything is measured
    k : how many features; by default the explainer's own
    truth : (n, d) booleans, the truly relevant features of X_test, where they are known
    exact : P_m(y | x_S) itself, where it is known; adds the gap to the best subsets
    randomised : the same method fitted to another, random model (`l2x.evaluation.random_model`), or its
        explanations of X_test: they must differ
    judge : a fitted `l2x.evaluation.fit_judge`, if there is one already; it must not come from X_test
    training : how the judge is trained, by default as the view has it
    """
    subject = subject_of(explainers, X_test, k, name)
    black_box = as_black_box(model)
    view = subject.explanation.view or Columns().fit(X_test)
    X_test = view.check(X_test)
    _check_options(subject.explanation.scores.shape, truth, exact, randomised, judge)
    plan = training or view.plan
    started = time.perf_counter()
    answers = ask(black_box, view, X_test, progress=False)
    seconds = time.perf_counter() - started
    judge = judge or fit_judge(
        black_box, X_train, subject.explanation.k, features=view, training=plan, seed=seed + 1_000_003
    )
    response = judge.value.response
    kind = (isinstance(response, Gaussian), response.outputs)
    if kind != (black_box.task == "regression", answers.shape[1]):
        raise InputError("judge= was fitted to another kind of model; fit one to this model (fit_judge).")
    bench = Bench(
        black_box=black_box,
        view=view,
        X_train=X_train,
        X_test=X_test,
        answers=answers,
        judge=judge,
        plan=plan,
        subject=subject,
        boot=Bootstrap(len(X_test), seed=seed),
        seed=seed,
        ask_seconds=seconds,
    )
    information, curve = information_part(bench)
    encoding, finding, verdict = encoding_part(bench)
    parts = [
        fidelity_part(bench),
        judge_part(bench),
        encoding,
        information,
        stability_part(bench, randomised),
    ]
    if truth is not None:
        parts.append(truth_part(bench, np.asarray(truth, dtype=bool), exact))
    parts.append(cost_part(bench))
    return ReportCard(
        name=subject.name,
        task=str(black_box.task),
        rows=len(X_test),
        features=view.d,
        k=subject.explanation.k,
        finding=finding,
        verdict=verdict,
        parts=parts,
        curve=curve,
    )


def _check_options(
    shape: tuple[int, ...], truth: Any, exact: Any, randomised: Any, judge: FittedValue | None
) -> None:
    """What the user brings must fit the (n, d) explanations, before any work is done."""
    if exact is not None and truth is None:
        raise InputError("exact= says what the true features are worth: pass them too, truth=.")
    if truth is not None and np.shape(truth) != shape:
        raise InputError(f"truth has the shape {np.shape(truth)}; expected {shape}, rows x features.")
    if not (randomised is None or isinstance(randomised, Explanation) or hasattr(randomised, "explain")):
        raise InputError(
            "randomised takes an explainer that was fitted to the random model, not the model: "
            "Explainer(random_model(...), k).fit(X)."
        )
    if judge is not None and judge.view.d != shape[1]:
        raise InputError(
            f"judge= reads {judge.view.d} features, the explanation has {shape[1]}; fit it with "
            "fit_judge(..., features=explainer.features_)."
        )
