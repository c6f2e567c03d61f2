"""Networks that compute padding, too, say the same as those that leave it out."""

from __future__ import annotations

import pytest
import torch

from l2x.export._onnx import densely
from l2x.features import PAD
from l2x.learning.networks._sentences import PaperSentenceSelector, SentenceSelector
from l2x.learning.networks._words import PaperWordSelector, ToldWordSelector, WordSelector


@pytest.mark.parametrize("kind", [WordSelector, ToldWordSelector, PaperWordSelector])
@pytest.mark.parametrize("empty", [False, True])
def test_words(kind: type[torch.nn.Module], empty: bool) -> None:
    network = kind(20) if kind is PaperWordSelector else kind(20, 2)
    check(network.eval(), torch.randint(1, 20, (6, 9)), empty=empty, told=kind is ToldWordSelector)


@pytest.mark.parametrize("kind", [SentenceSelector, PaperSentenceSelector])
@pytest.mark.parametrize("empty", [False, True])
def test_sentences(kind: type[torch.nn.Module], empty: bool) -> None:
    network = SentenceSelector(20, 2) if kind is SentenceSelector else PaperSentenceSelector(20)
    check(network.eval(), torch.randint(1, 20, (6, 4, 5)), empty=empty, told=False)


def check(network: torch.nn.Module, ids: torch.Tensor, *, empty: bool, told: bool) -> None:
    for name, parameter in network.named_parameters():  # scores of a new selector are all zero
        torch.nn.init.normal_(parameter, std=0.2)
        if name.endswith("vectors.weight"):
            parameter.data[PAD] = 0  # as it always is
    if empty:
        ids[0], ids[1, 2:] = PAD, PAD
    there = ids != PAD if ids.ndim == 2 else (ids != PAD).any(dim=2)
    read = [torch.rand(len(ids), 2)] if told else []
    with torch.no_grad():
        sparse, dense = network(ids, *read), densely(network)(ids, *read)
    assert torch.allclose(sparse[there], dense[there], rtol=1e-4, atol=1e-4)
