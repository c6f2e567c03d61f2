"""Networks for words: embeddings and convolutions over positions (section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from l2x.errors import InputError
from l2x.features import PAD, Words
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
from l2x.learning.samplers import ConcreteMax, Evidence

Pooling = Literal["window", "average", "both"]

# Penalty per position: among equal words the first is preferred, regardless of rounding.
EARLIER = 1e-5

# Options of the embedding in our networks.
FAST = {"gain": 3.0}

# Evidence for a class adds up; for an uncertain distribution it does not (docs/notebook.md).
OURS = Recipe(
    plan_in_small_batches(value=2000, selector=300, rate=1e-2),
    thorough=plan_in_small_batches(value=2000, selector=300, rate=1e-2),
    target="class",
    sampler=Evidence(),
)
# As in the released code: temperature 0.5, the sum over words divided by k, Glorot initialisation.
RELEASED = Recipe(
    paper_plan(1000, batch_size=64, evaluations=4),
    selector={"paper": True, "initial": "glorot"},
    predictor={"pooling": "average", "gain": 1.0, "initial": "glorot"},
    sampler=ConcreteMax(temperature=0.5),
    divide_by_k=True,
)
PUBLISHED = Recipe(
    paper_plan(1200, batch_size=64, as_published=True),
    selector={"paper": True},
    predictor={"pooling": "average", "gain": 1.0},
)


class WordEmbedding(nn.Module):
    """Ids -> vectors; padding is zero.

    Adam moves every weight by about the learning rate, however rarely its word occurs, so a vocabulary learns
    slowly compared with dense layers. Weights are stored `gain` times smaller than the vectors they stand
    for, so that the vectors learn `gain` times faster. `vectors` (vocabulary, width) are initial vectors;
    words without one, rows of NaN, start small and random.
    """

    def __init__(
        self, vocabulary: int, width: int = 50, *, gain: float = 1.0, vectors: Tensor | None = None
    ) -> None:
        super().__init__()
        self.width, self.gain = width, gain
        self.vectors = nn.Embedding(vocabulary, width, padding_idx=PAD)
        with torch.no_grad():
            # The default of Keras, which the paper used: uniform and small.
            self.vectors.weight.uniform_(-0.05 / gain, 0.05 / gain)
            if vectors is not None:
                self.vectors.weight.copy_(_initial_vectors(vectors / gain, self.vectors.weight))
            self.vectors.weight[PAD] = 0

    def forward(self, ids: Tensor) -> Tensor:
        """Return the vectors, (..., width)."""
        vectors: Tensor = self.vectors(ids)
        return vectors * self.gain if self.gain != 1 else vectors

    def mapped(self, layer: nn.Module, ids: Tensor) -> Tensor:
        """Return layer(self(ids)), computed once for each distinct word."""
        distinct, words = distinct_words(ids, self.vectors.num_embeddings)
        return nn.functional.embedding(words, layer(self(distinct)))

    def average(self, ids: Tensor, weights: Tensor, divisor: float | None = None) -> Tensor:
        """Return the weighted mean of each text's vectors, (n, width), for weights (n, length).

        A `divisor` replaces the sum of the weights. Words without weight are not looked up, so ten selected
        words of 400 cost as much as a text of ten.
        """
        row, position = weights.nonzero(as_tuple=True)
        shown, starts = weights[row, position], torch.zeros(len(ids), dtype=torch.long, device=ids.device)
        starts[1:] = (weights != 0).sum(dim=1).cumsum(dim=0)[:-1]
        # Σ w v / Σ w; zero if all weights are zero
        total = (
            weights.sum(dim=1).clamp(min=1e-6) if divisor is None else torch.full_like(weights[:, 0], divisor)
        )
        share = shown * (self.gain / total)[row]
        mean: Tensor = nn.functional.embedding_bag(
            ids[row, position].long(), self.vectors.weight, starts, mode="sum", per_sample_weights=share
        )
        return mean


def _initial_vectors(given: Tensor, otherwise: Tensor) -> Tensor:
    if given.shape != otherwise.shape:
        raise InputError(
            f"The view's vectors have {given.shape[1]} dimensions; remove width={otherwise.shape[1]} from "
            "the options of the networks."
        )
    return torch.where(given.isnan(), otherwise, given)


def distinct_words(ids: Tensor, vocabulary: int) -> tuple[Tensor, Tensor]:
    """Return the distinct ids, and the position of each id among them."""
    position = torch.zeros(vocabulary, dtype=torch.long, device=ids.device)
    position[ids.long()] = 1
    distinct = position.nonzero()[:, 0]
    position[distinct] = torch.arange(len(distinct), device=ids.device)
    return distinct, position[ids.long()]


class WindowConvolution(nn.Module):
    """A convolution over positions that computes only the windows that contain a word.

    A text with a tenth of its words costs a tenth, and padding costs nothing. A window without any word would
    return the bias, which takes part in the maximum.
    """

    KERNEL = 3

    def __init__(self, fan_in: int, filters: int) -> None:
        super().__init__()
        self.linear = nn.Linear(self.KERNEL * fan_in, filters)

    def forward(self, x: Tensor, present: Tensor) -> Windows:
        """Convolve x (n, length, fan_in); `present` (n, length) marks the positions of words."""
        windows = nn.functional.pad(x, (0, 0, 1, 1)).unfold(1, self.KERNEL, 1)  # (n, length, fan_in, 3)
        live = nn.functional.pad(present, (1, 1)).unfold(1, self.KERNEL, 1).any(dim=-1)
        return Windows(self.linear(windows[live].flatten(1)), live, empty=self.linear.bias)

    def largest(self, embedding: WordEmbedding, ids: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the maximum over positions of words (n, length), times their weights if given, (n, filters).

        Zeros and ones as weights, without gradients, are six times faster than `forward` and its gradient:
        each distinct word of the batch is multiplied by the filters once for every position in a window, a
        window is a sum of such products, and only the largest window of a filter has a gradient.
        """
        if weights is not None:
            if weights.requires_grad or not ((weights == 0) | (weights == 1)).all():
                windows: Windows = self(embedding(ids) * weights[:, :, None], weights > 0)
                return windows.maximum()
            ids = ids * (weights > 0)
        around = nn.functional.pad(ids, (1, 1)).unfold(1, self.KERNEL, 1)  # (n, length, 3)
        live = (around != PAD).any(dim=-1)
        distinct, words = distinct_words(around[live], embedding.vectors.num_embeddings)  # (m, 3)
        filters = self.linear.weight.view(len(self.linear.bias), -1, self.KERNEL).permute(1, 2, 0)
        products = embedding(distinct) @ filters.flatten(1)  # (distinct words, 3 * filters)
        index = self.KERNEL * words + torch.arange(self.KERNEL, device=ids.device)
        starts = nn.functional.pad(live.sum(dim=1).cumsum(dim=0)[:-1], (1, 0))
        above: Tensor = _LargestSum.apply(products.view(-1, len(self.linear.bias)), index, starts)  # type: ignore[no-untyped-call]
        return self.linear.bias + above


