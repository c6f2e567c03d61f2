"""`report_card`: everything that can be measured about explanations, put together."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from l2x._base.arrays import Array
from l2x.errors import InputError
from l2x.evaluation._card import ReportCard
from l2x.evaluation._evidence import Evidence, Subject, subject_of
from l2x.evaluation._judge import fit_judge
from l2x.evaluation._parts import fidelity_verdict, information_curve, measured_parts
from l2x.explanation import Explanation
from l2x.features import fitted_view
from l2x.learning import Conditional, FittedQ, Gaussian, TrainingPlan, checked_seed, recipes_of
from l2x.model import BlackBox, as_black_box, query

# The judge's seed is this far from the card's: it must not be an explainer's.
JUDGE_SEED = 1_000_003


def report_card(
    explainers: Any,
    model: Any,
    X_train: Any,
    X_test: Any,
    k: int | None = None,
    *,
    name: str | None = None,
    truth: Array | None = None,
    exact: Conditional | None = None,
    randomised: Any = None,
    judge: FittedQ | None = None,
    training: TrainingPlan | None = None,
    keep: float | None = None,
    brief: bool = False,
    seed: int = 0,
) -> ReportCard:
    """Can this explanation be trusted? Seven kinds of evidence, with 95 % bootstrap intervals, and a verdict.

    Parameters
    ----------
    explainers : an Explainer, anything with explain(X, k), explanations of X_test, or a list of one kind
        The first is judged; the others, the same method with other seeds, show how stable it is. For
        precomputed explanations the probes learn from one half of X_test and are measured on the other.
    model : the model that is explained
    X_train : rows for the judge and the probes, best rows that no explainer was fitted on
    X_test : rows on which everything is measured
    k : how many features; by default the explainer's own
    name : of the method, to be printed
    truth : (n, d) booleans, the truly relevant features of X_test, where they are known
    exact : P_m(y | x_S) itself, where it is known (`ConditionalModel`); adds the gap to the best subsets
    randomised : the same method fitted to a random model (`l2x.evaluation.random_model`), or its explanations
        of X_test: they must differ
    judge : a fitted `l2x.evaluation.fit_judge`, if there is one already; it must not come from X_test
    training : how the judge is trained, by default as the view has it
    keep : judge `explain(X, k, keep=...)`, as many features as a row needs
    brief : only fidelity, judge and information; no probes are trained, and encoding is not checked
    seed : of the judge, the probes, the bootstrap and chance

    Returns
    -------
    A `ReportCard`: print it, save it as a page, or read `card.finding` and `card["judge"]["selection"]`.

    Raises
    ------
    InputError
        If `truth`, `judge` or `randomised` do not fit the explanations.

    >>> from l2x.baselines import RandomK
    >>> from l2x.datasets import synthetic
    >>> data = synthetic("xor", 300, seed=0)
    >>> quick = TrainingPlan.quick().with_steps(value=20, selector=20)
    >>> card = report_card(RandomK(), data.model, data.X[:200], data.X[200:], k=2, training=quick, brief=True)
    >>> card.finding
    'unchecked'
    """
    seed = checked_seed(seed)
    subject = subject_of(explainers, X_test, k, name, model=model, keep=keep)
    _check_options(subject.explanation.scores.shape, truth, exact, randomised, judge)
    known = {"truth": truth, "exact": exact, "randomised": randomised}
    evidence = _evidence(subject, as_black_box(model), X_train, X_test, judge, training, seed=seed, **known)
    return _card(evidence, brief=brief)


def _check_options(
    shape: tuple[int, ...], truth: Any, exact: Any, randomised: Any, judge: FittedQ | None
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


def _evidence(
    subject: Subject,
    black_box: BlackBox,
    X_train: Any,
    X_test: Any,
    judge: FittedQ | None,
    training: TrainingPlan | None,
    *,
    seed: int,
    **known: Any,
) -> Evidence:
    """Ask the model about the test rows, and fit a judge if there is none."""
    view = fitted_view(subject.explanation.view, X_test)
    X_test = view.check(X_test)
    started = time.perf_counter()
    answers = query(black_box, view, X_test)
    seconds = time.perf_counter() - started
    _check_outputs(subject, black_box, answers, judge)
    plan = training or recipes_of(view).ours.plan
    k = subject.explanation.k
    judge = judge or fit_judge(black_box, X_train, k, features=view, training=plan, seed=seed + JUDGE_SEED)
    return Evidence(
        subject=subject,
        black_box=black_box,
        view=view,
        X_train=X_train,
        X_test=X_test,
        answers=answers,
        judge=judge,
        plan=plan,
        seed=seed,
        ask_seconds=seconds,
        **known,
    )


def _check_outputs(subject: Subject, black_box: BlackBox, answers: Array, judge: FittedQ | None) -> None:
    """Explainer and judge must have been fitted to a model with such answers."""
    outputs, q = answers.shape[1], getattr(subject.source, "q_", None)
    if q is not None and q.likelihood.outputs != outputs:
        raise InputError(
            f"{black_box.name} gives {outputs} numbers for a row, but the explainer was fitted to "
            f"{q.likelihood.outputs}: is this the model that it explains?"
        )
    kind = (black_box.task == "regression", outputs)
    if judge is not None and kind != (isinstance(judge.likelihood, Gaussian), judge.likelihood.outputs):
        raise InputError("judge= was fitted to another kind of model; fit one to this model (fit_judge).")


def _card(evidence: Evidence, *, brief: bool) -> ReportCard:
    parts, verdict = measured_parts(evidence, brief=brief)
    fidelity, sentence = fidelity_verdict(evidence)
    sizes = evidence.explanation.sizes
    return ReportCard(
        name=evidence.subject.name,
        task=str(evidence.black_box.task),
        rows=len(evidence.answers),
        features=evidence.view.d,
        k=evidence.explanation.k,
        mean_size=None if sizes is None else float(sizes.mean()),
        finding=verdict.finding,
        fidelity=fidelity,
        verdict=f"{verdict.sentence} {sentence}",
        parts=parts,
        curve=information_curve(evidence),
    )
