"""Networks for sentences: each is encoded alone; padding and unselected sentences have no influence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from l2x.features import PAD
from l2x.learning.networks._sentences import (
    PaperSentenceSelector,
    SentenceEncoder,
    SentencePredictor,
    SentenceSelector,
    sentence_selector,
)

VOCABULARY = 12
FEW: dict[str, Any] = {"width": 4, "filters": 5}
HIDDEN = pytest.mark.parametrize("hidden", [0, 6])


def texts(n: int = 5, sentences: int = 4, words: int = 6) -> Tensor:
    """Ids (n, sentences, words) of texts and sentences of different lengths."""
    ids = torch.randint(1, VOCABULARY, (n, sentences, words))
    for i in range(n):
        ids[i, sentences - i % sentences :] = PAD
        ids[i, :, words - i :] = PAD
    return ids


def with_more_sentences(ids: Tensor) -> Tensor:
    return torch.nn.functional.pad(ids, (0, 0, 0, 3), value=PAD)


def test_each_sentence_is_encoded_alone() -> None:
    ids, encoder = texts(), SentenceEncoder(VOCABULARY, 5, width=4)
    vectors = encoder(ids)
    assert vectors.shape == (5, 4, 5)
    assert not vectors[(ids == PAD).all(dim=2)].any()
    assert torch.allclose(vectors[:, :1], encoder(ids[:, :1]), atol=1e-6)
    assert torch.allclose(vectors.flip(1), encoder(ids.flip(1)), atol=1e-6)


@HIDDEN
def test_unselected_sentences_have_no_influence(hidden: int) -> None:
    ids, mask = texts(), torch.randint(0, 2, (5, 4)).float()
    predictor = SentencePredictor(VOCABULARY, 3, hidden=hidden, **FEW)
    others = torch.where(mask[:, :, None] > 0, ids, torch.randint(1, VOCABULARY, ids.shape)) * (ids != PAD)
    assert predictor(ids, mask).shape == (5, 3)
    assert torch.allclose(predictor(ids, mask), predictor(others, mask), atol=1e-6)


@HIDDEN
def test_padding_has_no_influence(hidden: int) -> None:
    ids, mask = texts(), torch.randint(0, 2, (5, 4)).float()
    present = (ids != PAD).any(dim=2)
    predictor = SentencePredictor(VOCABULARY, 3, hidden=hidden, **FEW)
    assert torch.equal(predictor(ids, mask), predictor(ids, mask.where(present, torch.tensor(1.0))))
    blind = SentencePredictor(VOCABULARY, 3, hidden=hidden, sees_mask=False, **FEW)
    longer = torch.nn.functional.pad(mask, (0, 3))
    assert torch.allclose(blind(ids, mask), blind(with_more_sentences(ids), longer), atol=1e-6)


def test_a_predictor_with_sees_mask_reads_the_number_of_sentences() -> None:
    ids = torch.full((1, 4, 6), 3)
    once, twice = torch.tensor([[1.0, 0, 0, 0]]), torch.tensor([[1.0, 1, 0, 0]])
    for sees_mask in (True, False):
        predictor = SentencePredictor(VOCABULARY, 3, sees_mask=sees_mask, hidden=6, **FEW)
        assert torch.allclose(predictor(ids, once), predictor(ids, twice), atol=1e-6) != sees_mask


def test_all_sentences_start_with_the_same_score_and_padding_does_not_change_it() -> None:
    ids, selector = texts(), SentenceSelector(VOCABULARY, 3, hidden=6, **FEW)
    present = (ids != PAD).any(dim=2)
    assert len(selector(ids)[present].unique()) == 1
    torch.nn.init.normal_(selector.score.weight)
    scores = selector(ids)
    assert scores.shape == (5, 4)
    longer = selector(with_more_sentences(ids))[:, :4]
    assert torch.allclose(longer[present], scores[present], atol=1e-6)


def test_the_papers_selector_is_an_option() -> None:
    assert isinstance(sentence_selector(VOCABULARY, 3), SentenceSelector)
    paper = sentence_selector(VOCABULARY, 3, paper=True, **FEW)
    assert isinstance(paper, PaperSentenceSelector)
    assert paper(texts()).shape == (5, 4)


def test_chunks_change_nothing(assert_chunks_change_nothing: Callable[..., None]) -> None:
    ids, mask = texts(), torch.randint(0, 2, (5, 4)).float()
    selector = SentenceSelector(VOCABULARY, 3, hidden=6, **FEW)
    torch.nn.init.normal_(selector.score.weight)
    assert_chunks_change_nothing(selector, ids)
    assert_chunks_change_nothing(PaperSentenceSelector(VOCABULARY, **FEW), ids)
    assert_chunks_change_nothing(SentencePredictor(VOCABULARY, 3, **FEW), ids, mask)
