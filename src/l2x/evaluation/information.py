"""In bits: how much of what the model's answer depends on does the selection carry?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.foundations.arrays import Array
from l2x.values import SubsetValue


@dataclass(frozen=True)
class Information:
    """Bits about the model's answer Y.

    captured : H(Y) - E[-log2 q(Y | X_S)], a lower bound of I(X_S; Y), section 3.1; below zero if q is poor
    available : I(X; Y) = H(Y) - E[H(P_m(.|X))], all that the input has
    """

    captured: float
    available: float

    @property
    def share(self) -> float:
        return self.captured / self.available if self.available > 0 else float("nan")


def information(
    value: SubsetValue, X: Any, explanation: Explanation, *, responses: Array | None = None
) -> Information:
    """Bits captured by the selection, under any q: `explainer.q_`, a `fit_judge`, a `ConditionalModel`.

    Comparisons between explainers need one q for all of them, best a judge that none of them trained with.
    """
    answers = value.answers(X) if responses is None else np.asarray(responses)
    if not np.allclose(answers.sum(axis=1), 1, atol=1e-3):
        raise InputError("Bits are about class probabilities; for regression use l2x.evaluation.posthoc_r2.")
    log_q = value.log_q(X, explanation.mask, answers)
    marginal = answers.mean(axis=0)
    entropy = entropy_bits(marginal)
    return Information(
        captured=entropy + float(log_q.mean() / np.log(2)),
        available=entropy - float(entropy_bits(answers).mean()),
    )


def entropy_bits(p: Array) -> Any:
    """Shannon entropy in bits over the last axis."""
    return -(p * np.log2(np.maximum(p, 1e-300))).sum(axis=-1)
