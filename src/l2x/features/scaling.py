"""How numeric columns are standardised for the networks: robust to outliers and to constant columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import torch
from torch import Tensor

from l2x.foundations.arrays import Array

# Standardised values beyond this are cut off; Gaussian columns never get there.
LIMIT = 10.0
# A standard deviation this many times what the quartiles say is the work of a few outliers.
OUTLIERS = 10.0
# Of a Gaussian: the distance between the quartiles in standard deviations.
QUARTILES = 1.349


@dataclass(frozen=True)
class Scaling:
    """Per column the mean (for removal), and centre and scale (for networks); all (d,).

    Centre and scale are mean and standard deviation, or median and quartile distance where a few outliers
    make the deviation meaningless. A category column's mean is its most frequent one, code 0.
    """

    mean: Array
    centre: Array
    scale: Array

    @classmethod
    def of(cls, matrix: Array, sample: Array, *, categorical: Sequence[int]) -> Self:
        """From all rows, the quartiles from a sample of them; NaN cells do not count."""
        if np.isnan(matrix).any():
            held = np.ma.masked_invalid(matrix)
            mean, spread = held.mean(axis=0).filled(0.0), held.std(axis=0).filled(0.0)
        else:
            mean, spread = matrix.mean(axis=0), matrix.std(axis=0)
        # A constant column says nothing: leave it unscaled rather than divide by zero.
        scale = np.where(spread > 1e-12 * (1 + np.abs(mean)), spread, 1.0)
        centre = mean.copy()
        low, middle, high = quantiles(sample, (0.25, 0.5, 0.75))
        usual = (high - low) / QUARTILES
        heavy = (usual > 0) & (spread > OUTLIERS * usual)
        centre[heavy], scale[heavy] = middle[heavy], usual[heavy]
        for c in categorical:
            mean[c], centre[c], scale[c] = 0.0, 0.0, 1.0
        return cls(mean, centre, scale)

    def standard(self, matrix: Tensor) -> Tensor:
        """In torch, as the network that reads it: for a single row numpy's code would first have to come into
        the processor's caches, and then the network's again."""
        centre, scale = self._tensors
        return (matrix - centre).div_(scale).clamp_(-LIMIT, LIMIT)

    @cached_property
    def _tensors(self) -> tuple[Tensor, Tensor]:
        return torch.tensor(self.centre), torch.tensor(self.scale)


def quantiles(sample: Array, shares: Array | Sequence[float]) -> Array:
    """(shares, columns) of the cells that are not missing; zeros for a column of gaps only."""
    if not np.isnan(sample).any():
        return np.quantile(sample, shares, axis=0)
    columns = [column[~np.isnan(column)] for column in sample.T]
    edges = [np.quantile(column, shares) if len(column) else np.zeros(len(shares)) for column in columns]
    return np.stack(edges, axis=1)
