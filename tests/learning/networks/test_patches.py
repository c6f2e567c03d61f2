"""Networks for images: one score per patch for any grid, equal at first; masks are another channel."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from l2x.learning.networks._patches import PatchPredictor, PatchSelector, upsample

FEW = {"filters": (2, 3), "kernel": 3}


@settings(max_examples=30, deadline=None)
@given(
    channels=st.integers(1, 3),
    size=st.integers(1, 7),
    grid=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    head=st.sampled_from(["conv", "dense"]),
)
def test_any_patch_and_any_grid(channels: int, size: int, grid: tuple[int, int], head: str) -> None:
    patches = grid[0] * grid[1]
    x, mask = torch.rand(2, channels, grid[0] * size, grid[1] * size), torch.ones(2, patches)
    scores = PatchSelector(channels, size, grid, head=head, **FEW)(x)
    assert scores.shape == (2, patches)
    if head == "dense":
        assert not scores.any()  # all subsets are equally likely at first
    for sees_mask in (True, False):
        predictor = PatchPredictor(channels, size, grid, 3, sees_mask=sees_mask, **FEW)
        assert predictor(x, mask).shape == (2, 3)


@settings(max_examples=30, deadline=None)
@given(size=st.integers(1, 5), grid=st.tuples(st.integers(1, 4), st.integers(1, 4)), seed=st.integers(0, 99))
def test_a_mask_is_repeated_over_the_pixels_of_its_patches(
    size: int, grid: tuple[int, int], seed: int
) -> None:
    mask = torch.rand(2, grid[0] * grid[1], generator=torch.Generator().manual_seed(seed))
    plane = upsample(mask, grid, size)
    assert plane.shape == (2, 1, grid[0] * size, grid[1] * size)
    pixels = plane.reshape(2, grid[0], size, grid[1], size)
    expected = mask.reshape(2, grid[0], 1, grid[1], 1).expand_as(pixels)
    assert torch.equal(pixels, expected)


def test_a_predictor_reads_the_mask_only_with_sees_mask() -> None:
    x, mask = torch.rand(4, 1, 8, 8), torch.randint(0, 2, (4, 4)).float()
    for sees_mask in (True, False):
        predictor = PatchPredictor(1, 4, (2, 2), 3, sees_mask=sees_mask, **FEW)
        assert torch.equal(predictor(x, mask), predictor(x, 1 - mask)) != sees_mask


@pytest.mark.parametrize("head", ["conv", "dense"])
def test_chunks_change_nothing(head: str, assert_chunks_change_nothing: Callable[..., None]) -> None:
    x, mask = torch.rand(5, 1, 8, 8), torch.randint(0, 2, (5, 4)).float()
    selector = PatchSelector(1, 4, (2, 2), head=head, **FEW)
    torch.nn.init.normal_(selector.head[-1 if head == "dense" else 0].weight)
    assert_chunks_change_nothing(selector, x)
    assert_chunks_change_nothing(PatchPredictor(1, 4, (2, 2), 3, **FEW), x, mask)
