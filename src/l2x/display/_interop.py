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


def signed(explanation: Explanation) -> Array:
    """Return (n, d) effects, zero for unselected features; margins if the explanation has no effects."""
    if explanation.source is None:
        return margins(explanation)
    values = np.zeros(explanation.scores.shape)
    np.put_along_axis(values, explanation.indices, explanation.effects, axis=1)
    return values


def shap_explanation(explanation: Explanation) -> Any:
    """Return a `shap.Explanation` whose values are effects that add up to the prediction, or margins."""
    shap = require("shap", extra="baselines")
    names = [str(name) for name in explanation.feature_names]
    values, data = signed(explanation), numbers_of(explanation)
    if explanation.source is None:
        base = np.zeros(len(explanation))
        return shap.Explanation(values=values, base_values=base, data=data, feature_names=names)
    rest = np.zeros((len(explanation), 1))
    return shap.Explanation(
        values=np.concatenate([values, explanation.rest[:, None]], axis=1),
        base_values=explanation.base,
        data=None if data is None else np.concatenate([data, rest], axis=1),
        display_data=None
        if data is None
        else np.concatenate([_shown(explanation, data), np.full(rest.shape, "", dtype=object)], axis=1),
        feature_names=[*names, "all other features"],
    )


def _shown(explanation: Explanation, data: Array) -> Array:
    """Return the values (n, d) as shap writes them: categories by name instead of their codes."""
    columns = None if explanation.view is None else as_columns(explanation.view)
    shown = data.astype(object)
    for c, levels in ({} if columns is None else columns.levels_).items():
        names = [*map(str, levels.values), "missing or new"]
        shown[:, c] = [names[int(code) if 0 <= code < len(levels.values) else -1] for code in data[:, c]]
    return shown


def attribution(explanation: Explanation, inputs: Tensor) -> Tensor:
    """Return the effects in the shape of `inputs`: every part of a feature has the feature's effect."""
    values = torch.from_numpy(signed(explanation).astype(np.float32)).to(inputs.device)
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
