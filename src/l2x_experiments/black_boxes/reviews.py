"""The two networks that the IMDB experiments explain (section 4.2), trained once and kept in the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from l2x._base.arrays import Array
from l2x.features import PAD, TextView
from l2x.learning import WindowConvolution, WordEmbedding, in_chunks
from l2x_experiments.black_boxes.training import SEED, Trained, cached_classifier
from l2x_experiments.cache import fingerprint

Problem = Literal["words", "sentences"]
Vectors = Callable[[], tuple[Sequence[str], Array]]

# Options of the two classes below, as the paper has them.
NETWORKS: dict[Problem, dict[str, Any]] = {
    "words": {"width": 50, "filters": 250, "dropout": 0.2},
    "sentences": {"width": 100, "dropout": 0.3},
}


class WordNetwork(nn.Module):
    """Ids (n, 400) -> logits: embedding of 50, convolution of 250 filters of size 3, max-pooling, a dense
    layer of 250, ReLU and dropout after both."""

    def __init__(self, vocabulary: int, *, width: int = 50, filters: int = 250, dropout: float = 0.2) -> None:
        super().__init__()
        self.embedding = WordEmbedding(vocabulary, width)
        self.convolution = WindowConvolution(width, filters)
        self.dense = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(filters, filters),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(filters, 2),
        )

    @in_chunks
    def forward(self, ids: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            pooled = self.convolution(self.embedding(ids), ids != PAD).maximum()
        else:
            pooled = self.maximum_of_distinct(ids)
        logits: Tensor = self.dense(torch.relu(pooled))
        return logits

    def maximum_of_distinct(self, ids: Tensor) -> Tensor:
        """Max-pooling over all positions, (n, filters). Subsets of a review repeat its windows: where no
        gradient has to find its way back to each of them, one is convolved once."""
        size, linear = self.embedding.vectors.num_embeddings, self.convolution.linear
        first, second, third = nn.functional.pad(ids.long(), (1, 1)).unfold(1, 3, 1).unbind(dim=2)
        windows = (first * size + second) * size + third  # a number for each
        live = windows != PAD
        distinct, which = torch.unique(windows[live], return_inverse=True)
        words = torch.stack([distinct // size**2, distinct // size % size, distinct % size], dim=1)
        values = linear(self.embedding(words).transpose(1, 2).flatten(1))
        starts = nn.functional.pad(live.sum(dim=1).cumsum(dim=0)[:-1], (1, 0))
        found = nn.functional.embedding_bag(which, values, starts, mode="max")
        # A window without any word gives the bias; a text without any has no other.
        return torch.where(live.any(dim=1)[:, None], found, linear.bias).maximum(linear.bias)


class SentenceNetwork(nn.Module):
    """Ids (n, 15, words) -> logits: an LSTM over the words of each sentence, another over the sentences, a
    linear layer; all of 100 dimensions. Empty sentences are skipped."""

    def __init__(self, vocabulary: int, *, width: int = 100, dropout: float = 0.3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.words = nn.LSTM(width, width, batch_first=True)
        self.sentences = nn.LSTM(width, width, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(width, 2)

    @in_chunks
    def forward(self, ids: Tensor) -> Tensor:
        there = (ids != PAD).any(dim=2)  # (n, sentences)
        vectors = self.sentence_vectors(ids, there)
        # Those that are there move to the front, in their order.
        counts = there.sum(dim=1)
        front = torch.arange(ids.shape[1], device=ids.device) < counts[:, None]
        texts = torch.zeros(*there.shape, vectors.shape[1], device=ids.device)
        texts = texts.masked_scatter(front[:, :, None], vectors)
        logits: Tensor = self.linear(self.dropout(last_state(self.sentences, texts, counts)))
        return logits

    def sentence_vectors(self, ids: Tensor, there: Tensor) -> Tensor:
        """The last state of each sentence that is there. Subsets of a review repeat its sentences: where no
        gradient has to find its way back to each of them, one is read once."""
        sentences = ids[there]
        if torch.is_grad_enabled() or not len(sentences):
            return last_state(
                self.words, self.dropout(self.embedding(ids)[there]), (sentences != PAD).sum(dim=1)
            )
        distinct, which = torch.unique(sentences, dim=0, return_inverse=True)
        words = self.dropout(self.embedding(distinct))
        return last_state(self.words, words, (distinct != PAD).sum(dim=1))[which]


def last_state(lstm: nn.LSTM, x: Tensor, lengths: Tensor) -> Tensor:
    """The state after the last element of each row; after one zero vector where a row is empty."""
    if not len(x):
        return x.new_zeros(0, lstm.hidden_size)
    lengths = lengths.clamp(min=1).cpu()
    longest = int(lengths.max())
    packed = pack_padded_sequence(x[:, :longest], lengths, batch_first=True, enforce_sorted=False)
    state: Tensor = lstm(packed)[1][0][0]
    return state


def review_network(
    problem: Problem, view: TextView, texts: Sequence[str], labels: Array, *, epochs: int, vectors: Vectors
) -> Trained:
    """The network of one of the problems, trained now or taken from the cache; `vectors` gives words and the
    vectors that the sentence network begins with."""
    vocabulary, options = view.vocabulary_, NETWORKS[problem]

    def data(network: nn.Module) -> tuple[Tensor, Tensor]:
        if isinstance(network, SentenceNetwork):
            network.embedding.weight.data[2:] = pretrained(vocabulary, *vectors())[2:]
        return view.ids(texts), torch.from_numpy(labels)

    return cached_classifier(
        f"reviews-{problem}",
        {"data": fingerprint(texts, labels), "vocabulary": fingerprint(vocabulary), "network": options},
        lambda: (WordNetwork if problem == "words" else SentenceNetwork)(len(vocabulary), **options),
        data,
        epochs=epochs,
        rate=1e-3 if problem == "words" else 2e-3,
        warm_up=0.1,
        clip=1.0,
        fused=True,
    )


def pretrained(vocabulary: Sequence[str], words: Sequence[str], vectors: Array) -> Tensor:
    """A vector for each word of a vocabulary; small random ones for words that have none."""
    row = {word: i for i, word in enumerate(words)}
    found = (
        torch.randn(len(vocabulary), vectors.shape[1], generator=torch.Generator().manual_seed(SEED)) * 0.1
    )
    for i, word in enumerate(vocabulary):
        if word in row:
            found[i] = torch.from_numpy(vectors[row[word]])
    return found
