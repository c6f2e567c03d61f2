"""Networks for sentences and passages (section 4.2): convolution and max-pooling in each, then over them."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from l2x.features import PAD, Passages, Sentences
from l2x.learning.networks._recipes import (
    HasTextEncoder,
    InitialWeights,
    Networks,
    Recipe,
    Recipes,
    in_chunks,
    initialise,
    paper_plan,
    plan_in_small_batches,
    register,
)
from l2x.learning.networks._words import (
    FAST,
    WindowConvolution,
    WordEmbedding,
    refuse_prediction,
    weighted_mean,
)
from l2x.learning.samplers import ConcreteMax

OURS = Recipe(
    plan_in_small_batches(value=1200, selector=200),
    thorough=plan_in_small_batches(value=1200, selector=200),
    target="class",
)
# As in the released code: temperature 0.5 (at 0.1 the selector always selects the first sentence), the sum
# over sentences divided by k, Glorot initialisation.
RELEASED = Recipe(
    paper_plan(1200, batch_size=64, evaluations=4),
    selector={"paper": True, "initial": "glorot"},
    predictor={"hidden": 0, "gain": 1.0, "initial": "glorot"},
    sampler=ConcreteMax(temperature=0.5),
    divide_by_k=True,
)
PUBLISHED = Recipe(
    paper_plan(800, batch_size=64, as_published=True),
    selector={"paper": True},
    predictor={"hidden": 0, "gain": 1.0},
)


class SentenceEncoder(nn.Module):
    """Ids (n, sentences, words) -> (n, sentences, filters); padding is zero."""

    def __init__(self, vocabulary: int, filters: int, *, width: int = 100, **embedding: Any) -> None:
        super().__init__()
        self.embedding = WordEmbedding(vocabulary, width, **embedding)
        self.convolution = WindowConvolution(width, filters)
        self.filters = filters

    def forward(self, ids: Tensor) -> Tensor:
        """Return one vector per sentence, (n, sentences, filters)."""
        present = (ids != PAD).any(dim=2)
        words = ids[present]  # (m, words), without padding
        encoded = torch.relu(self.convolution.largest(self.embedding, words))
        vectors = encoded.new_zeros(*present.shape, self.filters)
        return vectors.masked_scatter(present[:, :, None], encoded)


class SentencePredictor(nn.Module):
    """g_α: ids and the mask, which weights the encoded sentences, -> (n, outputs) logits or predicted values.

    The paper's has average pooling and a dense layer (`hidden=0`); ours has a hidden layer in between. The
    other options are those of `WordPredictor`.
    """

    def __init__(
        self,
        vocabulary: int,
        outputs: int,
        *,
        filters: int = 150,
        hidden: int = 150,
        divisor: float | None = None,
        initial: InitialWeights = "torch",
        sees_mask: bool = True,
        **embedding: Any,
    ) -> None:
        super().__init__()
        self.divisor = divisor
        self.encoder = SentenceEncoder(vocabulary, filters, **FAST | embedding)
        self.sees_mask = sees_mask
        features = filters + sees_mask
        self.hidden = nn.Sequential(nn.Linear(features, hidden), nn.ReLU()) if hidden else nn.Identity()
        self.output = nn.Linear(hidden or features, outputs)
        initialise(self, initial)

    @in_chunks
    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return logits or predicted values, (n, outputs)."""
        weights = mask * (ids != PAD).any(dim=2)
        encoded = self.encoder(ids * (mask > 0)[:, :, None])  # sentences without weight are not encoded
        pooled = weighted_mean(encoded * weights[:, :, None], weights, self.divisor)
        if self.sees_mask:  # the share of selected sentences
            pooled = torch.cat([pooled, weights.mean(dim=1, keepdim=True)], dim=1)
        outputs: Tensor = self.output(self.hidden(pooled))
        return outputs


