"""A check that tests of networks share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from l2x.learning.networks import _recipes as chunks


@pytest.fixture
def assert_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def check(network: nn.Module, *inputs: Tensor) -> None:
        """Compare a pass with gradients, in one piece, with one in chunks of two inputs."""
        monkeypatch.setattr(chunks, "CHUNK", 2)
        network.eval()
        with torch.no_grad():
            in_chunks = network(*inputs)
        assert len(in_chunks) > 2
        assert torch.allclose(in_chunks, network(*inputs), atol=1e-6)

    return check
