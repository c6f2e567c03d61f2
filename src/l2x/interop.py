"""Explanations in the forms of neighbouring libraries: shap's Explanation, captum's attributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from l2x.errors import InputError, require
from l2x.explanation import Explanation
from l2x.features.columns import Columns
from l2x.foundations.arrays import Array


def margins(explanation: Explanation) -> Array:
    """(n, d): how far each selected feature's score stands above the best of the others, and zero for those.

    Where all that may be selected are, there are no others: then above the lowest.

    >>> margins(Explanation(np.array([[3.0, 1.0, 2.5]]), k=2, feature_names=list("abc"))).tolist()
    [[2.0, 0.0, 1.5]]
    """
    scores, mask = explanation.scores, explanation.mask
    others = np.where(mask, -np.inf, scores).max(axis=1)
    bar = np.where(others > -np.inf, others, np.where(mask, scores, np.inf).min(axis=1))
    return np.where(mask, scores - bar[:, None], 0.0)


def shap_explanation(explanation: Explanation) -> Any:
    """See `Explanation.to_shap`."""
    shap = require("shap", extra="baselines")
    view, inputs = explanation.view, explanation.inputs
    return shap.Explanation(
        values=margins(explanation),
        base_values=np.zeros(len(explanation)),
        data=view.numbers(inputs) if isinstance(view, Columns) and inputs is not None else None,
        feature_names=[str(name) for name in explanation.feature_names],
    )


def attribution(explanation: Explanation, inputs: Tensor) -> Tensor:
    """See `Explainer.attribute`: the margins, spread over what each feature is made of."""
    view = explanation.view
    spread = margins(explanation) if view is None else view.spread(margins(explanation))
    tensor = torch.from_numpy(np.ascontiguousarray(spread, dtype=np.float32)).to(inputs.device)
    try:
        return tensor.expand_as(inputs).clone()
    except RuntimeError as error:
        shapes = f"{tuple(tensor.shape)} for inputs of {tuple(inputs.shape)}"
        raise InputError(f"The features of this explainer do not fit a tensor: {shapes}.") from error