class _LargestSum(torch.autograd.Function):
    """The largest Σ_j products[index[i, j]] over the rows i of each group, and at least zero.

    Parameters: products (p, filters), index (m, 3), and the first row of each group, (n,). Returns (n,
    filters). The gradient of automatic differentiation would be m rows, nearly all of them zero.
    """

    @staticmethod
    def forward(ctx: Any, products: Tensor, index: Tensor, starts: Tensor) -> Tensor:
        if not len(index):
            sums = products.new_zeros(1, products.shape[1])
        else:
            sums = nn.functional.embedding_bag(index, products, mode="sum")
        rows = torch.arange(len(index), device=index.device)
        largest, _, _, which = torch.embedding_bag(sums, rows, starts, mode=2)  # the maximum, and its row
        ctx.save_for_backward(index, which, largest > 0)
        ctx.rows = len(products)
        return largest.clamp_min(0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        index, which, positive = ctx.saved_tensors
        (gradient,) = gradients
        text, column = positive.nonzero().unbind(dim=1)
        cells = index[which[text, column]] * gradient.shape[1] + column[:, None]  # (nonzero, 3)
        total = gradient.new_zeros(ctx.rows * gradient.shape[1])
        values = gradient[text, column][:, None].expand_as(cells)
        total.index_add_(0, cells.flatten(), values.flatten())
        return total.view(ctx.rows, gradient.shape[1]), None, None


@dataclass(frozen=True)
class Windows:
    """The convolved windows of a batch of texts, before the activation."""

    values: Tensor  # (m, filters), the windows that contain a word
    live: Tensor  # (n, length), their positions
    empty: Tensor  # (filters,), the value of all other windows

    @property
    def rows(self) -> Tensor:
        """The text that each window belongs to, (m,)."""
        return self.live.nonzero()[:, 0]

    def maximum(self) -> Tensor:
        """Return the maximum over all positions, (n, filters)."""
        index = self.rows[:, None].expand_as(self.values)
        return self.empty.expand(len(self.live), -1).scatter_reduce(0, index, self.values, "amax")


def weighted_mean(vectors: Tensor, weights: Tensor, divisor: float | None = None) -> Tensor:
    """Return Σ vectors / Σ weights over positions, (n, positions, c) -> (n, c); zero if all weights are zero.

    `vectors` are already multiplied by their weights. A `divisor` replaces Σ weights.
    """
    return vectors.sum(dim=1) / (divisor or weights.sum(dim=1, keepdim=True).clamp(min=1e-6))


class WordPredictor(nn.Module):
    """g_α: ids and the mask, which multiplies their embeddings, -> (n, outputs) logits or predicted values.

    Parameters
    ----------
    vocabulary, outputs : int
    hidden : int
        Dimension of the hidden layer.
    pooling : "average", "window" or "both"
        "average" is the paper's: the mean of the selected embeddings, then a dense layer of 250. "window" is
        a convolution with max-pooling, which reads neighbours and costs more. "both" concatenates the two.
    divisor : float or None
        Replaces the sum of the mask in the average; L2X as released divides by k.
    initial : "torch" or "glorot"
    sees_mask : bool
        Whether the share of selected words is an input.
    **embedding
        Options of `WordEmbedding`.
    """

    def __init__(
        self,
        vocabulary: int,
        outputs: int,
        *,
        hidden: int = 250,
        pooling: Pooling = "average",
        divisor: float | None = None,
        initial: InitialWeights = "torch",
        sees_mask: bool = True,
        **embedding: Any,
    ) -> None:
        super().__init__()
        if pooling not in get_args(Pooling):
            raise InputError(f"pooling is {pooling!r}; choose 'average', 'window' or 'both'.")
        self.divisor = divisor
        self.embedding = WordEmbedding(vocabulary, **FAST | embedding)
        width = self.embedding.width
        self.convolution = None if pooling == "average" else WindowConvolution(width, hidden)
        self.averages = pooling != "window"
        self.sees_mask = sees_mask
        features = hidden * (self.convolution is not None) + width * self.averages + sees_mask
        self.hidden = nn.Sequential(nn.Linear(features, hidden), nn.ReLU())
        self.output = nn.Linear(hidden, outputs)
        initialise(self, initial)

    @in_chunks
    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return logits or predicted values, (n, outputs)."""
        mask, pooled = mask * (ids != PAD), []
        if self.convolution is not None:
            pooled.append(torch.relu(self.convolution.largest(self.embedding, ids, mask)))
        if self.averages:
            pooled.append(self.embedding.average(ids, mask, self.divisor))
        if self.sees_mask:  # the share of selected words
            pooled.append(mask.mean(dim=1, keepdim=True))
        outputs: Tensor = self.output(self.hidden(torch.cat(pooled, dim=1)))
        return outputs


class PredictionAwareWordSelector(nn.Module):
    """w_θ: ids (n, length) and the prediction (n, prediction_size) -> (n, length) importance scores.

    A word's score is b·v + Σ_j tanh(A prediction)_j u_j·v, where v is the word's vector: the prediction sets
    which directions of v count, for or against. At first all words have the same score, apart from EARLIER.
    """

    def __init__(self, vocabulary: int, prediction_size: int, *, hidden: int = 8, **embedding: Any) -> None:
        super().__init__()
        self.embedding = WordEmbedding(vocabulary, **FAST | embedding)
        self.prediction = nn.Linear(prediction_size, hidden)
        self.word = nn.Linear(self.embedding.width, 1 + hidden)
        nn.init.zeros_(self.word.weight)
        nn.init.zeros_(self.word.bias)

    @in_chunks
    def forward(self, ids: Tensor, prediction: Tensor) -> Tensor:
        """Return the scores, (n, length)."""
        directions = self.embedding.mapped(self.word, ids)  # (n, length, 1 + hidden)
        counts = torch.tanh(self.prediction(prediction))[:, :, None]
        positions = torch.arange(ids.shape[1], device=ids.device)
        scores: Tensor = directions[..., 0] + (directions[..., 1:] @ counts)[..., 0] - EARLIER * positions
        return scores


class WordSelector(HasTextEncoder):
    """w_θ: ids (n, length) -> (n, length) importance scores; the default.

    The text encoder predicts the model's output, and words are scored given that prediction. The selection is
    only as good as the prediction, so the encoder is trained for half as many steps more.
    """

    text_encoder: WordPredictor
    encoder_steps: ClassVar[float] = 1.5

    def __init__(
        self,
        vocabulary: int,
        outputs: int,
        *,
        filters: int = 250,
        hidden: int = 8,
        pooling: Pooling = "both",
        **embedding: Any,
    ) -> None:
        super().__init__()
        self.text_encoder = WordPredictor(
            vocabulary, outputs, hidden=filters, pooling=pooling, sees_mask=False, **embedding
        )
        self.words = PredictionAwareWordSelector(vocabulary, outputs, hidden=hidden, **embedding)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the scores, (n, length)."""
        whole = torch.ones_like(ids, dtype=torch.float32)
        scores: Tensor = self.words(ids, self.text_encoder(ids, whole))
        return scores


def word_selector(
    vocabulary: int, outputs: int, *, paper: bool = False, prediction_size: int = 0, **options: Any
) -> nn.Module:
    """Build the default selector, the prediction-aware one if `prediction_size` is set, or the paper's."""
    if paper:
        refuse_prediction(prediction_size)
        return PaperWordSelector(vocabulary, **options)
    if prediction_size:
        return PredictionAwareWordSelector(vocabulary, prediction_size, **options)
    return WordSelector(vocabulary, outputs, **options)


def refuse_prediction(prediction_size: int) -> None:
    """Raise an InputError if the paper's selector is to read the prediction."""
    if prediction_size:
        raise InputError("The paper's selector reads the text alone; remove uses_prediction=True.")


class PaperWordSelector(nn.Module):
    """w_θ of section 4.2.

    A common convolution; a local branch of two more; a global branch of max-pooling and a dense layer. Both
    are joined at every position, followed by a convolution, dropout, and a convolution with kernel size 1.
    The released code has more `local` filters, and a `kernel` of size 1 where the branches are joined.
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        filters: int = 100,
        local: int = 50,
        kernel: int = 3,
        dropout: float = 0.2,
        initial: InitialWeights = "torch",
        **embedding: Any,
    ) -> None:
        super().__init__()
        self.embedding = WordEmbedding(vocabulary, **embedding)
        self.common = nn.Conv1d(self.embedding.width, filters, 3, padding=1)
        self.local = nn.ModuleList(
            [nn.Conv1d(filters, local, 3, padding=1), nn.Conv1d(local, local, 3, padding=1)]
        )
        self.whole = nn.Sequential(nn.Linear(filters, filters), nn.ReLU())
        self.joined = nn.Conv1d(local + filters, local, kernel, padding="same")
        self.dropout = nn.Dropout(dropout)
        self.score = nn.Conv1d(local, 1, 1)
        initialise(self, initial)

    @in_chunks
    def forward(self, ids: Tensor) -> Tensor:
        """Return the scores, (n, length)."""
        # Half of the positions of reviews are padding, so all texts are concatenated, each followed by one
        # gap. Gaps are set to zero after every layer, which is equivalent to zero padding.
        spaced = nn.functional.pad(ids, (0, 1), value=PAD)
        present = spaced != PAD
        kept = present | present.roll(1, dims=1)
        rows, live = kept.nonzero()[:, 0], present[kept].float()  # (m,), words and gaps of all texts

        def layer(convolution: nn.Module, x: Tensor) -> Tensor:
            # (channels, m) -> (filters, m)
            return torch.relu(convolution(x[None])[0]) * live

        common = layer(self.common, self.embedding(spaced[kept]).T)
        around = layer(self.local[1], layer(self.local[0], common))
        zeros = torch.zeros(len(ids), len(common), device=ids.device)
        whole = self.whole(zeros.scatter_reduce(0, rows[:, None].expand(-1, len(common)), common.T, "amax"))
        joined = layer(self.joined, torch.cat([around, whole[rows].T * live]))
        scores = self.score(self.dropout(joined)[None]).flatten() * live
        return torch.zeros(spaced.shape, device=ids.device).masked_scatter(kept, scores)[:, :-1]


def _networks(view: Words, outputs: int) -> Networks:
    words, options = len(view.vocabulary_), view.embedding_options()
    return Networks(
        partial(word_selector, words, outputs, **options), partial(WordPredictor, words, outputs, **options)
    )


register(Words, Recipes(_networks, OURS, RELEASED, PUBLISHED, queries=1 << 18))
