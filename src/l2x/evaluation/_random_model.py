"""A model that has learned nothing: explanations of it must differ from those of a model that has."""

from __future__ import annotations

from typing import Any

import numpy as np

from l2x._base.arrays import Array
from l2x.errors import InputError
from l2x.features import View, fitted_view
from l2x.learning import FittedQ, NetworkQ, Run, TrainingPlan, likelihood_of, networks_of
from l2x.model import BlackBox, as_black_box

# How sure the random model is: the standard deviation of its logits.
SPREAD = 2.0


def random_model(model: Any, X: Any, *, features: View | None = None, seed: int = 0) -> BlackBox:
    """A black box like `model` with random weights: an untrained network that reads what the view encodes.

    Fit the same explainer to it (`Explainer(random_model(model, X), k).fit(X)`), and compare: selections that
    stay the same do not explain the model (Adebayo et al. 2018).

    Parameters
    ----------
    model : the model that is explained; it is asked once, how many numbers it gives for a row
    X : some of the training inputs. Over these the random model's answers are scaled to vary: its logits have
        a standard deviation of two, its means too
    features : what one feature is, fitted or not; by default `Columns()`
    seed : of the weights

    Returns
    -------
    A `BlackBox`, to be explained like the model.

    Raises
    ------
    InputError
        If the model reads ids of words, as only its own network can.

    >>> from l2x.datasets import synthetic
    >>> data = synthetic("xor", 100, seed=0)
    >>> random_model(data.model, data.X)(data.X).shape
    (100, 2)
    """
    if getattr(features, "reads", None) == "ids":
        raise InputError(
            "This model reads ids, as only its own network can: use a copy of that network with new weights."
        )
    black_box = as_black_box(model)
    view = fitted_view(features, X)
    X = view.check(X)
    answers = black_box(view.for_model(view.take(X, slice(0, min(len(X), 100)))))
    with Run.begin(TrainingPlan(), seed).seeded():
        network = networks_of(view, answers.shape[1]).predictor().eval().requires_grad_(requires_grad=False)
    q = FittedQ(view, NetworkQ(network, likelihood_of(black_box, answers)))

    def logits(rows: Any) -> Array:
        return q.outputs(rows, np.ones((len(rows), view.d), dtype=bool))

    known = logits(X)
    centre, spread = known.mean(axis=0), np.maximum(known.std(axis=0), 1e-12)

    def predict(rows: Any) -> Any:
        return SPREAD * (logits(view.check(rows)) - centre) / spread

    return BlackBox(
        predict, task=black_box.task, logits=black_box.task == "classification", name="a random model"
    )
