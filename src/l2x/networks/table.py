"""What networks read of a table: numbers, categories and gaps, whole or of the selected columns alone.

A predictor reads a number as x itself and its place between quantiles (piecewise-linear encoding, Gorishniy
et al. 2022). Times a dense layer's weights that is a point on a polyline whose corners are running sums of
them: in a wide table the first layer is a look-up of three vectors for each selected cell, and nothing for
the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from l2x.foundations.arrays import Array

# Up to this many columns a dense product is as fast as a look-up.
WIDE = 64


class TableInput(nn.Module):
    """Encoded columns with categories or missing values -> (n, width) numbers that a network can read.

    numbers     the numeric columns, zero where missing
    slots       one per category (1 where the cell has it), one per column that may miss (1 where it does)

    Times the first dense layer's weights a slot is an embedding vector; all slots of a column that is not
    selected are zero (section 3.1), while a missing cell has a vector of its own.

    Parameters
    ----------
    numeric, gaps : indices of the numeric columns, and of those that may have missing cells
    categories : for each categorical column its index, and how many codes 0, 1, ... it has
    """

    def __init__(
        self, numeric: Sequence[int], gaps: Sequence[int], categories: Sequence[tuple[int, int]]
    ) -> None:
        super().__init__()
        slots = [(column, code) for column, codes in categories for code in range(codes)]
        # Not persistent: the view keeps them.
        self.numeric = nn.Buffer(torch.tensor(numeric, dtype=torch.long), persistent=False)
        self.gaps = nn.Buffer(torch.tensor(gaps, dtype=torch.long), persistent=False)
        columns = torch.tensor([column for column, _ in slots], dtype=torch.long)
        self.column = nn.Buffer(columns, persistent=False)
        self.code = nn.Buffer(torch.tensor([float(code) for _, code in slots]), persistent=False)
        self.width = len(numeric) + len(slots) + len(gaps)
        # For each column: its position among the numeric ones, its first slot, and the one of its gaps.
        total = len(numeric) + len(categories)
        self.place = nn.Buffer(torch.zeros(total, dtype=torch.long), persistent=False)
        self.place[self.numeric] = torch.arange(len(numeric))
        self.codes, self.first, self.gap = (nn.Buffer(self.place * 0, persistent=False) for _ in range(3))
        for column, codes in categories:
            self.first[column], self.codes[column] = self.codes.sum(), codes
        self.gap[self.gaps] = len(slots) + torch.arange(len(gaps))

    def slots(self, x: Tensor) -> Tensor:
        """(n, d) -> (n, slots); an unseen category has none."""
        return torch.cat([x[:, self.column] == self.code, x[:, self.gaps].isnan()], dim=1).float()

    def slot_columns(self) -> Tensor:
        """The column of each slot."""
        return torch.cat([self.column, self.gaps])

    def slot(self, cells: Tensor, column: Tensor) -> tuple[Tensor, Tensor]:
        """The slot of each cell, and whether it is a number, which has none; an unseen category's is, after
        all others, that of its column."""
        missing, codes = cells.isnan(), self.codes[column]
        code = cells.nan_to_num(-1.0).long()
        unseen = len(self.column) + len(self.gaps) + column
        slot = torch.where((code >= 0) & (code < codes), self.first[column] + code, unseen)
        return torch.where(missing, self.gap[column], slot), (codes == 0) & ~missing

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x[:, self.numeric].nan_to_num(0.0), self.slots(x)], dim=1)


class MaskedTable(nn.Module):
    """Encoded columns and a mask over features -> (n, width) numbers, zero where a column is not selected.

    A number becomes itself and its place in each of its column's bins, from -0.5 (below) to 0.5 (above); then
    come the slots of `inputs`.

    Parameters
    ----------
    edges : (bins + 1, numeric columns), the quantiles of each numeric column
    columns : how many there are
    inputs : for tables with categories or missing values
    group : (columns,) the feature of each column, where features are groups of them
    """

    def __init__(
        self, edges: Array, columns: int, *, inputs: TableInput | None = None, group: Array | None = None
    ) -> None:
        super().__init__()
        self.columns, self.inputs = columns, inputs
        self.bins = len(edges) - 1
        numeric = torch.arange(columns) if inputs is None else inputs.numeric
        # Not persistent: the view keeps them.
        self.numeric = nn.Buffer(numeric.clone(), persistent=False)
        self.lower = nn.Buffer(_float32(edges[:-1].T), persistent=False)  # (numeric columns, bins)
        # A bin without width (a value that many rows share) becomes a step.
        widths = np.maximum(np.diff(edges, axis=0).T, 1e-6)
        self.inverse_width = nn.Buffer(_float32(1 / widths), persistent=False)
        self.group = None if group is None else nn.Buffer(torch.from_numpy(group), persistent=False)
        self.width = len(numeric) * (1 + self.bins) + self._slots()

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        mask = self._of_columns(mask)
        if self.inputs is None:
            return self._piecewise(x, mask)
        numbers, selected = x[:, self.numeric], mask[:, self.numeric]
        # A missing number is all zeros but for its own slot.
        masked = self._piecewise(numbers.nan_to_num(0.0), selected * ~numbers.isnan())
        return torch.cat([masked, self.inputs.slots(x) * mask[:, self.inputs.slot_columns()]], dim=1)

    def _piecewise(self, numbers: Tensor, selected: Tensor) -> Tensor:
        """Each number, and its position between the quantiles, zero where it is not selected."""
        if not self.bins:
            return numbers * selected
        position = ((numbers[..., None] - self.lower) * self.inverse_width).clamp_(0, 1)
        vectors = torch.cat([numbers[..., None], position - 0.5], dim=-1)  # (n, numeric columns, 1 + bins)
        return (vectors * selected[..., None]).flatten(1)

    def _of_columns(self, mask: Tensor) -> Tensor:
        return mask if self.group is None else mask[:, self.group]

    def first_layer(self, layer: nn.Linear, x: Tensor, mask: Tensor, *, sees_mask: bool) -> Tensor:
        """`layer` of these numbers (and of the mask beside them), from the selected cells alone.

        Exact but for rounding; its gradient reaches the layer, not x or the mask.
        """
        return (
            self._look_up(self._vectors(layer.weight.T.contiguous(), sees_mask=sees_mask), x, mask)
            + layer.bias
        )

    def _vectors(self, weight: Tensor, *, sees_mask: bool) -> Tensor:
        """A layer's weights (width and features, outputs) as the vectors that cells add to its outputs.

        slopes      of each numeric column, per unit of x
        corners     of each numeric column at each quantile, (bins + 1) of them, without the slope's part
        slots       as in the weights
        unseen      of each column: a category that has no slot

        That a feature is there, which the layer sees in the mask, is part of all but the slopes, in equal
        shares for the columns of a group: of these, every cell takes vectors whose weights sum to one.
        """
        numbers = weight[: self.width - self._slots()].reshape(-1, 1 + self.bins, weight.shape[1])
        passed = torch.ones(self.bins + 1, self.bins, device=weight.device).tril(-1)
        corners = (passed - 0.5) @ numbers[:, 1:]  # (numeric columns, bins + 1, outputs)
        there = weight[self.width :] if sees_mask else weight.new_zeros(self.columns, weight.shape[1])
        if sees_mask and self.group is not None:
            there = (there / torch.bincount(self.group)[:, None])[self.group]
        corners = corners + (there if self.inputs is None else there[self.numeric])[:, None]
        parts = [numbers[:, 0], corners.flatten(0, 1)]
        if self.inputs is not None:
            slots = weight[self.width - self._slots() : self.width]
            parts += [slots + there[self.inputs.slot_columns()], there]
        return torch.cat(parts)

    def _look_up(self, vectors: Tensor, x: Tensor, mask: Tensor) -> Tensor:
        """What the selected cells of each row add up to, (n, outputs)."""
        weights = self._of_columns(mask)
        row, column = weights.nonzero(as_tuple=True)
        which, shares = self._cells(x[row, column], column)
        shares = shares * weights[row, column][:, None]
        rows = row[:, None].expand_as(which).flatten()
        sums: Tensor = _Sums.apply(vectors, which.flatten(), shares.flatten(), rows, len(x))  # type: ignore[no-untyped-call]
        return sums

    def _cells(self, cells: Tensor, column: Tensor) -> tuple[Tensor, Tensor]:
        """The three vectors of each cell - its slope and the corners on both sides - and their shares."""
        numeric = len(self.numeric)
        place = column if self.inputs is None else self.inputs.place[column]
        number = cells if self.inputs is None else cells.nan_to_num(0.0)
        lies, share = self._bin(number, place)
        before = numeric + place * (self.bins + 1) + lies
        if self.inputs is not None:
            slot, is_number = self.inputs.slot(cells, column)
            before = torch.where(is_number, before, numeric * (self.bins + 2) + slot)
            number, share = number * is_number, share * is_number
        which = torch.stack([place, before, before + (share > 0)], dim=1)
        return which, torch.stack([number, 1 - share, share], dim=1)

    def _bin(self, number: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        """The bin that each number lies in, and how far. At an edge that several bins share, none of them is
        passed."""
        lies = torch.zeros_like(place)
        if not self.bins:
            return lies, torch.zeros_like(number)
        first = place * self.bins
        step = 1 << (self.bins - 1).bit_length()
        while step := step // 2:  # binary search among the edges but the lowest
            probe = lies + step
            passed = (self.lower.take(first + probe.clamp_max(self.bins - 1)) < number) & (probe < self.bins)
            lies += step * passed
        here = first + lies
        return lies, ((number - self.lower.take(here)) * self.inverse_width.take(here)).clamp_(0, 1)

    def _slots(self) -> int:
        return 0 if self.inputs is None else len(self.inputs.slot_columns())


class _Sums(torch.autograd.Function):
    """Σ share · vector for each of `rows`: torch's embedding_bag, whose own gradient takes twice the time."""

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
    """`rows` is sorted."""
    starts = torch.searchsorted(rows.contiguous(), torch.arange(n, device=rows.device))
    return nn.functional.embedding_bag(which, vectors, starts, mode="sum", per_sample_weights=shares)


def _float32(array: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
