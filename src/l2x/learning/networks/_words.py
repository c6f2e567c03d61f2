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
from l2x.learning.samplers import ConcreteMax, Evidence

Pooling = Literal["window", "average", "both"]

# What a place further on costs: of the same word twice the first is preferred, whatever rounding says.
EARLIER = 1e-5

# Evidence adds up for a class; for a whole distribution, which doubts, it does not (docs/method.md).
OURS = Recipe(plan_in_small_batches(value=2000, selector=300, rate=1e-2), answer="class", sampler=Evidence())
# As the authors' code has it: a temperature of 0.5, the sum over words divided by k, Glorot's weights.
PAPER = Recipe(
    paper_plan(1000, batch_size=64, evaluations=4),
    selector={"paper": True, "initial": "glorot"},
    predictor={"pooling": "average", "gain": 1.0, "initial": "glorot"},
    sampler=ConcreteMax(temperature=0.5),
    divide_by_k=True,
)
LETTER = Recipe(
    paper_plan(1200, batch_size=64, to_the_letter=True),
    selector={"paper": True},
    predictor={"pooling": "average", "gain": 1.0},
)


class WordEmbedding(nn.Module):
    """Ids -> vectors; padding is zero.

    Adam moves every weight by about the learning rate, however rarely its word occurs, so that a vocabulary
    learns slowly beside dense layers. Weights are kept `gain` times smaller than the vectors they stand for:
    the vectors learn `gain` times faster. `vectors` (vocabulary, width) are what words begin with; those of
    which they have none, rows of NaN, begin small and random as all do without.
    """

    def __init__(
        self, vocabulary: int, width: int, *, gain: float = 1.0, vectors: Tensor | None = None
    ) -> None:
        super().__init__()
        self.gain = gain
        self.vectors = nn.Embedding(vocabulary, width, padding_idx=PAD)
        with torch.no_grad():
            # Keras' default, which the paper's models have: uniform and small.
            self.vectors.weight.uniform_(-0.05 / gain, 0.05 / gain)
            if vectors is not None:
                self.vectors.weight.copy_(_begin_with(vectors / gain, self.vectors.weight))
            self.vectors.weight[PAD] = 0

    def forward(self, ids: Tensor) -> Tensor:
        vectors: Tensor = self.vectors(ids)
        return vectors * self.gain if self.gain != 1 else vectors

    def average(self, ids: Tensor, weights: Tensor, divisor: float | None = None) -> Tensor:
        """The average vector of each text's words, by weights (n, length): (n, width). A `divisor` takes the
        place of the weights' sum.

        Words without weight are not looked up: of ten words in 400 it costs as much as of a text of ten.
        """
        row, position = weights.nonzero(as_tuple=True)
        shown, starts = weights[row, position], torch.zeros(len(ids), dtype=torch.long, device=ids.device)
        starts[1:] = (weights != 0).sum(dim=1).cumsum(dim=0)[:-1]
        # Σ w v / Σ w; zero where nothing has any weight
        total = (
            weights.sum(dim=1).clamp(min=1e-6) if divisor is None else torch.full_like(weights[:, 0], divisor)
        )
        share = shown * (self.gain / total)[row]
        mean: Tensor = nn.functional.embedding_bag(
            ids[row, position].long(), self.vectors.weight, starts, mode="sum", per_sample_weights=share
        )
        return mean


def _begin_with(given: Tensor, otherwise: Tensor) -> Tensor:
    if given.shape != otherwise.shape:
        raise InputError(
            f"The view's vectors have {given.shape[1]} dimensions: leave the networks' option width="
            f"{otherwise.shape[1]} out."
        )
    return torch.where(given.isnan(), otherwise, given)


class WindowConvolution(nn.Module):
    """A convolution over positions, of which only the windows that hold a word are computed.

    A text of which ten words are left costs a tenth of the whole, and padding costs nothing. A window without
    any word would give the bias: it takes part in the maximum.
    """

    KERNEL = 3

    def __init__(self, fan_in: int, filters: int) -> None:
        super().__init__()
        self.linear = nn.Linear(self.KERNEL * fan_in, filters)

    def forward(self, x: Tensor, present: Tensor) -> Windows:
        """x (n, length, fan_in) and where there are words, (n, length)."""
        windows = nn.functional.pad(x, (0, 0, 1, 1)).unfold(1, self.KERNEL, 1)  # (n, length, fan_in, 3)
        live = nn.functional.pad(present, (1, 1)).unfold(1, self.KERNEL, 1).any(dim=-1)
        return Windows(self.linear(windows[live].flatten(1)), live, empty=self.linear.bias)


