"""Models to measure with: an independent evaluator (EVAL-X), and a random model as a sanity check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from l2x._base.arrays import Array
from l2x.errors import InputError
from l2x.features import View, fitted_view
from l2x.learning import (
    FittedSurrogate,
    Labels,
    NetworkSurrogate,
    Options,
    Problem,
    Run,
    TrainingPlan,
    fit_surrogate,
    likelihood_of,
    networks_of,
    prepare,
    recipes_of,
)
from l2x.model import BlackBox, as_black_box

# The random model's confidence: the standard deviation of its logits, or of its predicted values.
SPREAD = 2.0
# The random model's outputs are counted on this many rows.
COUNTED_ROWS = 100


def fit_evaluator(
    model: Any,
    X: Any,
    k: int,
    *,
    predictions: Any = None,
    features: View | None = None,
    predictor: Options | None = None,
    training: TrainingPlan | None = None,
    seed: int = 1_000_003,
) -> FittedSurrogate:
    """Fit EVAL-X (Jethani et al. 2021): a q(y | x_S) fitted on random subsets, blind to leakage.

    Parameters
    ----------
    model : object
        The model being explained, in any form that `as_black_box` takes.
    X : rows
        Rows to fit on, preferably rows that the explainers were not fitted on.
    k : int
        Number of selected features; half of the random subsets have this size, the others any size.
    predictions : array, optional
        The model's predictions for X; by default the model is queried.
    features : View, optional
        What one feature is; default `Columns()`. Pass `explainer.features_` to read inputs as
        the explainer does.
    predictor : dict, optional
        Options of the view's predictor network.
    training : TrainingPlan, optional
        Training plan, by default the view's; only its value phase counts.
    seed : int
        Differs from an explainer's default, so that the two are fitted independently.

    Returns
    -------
    FittedSurrogate
        `predict(X, mask)` returns q(y | x_S), `log_q(X, mask, predictions)` its log-likelihoods.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> quick = TrainingPlan.quick().with_steps(value=20)
    >>> evaluator = fit_evaluator(lambda X: np.full((len(X), 2), 0.5), X, k=1, training=quick)
    >>> evaluator.predict(X[:2], np.ones((2, 3), dtype=bool)).round(1).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    view = fitted_view(features, X)
    run = Run.begin(training or recipes_of(view).ours.plan, seed)
    data = prepare(as_black_box(model), view, X, Labels(predictions), Problem(k), run=run)
    with run.seeded():
        network = networks_of(view, data.likelihood.outputs).predictor(**(predictor or {}))
        surrogate = NetworkSurrogate(network, data.likelihood)
        fit_surrogate(surrogate, data, run, label="fitting the evaluator")
    return FittedSurrogate(view, surrogate, data.black_box)


def random_model(model: Any, X: Any, *, features: View | None = None, seed: int = 0) -> BlackBox:
    """Return a model with random weights and as many outputs as `model`: an untrained network of the view.

    Fit the same explainer to it (`Explainer(random_model(model, X), k).fit(X)`) and compare: selections that
    stay the same do not explain the model (Adebayo et al. 2018).

    Parameters
    ----------
    model : object
        The model being explained; it is queried once, for its number of outputs.
    X : rows
        Training inputs. Over these the logits, or predicted values, have a standard deviation of two.
    features : View, optional
        What one feature is, fitted or not; by default `Columns()`.
    seed : int
        Seed of the weights.

    Returns
    -------
    BlackBox
        The random model.

    Examples
    --------
    >>> from l2x.datasets import synthetic
    >>> data = synthetic("xor", 100, seed=0)
    >>> random_model(data.model, data.X)(data.X).shape
    (100, 2)
    """
    black_box, view = as_black_box(model), fitted_view(features, X)
    X = view.check(X)
    logits = _untrained(black_box, view, X, seed)
    on_training_rows = logits(X)
    centre, spread = on_training_rows.mean(axis=0), np.maximum(on_training_rows.std(axis=0), 1e-12)
    return BlackBox(
        lambda rows: SPREAD * (logits(view.check(rows)) - centre) / spread,
        task=black_box.task,
        logits=black_box.task == "classification",
        name="a random model",
    )


def _untrained(black_box: BlackBox, view: View, X: Any, seed: int) -> Callable[[Any], Array]:
    """Return checked rows -> outputs (n, outputs) of the view's predictor network with random weights."""
    if getattr(view, "reads", None) == "ids":
        raise InputError("This model reads ids; use a copy of its own network with new weights.")
    predictions = black_box(view.for_model(view.take(X, slice(0, min(len(X), COUNTED_ROWS)))))
    with Run.begin(TrainingPlan(), seed).seeded():
        network = networks_of(view, predictions.shape[1]).predictor().eval()
    network.requires_grad_(requires_grad=False)
    surrogate = FittedSurrogate(view, NetworkSurrogate(network, likelihood_of(black_box, predictions)))
    return lambda rows: surrogate.outputs(rows, np.ones((len(rows), view.d), dtype=bool))
