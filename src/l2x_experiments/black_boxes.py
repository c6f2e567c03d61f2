"""The networks that the experiments explain, and the loop that trains them on labels (one-cycle schedule)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from l2x._base import progress_bar
from l2x._base.arrays import Array
from l2x.datasets import LabelledData
from l2x.features import PAD, TextView, as_tensor
from l2x.learning import WindowConvolution, WordEmbedding, channels_last, in_chunks, perceptron
from l2x_experiments.cache import Key, cached_network, fingerprint

SEED, BATCH = 0, 64


class Trained(NamedTuple):
    """A network, and the key of everything its weights depend on."""

    network: nn.Module
    key: Key


def train_classifier(
    network: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    batches: Iterator[Tensor],
    *,
    steps: int,
    optimizer: torch.optim.Optimizer,
    warm_up: float = 0.3,
    clip: float | None = None,
    label: str = "",
) -> nn.Module:
    """Minimise the cross-entropy of the network's logits over `steps` batches of row numbers.

    The optimizer's learning rate is the peak of the schedule, reached after the share `warm_up` of the steps.
    `clip` limits the norm of the gradients. With a `label`, a progress bar is shown.
    """
    rate = optimizer.param_groups[0]["lr"]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps + 1, pct_start=warm_up)
    network.train()
    with progress_bar(label, steps, visible=bool(label)) as advance:
        for step, rows in enumerate(batches, start=1):
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(network(inputs[rows]), labels[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            if clip is not None:
                nn.utils.clip_grad_norm_(network.parameters(), clip)
            optimizer.step()
            schedule.step()
            if step % 10 == 0 or step == steps:
                advance(step, f"loss {loss.item():.3f}")
    return network.eval().requires_grad_(requires_grad=False)


def cached_classifier(
    name: str,
    key: Key,
    build: Callable[[], nn.Module],
    data: Callable[[nn.Module], tuple[Tensor, Tensor]],
    *,
    epochs: int,
    rate: float,
    warm_up: float = 0.3,
    clip: float | None = None,
    fused: bool = False,
) -> Trained:
    """Return the network that `build` makes, trained by Adam on the inputs and labels that `data` returns.

    Weights in the cache are reused. `key` describes the data and the network; the settings of training are
    added here.
    """
    key = {**key, "seed": SEED, "epochs": epochs, "batch_size": BATCH, "learning_rate": rate}
    key |= {"warm_up": warm_up, "clip": clip}
    with torch.random.fork_rng():
        torch.manual_seed(SEED)  # initial weights
        network = build()

    def train() -> nn.Module:
        inputs, labels = data(network)
        generator, per_epoch = torch.Generator().manual_seed(SEED), len(inputs) // BATCH
        orders = (torch.randperm(len(inputs), generator=generator) for _ in range(epochs))
        batches = (rows for order in orders for rows in order[: per_epoch * BATCH].view(-1, BATCH))
        optimizer = torch.optim.Adam(network.parameters(), lr=rate, fused=fused)
        with torch.random.fork_rng():
            torch.manual_seed(SEED)  # dropout
            return train_classifier(
                network, inputs, labels, batches, steps=epochs * per_epoch, optimizer=optimizer,
                warm_up=warm_up, clip=clip, label=name,
            )  # fmt: skip

    return Trained(cached_network(name, key, network, train), key)


def train_network(X: Array, y: Array, *, seed: int, steps: int = 4000, batch_size: int = 1000) -> nn.Module:
    """Train the network of section 4.1: three hidden dense layers of 200 units, logits, AdamW."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = perceptron([X.shape[1], 200, 200, 200, int(y.max()) + 1], "relu")
    batches = (torch.randint(len(X), (min(batch_size, len(X)),), generator=generator) for _ in range(steps))
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=1e-2)
    return train_classifier(
        network, as_tensor(X), torch.from_numpy(y), batches, steps=steps, optimizer=optimizer
    )


DIGIT_NETWORK = {"filters": [8, 16], "kernel": 5}  # for the key


