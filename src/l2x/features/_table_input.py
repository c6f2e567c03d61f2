"""What networks read of a table: numbers, categories and gaps, whole or of the selected columns alone.

A predictor reads a number as x itself and its place between quantiles (piecewise-linear encoding, Gorishniy
et al. 2022). Times a dense layer's weights that is a point on a polyline whose corners are running sums of
them: in a wide table the first layer is a look-up of two vectors for each selected cell, and nothing for
the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from l2x._base.arrays import Array

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
        ends = edges if self.bins else np.zeros((1, len(numeric)))
        self.highest = nn.Buffer(_float32(ends[-1]), persistent=False)
        # (numeric columns, 2 ** i) edges between bins, filled up with what no number passes
        inner = np.full((len(numeric), 1 << (self.bins - 1).bit_length() if self.bins else 1), np.inf)
        inner[:, : max(0, self.bins - 1)] = edges[1:-1].T
        self.inner = nn.Buffer(_float32(inner), persistent=False)
        self.corners = nn.Buffer(_corners(ends.T, self.bins), persistent=False)
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
        """`layer` of these numbers (and of the mask beside them), from the selected cells alone; of rows x
        there may be several copies of masks, one after the other.

        Exact but for rounding; its gradient reaches the layer, not x or the mask.
        """
        weight = layer.weight if isinstance(layer, ByInput) else layer.weight.T.contiguous()
        vectors: Tensor = _Vectors.apply(weight, self, sees_mask)  # type: ignore[no-untyped-call]
        return self._look_up(vectors, x, mask) + layer.bias

    def vectors_of(self, weight: Tensor, *, sees_mask: bool) -> Tensor:
        """A layer's weights (width and features, outputs) as the vectors that cells add to its outputs.

        numbers     of each numeric column its slope, per unit of x, and its corners: what it adds at each of
                    the bins + 1 quantiles
        slots       as in the weights
        unseen      of each column: a category that has no slot

        That a feature is there, which the layer sees in the mask, is part of all but the slopes, in equal
        shares for the columns of a group: of these, every cell takes vectors whose weights sum to one.
        """
        numeric, outputs = len(self.numeric), weight.shape[1]
        slots = weight[numeric * (1 + self.bins) : self.width]
        unseen = 0 if self.inputs is None else self.columns
        vectors = weight.new_empty(numeric * (2 + self.bins) + len(slots) + unseen, outputs)
        numbers = vectors[: numeric * (2 + self.bins)].view(numeric, 2 + self.bins, outputs)
        increments = weight[: numeric * (1 + self.bins)].view(numeric, 1 + self.bins, outputs)
        torch.bmm(self.corners, increments, out=numbers)
        there = weight[self.width :] if sees_mask else None
        if there is not None and self.group is not None:
            there = (there / torch.bincount(self.group)[:, None])[self.group]
        if there is not None:
            numbers[:, 1:] += (there if self.inputs is None else there[self.numeric])[:, None]
        if self.inputs is not None:
            shares = vectors[numeric * (2 + self.bins) :]
            shares[: len(slots)], shares[len(slots) :] = slots, 0
            if there is not None:
                shares += there[self._columns_of_others()]
        return vectors

    def weight_gradient(self, gradient: Tensor, *, sees_mask: bool) -> Tensor:
        """That of the weights, from that of their vectors: the transpose of `vectors_of`, which is linear."""
        numeric, slots, outputs = len(self.numeric), self._slots(), gradient.shape[1]
        features = self.columns if self.group is None else int(self.group.max()) + 1
        weight = gradient.new_empty(self.width + features * sees_mask, outputs)
        numbers = gradient[: numeric * (2 + self.bins)].view(numeric, 2 + self.bins, outputs)
        increments = weight[: numeric * (1 + self.bins)].view(numeric, 1 + self.bins, outputs)
        torch.bmm(self.corners.mT, numbers, out=increments)
        others = gradient[numeric * (2 + self.bins) :]
        weight[self.width - slots : self.width] = others[:slots]
        if sees_mask:
            there = numbers[:, 1:].sum(dim=1)
            if self.inputs is not None:
                columns = torch.cat([self.numeric, self._columns_of_others()])
                there = torch.cat([there, others])
                there = weight.new_zeros(self.columns, outputs).index_add_(0, columns, there)
            if self.group is not None:
                there = there / torch.bincount(self.group)[self.group][:, None]
                there = weight.new_zeros(features, outputs).index_add_(0, self.group, there)
            weight[self.width :] = there
        return weight

    def _columns_of_others(self) -> Tensor:
        """The column of each vector that is not of a number: slots, then what is unseen."""
        assert self.inputs is not None
        return torch.cat([self.inputs.slot_columns(), torch.arange(self.columns, device=self.numeric.device)])

    def _look_up(self, vectors: Tensor, x: Tensor, mask: Tensor) -> Tensor:
        """What the selected cells of each row add up to, (n, outputs)."""
        weights = self._of_columns(mask)
        cells = _selected(weights)
        row = cells.div(self.columns, rounding_mode="floor")
        # Of several masks of a row, each has its cells.
        values = x.take(cells if len(x) == len(mask) else cells % x.numel())
        which, shares = self._cells(values, cells - row * self.columns)
        shares = shares * weights.take(cells)[:, None]
        rows = row[:, None].expand_as(which).flatten()
        sums: Tensor = _Sums.apply(vectors, which.flatten(), shares.flatten(), rows, len(mask))  # type: ignore[no-untyped-call]
        return sums

    def _cells(self, cells: Tensor, column: Tensor) -> tuple[Tensor, Tensor]:
        """The two vectors of each cell and their shares: the corners on both sides of it, or, beyond all
        quantiles, the last corner and the slope."""
        numeric = len(self.numeric)
        place = column if self.inputs is None else self.inputs.place[column]
        number = cells if self.inputs is None else cells.nan_to_num(0.0)
        slope = place * (self.bins + 2)
        if self.bins and numeric:
            lies, share, below, above = self._between(number, place)
            first = torch.where(above > 0, slope, slope + 1 + lies)
            second = torch.where(below < 0, slope, slope + 1 + lies + (share > 0))
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
        """The bin that each number lies in, how far, and how far it is below all bins and above them. At an
        edge that several bins share, none of them is passed."""
        begins = place * self.inner.shape[1]
        lies, step = begins.clone(), self.inner.shape[1]
        while step := step // 2:  # binary search among the edges between bins
            lies.add_(self.inner.take(lies + (step - 1)) < number, alpha=step)
        lies -= begins
        here = place * self.bins + lies
        share = ((number - self.lower.take(here)) * self.inverse_width.take(here)).clamp_(0, 1)
        above = (number - self.highest.take(place)).clamp_(min=0)
        below = (number - self.lower.take(place * self.bins)).clamp_(max=0)
        return lies, torch.where(above > 0, 1.0, share), below, above

    def _slots(self) -> int:
        return 0 if self.inputs is None else len(self.inputs.slot_columns())


class ByInput(nn.Linear):
    """A dense layer that keeps its weights input by input, (inputs, outputs), as look-ups read them: of
    thousands of columns, turning them round took a fifth of a step. State dicts have them as any layer's."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__(layer.in_features, layer.out_features, device="meta")
        self.weight, self.bias = nn.Parameter(layer.weight.detach().T.contiguous()), layer.bias

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight.T, self.bias)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}weight"] = destination[f"{prefix}weight"].T

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *others: Any) -> None:
        name = f"{prefix}weight"
        turned = {name: state_dict[name].T} if name in state_dict else {}
        super()._load_from_state_dict(state_dict | turned, prefix, *others)


