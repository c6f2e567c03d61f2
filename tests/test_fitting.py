"""The phases of training: what subsets they draw, and what they leave frozen."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from toy_models import one_column

import l2x
from l2x.learning._phases import _subsets, fit_reader, fit_selector, fit_surrogate, random_masks
from l2x.learning._rows import Rows, prepare
from l2x.learning._surrogate import NetworkQ
from l2x.learning._training import Phase, Run
from l2x.learning.networks import networks_of
from l2x.learning.networks._recipes import ReadsFirst
from l2x.learning.samplers import PlackettLuce

PLAN = l2x.TrainingPlan(Phase(30, 1e-2), Phase(3, 1e-2), evaluations=2, progress=False)


class SomeSelectable(l2x.Columns):
    """Columns of which only those above zero may be selected."""

    def selectable(self, x: torch.Tensor) -> torch.Tensor:
        return x > 0


@settings(max_examples=25, deadline=None)
@given(d=st.integers(2, 9), k=st.integers(1, 9), seed=st.integers(0, 99))
def test_random_masks_have_size_k_or_any(d: int, k: int, seed: int) -> None:
    k = min(k, d)
    X = np.random.default_rng(seed).normal(size=(400, d))
    view = l2x.Columns().fit(X)
    rows = Rows(view, None, view.encode(X), torch.zeros(400, 1))
    masks = random_masks(rows, k, torch.Generator().manual_seed(seed))
    sizes = masks.sum(dim=1)
    assert set(masks.unique().tolist()) <= {0.0, 1.0}
    # Half of the rows, and a share 1 / (d + 1) of the other half: six standard deviations around that.
    assert abs((sizes == k).float().mean().item() - (0.5 + 0.5 / (d + 1))) < 6 * 0.5 / 20
    assert sizes.max() <= d


@pytest.mark.parametrize(("progress", "whole"), [(0.0, 1.0), (0.05, 0.5), (0.5, 0.0)])
def test_random_masks_of_many_features_begin_whole(progress: float, whole: float) -> None:
    X = np.random.default_rng(0).normal(size=(2000, 100))
    view = l2x.Columns().fit(X)
    rows = Rows(view, None, view.encode(X), torch.zeros(2000, 1))
    masks = random_masks(rows, 3, torch.Generator().manual_seed(0), progress)
    sizes = masks.sum(dim=1)
    # Of what is not whole half has a size from 1 to 3; a few of the others happen to.
    assert (sizes == 100).float().mean().item() == pytest.approx(whole, abs=0.03)
    for size in (1, 2, 3):
        assert (sizes == size).float().mean().item() == pytest.approx((1 - whole) / 6, abs=0.03)
    if not whole:
        assert masks.mean(dim=0).std() < 0.03  # no feature is preferred


def test_sizes_of_many_features() -> None:
    """Half up to k; of the others as many beyond it, up to 2 k, of all sizes up to d, and ever fewer."""
    X = np.random.default_rng(0).normal(size=(8000, 400))
    view = l2x.Columns().fit(X)
    rows = Rows(view, None, view.encode(X), torch.zeros(8000, 1))
    sizes = random_masks(rows, 32, torch.Generator().manual_seed(0)).sum(dim=1)
    low, high, large, whole = (
        ((sizes >= a) & (sizes < b)).float().mean().item()
        for a, b in [(0, 33), (33, 65), (129, 257), (257, 401)]
    )
    assert low - 0.5 == pytest.approx(high, abs=0.03)
    assert high > large > whole > 0


@given(st.integers(1, 12), st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_subsets_of_given_sizes_are_all_alike(d: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, d + 1, (1000, 1), generator=generator)
    masks = _subsets(sizes, d, generator)
    assert torch.equal(masks.sum(dim=1, keepdim=True), sizes)
    # A feature is in as many as any other: standard errors are below .016; six of them.
    assert torch.allclose(masks.float().mean(dim=0), sizes.float().mean() / d, atol=0.1)


def test_what_may_not_be_selected_is_in_no_mask() -> None:
    X = np.random.default_rng(0).normal(size=(200, 6))
    view = SomeSelectable(standardize=False).fit(X)
    x = view.encode(X)
    masks = random_masks(Rows(view, None, x, torch.zeros(200, 1)), 2, torch.Generator().manual_seed(0))
    assert not (masks.bool() & (x <= 0)).any()
    assert (masks.sum(dim=1) == (x > 0).sum(dim=1)).any()  # sizes go up to what there is


def problem(run: Run) -> tuple[l2x.features.View, object]:
    X = np.random.default_rng(0).normal(size=(300, 4))
    view = l2x.Columns().fit(X)
    return prepare(l2x.as_black_box(one_column), view, X, None, k=1, validation=0.1, run=run)


def test_a_surrogate_learns_and_is_frozen() -> None:
    run = Run.begin(PLAN, seed=0)
    data = problem(run)
    with run.seeded():  # the initial weights: some that chance brings learn too little in so few steps
        q = NetworkQ(networks_of(data.view, 2).predictor(), data.likelihood)
    fit_surrogate(q, data, run)
    assert not any(p.requires_grad for p in q.predictor.parameters())
    losses = [line["validation_loss"] for line in run.history]
    assert losses[-1] < losses[0]
    before = {name: p.clone() for name, p in q.predictor.named_parameters()}
    fit_selector(networks_of(data.view, 2).selector(), q, data, PlackettLuce(), run)
    assert all(torch.equal(p, before[name]) for name, p in q.predictor.named_parameters())


class NotAReader(nn.Module):
    """A selector of somebody's whose part happens to be called reader."""

    def __init__(self) -> None:
        super().__init__()
        self.reader = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.reader(x)


class Reads(ReadsFirst):
    def __init__(self) -> None:
        super().__init__()
        self.reader = nn.Bilinear(4, 4, 2)


def test_only_a_selector_that_says_so_reads_first() -> None:
    run = Run.begin(PLAN, seed=0)
    data = problem(run)
    q = NetworkQ(networks_of(data.view, 2).predictor().requires_grad_(False), data.likelihood)
    strange = NotAReader()
    fit_reader(strange, q, data, run)
    assert not run.history
    assert strange.reader.weight.requires_grad
    reads = Reads()
    fit_reader(reads, q, data, run)
    assert [line["phase"] for line in run.history] == ["reading with the model"] * len(run.history) != []
    assert not reads.reader.weight.requires_grad
