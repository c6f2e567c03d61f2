"""The networks that are explained: they read what is present and nothing else, and are trained once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from l2x_experiments import black_boxes
from l2x_experiments.black_boxes import cached_classifier, train_network


def test_a_classifier_learns_and_is_cached(tmp_path: Path) -> None:
    X = torch.randn(640, 3, generator=torch.Generator().manual_seed(0))
    y = (X[:, 0] > 0).long()
    calls = []

    def data(network: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
        calls.append(network)
        return X, y

    def get(epochs: int) -> nn.Module:
        return cached_classifier(
            "toy", {"data": "toy"}, lambda: nn.Linear(3, 2), data, epochs=epochs, rate=0.1
        ).network

    network = get(4)
    assert (network(X).argmax(dim=1) == y).float().mean() > 0.95
    assert torch.equal(get(4).weight, network.weight)
    assert len(calls) == 1  # the second time nothing is loaded
    get(1)
    assert len(calls) == 2


def test_the_same_seed_gives_the_same_network() -> None:
    X = torch.randn(100, 4, generator=torch.Generator().manual_seed(0)).numpy()
    y = (X[:, 0] > 0).astype("int64")
    first, second, other = (train_network(X, y, seed=seed, steps=3) for seed in (0, 0, 1))
    x = torch.from_numpy(X)
    assert torch.equal(first(x), second(x))
    assert not torch.equal(first(x), other(x))


def test_empty_sentences_are_skipped() -> None:
    """A review with one sentence left gives the logits of that sentence alone."""
    torch.manual_seed(0)
    network = black_boxes.SentenceNetwork(20).eval()
    ids = torch.randint(1, 20, (3, 4, 6))
    one = torch.zeros_like(ids)
    one[:, 2] = ids[:, 2]
    alone = torch.zeros_like(ids)
    alone[:, 0] = ids[:, 2]
    with torch.no_grad():
        assert torch.allclose(network(one), network(alone), atol=1e-6)
        assert torch.isfinite(network(torch.zeros_like(ids))).all()


def test_a_repeated_sentence_is_read_once_without_gradients() -> None:
    """The logits are the same; with gradients each occurrence is read."""
    torch.manual_seed(0)
    network = black_boxes.SentenceNetwork(20).eval()
    ids = torch.randint(1, 20, (1, 4, 6)).repeat(5, 1, 1)
    ids[1, :2] = 0
    ids[2, 3, 4:] = 0
    read: list[int] = []
    network.words.register_forward_pre_hook(lambda _, inputs: read.append(int(inputs[0].batch_sizes[0])))
    with_gradients = network(ids)
    with torch.no_grad():
        assert torch.allclose(network(ids), with_gradients, atol=1e-6)
    assert read == [18, 5]


def test_only_windows_that_hold_a_word_are_computed() -> None:
    """With padding, the word network equals the plain convolution over all positions."""
    torch.manual_seed(0)
    network = black_boxes.WordNetwork(30).eval()
    ids = torch.randint(1, 30, (5, 12))
    ids[:, 8:] = 0
    ids[0, 2:5] = 0
    with torch.no_grad():
        x, linear = network.embedding(ids), network.convolution.linear
        filters = linear.weight.view(-1, x.shape[2], 3)
        plain = torch.nn.functional.conv1d(x.transpose(1, 2), filters, linear.bias, padding=1).amax(dim=2)
        assert torch.allclose(network.convolution(x, ids != 0).maximum(), plain, atol=1e-6)
        assert torch.allclose(network.maximum_of_distinct(ids), plain, atol=1e-6)


def test_a_repeated_window_is_convolved_once_without_gradients() -> None:
    """The logits are the same, even for an empty review."""
    torch.manual_seed(0)
    network = black_boxes.WordNetwork(30).eval()
    ids = torch.randint(1, 30, (1, 12)).repeat(5, 1)
    ids[1, 3] = 0
    ids[2] = 0
    convolved: list[int] = []
    network.convolution.linear.register_forward_pre_hook(lambda _, inputs: convolved.append(len(inputs[0])))
    with_gradients = network(ids)
    with torch.no_grad():
        assert torch.allclose(network(ids), with_gradients, atol=1e-6)
        assert torch.isfinite(network(torch.zeros_like(ids))).all()
    assert convolved == [4 * 12, 12 + 3, 0]


def test_words_without_a_vector_get_a_small_one() -> None:
    vectors = np.ones((2, 3), dtype=np.float32)
    found = black_boxes.pretrained(["", "?", "film", "unheard-of"], ["great", "film"], vectors)
    assert torch.equal(found[2], torch.ones(3))
    assert found[3].abs().max() < 0.5
