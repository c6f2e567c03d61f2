"""Whether the places of the selected features, without their values, give the answer away."""

from __future__ import annotations

import warnings

import numpy as np

from l2x.errors import InputError
from l2x.explanation import Array


def mask_only_accuracy(
    train_masks: Array, train_answers: Array, masks: Array, answers: Array, *, strength: float = 1.0
) -> float:
    """The accuracy of a logistic regression that sees only which features were selected.

    Fitted on the selections and predicted classes of training rows, measured on others. Near the share of
    the most frequent class the places say nothing; near one they may be a code for the answer, or the answer
    may truly lie in different places for different classes: then the judge confirms the selection.

    >>> left, right = [True, False], [False, True]
    >>> masks, answers = np.array([left, right] * 20), np.array([0, 1] * 20)
    >>> mask_only_accuracy(masks, answers, masks, answers)
    1.0
    """
    if len(train_masks) != len(train_answers) or len(masks) != len(answers):
        raise InputError(
            f"{len(train_masks)} and {len(masks)} masks for {len(train_answers)} and {len(answers)} answers."
        )
    if len(np.unique(train_answers)) == 1:
        return float((answers == train_answers[0]).mean())
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        # A few steps short of the optimum changes nothing that is read off here.
        warnings.simplefilter("ignore", ConvergenceWarning)
        reader = LogisticRegression(C=strength, max_iter=300).fit(train_masks, train_answers)
    return float((reader.predict(masks) == answers).mean())
