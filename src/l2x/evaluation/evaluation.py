"""The figures of `l2x evaluate`: faithful to the model, against chance, in bits, and by a judge."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from l2x.errors import InputError
from l2x.evaluation.agreement import posthoc_accuracy, posthoc_r2
from l2x.evaluation.information import information
from l2x.evaluation.judge import fit_judge
from l2x.explanation import Explanation

if TYPE_CHECKING:
    import pandas as pd

    from l2x.blackbox import BlackBox
    from l2x.explainer import Explainer
    from l2x.training import TrainingPlan


def evaluate(
    explainer: Explainer,
    black_box: BlackBox,
    frame: pd.DataFrame,
    *,
    k: int,
    draws: int,
    seed: int,
    judge_plan: TrainingPlan | None,
) -> dict[str, Any]:
    """Every figure of `l2x evaluate`, in plain numbers; None where a figure has no meaning."""
    rng = np.random.default_rng(seed)
    verdict = None
    if judge_plan is not None:
        order = rng.permutation(len(frame))
        half = frame.iloc[order[: len(frame) // 2]]
        frame = frame.iloc[order[len(frame) // 2 :]]
        verdict = fit_judge(
            black_box, half, k, features=explainer.features, training=judge_plan, seed=seed + 1_000_003
        )
    explainer.explain(frame.head(), k)  # the first call warms up
    started = time.perf_counter()
    selection = explainer.explain(frame, k)
    seconds = time.perf_counter() - started
    noise = rng.random((draws, *selection.scores.shape))
    noise[:, selection.scores == -np.inf] = -np.inf  # padding of texts, which chance may not select either
    randoms = [Explanation(scores, k, selection.feature_names, frame, selection.view) for scores in noise]
    answers = explainer.q_.answers(frame)
    if answers.shape[1] != explainer.response_.outputs:
        raise InputError(
            f"{black_box.name} gives {answers.shape[1]} numbers for a row, but the explainer was fitted to "
            f"{explainer.response_.outputs}: is this the model that it explains?"
        )
    classifies = black_box.task == "classification"
    posthoc = posthoc_accuracy if classifies else posthoc_r2
    kept_by_chance = [posthoc(black_box, frame, random, responses=answers) for random in randoms]
    bits = information(explainer.q_, frame, selection, responses=answers) if classifies else None
    judged = None
    if verdict is not None:

        def agreement(explanation: Explanation) -> float:
            guessed = verdict.outputs(frame, explanation.mask)
            truth = verdict.value.response.encode(answers).numpy()
            return _agreement(guessed, truth, classifies=classifies)

        by_chance = [agreement(random) for random in randoms]
        judged = {"selection": _number(agreement(selection)), "random_mean": _number(np.mean(by_chance))}
        if classifies:
            under_judge = information(verdict, frame, selection, responses=answers)
            judged["captured_bits"] = _number(under_judge.captured)
    return {
        "rows": len(frame),
        "k": k,
        "features": len(selection.feature_names),
        "task": black_box.task,
        "measure": "posthoc_accuracy" if classifies else "posthoc_r2",
        "selection": _number(posthoc(black_box, frame, selection, responses=answers)),
        "complement": _number(posthoc(black_box, frame, selection, complement=True, responses=answers)),
        "random_mean": _number(np.mean(kept_by_chance)),
        "random_sd": _number(np.std(kept_by_chance, ddof=1)),
        "random_draws": draws,
        "captured_bits": None if bits is None else _number(bits.captured),
        "available_bits": None if bits is None else _number(bits.available),
        "judge": judged,
        "rows_per_second": round(len(frame) / seconds),
    }


def _agreement(guessed: Any, truth: Any, *, classifies: bool) -> float:
    """The share of rows where the judge's likeliest class is the model's; R² for regression."""
    if classifies:
        return float((guessed.argmax(axis=1) == truth.argmax(axis=1)).mean())
    total = ((truth - truth.mean(axis=0)) ** 2).sum()
    return float(1 - ((truth - guessed) ** 2).sum() / total) if total > 0 else math.nan


def _number(value: Any) -> float | None:
    """For JSON, which has no NaN."""
    number = float(value)
    return number if math.isfinite(number) else None
