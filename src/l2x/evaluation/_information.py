"""In bits: how much of the information about the model's answer does the selection carry?

Bits are differences of log-likelihoods, row by row: log q(y | x_S) of the selection, and log P_m(y | x) of
the whole input, each against `log_uninformed`, which knows only the mean answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from l2x._base.arrays import Array
from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.learning import BITS, Conditional


@dataclass(frozen=True)
class Information:
    """Bits about the model's answer Y.

    captured : H(Y) - E[-log2 q(Y | X_S)], a lower bound of I(X_S; Y), section 3.1; below zero if q is poor
    available : I(X; Y) = H(Y) - E[H(P_m(.|X))], all that the input has

    >>> Information(captured=0.3, available=0.6).share
    0.5
    """

    captured: float
    available: float

    @property
    def share(self) -> float:
        """captured / available; NaN if there is no information at all."""
        return self.captured / self.available if self.available > 0 else float("nan")


def information(
    value: Conditional, X: Any, explanation: Explanation, *, responses: Array | None = None
) -> Information:
    """Bits that the selection carries about the model's answer, of the bits that the whole input has.

    Parameters
    ----------
    value : the q that is asked: a `fit_judge`, `explainer.q_`, a `ConditionalModel`. A comparison between
        explainers needs one q for all of them, best a judge that none of them was trained with
    X : the n rows that were explained
    explanation : what was selected in them
    responses : (n, classes), the model's answers for X, if they are known; otherwise the value asks the model

    Returns
    -------
    An `Information`: bits captured and available, and their share.

    Raises
    ------
    InputError
        If the model predicts numbers.

    >>> from l2x.datasets import synthetic
    >>> data = synthetic("orange_skin", 200, seed=0)
    >>> truth = Explanation(data.truth.astype(float), k=4, feature_names=[f"x{i}" for i in range(10)])
    >>> round(information(data.model.conditional(rows=50), data.X, truth).share, 3)
    1.0
    """
    answers = np.asarray(value.answers(X) if responses is None else responses, dtype=np.float64)
    if not np.allclose(answers.sum(axis=1), 1, atol=1e-3):
        raise InputError("Bits are about class probabilities; for regression use l2x.evaluation.posthoc_r2.")
    log_q = value.log_q(X, explanation.mask, answers)
    uninformed = log_uninformed(answers, classes=True)
    return Information(
        captured=float((log_q - uninformed).mean() * BITS),
        available=float((log_informed(answers, classes=True) - uninformed).mean() * BITS),
    )


def log_uninformed(target: Array, *, classes: bool) -> Array:
    """(n,) nats: log q(y) under the mean answer alone, what an empty selection is worth.

    `target` : (n, outputs), class probabilities, or standardised means of a Gaussian with variance one (up to
    a constant, as in l2x.learning._likelihood)
    """
    if classes:
        return np.asarray(target @ np.log(np.maximum(target.mean(axis=0), 1e-12)))
    return np.asarray(-0.5 * np.square(target - target.mean(axis=0)).sum(axis=1))


def log_informed(target: Array, *, classes: bool) -> Array:
    """(n,) nats: log P_m(y | x) itself, what the whole input is worth."""
    if classes:
        return np.asarray((target * np.log(np.maximum(target, 1e-300))).sum(axis=1))
    return np.zeros(len(target))
