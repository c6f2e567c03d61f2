"""An independent judge: q(y | x_S, S) fitted on random subsets, of rows that no explainer saw."""

from __future__ import annotations

from typing import Any

import torch
from sklearn.base import clone

from l2x.blackbox import as_black_box
from l2x.data import prepare
from l2x.features.columns import Columns
from l2x.features.view import View
from l2x.training import History, TrainingPlan
from l2x.values import FittedValue, NetworkValue, fit_surrogate


def fit_judge(
    model: Any,
    X: Any,
    k: int,
    *,
    responses: Any = None,
    features: View | None = None,
    training: TrainingPlan | None = None,
    seed: int = 1_000_003,
) -> FittedValue:
    """EVAL-X (Jethani et al. 2021): a q that random subsets taught, so that no selection can pass it a code.

    Give it rows that were not used to train the explainers it judges. `features` may be a fitted view, such
    as `explainer.features_`: the judge then reads tables as the explainer does, and takes the same ones.
    """
    features = features or Columns()
    view = features if hasattr(features, "names_") else clone(features).fit(X)
    plan = training or features.plan
    device = torch.device("cpu")
    data = prepare(
        as_black_box(model),
        view,
        X,
        responses,
        k=k,
        validation=0.1,
        plan=plan,
        seed=seed,
        device=device,
    )
    generator = torch.Generator(device=device).manual_seed(seed)
    history: History = []
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        value = NetworkValue(data.view.predictor(data.response.outputs), data.response)
        fit_surrogate(
            value, data, k=k, plan=plan, generator=generator, history=history, label="fitting the judge"
        )
    return FittedValue(data.view, value, data.black_box)