@dataclass(frozen=True)
class Windows:
    """The convolved windows of some texts, before the activation."""

    values: Tensor  # (m, filters), those that hold a word
    live: Tensor  # (n, length), where these are
    empty: Tensor  # (filters,), what all others would be

    @property
    def rows(self) -> Tensor:
        """(m,) the text that each belongs to."""
        return self.live.nonzero()[:, 0]

    def maximum(self) -> Tensor:
        """Max-pooling over all positions, (n, filters)."""
        index = self.rows[:, None].expand_as(self.values)
        return self.empty.expand(len(self.live), -1).scatter_reduce(0, index, self.values, "amax")


def weighted_mean(vectors: Tensor, weights: Tensor, divisor: float | None = None) -> Tensor:
    """The average of what is selected: Σ vectors / Σ weights over positions, (n, positions, c) -> (n, c).

    `vectors` are multiplied with their weights already; zero where nothing is selected. A `divisor` takes the
    place of Σ weights.
    """
    return vectors.sum(dim=1) / (divisor or weights.sum(dim=1, keepdim=True).clamp(min=1e-6))


class WordPredictor(nn.Module):
    """g_α: ids and the mask, which multiplies their embeddings, -> (n, outputs) logits or means.

    `pooling="average"` is the paper's: embedding, average of the selected, a dense layer of 250. "window"
    has a convolution with max-pooling in place of the average, as word networks have; it sees neighbours and
    costs more. "both" has one beside the other. The average is over the sum of the mask, or over a constant
    `divisor`, such as k.
    """

    def __init__(
        self,
        vocabulary: int,
        outputs: int,
        *,
        width: int = 50,
        hidden: int = 250,
        pooling: Pooling = "average",
        gain: float = 3.0,
        divisor: float | None = None,
        initial: InitialWeights = "torch",
        sees_mask: bool = True,
        vectors: Tensor | None = None,
    ) -> None:
        super().__init__()
        if pooling not in get_args(Pooling):
            raise InputError(f"pooling is {pooling!r}; choose 'average', 'window' or 'both'.")
        self.divisor = divisor
        self.embedding = WordEmbedding(vocabulary, width, gain=gain, vectors=vectors)
        self.convolution = None if pooling == "average" else WindowConvolution(width, hidden)
        self.averages = pooling != "window"
        self.sees_mask = sees_mask
        features = hidden * (self.convolution is not None) + width * self.averages + sees_mask
        self.hidden = nn.Sequential(nn.Linear(features, hidden), nn.ReLU())
        self.answer = nn.Linear(hidden, outputs)
        initialise(self, initial)

    @in_chunks
    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        mask, pooled = mask * (ids != PAD), []
        if self.convolution is not None:
            vectors = self.embedding(ids) * mask[:, :, None]
            pooled.append(torch.relu(self.convolution(vectors, mask > 0).maximum()))
        if self.averages:
            pooled.append(self.embedding.average(ids, mask, self.divisor))
        if self.sees_mask:  # how many words there are
            pooled.append(mask.mean(dim=1, keepdim=True))
        outputs: Tensor = self.answer(self.hidden(torch.cat(pooled, dim=1)))
        return outputs


