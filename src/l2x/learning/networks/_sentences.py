"""Networks for sentences: convolution and max-pooling in each, convolutions over them (section 4.2)."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from l2x.features import PAD, Sentences
from l2x.learning.networks._recipes import (
    InitialWeights,
    Networks,
    ReadsFirst,
    Recipe,
    Recipes,
    in_chunks,
    initialise,
    paper_plan,
    plan_in_small_batches,
    register,
)
from l2x.learning.networks._words import WindowConvolution, WordEmbedding, refuse_told, weighted_mean
from l2x.learning.samplers import ConcreteMax

OURS = Recipe(plan_in_small_batches(value=1200, selector=200), answer="class")
# As the authors' code has it: a temperature of 0.5 (at 0.1 the selector always takes the first sentence), the
# sum over sentences divided by k, Glorot's weights.
PAPER = Recipe(
    paper_plan(1200, batch_size=64, evaluations=4),
    selector={"paper": True, "initial": "glorot"},
    predictor={"hidden": 0, "gain": 1.0, "initial": "glorot"},
    sampler=ConcreteMax(temperature=0.5),
    divide_by_k=True,
)
LETTER = Recipe(
    paper_plan(800, batch_size=64, to_the_letter=True),
    selector={"paper": True},
    predictor={"hidden": 0, "gain": 1.0},
)


class SentenceEncoder(nn.Module):
    """Ids (n, sentences, words) -> (n, sentences, filters); zero where there is no sentence."""

    def __init__(
        self, vocabulary: int, width: int, filters: int, gain: float, vectors: Tensor | None = None
    ) -> None:
        super().__init__()
        self.embedding = WordEmbedding(vocabulary, width, gain=gain, vectors=vectors)
        self.convolution = WindowConvolution(width, filters)
        self.filters = filters

    def forward(self, ids: Tensor) -> Tensor:
        there = (ids != PAD).any(dim=2)
        words = ids[there]  # (sentences that there are, words)
        vectors = torch.zeros(*there.shape, self.filters, device=ids.device)
        encoded = torch.relu(self.convolution(self.embedding(words), words != PAD).maximum())
        return vectors.masked_scatter(there[:, :, None], encoded)


class SentencePredictor(nn.Module):
    """g_α: ids and the mask, which weighs the encoded sentences, -> (n, outputs) logits or means.

    The paper's has average pooling and a dense layer (`hidden=0`); ours has a hidden layer between.
    """

    def __init__(
        self,
        vocabulary: int,
        outputs: int,
        *,
        width: int = 100,
        filters: int = 150,
        hidden: int = 150,
        gain: float = 3.0,
        divisor: float | None = None,
        initial: InitialWeights = "torch",
        sees_mask: bool = True,
        vectors: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.divisor = divisor
        self.encoder = SentenceEncoder(vocabulary, width, filters, gain, vectors)
        self.sees_mask = sees_mask
        features = filters + sees_mask
        self.hidden = nn.Sequential(nn.Linear(features, hidden), nn.ReLU()) if hidden else nn.Identity()
        self.answer = nn.Linear(hidden or features, outputs)
        initialise(self, initial)

    @in_chunks
    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        weights = mask * (ids != PAD).any(dim=2)
        read = self.encoder(ids * (mask > 0)[:, :, None])  # sentences without weight need not be read
        pooled = weighted_mean(read * weights[:, :, None], weights, self.divisor)
        if self.sees_mask:  # how many sentences there are
            pooled = torch.cat([pooled, weights.mean(dim=1, keepdim=True)], dim=1)
        outputs: Tensor = self.answer(self.hidden(pooled))
        return outputs


class SentenceSelector(ReadsFirst):
    """w_θ: ids -> (n, sentences) importance scores; our recipe's, as `WordSelector`.

    It scores every sentence, if `alone` with what that says by itself, conditioned on a summary of the text
    and on the answer: the predicted one, or the model's own where it is told (`told` numbers).
    """

    reader: SentencePredictor

    def __init__(
        self,
        vocabulary: int,
        outputs: int,
        *,
        width: int = 100,
        filters: int = 150,
        hidden: int = 150,
        gain: float = 3.0,
        told: int = 0,
        alone: bool = True,
        vectors: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.reader = SentencePredictor(
            vocabulary,
            outputs,
            width=width,
            filters=filters,
            hidden=hidden,
            gain=gain,
            sees_mask=False,
            vectors=vectors,
        )
        self.alone = alone
        self.sentence = nn.Linear(filters + 2 * outputs * alone, hidden)
        self.text = nn.Linear(hidden + outputs, hidden, bias=False)
        self.told = nn.Linear(told, hidden, bias=False) if told else None
        self.score = nn.Linear(hidden, 1)
        nn.init.zeros_(self.score.weight)

    @in_chunks
    def forward(self, ids: Tensor, *told: Tensor) -> Tensor:
        sentences = self.reader.encoder(ids)  # (n, sentences, filters)
        there = (ids != PAD).any(dim=2).float()
        text = self.reader.hidden(weighted_mean(sentences, there))
        answer = self.reader.answer(text)
        context = self.text(torch.cat([text, answer], dim=1))
        if self.told is not None:
            context = context + self.told(*told)
            (answer,) = told
        if self.alone:  # what each sentence says by itself, and whether that is the answer
            says = self.reader.answer(self.reader.hidden(sentences))
            sentences = torch.cat([sentences, says, says * answer[:, None]], dim=2)
        scores: Tensor = self.score(torch.relu(self.sentence(sentences) + context[:, None]))
        return scores[:, :, 0]


def sentence_selector(vocabulary: int, outputs: int, *, paper: bool = False, **options: Any) -> nn.Module:
    """Our selector, or the paper's."""
    if paper:
        refuse_told(options.pop("told", 0))
        return PaperSentenceSelector(vocabulary, **options)
    return SentenceSelector(vocabulary, outputs, **options)


class PaperSentenceSelector(nn.Module):
    """w_θ as section 4.2 has it: encoded sentences, three convolutions over them, a dense layer."""

    def __init__(
        self,
        vocabulary: int,
        *,
        width: int = 100,
        filters: int = 150,
        gain: float = 1.0,
        initial: InitialWeights = "torch",
        vectors: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.encoder = SentenceEncoder(vocabulary, width, filters, gain, vectors)
        layers: list[nn.Module] = []
        for _ in range(3):
            layers += [nn.Conv1d(filters, filters, 3, padding=1), nn.ReLU()]
        self.convolutions = nn.Sequential(*layers)
        self.dense = nn.Linear(filters, 1)
        initialise(self, initial)
        if vectors is not None:
            # Scores begin near zero with the small random vectors of the authors' code. Those of pretrained
            # vectors are so large that the first draws decide, often for the first sentence, for good.
            nn.init.zeros_(self.dense.weight)

    @in_chunks
    def forward(self, ids: Tensor) -> Tensor:
        around = self.convolutions(self.encoder(ids).transpose(1, 2))
        scores: Tensor = self.dense(around.transpose(1, 2))
        return scores[:, :, 0]


def _networks(view: Sentences, outputs: int) -> Networks:
    words, options = len(view.vocabulary_), view.embedding_options()
    return Networks(
        partial(sentence_selector, words, outputs, **options),
        partial(SentencePredictor, words, outputs, **options),
    )


register(Sentences, Recipes(_networks, OURS, PAPER, LETTER, queries=1 << 16))
