"""Chunks bound memory and change nothing else."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from l2x.networks import chunks
from l2x.networks.chunks import CHUNK, in_chunks


def recorded(sizes: list[int]) -> object:
    def network(x: Tensor, y: Tensor) -> Tensor:
        sizes.append(len(x))
        return x.cumsum(dim=1) + y

    return network


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 3 * CHUNK + 1))
def test_the_result_is_that_of_all_at_once(n: int) -> None:
    x, y, sizes = torch.rand(n, 3), torch.rand(n, 3), list[int]()
    with torch.no_grad():
        result = in_chunks(recorded(sizes), x, y)
    assert torch.equal(result, x.cumsum(dim=1) + y)
    assert max(sizes) <= CHUNK
    assert sum(sizes) == n


def test_a_backward_pass_gets_everything_at_once() -> None:
    sizes: list[int] = []
    x = torch.rand(2 * CHUNK, 3, requires_grad=True)
    in_chunks(recorded(sizes), x, x).sum().backward()
    assert sizes == [2 * CHUNK]
    assert x.grad is not None


def test_the_size_is_one_number_for_all_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests of the networks make it small."""
    monkeypatch.setattr(chunks, "CHUNK", 2)
    sizes: list[int] = []
    with torch.no_grad():
        in_chunks(recorded(sizes), torch.rand(5, 3), torch.rand(5, 3))
    assert sizes == [2, 2, 1]
