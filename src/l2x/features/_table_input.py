"""What networks read of a table: standardised numbers, categories and gaps, of all or of selected columns.

A predictor reads a number as x and its position between quantiles (piecewise-linear encoding, Gorishniy et
al. 2022). Multiplied by a dense layer's weights, this is a point on a polyline whose corners are running sums
of the weights. In a wide table, the first layer is therefore a look-up of two vectors per selected cell, and
unselected cells cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from l2x._base.arrays import Array

# Up to this many columns a dense product is as fast as a look-up.
WIDE = 64
# Standardised values beyond this are cut off; Gaussian columns do not reach it.
LIMIT = 10.0
# A standard deviation this many times larger than the quartiles suggest is due to a few outliers.
OUTLIERS = 10.0
# The distance between the quartiles of a Gaussian, in standard deviations.
QUARTILES = 1.349


@dataclass(frozen=True)
class Scaling:
    """The mean of each column (for masking), and its centre and scale (for networks); all (d,).

    Centre and scale are the mean and the standard deviation, or the median and the distance of the quartiles
    if a few outliers dominate the deviation. The mean of a category column is its most frequent one, code 0.
    """

    mean: Array
    centre: Array
    scale: Array

    @classmethod
    def of(cls, matrix: Array, sample: Array, *, categorical: Sequence[int]) -> Self:
        """Compute the scaling from all rows, with quartiles from a sample of them; NaN cells do not count."""
        if np.isnan(matrix).any():
            held = np.ma.masked_invalid(matrix)
            mean, spread = held.mean(axis=0).filled(0.0), held.std(axis=0).filled(0.0)
        else:
            mean, spread = matrix.mean(axis=0), matrix.std(axis=0)
        # A constant column carries no information: leave it unscaled rather than divide by zero.
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
        """Return standardised numbers. Torch is faster than numpy here, as the network also uses torch."""
        centre, scale = self._tensors
        return (matrix - centre).div_(scale).clamp_(-LIMIT, LIMIT)

    @cached_property
    def _tensors(self) -> tuple[Tensor, Tensor]:
        return torch.tensor(self.centre), torch.tensor(self.scale)


def quantiles(
    sample: Array, shares: Array | Sequence[float], *, method: Literal["linear", "inverted_cdf"] = "linear"
) -> Array:
    """Return quantiles (shares, columns) of the cells that are not missing; zeros if all are missing."""
    if not np.isnan(sample).any():
        return np.quantile(sample, shares, axis=0, method=method)
    columns = [column[~np.isnan(column)] for column in sample.T]
    edges = [
        np.quantile(column, shares, method=method) if len(column) else np.zeros(len(shares))
        for column in columns
    ]
    return np.stack(edges, axis=1)


class TableInput(nn.Module):
    """Turn encoded columns with categories or missing values into (n, width) numbers for a network.

    numbers     the numeric columns, zero where missing
    slots       one per category (1 if the cell has it), one per column with gaps (1 if the cell is missing)

    Multiplied by the first dense layer's weights, a slot is an embedding vector. All slots of an unselected
    column are zero (section 3.1); a missing cell has its own vector.

    Parameters
    ----------
    numeric, gaps : sequence of int
        Positions of the numeric columns, and of the columns that may have missing cells.
    categories : sequence of (int, int)
        The position of each categorical column, and its number of codes 0, 1, ...
    """

    def __init__(
        self, numeric: Sequence[int], gaps: Sequence[int], categories: Sequence[tuple[int, int]]
    ) -> None:
        super().__init__()
        slots = [(column, code) for column, codes in categories for code in range(codes)]
        # Not persistent: the view stores them.
        self.numeric = nn.Buffer(torch.tensor(numeric, dtype=torch.long), persistent=False)
        self.gaps = nn.Buffer(torch.tensor(gaps, dtype=torch.long), persistent=False)
        columns = torch.tensor([column for column, _ in slots], dtype=torch.long)
        self.column = nn.Buffer(columns, persistent=False)
        self.code = nn.Buffer(torch.tensor([float(code) for _, code in slots]), persistent=False)
        self.width = len(numeric) + len(slots) + len(gaps)
        # For each column: its position among the numeric ones, its first slot, and the slot of its gaps.
        total = len(numeric) + len(categories)
        self.place = nn.Buffer(torch.zeros(total, dtype=torch.long), persistent=False)
        self.place[self.numeric] = torch.arange(len(numeric))
        self.codes, self.first, self.gap = (nn.Buffer(self.place * 0, persistent=False) for _ in range(3))
        for column, codes in categories:
            self.first[column], self.codes[column] = self.codes.sum(), codes
        self.gap[self.gaps] = len(slots) + torch.arange(len(gaps))

    def slots(self, x: Tensor) -> Tensor:
        """Return (n, slots) from encoded cells (n, d); an unseen category has no slot."""
        return torch.cat([x[:, self.column] == self.code, x[:, self.gaps].isnan()], dim=1).float()

    def slot_columns(self) -> Tensor:
        """Return the column of each slot."""
        return torch.cat([self.column, self.gaps])

    def slot(self, cells: Tensor, column: Tensor) -> tuple[Tensor, Tensor]:
        """Return the slot of each cell, and whether the cell is a number, which has none.

        Slots of unseen categories, one per column, come after all others.
        """
        missing, codes = cells.isnan(), self.codes[column]
        code = cells.nan_to_num(-1.0).long()
        unseen = len(self.column) + len(self.gaps) + column
        slot = torch.where((code >= 0) & (code < codes), self.first[column] + code, unseen)
        return torch.where(missing, self.gap[column], slot), (codes == 0) & ~missing

    def with_slots(self, x: Tensor, numbers: Tensor, slots: Tensor) -> Tensor:
        """Return a vector per cell, (n, columns, f): those of `numbers` (n, numeric columns, f), or a slot's.

        `slots` has one vector per slot, and a last one for categories that have none.
        """
        n, columns = x.shape
        slot, is_number = self.slot(x, torch.arange(columns, device=x.device).expand(n, columns))
        vectors = nn.functional.embedding(slot.clamp_(max=len(slots) - 1), slots)
        if not (is_number := is_number[:, self.numeric]).all():  # missing numbers have slots
            numbers = torch.where(is_number[..., None], numbers, vectors[:, self.numeric])
        return vectors.index_copy(1, self.numeric, numbers)

    def forward(self, x: Tensor) -> Tensor:
        """Return (n, width): numbers, then slots."""
        return torch.cat([x[:, self.numeric].nan_to_num(0.0), self.slots(x)], dim=1)


class MaskedTable(nn.Module):
    """Turn encoded columns and a mask over features into (n, width) numbers, zero for unselected columns.

    A number becomes itself and its position in each bin of its column, from -0.5 (below) to 0.5 (above).
    The slots of `inputs` follow.

    Parameters
    ----------
    edges : (bins + 1, numeric columns) array
        The quantiles of each numeric column.
    columns : int
        The number of columns.
    inputs : TableInput, optional
        For tables with categories or missing values.
    group : (columns,) array, optional
        The feature of each column, if features are groups of columns.
    """

    def __init__(
        self, edges: Array, columns: int, *, inputs: TableInput | None = None, group: Array | None = None
    ) -> None:
        super().__init__()
        self.columns, self.inputs = columns, inputs
        self.bins = len(edges) - 1
        numeric = torch.arange(columns) if inputs is None else inputs.numeric
        # Not persistent: the view stores them.
        self.numeric = nn.Buffer(numeric.clone(), persistent=False)
        self.lower = nn.Buffer(_float32(edges[:-1].T), persistent=False)  # (numeric columns, bins)
        # A bin without width, from a value that many rows share, becomes a step.
        widths = np.maximum(np.diff(edges, axis=0).T, 1e-6)
        self.inverse_width = nn.Buffer(_float32(1 / widths), persistent=False)
        ends = edges if self.bins else np.zeros((1, len(numeric)))
        self.highest = nn.Buffer(_float32(ends[-1]), persistent=False)
        # (numeric columns, 2 ** i) edges between bins, padded with infinity
        inner = np.full((len(numeric), 1 << (self.bins - 1).bit_length() if self.bins else 1), np.inf)
        inner[:, : max(0, self.bins - 1)] = edges[1:-1].T
        self.inner = nn.Buffer(_float32(inner), persistent=False)
        self.corners = nn.Buffer(_corners(ends.T, self.bins), persistent=False)
        self.group = None if group is None else nn.Buffer(torch.from_numpy(group), persistent=False)
        self.width = len(numeric) * (1 + self.bins) + self._slots()

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return (n, width) for encoded columns x (n, columns) and a mask (n, d)."""
        mask = self._of_columns(mask)
        if self.inputs is None:
            return self._piecewise(x, mask)
        numbers, selected = x[:, self.numeric], mask[:, self.numeric]
        # A missing number is zero except for its slot.
        masked = self._piecewise(numbers.nan_to_num(0.0), selected * ~numbers.isnan())
        return torch.cat([masked, self.inputs.slots(x) * mask[:, self.inputs.slot_columns()]], dim=1)

    def _piecewise(self, numbers: Tensor, selected: Tensor) -> Tensor:
        """Return each number and its position between the quantiles, zero if it is not selected."""
        if not self.bins:
            return numbers * selected
        return (self._positions(numbers) * selected[..., None]).flatten(1)

    def _positions(self, numbers: Tensor) -> Tensor:
        """Return each number and its position in each bin, (n, numeric columns, 1 + bins)."""
        position = ((numbers[..., None] - self.lower) * self.inverse_width).clamp_(0, 1)
        return torch.cat([numbers[..., None], position.sub_(0.5)], dim=-1)

    def _of_columns(self, mask: Tensor) -> Tensor:
        return mask if self.group is None else mask[:, self.group]

    def contributions(self, layer: nn.Linear, x: Tensor, *, sees_mask: bool) -> Tensor:
        """Return what each selected cell adds to the outputs of `layer`, (n, columns, outputs).

        The layer's output is its bias plus the sum over the selected cells. With several masks per row, this
        takes a fraction of the work of one product per mask.
        """
        weight = layer.weight.T
        numeric, outputs = len(self.numeric), weight.shape[1]
        increments = weight[: numeric * (1 + self.bins)].reshape(numeric, 1 + self.bins, outputs)
        numbers = x if self.inputs is None else x[:, self.numeric].nan_to_num(0.0)
        added = torch.bmm(self._positions(numbers).transpose(0, 1), increments).transpose(0, 1)
        if self.inputs is not None:
            slots = torch.cat([weight[numeric * (1 + self.bins) : self.width], weight.new_zeros(1, outputs)])
            added = self.inputs.with_slots(x, added, slots)
        if sees_mask:
            presence = weight[self.width :]
            if self.group is not None:
                presence = (presence / torch.bincount(self.group)[:, None])[self.group]
            added = added + presence
        return added

    def shared_first_layer(self, layer: nn.Linear, x: Tensor, mask: Tensor, *, sees_mask: bool) -> Tensor:
        """Return `layer` applied to m masks of each row, (m n, outputs), from `contributions`."""
        added, n = self.contributions(layer, x, sees_mask=sees_mask), len(x)
        masks = self._of_columns(mask).view(len(mask) // n, n, self.columns).transpose(0, 1)
        return torch.bmm(masks, added).transpose(0, 1).reshape(len(mask), -1) + layer.bias

    def first_layer(self, layer: nn.Linear, x: Tensor, mask: Tensor, *, sees_mask: bool) -> Tensor:
        """Return `layer` applied to these numbers (and to the mask), computed from the selected cells alone.

        There may be several masks per row of x, one copy of all rows after the other. The result is exact up
        to rounding; its gradient reaches the layer, but neither x nor the mask.
        """
        weight = layer.weight if isinstance(layer, ByInput) else layer.weight.T.contiguous()
        vectors: Tensor = _Vectors.apply(weight, self, sees_mask)  # type: ignore[no-untyped-call]
        return self._look_up(vectors, x, mask) + layer.bias

    def vectors_of(self, weight: Tensor, *, sees_mask: bool) -> Tensor:
        """Return the vectors that cells add to a layer's outputs; weights are (width and features, outputs).

        numbers     for each numeric column its slope, per unit of x, and its corners: its contribution at
                    each of the bins + 1 quantiles
        slots       as in the weights
        unseen      one vector per column, for a category that has no slot

        The weight of the mask is part of all vectors except the slopes, in equal shares for the columns of a
        group. Each cell takes such vectors with shares that sum to one.
        """
        numeric, outputs = len(self.numeric), weight.shape[1]
        slots = weight[numeric * (1 + self.bins) : self.width]
        unseen = 0 if self.inputs is None else self.columns
        vectors = weight.new_empty(numeric * (2 + self.bins) + len(slots) + unseen, outputs)
        numbers = vectors[: numeric * (2 + self.bins)].view(numeric, 2 + self.bins, outputs)
        increments = weight[: numeric * (1 + self.bins)].view(numeric, 1 + self.bins, outputs)
        torch.bmm(self.corners, increments, out=numbers)
        presence = weight[self.width :] if sees_mask else None
        if presence is not None and self.group is not None:
            presence = (presence / torch.bincount(self.group)[:, None])[self.group]
        if presence is not None:
            numbers[:, 1:] += (presence if self.inputs is None else presence[self.numeric])[:, None]
        if self.inputs is not None:
            shares = vectors[numeric * (2 + self.bins) :]
            shares[: len(slots)], shares[len(slots) :] = slots, 0
            if presence is not None:
                shares += presence[self._slot_columns()]
        return vectors

    def weight_gradient(self, gradient: Tensor, *, sees_mask: bool) -> Tensor:
        """Return the gradient of the weights from that of their vectors: the transpose of `vectors_of`."""
        numeric, slots, outputs = len(self.numeric), self._slots(), gradient.shape[1]
        features = self.columns if self.group is None else int(self.group.max()) + 1
        weight = gradient.new_empty(self.width + features * sees_mask, outputs)
        numbers = gradient[: numeric * (2 + self.bins)].view(numeric, 2 + self.bins, outputs)
        increments = weight[: numeric * (1 + self.bins)].view(numeric, 1 + self.bins, outputs)
        torch.bmm(self.corners.mT, numbers, out=increments)
        shares = gradient[numeric * (2 + self.bins) :]
        weight[self.width - slots : self.width] = shares[:slots]
        if sees_mask:
            presence = numbers[:, 1:].sum(dim=1)
            if self.inputs is not None:
                columns = torch.cat([self.numeric, self._slot_columns()])
                presence = torch.cat([presence, shares])
                presence = weight.new_zeros(self.columns, outputs).index_add_(0, columns, presence)
            if self.group is not None:
                presence = presence / torch.bincount(self.group)[self.group][:, None]
                presence = weight.new_zeros(features, outputs).index_add_(0, self.group, presence)
            weight[self.width :] = presence
        return weight

    def _slot_columns(self) -> Tensor:
        """Return the columns of the vectors after those of numbers: slots, then unseen categories."""
        assert self.inputs is not None
        return torch.cat([self.inputs.slot_columns(), torch.arange(self.columns, device=self.numeric.device)])

    def _look_up(self, vectors: Tensor, x: Tensor, mask: Tensor) -> Tensor:
        """Return the sum over the selected cells of each row, (n, outputs)."""
        weights = self._of_columns(mask)
        cells = _selected(weights)
        row = cells.div(self.columns, rounding_mode="floor")
        # If a row has several masks, each mask has its own cells.
        values = x.take(cells if len(x) == len(mask) else cells % x.numel())
        which, shares = self._cells(values, cells - row * self.columns)
        shares = shares * weights.take(cells)[:, None]
        rows = row[:, None].expand_as(which).flatten()
        sums: Tensor = _Sums.apply(vectors, which.flatten(), shares.flatten(), rows, len(mask))  # type: ignore[no-untyped-call]
        return sums

    def _cells(self, cells: Tensor, column: Tensor) -> tuple[Tensor, Tensor]:
        """Return the two vectors of each cell, and their shares.

        They are the corners on both sides of it, or, beyond all quantiles, the last corner and the slope.
        """
        numeric = len(self.numeric)
        place = column if self.inputs is None else self.inputs.place[column]
        number = cells if self.inputs is None else cells.nan_to_num(0.0)
        slope = place * (self.bins + 2)
        if self.bins and numeric:
            bin_, share, below, above = self._between(number, place)
            first = torch.where(above > 0, slope, slope + 1 + bin_)
            second = torch.where(below < 0, slope, slope + 1 + bin_ + (share > 0))
            shares = [1 - share + above, share + below]
        else:
            first, second, shares = slope, slope + 1, [number, torch.ones_like(number)]
        if self.inputs is not None:
            slot, is_number = self.inputs.slot(cells, column)
            slot += numeric * (self.bins + 2)
            first, second = torch.where(is_number, first, slot), torch.where(is_number, second, slot)
            shares = [torch.where(is_number, shares[0], 1.0), shares[1] * is_number]
        return torch.stack([first, second], dim=1), torch.stack(shares, dim=1)

    def _between(self, number: Tensor, place: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the bin of each number, its position in the bin, and its distance below and above all bins.

        At an edge that several bins share, none of them is passed.
        """
        begins = place * self.inner.shape[1]
        bin_, step = begins.clone(), self.inner.shape[1]
        while step := step // 2:  # binary search among the edges between bins
            bin_.add_(self.inner.take(bin_ + (step - 1)) < number, alpha=step)
        bin_ -= begins
        here = place * self.bins + bin_
        share = ((number - self.lower.take(here)) * self.inverse_width.take(here)).clamp_(0, 1)
        above = (number - self.highest.take(place)).clamp_(min=0)
        below = (number - self.lower.take(place * self.bins)).clamp_(max=0)
        return bin_, torch.where(above > 0, 1.0, share), below, above

    def _slots(self) -> int:
        return 0 if self.inputs is None else len(self.inputs.slot_columns())


class ByInput(nn.Linear):
    """A dense layer that stores its weights as (inputs, outputs), as look-ups read them.

    With thousands of columns, transposing them took a fifth of a training step. State dicts have the usual
    (outputs, inputs).
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__(layer.in_features, layer.out_features, device="meta")
        self.weight, self.bias = nn.Parameter(layer.weight.detach().T.contiguous()), layer.bias

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's outputs."""
        return nn.functional.linear(x, self.weight.T, self.bias)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}weight"] = destination[f"{prefix}weight"].T

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *others: Any) -> None:
        name = f"{prefix}weight"
        turned = {name: state_dict[name].T} if name in state_dict else {}
        super()._load_from_state_dict(state_dict | turned, prefix, *others)


