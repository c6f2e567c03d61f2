"""What the selected index set alone says about the answer: regressions on the mask, without any value."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from l2x._base.arrays import Array
from l2x.errors import InputError
from l2x.learning import Gaussian, Likelihood

# A regression on masks is never surer than this that a class is impossible.
SMALLEST = 1e-4


def mask_only_accuracy(
    train_masks: Array, train_answers: Array, masks: Array, answers: Array, *, strength: float = 1.0
) -> float:
    """The accuracy of a logistic regression that sees only which features were selected.

    Near the share of the most frequent class the index set says nothing about the answer. Near one it may
    encode the answer, or the evidence may truly be in different features for different classes: then the
    judge confirms the selection, and the encode-meter finds nothing.

    Parameters
    ----------
    train_masks, train_answers : (n, d) selections and (n,) predicted classes to fit on
    masks, answers : the same of other rows, to measure on
    strength : C of `sklearn.linear_model.LogisticRegression`

    Returns
    -------
    A share, between 0 and 1.

    Raises
    ------
    InputError
        If masks and answers differ in number.

    >>> left, right = [True, False], [False, True]
    >>> masks, answers = np.array([left, right] * 20), np.array([0, 1] * 20)
    >>> mask_only_accuracy(masks, answers, masks, answers)
    1.0
    """
    if len(train_masks) != len(train_answers) or len(masks) != len(answers):
        raise InputError(
            f"{len(train_masks)} and {len(masks)} masks for {len(train_answers)} and {len(answers)} answers."
        )
    guesses = _classifier(train_masks, train_answers, strength).predict(masks)
    return float((guesses == answers).mean())


def mask_only_outputs(masks: Array, answers: Array, test_masks: Array, likelihood: Likelihood) -> Tensor:
    """What a linear or logistic regression on masks (n, d) predicts for test masks: (n', outputs), as a
    predictor network would put it."""
    if isinstance(likelihood, Gaussian):
        from sklearn.linear_model import Ridge

        means = Ridge().fit(masks, likelihood.targets(answers).numpy()).predict(test_masks)
        return torch.from_numpy(np.asarray(means, dtype=np.float32).reshape(len(test_masks), -1))
    shares = np.full((len(test_masks), answers.shape[1]), SMALLEST)
    classes = answers.argmax(axis=1)
    shares[:, np.unique(classes)] = _classifier(masks, classes).predict_proba(test_masks)
    return torch.from_numpy(np.log(np.maximum(shares, SMALLEST)).astype(np.float32))


def _classifier(masks: Array, classes: Array, strength: float = 1.0) -> Any:
    from sklearn.dummy import DummyClassifier
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    if len(np.unique(classes)) == 1:  # which LogisticRegression refuses
        return DummyClassifier().fit(masks, classes)
    with warnings.catch_warnings():
        # A few steps short of the optimum changes nothing that is reported.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression(C=strength, max_iter=300).fit(masks, classes)