class SentenceSelector(HasTextEncoder):
    """w_θ: ids -> (n, sentences) importance scores; the default, like `WordSelector`.

    Every sentence is scored given a summary of the text and the text encoder's prediction, or the model's own
    if it is prediction-aware (`prediction_size` numbers). With `alone`, the encoder's prediction for the
    single sentence is an input, too.
    """

    text_encoder: SentencePredictor

    def __init__(
        self,
        vocabulary: int,
        outputs: int,
        *,
        filters: int = 150,
        hidden: int = 150,
        prediction_size: int = 0,
        alone: bool = True,
        **embedding: Any,
    ) -> None:
        super().__init__()
        self.text_encoder = SentencePredictor(
            vocabulary, outputs, filters=filters, hidden=hidden, sees_mask=False, **embedding
        )
        self.alone = alone
        self.sentence = nn.Linear(filters + 2 * outputs * alone, hidden)
        self.text = nn.Linear(hidden + outputs, hidden, bias=False)
        self.prediction = nn.Linear(prediction_size, hidden, bias=False) if prediction_size else None
        self.score = nn.Linear(hidden, 1)
        nn.init.zeros_(self.score.weight)

    @in_chunks
    def forward(self, ids: Tensor, *prediction: Tensor) -> Tensor:
        """Return the scores, (n, sentences)."""
        encoder = self.text_encoder
        sentences = encoder.encoder(ids)  # (n, sentences, filters)
        present = (ids != PAD).any(dim=2).float()
        text = encoder.hidden(weighted_mean(sentences, present))
        expected = encoder.output(text)
        context = self.text(torch.cat([text, expected], dim=1))
        if self.prediction is not None:
            context = context + self.prediction(*prediction)
            (expected,) = prediction
        if self.alone:  # the prediction for each sentence alone, and its agreement with that for the text
            single = encoder.output(encoder.hidden(sentences))
            sentences = torch.cat([sentences, single, single * expected[:, None]], dim=2)
        scores: Tensor = self.score(torch.relu(self.sentence(sentences) + context[:, None]))
        return scores[:, :, 0]


def sentence_selector(vocabulary: int, outputs: int, *, paper: bool = False, **options: Any) -> nn.Module:
    """Build the default selector, or the paper's."""
    if paper:
        refuse_prediction(options.pop("prediction_size", 0))
        return PaperSentenceSelector(vocabulary, **options)
    return SentenceSelector(vocabulary, outputs, **options)


class PaperSentenceSelector(nn.Module):
    """w_θ of section 4.2: encoded sentences, three convolutions over them, a dense layer."""

    def __init__(
        self,
        vocabulary: int,
        *,
        filters: int = 150,
        initial: InitialWeights = "torch",
        **embedding: Any,
    ) -> None:
        super().__init__()
        self.encoder = SentenceEncoder(vocabulary, filters, **embedding)
        layers: list[nn.Module] = []
        for _ in range(3):
            layers += [nn.Conv1d(filters, filters, 3, padding=1), nn.ReLU()]
        self.convolutions = nn.Sequential(*layers)
        self.dense = nn.Linear(filters, 1)
        initialise(self, initial)
        if embedding.get("vectors") is not None:
            # With the small random vectors of the released code scores start near zero. With pretrained
            # vectors they are so large that the first draws decide for good, often for the first sentence.
            nn.init.zeros_(self.dense.weight)

    @in_chunks
    def forward(self, ids: Tensor) -> Tensor:
        """Return the scores, (n, sentences)."""
        around = self.convolutions(self.encoder(ids).transpose(1, 2))
        scores: Tensor = self.dense(around.transpose(1, 2))
        return scores[:, :, 0]


def _networks(view: Sentences | Passages, outputs: int) -> Networks:
    words, options = len(view.vocabulary_), view.embedding_options()
    return Networks(
        partial(sentence_selector, words, outputs, **options),
        partial(SentencePredictor, words, outputs, **options),
    )


# A passage is read like a sentence.
for _view in (Sentences, Passages):
    register(_view, Recipes(_networks, OURS, RELEASED, PUBLISHED, queries=1 << 18))