def _selected(weights: Tensor) -> Tensor:
    """Return the flat positions of cells with a weight; numpy finds them several times faster than torch."""
    if weights.device.type != "cpu":
        return weights.flatten().nonzero()[:, 0]
    return torch.from_numpy(np.flatnonzero(weights.numpy() != 0))


class _Vectors(torch.autograd.Function):
    """`MaskedTable.vectors_of` with a gradient that reads and writes each weight once.

    With thousands of columns this is most of the work of a training step.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, table: MaskedTable, sees_mask: bool) -> Tensor:
        ctx.table, ctx.sees_mask = table, sees_mask
        return table.vectors_of(weight, sees_mask=sees_mask)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.table.weight_gradient(gradient, sees_mask=ctx.sees_mask), None, None


class _Sums(torch.autograd.Function):
    """Σ share · vector for each of `rows`: torch's embedding_bag, with a gradient in half the time."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, which: Tensor, shares: Tensor, rows: Tensor, n: int) -> Tensor:
        ctx.save_for_backward(which, shares, rows)
        ctx.vectors = len(vectors)
        return _sums(vectors, which, shares, rows, n)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        which, shares, rows = ctx.saved_tensors
        order = which.int().argsort()
        gradient = gradient.contiguous()
        return _sums(gradient, rows[order], shares[order], which[order], ctx.vectors), None, None, None, None


def _sums(vectors: Tensor, which: Tensor, shares: Tensor, rows: Tensor, n: int) -> Tensor:
    """Return Σ share · vector for each row; `rows` must be sorted."""
    starts = torch.searchsorted(rows.contiguous(), torch.arange(n, device=rows.device))
    return nn.functional.embedding_bag(which, vectors, starts, mode="sum", per_sample_weights=shares)


def _corners(edges: Array, bins: int) -> Tensor:
    """Return (columns, 2 + bins, 1 + bins): maps from the weights of a column to its slope and its corners.

    A corner is the slope times its edge, plus the sum of the bins before it, minus half of all bins.
    """
    corners = np.zeros((len(edges), 2 + bins, 1 + bins))
    corners[:, 0, 0] = 1
    corners[:, 1:, 0] = edges
    corners[:, 1:, 1:] = np.tri(bins + 1, bins, -1) - 0.5
    return _float32(corners)


def _float32(array: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
