"""Networks for tables: slots for categories and gaps, a shared prior that starts at zero, optional masks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from l2x.features._table_input import WIDE, MaskedTable, TableInput
from l2x.learning.networks._columns import ColumnPredictor, ColumnSelector, perceptron


def test_a_perceptron_ends_with_a_dense_layer() -> None:
    layers = perceptron([5, 8, 7, 2], "relu")
    assert [type(layer) for layer in layers] == [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]
    assert layers(torch.rand(3, 5)).shape == (3, 2)


def test_a_normalised_perceptron_gives_hidden_layers_of_variance_one() -> None:
    torch.manual_seed(0)
    layers = perceptron([5, 8, 7, 2], "relu", normalise=True)
    assert [type(layer) for layer in layers[:3]] == [nn.Linear, nn.ReLU, nn.BatchNorm1d]
    assert isinstance(layers[-1], nn.Linear)  # outputs are not normalised
    hidden = layers[:-1](100 * torch.rand(500, 5))
    varies = hidden.var(dim=0) > 0
    assert varies.any()
    assert torch.allclose(hidden[:, varies].var(dim=0), torch.ones(()), atol=0.05)
    assert torch.allclose(hidden.mean(dim=0), torch.zeros(()), atol=1e-4)


@settings(max_examples=50, deadline=None)
@given(cells=st.lists(st.tuples(st.integers(-1, 3), st.booleans(), st.floats(-5, 5)), min_size=1))
def test_every_cell_has_its_slot(cells: list[tuple[int, bool, float]]) -> None:
    """A known category of column 0 (0, 1, 2), or the gap of column 1, sets exactly one slot to 1."""
    inputs = TableInput(numeric=[1], gaps=[1], categories=[(0, 3)])
    x = torch.tensor([[code, float("nan") if missing else number] for code, missing, number in cells])
    read = inputs(x)
    assert read.shape == (len(cells), inputs.width) == (len(cells), 1 + 3 + 1)
    assert inputs.slot_columns().tolist() == [0, 0, 0, 1]
    for row, (code, missing, number) in zip(read, cells, strict=True):
        assert row[0].item() == pytest.approx(0.0 if missing else number)
        assert row[1:4].tolist() == [float(code == level) for level in range(3)]  # none for -1, 3: unseen
        assert row[4].item() == missing


def test_scores_start_as_one_vector_for_all_rows() -> None:
    """With a prior all features start equal; the last bias, which the prior replaces, does not learn."""
    selector = ColumnSelector(4)
    assert not selector(torch.randn(6, 4)).any()
    assert not selector.layers[-1].bias.requires_grad
    selector.prior.data = torch.arange(4.0)
    assert torch.equal(selector(torch.randn(6, 4)), selector.PRIOR_SPEED * torch.arange(4.0).expand(6, 4))
    plain = ColumnSelector(4, prior=False)
    assert plain(torch.randn(6, 4)).std(dim=0).min() > 0


def test_groups_have_fewer_scores_than_columns() -> None:
    assert ColumnSelector(2, columns=5)(torch.randn(6, 5)).shape == (6, 2)
    read = ColumnSelector(2, inputs=TableInput([0, 1], [], [(2, 7)]))
    assert read(torch.zeros(6, 3)).shape == (6, 2)


def test_a_predictor_reads_the_mask_only_with_sees_mask() -> None:
    x, mask = torch.randn(6, 4), torch.randint(0, 2, (6, 4)).float()
    for sees_mask in (True, False):
        predictor = ColumnPredictor(4, 3, sees_mask=sees_mask)
        said = predictor(x, mask)
        assert said.shape == (6, 3)
        assert torch.equal(said, predictor(x, 1 - mask)) != sees_mask
    assert ColumnPredictor(4, 3, width=9)(torch.randn(6, 9), mask).shape == (6, 3)


@pytest.mark.parametrize("columns", [5, WIDE + 6])
def test_reading_rows_is_equivalent_to_masking_them_first(columns: int) -> None:
    """Wide tables use look-ups, unless the mask has a gradient."""
    edges = np.sort(np.random.default_rng(0).normal(size=(17, columns)), axis=0)
    table = MaskedTable(edges, columns)
    predictor = ColumnPredictor(columns, 3, width=table.width, table=table)
    x, mask = torch.randn(8, columns), (torch.rand(8, columns) < 0.2).float()
    dense = predictor(table(x, mask), mask)
    assert torch.allclose(predictor.read(x, mask), dense, atol=1e-5)
    relaxed = mask.clone().requires_grad_()
    assert torch.equal(predictor.read(x, relaxed), dense)
    assert torch.autograd.grad(predictor.read(x, relaxed).sum(), relaxed)[0].any()
    assert sorted(predictor.state_dict()) == sorted(ColumnPredictor(columns, 3).state_dict())


def test_several_relaxed_masks_of_wide_rows_have_a_gradient() -> None:
    table = MaskedTable(np.linspace(-1, 1, 4)[:, None].repeat(WIDE + 1, axis=1), WIDE + 1)
    predictor = ColumnPredictor(WIDE + 1, 2, width=table.width, table=table)
    x, masks = torch.randn(3, WIDE + 1), torch.rand(6, WIDE + 1, requires_grad=True)
    found = predictor.read(x, masks)
    assert torch.allclose(found, predictor.read(x.repeat(2, 1), masks))
    found.sum().backward()
    assert masks.grad is not None
    assert masks.grad.any()
