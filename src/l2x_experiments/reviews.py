"""The two networks that the IMDB experiments explain (section 4.2), trained once and kept in the cache."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from l2x.features.vocabulary import PAD
from l2x.foundations.progress import progress_bar
from l2x.networks.patches import in_chunks
from l2x.networks.words import WindowConvolution, WordEmbedding


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

    def forward(self, ids: Tensor) -> Tensor:
        return in_chunks(self._logits, ids)

    def _logits(self, ids: Tensor) -> Tensor:
        windows = self.convolution(self.embedding(ids), ids != PAD)
        logits: Tensor = self.dense(torch.relu(windows.maximum()))
        return logits


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

    def forward(self, ids: Tensor) -> Tensor:
        return in_chunks(self._logits, ids)

    def _logits(self, ids: Tensor) -> Tensor:
        there = (ids != PAD).any(dim=2)  # (n, sentences)
        lengths = (ids != PAD).sum(dim=2)[there]
        vectors = last_state(self.words, self.dropout(self.embedding(ids)[there]), lengths)
        # Those that are there move to the front, in their order.
        counts = there.sum(dim=1)
        front = torch.arange(ids.shape[1], device=ids.device) < counts[:, None]
        texts = torch.zeros(*there.shape, vectors.shape[1], device=ids.device)
        texts = texts.masked_scatter(front[:, :, None], vectors)
        logits: Tensor = self.linear(self.dropout(last_state(self.sentences, texts, counts)))
        return logits


def last_state(lstm: nn.LSTM, x: Tensor, lengths: Tensor) -> Tensor:
    """The state after the last element of each row; after one zero vector where a row is empty."""
    if not len(x):
        return x.new_zeros(0, lstm.hidden_size)
    lengths = lengths.clamp(min=1).cpu()
    longest = int(lengths.max())
    packed = pack_padded_sequence(x[:, :longest], lengths, batch_first=True, enforce_sorted=False)
    state: Tensor = lstm(packed)[1][0][0]
    return state


def train(
    network: nn.Module, ids: Tensor, labels: Tensor, *, epochs: int, rate: float, seed: int = 0, label: str
) -> nn.Module:
    """Adam on hard labels, one-cycle, batches of 64, with a progress bar."""
    generator, size = torch.Generator().manual_seed(seed), 64
    per_epoch = len(ids) // size
    steps = epochs * per_epoch
    optimizer = torch.optim.Adam(network.parameters(), lr=rate, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps + 1, pct_start=0.1)
    network.train()
    with torch.random.fork_rng(), progress_bar(label, steps) as advance:
        torch.manual_seed(seed)  # of the dropout
        for epoch in range(epochs):
            order = torch.randperm(len(ids), generator=generator)
            for step, rows in enumerate(order[: per_epoch * size].view(-1, size), start=1):
                optimizer.zero_grad(set_to_none=True)
                loss = nn.functional.cross_entropy(network(ids[rows]), labels[rows])
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                if step % 10 == 0:
                    advance(epoch * per_epoch + step, f"loss {loss.item():.3f}")
    return network.eval().requires_grad_(requires_grad=False)