def _selected(weights: Tensor) -> Tensor:
    """Where the cells are that have a weight, counted row by row; numpy finds them several times faster."""
    if weights.device.type != "cpu":
        return weights.flatten().nonzero()[:, 0]
    return torch.from_numpy(np.flatnonzero(weights.numpy() != 0))


class _Vectors(torch.autograd.Function):
    """`MaskedTable.vectors_of` a layer's weights, each of which is read and written once: of thousands of
    columns they are most of a step's work."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, table: MaskedTable, sees_mask: bool) -> Tensor:
        ctx.table, ctx.sees_mask = table, sees_mask
        return table.vectors_of(weight, sees_mask=sees_mask)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.table.weight_gradient(gradient, sees_mask=ctx.sees_mask), None, None


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


def _corners(edges: Array, bins: int) -> Tensor:
    """(columns, 2 + bins, 1 + bins): from the weights of a column to its slope and its corners. Each has the
    slope's part of its edge, and the sum of what lies before it less half of all bins."""
    corners = np.zeros((len(edges), 2 + bins, 1 + bins))
    corners[:, 0, 0] = 1
    corners[:, 1:, 0] = edges
    corners[:, 1:, 1:] = np.tri(bins + 1, bins, -1) - 0.5
    return _float32(corners)


def _float32(array: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
