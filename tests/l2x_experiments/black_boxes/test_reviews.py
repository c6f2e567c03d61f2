"""The networks of reviews read what is there, and nothing else."""

from __future__ import annotations

import numpy as np
import torch

from l2x_experiments.black_boxes import reviews


def test_empty_sentences_are_skipped() -> None:
    """A review of which one sentence is left reads like that sentence alone."""
    torch.manual_seed(0)
    network = reviews.SentenceNetwork(20).eval()
    ids = torch.randint(1, 20, (3, 4, 6))
    one = torch.zeros_like(ids)
    one[:, 2] = ids[:, 2]
    alone = torch.zeros_like(ids)
    alone[:, 0] = ids[:, 2]
    with torch.no_grad():
        assert torch.allclose(network(one), network(alone), atol=1e-6)
        assert torch.isfinite(network(torch.zeros_like(ids))).all()


def test_a_sentence_that_comes_twice_is_read_once_where_no_gradient_is_needed() -> None:
    """And reads the same; with gradients each of its places has its own."""
    torch.manual_seed(0)
    network = reviews.SentenceNetwork(20).eval()
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
    """The word network equals the plain convolution over all positions, where there is padding."""
    torch.manual_seed(0)
    network = reviews.WordNetwork(30).eval()
    ids = torch.randint(1, 30, (5, 12))
    ids[:, 8:] = 0
    ids[0, 2:5] = 0
    with torch.no_grad():
        x, linear = network.embedding(ids), network.convolution.linear
        filters = linear.weight.view(-1, x.shape[2], 3)
        plain = torch.nn.functional.conv1d(x.transpose(1, 2), filters, linear.bias, padding=1).amax(dim=2)
        assert torch.allclose(network.convolution(x, ids != 0).maximum(), plain, atol=1e-6)
        assert torch.allclose(network.maximum_of_distinct(ids), plain, atol=1e-6)


def test_a_window_that_comes_twice_is_convolved_once_where_no_gradient_is_needed() -> None:
    """And counts the same, down to a review of which nothing is left."""
    torch.manual_seed(0)
    network = reviews.WordNetwork(30).eval()
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
    found = reviews.pretrained(["", "?", "film", "unheard-of"], ["great", "film"], vectors)
    assert torch.equal(found[2], torch.ones(3))
    assert found[3].abs().max() < 0.5
