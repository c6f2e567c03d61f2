"""A model that has learned nothing: explanations of it must not look like those of a model that has."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import clone

from l2x.blackbox import BlackBox, as_black_box
from l2x.errors import InputError
from l2x.features.columns import Columns
from l2x.features.view import View
from l2x.likelihood import Categorical, Gaussian, Response
from l2x.values import FittedValue, NetworkValue

# How sure the random model is: the standard deviation of its logits.
SPREAD = 2.0


def random_model(model: Any, X: Any, *, features: View | None = None, seed: int = 0) -> BlackBox:
    """A black box like `model` with random weights: an untrained network that reads what the view encodes.

    Fit the same explainer to it (`Explainer(random_model(model, X), k).fit(X)`), and compare: selections that
    stay as they were do not explain the model (Adebayo et al. 2018). `X` are some of the training inputs; the
    random model's answers are scaled so that they vary over them.
    """
    if getattr(features, "reads", None) == "ids":
        raise InputError(
            "This model reads ids, as only its own network can: use a copy of that network with new weights."
        )
    black_box = as_black_box(model)
    view: View = clone(features or Columns()).fit(X)
    X = view.check(X)
    outputs = black_box(view.for_model(view.take(X, slice(0, min(len(X), 100))))).shape[1]
    response: Response = (
        Gaussian((0.0,) * outputs, (1.0,) * outputs)
        if black_box.task == "regression"
        else Categorical(outputs)
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = view.predictor(outputs).eval().requires_grad_(requires_grad=False)
    q = FittedValue(view, NetworkValue(network, response))
    logits = q.outputs(X, np.ones((len(X), view.d), dtype=bool))
    centre, spread = logits.mean(axis=0), np.maximum(logits.std(axis=0), 1e-12)

    def predict(rows: Any) -> Any:
        rows = view.check(rows)
        return SPREAD * (q.outputs(rows, np.ones((len(rows), view.d), dtype=bool)) - centre) / spread

    return BlackBox(
        predict, task=black_box.task, logits=black_box.task == "classification", name="a random model"
    )
