"""Chunks bound memory and change nothing else."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from l2x.learning.networks import _recipes as chunks
from l2x.learning.networks._recipes import CHUNK, in_chunks


class Recorded(nn.Module):
    """Remembers how many inputs it was given at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    @in_chunks
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        self.sizes.append(len(x))
        return x.cumsum(dim=1) + y


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 3 * CHUNK + 1))
def test_the_result_is_that_of_all_at_once(n: int) -> None:
    x, y, network = torch.rand(n, 3), torch.rand(n, 3), Recorded()
    with torch.no_grad():
        result = network(x, y)
    assert torch.equal(result, x.cumsum(dim=1) + y)
    assert max(network.sizes) <= CHUNK
    assert sum(network.sizes) == n


def test_a_backward_pass_gets_everything_at_once() -> None:
    network = Recorded()
    x = torch.rand(2 * CHUNK, 3, requires_grad=True)
    network(x, x).sum().backward()
    assert network.sizes == [2 * CHUNK]
    assert x.grad is not None


def test_the_size_is_one_number_for_all_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests of the networks make it small."""
    monkeypatch.setattr(chunks, "CHUNK", 2)
    network = Recorded()
    with torch.no_grad():
        network(torch.rand(5, 3), torch.rand(5, 3))
    assert network.sizes == [2, 2, 1]
