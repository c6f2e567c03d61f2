"""A little noise on inputs: explanations of an input and of its neighbours should agree."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from l2x.features.columns import Columns
from l2x.features.patches import Patches
from l2x.features.view import View

# In standard deviations of a column, and as a share of the brightest pixel.
OF_COLUMNS = 0.05
OF_PIXELS = 0.02


@singledispatch
def jitter(view: View, X: Any, rng: np.random.Generator) -> Any:
    """Checked inputs with a little noise; None where there is no such thing, as for texts."""
    return None


@jitter.register
def _(view: Columns, X: Any, rng: np.random.Generator) -> Any:
    matrix = view.numbers(X)
    noise = OF_COLUMNS * view.scaling_.scale * rng.standard_normal(matrix.shape)
    return view.cells_.with_numbers(X, matrix + noise)  # there is nothing between two categories


@jitter.register
def _(view: Patches, X: Any, rng: np.random.Generator) -> Any:
    noisy = X + OF_PIXELS * view.scale_ * rng.standard_normal(X.shape, dtype=np.float32)
    if X.dtype.kind not in "iub":
        return noisy.astype(X.dtype)
    limits = np.iinfo(X.dtype) if X.dtype.kind != "b" else np.iinfo(np.uint8)
    return np.clip(np.rint(noisy), limits.min, limits.max).astype(X.dtype)
