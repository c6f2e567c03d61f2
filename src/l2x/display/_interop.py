"""Explanations in the formats of other libraries: shap and captum."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from l2x._base.arrays import Array, above_rest
from l2x.errors import require
from l2x.explanation import Explanation
from l2x.features import as_columns


def margins(explanation: Explanation) -> Array:
    """Return (n, d) margins: the score of a selected feature minus the best unselected score; zero elsewhere.

    If every selectable feature of a row is selected, the lowest selected score is subtracted instead.

    >>> margins(Explanation(np.array([[3.0, 1.0, 2.5]]), k=2, feature_names=list("abc"))).tolist()
    [[2.0, 0.0, 1.5]]
    """
    return np.where(explanation.mask, above_rest(explanation.scores, explanation.mask), 0.0)


def shap_explanation(explanation: Explanation) -> Any:
    """Return a `shap.Explanation` whose values are the margins, (n, d), and whose data are the inputs."""
    shap = require("shap", extra="baselines")
    return shap.Explanation(
        values=margins(explanation),
        base_values=np.zeros(len(explanation)),
        data=numbers_of(explanation),
        feature_names=[str(name) for name in explanation.feature_names],
    )


def attribution(explanation: Explanation, inputs: Tensor) -> Tensor:
    """Return the margins in the shape of `inputs`: every part of a feature has the feature's margin."""
    values = torch.from_numpy(margins(explanation).astype(np.float32)).to(inputs.device)
    if explanation.view is None:
        return values
    # `units` sums the parts of a feature; its transpose gives each part the feature's value.
    with torch.enable_grad():  # captum's metrics call this without gradients
        parts = torch.zeros(inputs.shape, device=inputs.device, requires_grad=True)
        (gradient,) = torch.autograd.grad((explanation.view.units(parts) * values).sum(), parts)
    return gradient


def numbers_of(explanation: Explanation) -> Array | None:
    """Return (n, d) values: codes for categories, NaN for missing cells; None unless features are columns."""
    columns = None if explanation.view is None else as_columns(explanation.view)
    return None if columns is None or explanation.inputs is None else columns.numbers(explanation.inputs)