class ToldWordSelector(nn.Module):
    """w_θ: ids (n, length) and the model's answer (n, told) -> (n, length) importance scores.

    A word's score is b·v + Σ_j tanh(A answer)_j u_j·v with v the word's vector: the answer says which of its
    directions count, for or against. All words begin with the same score, but for what their place costs.
    """

    def __init__(
        self,
        vocabulary: int,
        told: int,
        *,
        width: int = 50,
        hidden: int = 8,
        gain: float = 3.0,
        vectors: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.embedding = WordEmbedding(vocabulary, width, gain=gain, vectors=vectors)
        self.told = nn.Linear(told, hidden)
        self.word = nn.Linear(width, 1 + hidden)
        nn.init.zeros_(self.word.weight)
        nn.init.zeros_(self.word.bias)

    @in_chunks
    def forward(self, ids: Tensor, told: Tensor) -> Tensor:
        directions = self.word(self.embedding(ids))  # (n, length, 1 + hidden)
        counts = torch.tanh(self.told(told))[:, :, None]
        places = torch.arange(ids.shape[1], device=ids.device)
        scores: Tensor = directions[..., 0] + (directions[..., 1:] @ counts)[..., 0] - EARLIER * places
        return scores


class WordSelector(ReadsFirst):
    """w_θ: ids (n, length) -> (n, length) importance scores; our recipe's.

    It reads the text as a predictor does, and scores its words by the answer that it then expects. A
    selection is as good as that guess, which is worth half as many steps again.
    """

    reader: WordPredictor
    reading: ClassVar[float] = 1.5

    def __init__(
        self,
        vocabulary: int,
        outputs: int,
        *,
        width: int = 50,
        filters: int = 250,
        hidden: int = 8,
        pooling: Pooling = "both",
        gain: float = 3.0,
        vectors: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.reader = WordPredictor(
            vocabulary,
            outputs,
            width=width,
            hidden=filters,
            pooling=pooling,
            gain=gain,
            sees_mask=False,
            vectors=vectors,
        )
        self.words = ToldWordSelector(
            vocabulary, outputs, width=width, hidden=hidden, gain=gain, vectors=vectors
        )

    def forward(self, ids: Tensor) -> Tensor:
        scores: Tensor = self.words(ids, self.reader(ids, torch.ones_like(ids, dtype=torch.float32)))
        return scores


def word_selector(
    vocabulary: int, outputs: int, *, paper: bool = False, told: int = 0, **options: Any
) -> nn.Module:
    """Our selector, the one that is told the model's answer, or the paper's."""
    if paper:
        refuse_told(told)
        return PaperWordSelector(vocabulary, **options)
    if told:
        return ToldWordSelector(vocabulary, told, **options)
    return WordSelector(vocabulary, outputs, **options)


def refuse_told(told: int) -> None:
    if told:
        raise InputError("The paper's selector reads the text alone; leave sees_answer=True out.")


class PaperWordSelector(nn.Module):
    """w_θ as section 4.2 has it.

    A common convolution; a local branch of two more; a global branch of max-pooling and a dense layer; joined
    at every position, one more convolution, dropout, and a convolution of kernel size 1. The authors' code
    has more `local` filters, and a `kernel` of size 1 where the branches are joined.
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        width: int = 50,
        filters: int = 100,
        local: int = 50,
        kernel: int = 3,
        dropout: float = 0.2,
        gain: float = 1.0,
        initial: InitialWeights = "torch",
        vectors: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.embedding = WordEmbedding(vocabulary, width, gain=gain, vectors=vectors)
        self.common = nn.Conv1d(width, filters, 3, padding=1)
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
        # All texts in one row, each followed by one gap: half of the positions of reviews are padding. Gaps
        # are set to zero after every layer, as zero padding would have it.
        spaced = nn.functional.pad(ids, (0, 1), value=PAD)
        there = spaced != PAD
        kept = there | there.roll(1, dims=1)
        rows, live = kept.nonzero()[:, 0], there[kept].float()  # (m,), m the words and gaps of all texts

        def layer(convolution: nn.Module, x: Tensor) -> Tensor:
            # (channels, m) -> (filters, m)
            return torch.relu(convolution(x[None])[0]) * live

        common = layer(self.common, self.embedding(spaced[kept]).T)
        around = layer(self.local[1], layer(self.local[0], common))
        nothing = torch.zeros(len(ids), len(common), device=ids.device)
        whole = self.whole(nothing.scatter_reduce(0, rows[:, None].expand(-1, len(common)), common.T, "amax"))
        joined = layer(self.joined, torch.cat([around, whole[rows].T * live]))
        scores = self.score(self.dropout(joined)[None]).flatten() * live
        return torch.zeros(spaced.shape, device=ids.device).masked_scatter(kept, scores)[:, :-1]


def _networks(view: Words, outputs: int) -> Networks:
    words, options = len(view.vocabulary_), view.embedding_options()
    return Networks(
        partial(word_selector, words, outputs, **options), partial(WordPredictor, words, outputs, **options)
    )


register(Words, Recipes(_networks, OURS, PAPER, LETTER, queries=1 << 16))
