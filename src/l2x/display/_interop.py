"""Explanations in other libraries' forms: shap's Explanation, captum's attributions, Arrow's columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from l2x._base.arrays import Array
from l2x._base.ranking import above_rest
from l2x.errors import require
from l2x.explanation import Explanation, by_rank, own_names
from l2x.features import as_columns


def margins(explanation: Explanation) -> Array:
    """(n, d): how far each selected feature's score stands above the best of the others, and zero for those.

    Where all that may be selected are, there are no others: then above the lowest.

    >>> margins(Explanation(np.array([[3.0, 1.0, 2.5]]), k=2, feature_names=list("abc"))).tolist()
    [[2.0, 0.0, 1.5]]
    """
    return np.where(explanation.mask, above_rest(explanation.scores, explanation.mask), 0.0)


def shap_explanation(explanation: Explanation) -> Any:
    """A `shap.Explanation` whose values are the margins, (n, d), and whose data are the table's numbers."""
    shap = require("shap", extra="baselines")
    return shap.Explanation(
        values=margins(explanation),
        base_values=np.zeros(len(explanation)),
        data=numbers_of(explanation),
        feature_names=[str(name) for name in explanation.feature_names],
    )


def attribution(explanation: Explanation, inputs: Tensor) -> Tensor:
    """The margins as a tensor of the shape of `inputs`: each feature's, over all that it is made of."""
    values = torch.from_numpy(margins(explanation).astype(np.float32)).to(inputs.device)
    if explanation.view is None:
        return values
    # `units` sums the parts of a feature; its transpose gives each part the feature's value.
    with torch.enable_grad():  # captum's metrics call this without gradients
        parts = torch.zeros(inputs.shape, device=inputs.device, requires_grad=True)
        (gradient,) = torch.autograd.grad((explanation.view.units(parts) * values).sum(), parts)
    return gradient


def numbers_of(explanation: Explanation) -> Array | None:
    """(n, d) values of the features, codes for categories, NaN for missing cells; None unless every feature
    is a column of a table."""
    columns = None if explanation.view is None else as_columns(explanation.view)
    return None if columns is None or explanation.inputs is None else columns.numbers(explanation.inputs)


def arrow_columns(explanation: Explanation) -> dict[str, pa.Array]:
    """What `Explanation.to_frame` holds, without a Python object for every cell.

    Names are dictionary-encoded where all rows have the same features, and strings where each has its own,
    such as words. Nulls where a row has fewer than k selectable features.
    """
    # (k, n): columns in one piece, which Arrow takes as they are
    scores = explanation.selected_scores.T.copy()
    masks = [None] * explanation.k if explanation.selected.all() else ~explanation.selected.T.copy()
    own = own_names(explanation)
    if own is None:
        known = pa.array([str(name) for name in explanation.feature_names])
        codes = explanation.indices.T.astype(np.int32, order="C")
        names = [pa.DictionaryArray.from_arrays(codes[j], known, mask=masks[j]) for j in range(explanation.k)]
    else:
        names = [pa.array(own[:, j], pa.string(), mask=masks[j]) for j in range(explanation.k)]
    return by_rank(names, [pa.array(scores[j], mask=masks[j]) for j in range(explanation.k)])