class DigitNetwork(nn.Sequential):
    """The network of section 4.3: images (n, 28, 28) with values 0 .. 255 -> logits.

    Two convolutions of kernel 5 with 8 and 16 filters, each followed by max-pooling of 2, and a dense layer.
    Every activation is a separate module, so that DeepLIFT can follow it.
    """

    def __init__(self, classes: int) -> None:
        first = (Brightness(), nn.Conv2d(1, 8, 5), nn.ReLU(), nn.MaxPool2d(2))  # (n, 8, 12, 12)
        second = (nn.Conv2d(8, 16, 5), nn.ReLU(), nn.MaxPool2d(2))  # (n, 16, 4, 4)
        super().__init__(*first, *second, nn.Flatten(), nn.Linear(16 * 4 * 4, classes))
        channels_last(self)


class Brightness(nn.Module):
    """Scale (n, h, w) with values 0 .. 255 to (n, 1, h, w) with values 0 .. 1."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the scaled images."""
        return x[:, None] / 255


def digit_network(data: LabelledData, *, epochs: int = 8) -> Trained:
    """Return the network for these images, from the cache if it is there."""
    name = f"digits-{''.join(map(str, data.classes))}"
    key = {"data": fingerprint(data.X, data.y), "digits": data.classes, "network": DIGIT_NETWORK}
    return cached_classifier(
        name,
        key,
        lambda: DigitNetwork(len(data.classes)),
        lambda _: (torch.from_numpy(data.X.copy()), torch.from_numpy(data.y)),
        epochs=epochs,
        rate=3e-3,
    )


PICTURE_NETWORK = {"filters": [16, 32, 64, 128]}  # for the key


class PictureNetwork(nn.Sequential):
    """A small network for colour images (n, side, side, 3) with values 0 .. 255 -> logits.

    Four convolutions with batch normalisation, each halving the sides at least once; the largest value of
    every filter, and a dense layer.
    """

    def __init__(self, classes: int) -> None:
        layers: list[nn.Module] = [
            Standardised(), nn.Conv2d(3, 16, 5, stride=2, padding=2), nn.BatchNorm2d(16), nn.ReLU()
        ]  # fmt: skip
        for fan_in, fan_out in ((16, 32), (32, 64), (64, 128)):
            layers += [
                nn.MaxPool2d(2), nn.Conv2d(fan_in, fan_out, 3, padding=1), nn.BatchNorm2d(fan_out), nn.ReLU()
            ]  # fmt: skip
        super().__init__(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(128, classes))
        channels_last(self)


class Standardised(nn.Module):
    """Bring (n, side, side, 3) with values 0 .. 255 to (n, 3, side, side) with values -2 .. 2."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the standardised images."""
        return (x.permute(0, 3, 1, 2) - 127.5) / 63.75


def picture_network(key: Key, make: Callable[[], LabelledData], *, classes: int, epochs: int = 6) -> Trained:
    """Return the network for the images that `make` returns, from the cache if it is there.

    `key` describes the images, so that they need not be made if the network is in the cache.
    """

    def data(_: nn.Module) -> tuple[Tensor, Tensor]:
        made = make()
        return torch.from_numpy(made.X), torch.from_numpy(made.y)

    key = {**key, "network": PICTURE_NETWORK}
    return cached_classifier("pictures", key, lambda: PictureNetwork(classes), data, epochs=epochs, rate=3e-3)


Problem = Literal["words", "sentences"]
Vectors = Callable[[], tuple[Sequence[str], Array]]

# Options of the two classes below, from the paper.
REVIEW_NETWORKS: dict[Problem, dict[str, Any]] = {
    "words": {"width": 50, "filters": 250, "dropout": 0.2},
    "sentences": {"width": 100, "dropout": 0.3},
}


