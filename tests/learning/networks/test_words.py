"""Networks for words: padding and unselected words have no influence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import l2x
from l2x.features import PAD
from l2x.learning.networks._words import (
    EARLIER,
    PaperWordSelector,
    PredictionAwareWordSelector,
    WindowConvolution,
    WordEmbedding,
    WordPredictor,
    WordSelector,
    weighted_mean,
    word_selector,
)

VOCABULARY = 12
FEW: dict[str, Any] = {"width": 4, "hidden": 5}
POOLINGS = pytest.mark.parametrize("pooling", ["window", "average", "both"])


def texts(n: int = 5, length: int = 7) -> Tensor:
    """Ids of texts of different lengths, padded at the end."""
    ids = torch.randint(1, VOCABULARY, (n, length))
    for i in range(n):
        ids[i, length - i % (length - 1) :] = PAD
    return ids


def padded(ids: Tensor, more: int) -> Tensor:
    return torch.nn.functional.pad(ids, (0, more), value=PAD)


@settings(max_examples=20, deadline=None)
@given(gain=st.floats(0.5, 5))
def test_padding_is_zero_and_the_gain_changes_only_the_learning_rate(gain: float) -> None:
    embedding = WordEmbedding(VOCABULARY, 4, gain=gain)
    assert not embedding(torch.tensor([PAD])).any()
    vectors = embedding(torch.arange(1, VOCABULARY))
    assert 0 < vectors.abs().max() <= 0.05 * 1.001
    vectors.sum().backward()
    assert embedding.vectors.weight.grad[1:].allclose(torch.tensor(gain))
    assert not embedding.vectors.weight.grad[PAD].any()


@settings(max_examples=30, deadline=None)
@given(length=st.integers(1, 8), share=st.floats(0, 1), seed=st.integers(0, 99))
def test_windows_with_a_word_are_those_of_the_whole_convolution(length: int, share: float, seed: int) -> None:
    """The maximum includes the bias, the value of a window without a word."""
    generator = torch.Generator().manual_seed(seed)
    present = torch.rand(3, length, generator=generator) < share
    x = torch.randn(3, length, 4, generator=generator) * present[:, :, None]
    convolution = WindowConvolution(4, 5)
    weight = convolution.linear.weight.reshape(5, 4, 3)
    around = torch.nn.functional.pad(x, (0, 0, 1, 1)).transpose(1, 2)
    whole = torch.nn.functional.conv1d(around, weight, convolution.linear.bias)  # (3, 5, length)
    windows = convolution(x, present)
    assert torch.allclose(windows.values, whole.transpose(1, 2)[windows.live], atol=1e-5)
    assert windows.rows.tolist() == [i for i in range(3) for _ in range(int(windows.live[i].sum()))]
    expected = torch.maximum(whole.amax(dim=2), convolution.linear.bias)
    assert torch.allclose(windows.maximum(), expected, atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(length=st.integers(1, 8), share=st.floats(0, 1), seed=st.integers(0, 99), weighted=st.booleans())
def test_the_largest_window_and_its_gradient_are_those_of_all_windows(
    length: int, share: float, seed: int, *, weighted: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    embedding, convolution = WordEmbedding(VOCABULARY, 4, gain=2).double(), WindowConvolution(4, 5).double()
    ids = torch.randint(VOCABULARY, (3, length), generator=generator)  # with padding, also in between
    mask = (torch.rand(3, length, generator=generator) < share).double()
    mask = mask * torch.rand(3, length, generator=generator).double() if weighted else mask
    mask = mask * (ids != PAD)
    upstream = torch.randn(3, 5, generator=generator).double()
    found = []
    for largest in (
        convolution.largest(embedding, ids, mask),
        convolution(embedding(ids) * mask[:, :, None], mask > 0).maximum(),
    ):
        parameters = [embedding.vectors.weight, *convolution.parameters()]
        gradients = torch.autograd.grad((largest * upstream).sum(), parameters)
        found.append([largest, *gradients])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other)


def test_a_layer_of_words_is_computed_for_each_distinct_word() -> None:
    embedding, layer, seen = WordEmbedding(VOCABULARY, 4), torch.nn.Linear(4, 2), []
    layer.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    ids = torch.tensor([[3, 5, 3], [5, 3, 0]])
    mapped = embedding.mapped(layer, ids)
    assert seen == [3]
    assert torch.allclose(mapped, layer(embedding(ids)))


def test_the_mean_of_nothing_is_zero() -> None:
    vectors, weights = torch.rand(2, 3, 4), torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    mean = weighted_mean(vectors * weights[:, :, None], weights)
    assert torch.allclose(mean[0], vectors[0, [0, 2]].mean(dim=0))
    assert not mean[1].any()


@settings(max_examples=30, deadline=None)
@given(share=st.floats(0, 1), gain=st.floats(0.5, 5), seed=st.integers(0, 99))
def test_the_average_over_selected_words_equals_that_over_all_positions(
    share: float, gain: float, seed: int
) -> None:
    """Gradients are the same too, also those of the weights, which relaxed samplers need."""
    generator = torch.Generator().manual_seed(seed)
    ids, embedding = texts(), WordEmbedding(VOCABULARY, 4, gain=gain)
    weights = torch.rand(ids.shape, generator=generator)
    weights = weights * (torch.rand(ids.shape, generator=generator) < share) * (ids != PAD)
    upstream = torch.randn(5, 4, generator=generator)
    found = []
    for average in (embedding.average, lambda i, w: weighted_mean(embedding(i) * w[:, :, None], w)):
        embedding.zero_grad()
        given = weights.clone().requires_grad_()
        mean = average(ids, given)
        (mean * upstream).sum().backward()
        there = torch.zeros_like(weights) if given.grad is None else given.grad
        found.append((mean, embedding.vectors.weight.grad.clone(), there[weights > 0]))
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


@POOLINGS
def test_unselected_words_have_no_influence(pooling: Any) -> None:
    ids, mask = texts(), torch.randint(0, 2, (5, 7)).float()
    predictor = WordPredictor(VOCABULARY, 3, pooling=pooling, **FEW)
    others = torch.where(mask > 0, ids, torch.randint(1, VOCABULARY, ids.shape)) * (ids != PAD)
    assert torch.allclose(predictor(ids, mask), predictor(others, mask), atol=1e-6)
    assert not torch.allclose(predictor(ids, mask), predictor(ids, torch.ones_like(mask)))


@POOLINGS
def test_padding_has_no_influence(pooling: Any) -> None:
    ids, mask = texts(), torch.randint(0, 2, (5, 7)).float()
    predictor = WordPredictor(VOCABULARY, 3, pooling=pooling, **FEW)
    assert torch.equal(predictor(ids, mask), predictor(ids, mask.where(ids != PAD, torch.tensor(1.0))))
    blind = WordPredictor(VOCABULARY, 3, pooling=pooling, sees_mask=False, **FEW)
    assert torch.allclose(blind(ids, mask), blind(padded(ids, 4), padded(mask, 4)), atol=1e-6)


def test_a_predictor_with_sees_mask_reads_the_number_of_words() -> None:
    """One word, once and twice: the average is the same, the number is not."""
    ids, once, twice = torch.full((1, 7), 3), torch.zeros(1, 7), torch.zeros(1, 7)
    once[:, 0], twice[:, :2] = 1, 1
    for sees_mask in (True, False):
        predictor = WordPredictor(VOCABULARY, 3, pooling="average", sees_mask=sees_mask, **FEW)
        assert torch.allclose(predictor(ids, once), predictor(ids, twice), atol=1e-6) != sees_mask


def test_a_divisor_replaces_the_sum_of_the_mask() -> None:
    """Four words with weight 1/4: their average, or a quarter of it with divisor 4."""
    ids, mask = torch.full((1, 7), 3), torch.zeros(1, 7)
    mask[:, :4] = 0.25
    whole, quarter = (
        WordPredictor(VOCABULARY, 3, pooling="average", divisor=divisor, sees_mask=False, **FEW)
        for divisor in (None, 4.0)
    )
    quarter.load_state_dict(whole.state_dict())
    assert torch.allclose(whole.embedding.average(ids, mask), whole.embedding(ids[:, 0]), atol=1e-6)
    assert torch.allclose(
        quarter.embedding.average(ids, mask, 4.0), whole.embedding(ids[:, 0]) / 4, atol=1e-6
    )
    assert not torch.allclose(whole(ids, mask), quarter(ids, mask))


def test_the_papers_selector_reads_each_text_alone() -> None:
    """All texts are concatenated: neither neighbours nor padding may change the scores."""
    ids, selector = texts(), PaperWordSelector(VOCABULARY, width=4, filters=6, local=5).eval()
    together = selector(ids)
    for row, alone in enumerate(ids):
        present = alone != PAD
        assert torch.allclose(selector(alone[None])[0][present], together[row][present], atol=1e-5)
        assert torch.allclose(selector(alone[present][None])[0], together[row][present], atol=1e-5)
    assert not together[ids == PAD].any()


def nearly_equal(scores: Tensor) -> bool:
    """Whether all scores are equal, apart from EARLIER."""
    return bool(scores.max() - scores.min() < 10 * EARLIER)


def word_weights(selector: nn.Module) -> torch.Tensor:
    """Return the weights that start at zero."""
    words = selector.words if isinstance(selector, WordSelector) else selector
    assert isinstance(words, PredictionAwareWordSelector)
    return words.word.weight


def test_all_words_start_with_the_same_score_and_padding_does_not_change_it() -> None:
    ids, selector = texts(), WordSelector(VOCABULARY, 3, width=4, filters=5, hidden=6)
    assert nearly_equal(selector(ids)[ids != PAD])
    torch.nn.init.normal_(word_weights(selector))
    scores = selector(ids)
    assert scores.shape == ids.shape
    assert len(scores[ids != PAD].unique()) > 1
    longer = selector(padded(ids, 4))[:, :7]
    assert torch.allclose(longer[ids != PAD], scores[ids != PAD], atol=1e-6)


def test_a_prediction_aware_selector_scores_words_given_the_prediction() -> None:
    ids, predictions = texts(), torch.randn(5, 3)
    selector = word_selector(VOCABULARY, 3, prediction_size=3, width=4, hidden=6)
    assert isinstance(selector, PredictionAwareWordSelector)
    twice = torch.tensor([[3, 5, 3, 5]])
    assert (selector(twice, predictions[:1]).diff() < 0).all()  # equal words: the first one first
    assert nearly_equal(selector(ids, predictions)[ids != PAD])
    torch.nn.init.normal_(word_weights(selector))
    scores = selector(ids, predictions)
    assert not torch.allclose(scores, selector(ids, -predictions))
    longer = selector(padded(ids, 4), predictions)[:, :7]
    assert torch.allclose(longer[ids != PAD], scores[ids != PAD], atol=1e-6)
    with pytest.raises(l2x.errors.InputError, match="uses_prediction"):
        word_selector(VOCABULARY, 3, prediction_size=3, paper=True)


def test_the_papers_selector_is_an_option() -> None:
    ids = texts()
    assert isinstance(word_selector(VOCABULARY, 3), WordSelector)
    paper = word_selector(VOCABULARY, 3, paper=True, width=4, filters=20)
    assert isinstance(paper, PaperWordSelector)
    assert paper(ids).shape == ids.shape
    assert not torch.equal(paper(ids), paper(ids))  # dropout, while it trains
    assert torch.equal(paper.eval()(ids), paper(ids))


def test_chunks_change_nothing(assert_chunks_change_nothing: Callable[..., None]) -> None:
    ids, mask = texts(), torch.randint(0, 2, (5, 7)).float()
    selector = WordSelector(VOCABULARY, 3, width=4, filters=5, hidden=6)
    torch.nn.init.normal_(word_weights(selector))
    assert_chunks_change_nothing(selector, ids)
    assert_chunks_change_nothing(PaperWordSelector(VOCABULARY, width=4, filters=20), ids)
    assert_chunks_change_nothing(WordPredictor(VOCABULARY, 3, **FEW), ids, mask)
    aware = word_selector(VOCABULARY, 3, prediction_size=3, width=4, hidden=6)
    torch.nn.init.normal_(word_weights(aware))
    assert_chunks_change_nothing(aware, ids, torch.randn(5, 3))
