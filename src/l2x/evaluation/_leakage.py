"""The leakage test: an explanation leaks if knowing which features were selected reveals more about the
prediction than their values do.

Y is then not independent of [E(X) = S] given X_S, which the literature calls *encoding* (Puli, Nguyen and
Ranganath 2024). Two probes measure it:

    g1(y | x_S, S)   fitted on the explainer's own selections: learns from the values and from the choice
    g0(y | x_S)      fitted on the same masks, shuffled across rows: learns from the values only

Leakage is E KL(g1 || g0). Shuffling preserves how often each subset occurs, so that g1 has no other
advantage; g0 sees a fresh shuffle in every batch, which leaves g1 a slight disadvantage rather than an
advantage. Some networks cannot see which features were selected (one that takes the maximum over a text
cannot). Where a plain regression on the mask alone predicts better than g1, it replaces g1.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from l2x._base.arrays import Array
from l2x.errors import InputError
from l2x.learning import (
    FittedSurrogate,
    Gaussian,
    Likelihood,
    NetworkSurrogate,
    Rows,
    Run,
    TrainingPlan,
    fit_probe,
)

# The regression on masks gives every class at least this probability.
SMALLEST = 1e-4


@dataclass(frozen=True)
class ExplainedRows:
    """Rows with their selected features and the model's predictions."""

    X: Any
    mask: Array  # (n, d) booleans
    predictions: Array  # (n, outputs)


@dataclass(frozen=True)
class Leakage:
    """What the choice of features adds to their values, for each of n rows, in nats."""

    divergence: Array  # KL(g1 || g0); its mean is the leakage
    # log g1 - log g0 for the model's prediction. Its mean equals the leakage if both probes are exact. A
    # badly fitted g1 lowers the gain, but raises the divergence.
    gain: Array
    control: Array  # gain of a second g0 over the first: the noise of fitting
    outputs: Array  # outputs of g1, (n, outputs)
    mask_only: Array  # outputs of the regression on the mask alone, (n, outputs)


def leakage_test(
    evaluator: FittedSurrogate,
    train: ExplainedRows,
    test: ExplainedRows,
    *,
    training: TrainingPlan,
    seed: int = 0,
) -> Leakage:
    """Fit probes, which start from the evaluator, on `train`, and measure leakage on `test`."""
    network, view, likelihood = evaluator.surrogate, evaluator.view, evaluator.likelihood
    if not isinstance(network, NetworkSurrogate):
        raise InputError("The probes start from a network; fit the evaluator with fit_evaluator.")
    rows = Rows(view, None, view.encode(view.check(train.X)), likelihood.targets(train.predictions))
    selected, target = torch.from_numpy(train.mask).float(), likelihood.targets(test.predictions)

    def probe(*, shuffled: bool, seed: int) -> Tensor:
        fitted = fit_probe(network, rows, selected, Run.begin(training, seed), shuffled=shuffled)
        return torch.from_numpy(FittedSurrogate(view, fitted).outputs(test.X, test.mask))

    def log_likelihood(outputs: Tensor) -> Array:
        return likelihood.log_likelihood(outputs, target).numpy()

    g1, g0 = probe(shuffled=False, seed=seed), probe(shuffled=True, seed=seed)
    control = probe(shuffled=True, seed=seed + 1)
    mask_only = mask_only_outputs(train.mask, train.predictions, test.mask, likelihood)
    if log_likelihood(mask_only).mean() > log_likelihood(g1).mean():
        g1 = mask_only
    log_g0 = log_likelihood(g0)
    gain, noise = log_likelihood(g1) - log_g0, log_likelihood(control) - log_g0
    return Leakage(likelihood.divergence(g1, g0).numpy(), gain, noise, g1.numpy(), mask_only.numpy())


def mask_only_accuracy(
    train_masks: Array, train_predictions: Array, masks: Array, predictions: Array
) -> float:
    """Return the accuracy of a logistic regression that sees only which features were selected.

    An accuracy near the share of the most frequent class shows that the choice of features reveals nothing
    about the prediction. An accuracy near one may be leakage; or the evidence for different classes may truly
    lie in different features, and then the evaluator confirms the selection and the leakage test finds
    nothing.

    Parameters
    ----------
    train_masks, train_predictions : array, (n, d) and (n,)
        Selections and predicted classes to fit on.
    masks, predictions : array, (m, d) and (m,)
        Selections and predicted classes of other rows, to measure on.

    Returns
    -------
    float
        A share between 0 and 1.

    Raises
    ------
    InputError
        If masks and predictions differ in number.

    Examples
    --------
    >>> left, right = [True, False], [False, True]
    >>> masks, predictions = np.array([left, right] * 20), np.array([0, 1] * 20)
    >>> mask_only_accuracy(masks, predictions, masks, predictions)
    1.0
    """
    if len(train_masks) != len(train_predictions) or len(masks) != len(predictions):
        raise InputError(
            f"There are {len(train_masks)} and {len(masks)} masks for {len(train_predictions)} and "
            f"{len(predictions)} predictions; the numbers should match."
        )
    guesses = _classifier(train_masks, train_predictions).predict(masks)
    return float((guesses == predictions).mean())


def mask_only_outputs(masks: Array, predictions: Array, test_masks: Array, likelihood: Likelihood) -> Tensor:
    """Return what a linear or logistic regression on masks (n, d) predicts for test masks, (m, outputs), in
    the units of a predictor network."""
    if isinstance(likelihood, Gaussian):
        from sklearn.linear_model import Ridge

        means = Ridge().fit(masks, likelihood.targets(predictions).numpy()).predict(test_masks)
        return torch.from_numpy(np.asarray(means, dtype=np.float32).reshape(len(test_masks), -1))
    shares = np.full((len(test_masks), predictions.shape[1]), SMALLEST)
    classes = predictions.argmax(axis=1)
    shares[:, np.unique(classes)] = _classifier(masks, classes).predict_proba(test_masks)
    return torch.from_numpy(np.log(np.maximum(shares, SMALLEST)).astype(np.float32))


def _classifier(masks: Array, classes: Array) -> Any:
    from sklearn.dummy import DummyClassifier
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    if len(np.unique(classes)) == 1:  # LogisticRegression refuses a single class
        return DummyClassifier().fit(masks, classes)
    with warnings.catch_warnings():
        # A few steps short of the optimum changes nothing that is reported.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression(max_iter=300).fit(masks, classes)