class WordNetwork(nn.Module):
    """The word network of section 4.2: ids (n, 400) -> logits.

    Embedding of width 50, convolution with 250 filters of size 3, max-pooling and a dense layer of 250 units;
    ReLU and dropout after both.
    """

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
        """Return the logits of each text."""
        if torch.is_grad_enabled():
            pooled = self.convolution(self.embedding(ids), ids != PAD).maximum()
        else:
            pooled = self.maximum_of_distinct(ids)
        logits: Tensor = self.dense(torch.relu(pooled))
        return logits

    def maximum_of_distinct(self, ids: Tensor) -> Tensor:
        """Return the maximum over all positions, (n, filters), convolving each distinct window only once.

        Masked copies of a review share most of their windows. Only without gradients: each window would
        need its own.
        """
        size, linear = self.embedding.vectors.num_embeddings, self.convolution.linear
        first, second, third = nn.functional.pad(ids.long(), (1, 1)).unfold(1, 3, 1).unbind(dim=2)
        windows = (first * size + second) * size + third  # one number for each window
        live = windows != PAD
        distinct, which = torch.unique(windows[live], return_inverse=True)
        words = torch.stack([distinct // size**2, distinct // size % size, distinct % size], dim=1)
        values = linear(self.embedding(words).transpose(1, 2).flatten(1))
        starts = nn.functional.pad(live.sum(dim=1).cumsum(dim=0)[:-1], (1, 0))
        largest = nn.functional.embedding_bag(which, values, starts, mode="max")
        # An empty window gives the bias; an empty text has only such windows.
        return torch.where(live.any(dim=1)[:, None], largest, linear.bias).maximum(linear.bias)


class SentenceNetwork(nn.Module):
    """The sentence network of section 4.2: ids (n, 15, words) -> logits.

    An LSTM over the words of each sentence, another over the sentences, and a linear layer, all of width 100.
    Empty sentences are skipped.
    """

    def __init__(self, vocabulary: int, *, width: int = 100, dropout: float = 0.3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.words = nn.LSTM(width, width, batch_first=True)
        self.sentences = nn.LSTM(width, width, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(width, 2)

    @in_chunks
    def forward(self, ids: Tensor) -> Tensor:
        """Return the logits of each text."""
        present = (ids != PAD).any(dim=2)  # (n, sentences)
        vectors = self.sentence_vectors(ids, present)
        # Sentences that are present move to the front, in their order.
        counts = present.sum(dim=1)
        front = torch.arange(ids.shape[1], device=ids.device) < counts[:, None]
        texts = torch.zeros(*present.shape, vectors.shape[1], device=ids.device)
        texts = texts.masked_scatter(front[:, :, None], vectors)
        logits: Tensor = self.linear(self.dropout(last_state(self.sentences, texts, counts)))
        return logits

    def sentence_vectors(self, ids: Tensor, present: Tensor) -> Tensor:
        """Return the last state of each sentence that is present.

        Masked copies of a review share its sentences: without gradients each distinct one is read only once.
        """
        sentences = ids[present]
        if torch.is_grad_enabled() or not len(sentences):
            return last_state(
                self.words, self.dropout(self.embedding(ids)[present]), (sentences != PAD).sum(dim=1)
            )
        distinct, which = torch.unique(sentences, dim=0, return_inverse=True)
        words = self.dropout(self.embedding(distinct))
        return last_state(self.words, words, (distinct != PAD).sum(dim=1))[which]


def last_state(lstm: nn.LSTM, x: Tensor, lengths: Tensor) -> Tensor:
    """Return the state after the last element of each row; an empty row counts as one zero vector."""
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
    """Return the network for words or for sentences, from the cache if it is there.

    `vectors` returns words and the pretrained vectors with which the sentence network starts.
    """
    vocabulary, options = view.vocabulary_, REVIEW_NETWORKS[problem]

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
    """Return a vector for each word of a vocabulary; small random ones for words without a vector."""
    row = {word: i for i, word in enumerate(words)}
    weights = (
        torch.randn(len(vocabulary), vectors.shape[1], generator=torch.Generator().manual_seed(SEED)) * 0.1
    )
    for i, word in enumerate(vocabulary):
        if word in row:
            weights[i] = torch.from_numpy(vectors[row[word]])
    return weights
