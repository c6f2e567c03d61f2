"""What networks read of a table: look-ups of the selected cells say what the dense product says."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from l2x.features._table_input import ByInput, MaskedTable, TableInput


def table(
    numeric: int, bins: int, categories: Sequence[int], gaps: Sequence[int], group: bool
) -> MaskedTable:
    """Numeric columns first, one of few values, so that edges coincide; then categories."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(200, numeric))
    numbers[:, 0] = rng.integers(3, size=200)
    edges = np.quantile(numbers, np.linspace(0, 1, bins + 1), axis=0)
    columns = numeric + len(categories)
    codes = [(numeric + i, levels) for i, levels in enumerate(categories)]
    inputs = TableInput(range(numeric), gaps, codes) if categories or gaps else None
    return MaskedTable(edges, columns, inputs=inputs, group=np.arange(columns) // 2 if group else None)


def rows(read: MaskedTable, n: int, gaps: Sequence[int]) -> torch.Tensor:
    """Numbers inside, at and beyond the edges; codes of which some are unseen; gaps."""
    rng = np.random.default_rng(1)
    x = 2 * rng.normal(size=(n, read.columns))
    x[:, 0] = rng.integers(-1, 4, size=n)
    x[:, len(read.numeric) :] = rng.integers(-1, 4, size=(n, read.columns - len(read.numeric)))
    for column in gaps:
        x[rng.random(n) < 0.3, column] = np.nan
    return torch.from_numpy(x.astype(np.float32))


@settings(max_examples=60, deadline=None)
@given(
    bins=st.sampled_from([0, 1, 16]),
    categories=st.lists(st.integers(1, 4), max_size=2),
    gaps=st.sampled_from([(), (1,), (0, 2)]),
    group=st.booleans(),
    sees_mask=st.booleans(),
    present=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_look_ups_say_what_the_dense_product_says(
    bins: int, categories: list[int], gaps: Sequence[int], group: bool, sees_mask: bool, present: float
) -> None:
    """The same outputs and the same gradient of the layer, also for weights between zero and one."""
    read = table(3, bins, categories, gaps, group)
    x = rows(read, 40, gaps)
    d = read.columns if read.group is None else int(read.group.max()) + 1
    mask = (torch.rand(40, d) < present) * torch.rand(40, d)
    layer = nn.Linear(read.width + d * sees_mask, 5)
    inputs = read(x, mask)
    dense = layer(torch.cat([inputs, mask], dim=1) if sees_mask else inputs)
    direction = torch.randn_like(dense)
    wanted = torch.autograd.grad((dense * direction).sum(), layer.weight)[0]
    for apply in (read.first_layer, read.shared_first_layer):
        found = apply(layer, x, mask, sees_mask=sees_mask)
        assert torch.allclose(found, dense, atol=1e-5)
        gradient = torch.autograd.grad((found * direction).sum(), layer.weight)[0]
        assert torch.allclose(gradient, wanted, atol=1e-4)


def test_several_masks_of_each_row_are_those_of_its_copies() -> None:
    read = table(3, 16, [3], (1,), group=False)
    x, layer = rows(read, 7, (1,)), nn.Linear(read.width + 4, 5)
    masks = (torch.rand(3, 7, 4) < 0.5).float().flatten(end_dim=1)
    for apply in (read.first_layer, read.shared_first_layer):
        found = apply(layer, x, masks, sees_mask=True)
        assert torch.allclose(found, apply(layer, x.repeat(3, 1), masks, sees_mask=True), atol=1e-6)


def test_categories_alone() -> None:
    inputs = TableInput([], [], [(0, 3), (1, 2)])
    read = MaskedTable(np.zeros((17, 0)), 2, inputs=inputs)
    x, mask = torch.randint(-1, 3, (20, 2)).float(), (torch.rand(20, 2) < 0.6).float()
    layer = nn.Linear(read.width + 2, 5)
    dense = layer(torch.cat([read(x, mask), mask], dim=1))
    for apply in (read.first_layer, read.shared_first_layer):
        assert torch.allclose(apply(layer, x, mask, sees_mask=True), dense, atol=1e-5)


def test_a_layer_by_input_is_the_layer_in_its_outputs_and_its_state() -> None:
    plain, x = nn.Linear(6, 4), torch.randn(3, 6)
    turned = ByInput(plain)
    assert torch.allclose(turned(x), plain(x))
    assert all(torch.equal(turned.state_dict()[name], tensor) for name, tensor in plain.state_dict().items())
    other = nn.Linear(6, 4)
    turned.load_state_dict(other.state_dict())
    assert torch.allclose(copy.deepcopy(turned)(x), other(x))


def test_rows_without_a_selected_cell_are_the_bias() -> None:
    read = table(3, 16, [], (), group=False)
    layer = nn.Linear(read.width + 3, 5)
    mask = torch.zeros(4, 3)
    mask[1, 2] = 1
    found = read.first_layer(layer, rows(read, 4, ()), mask, sees_mask=True)
    assert torch.equal(found[[0, 2, 3]], layer.bias.expand(3, -1))
    assert not torch.allclose(found[1], layer.bias)


@pytest.mark.parametrize("bins", [0, 16])
def test_nothing_is_read_of_what_is_not_selected(bins: int) -> None:
    read = table(3, bins, [3], (1,), group=False)
    x, mask = rows(read, 30, (1,)), (torch.rand(30, 4) < 0.5).float()
    assert read(x, mask).shape == (30, read.width)
    assert not read(x, torch.zeros(30, 4)).any()
    other = torch.where(mask > 0, x, rows(read, 60, (1,))[30:])
    assert torch.equal(read(x, mask), read(other, mask))
