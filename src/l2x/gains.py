"""What each further feature of a row's ranking is expected to add, by what can be seen without the model.

How far the best scores of a row stand apart says something of it. So does the explainer's own q, asked about
the first 0 .. k features of the ranking: what it would gain by each if its word on all k were the answer. How
much of that is so is learned by a ridge regression on held-out rows, where the model's answers are known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from l2x.foundations.arrays import Array
from l2x.likelihood import Likelihood
from l2x.ranking import best

# Best scores of a row that are looked at, at most; how strongly what they tell is shrunk to the mean of all
# rows (measured with 50 to 2,000 rows: docs/method.md); and how far from usual they may be.
LOOKED_AT, SHRINKAGE, UNUSUAL = 16, 10.0, 4.0
# Parts of the rows, each of which is expected by what was learned from the others.
PARTS = 10


@dataclass(frozen=True, eq=False)
class Gains:
    """What the 1st .. k-th feature of a ranking adds, as a linear function of what is seen of a row.

    usual, spread : (f,) mean and standard deviation of what is seen
    weights, gains : (f, k) and (k,) what a standard deviation of it adds, and what features add on average
    """

    usual: Array
    spread: Array
    weights: Array
    gains: Array

    def expected(self, seen: Array) -> Array:
        """(n, k) what the features of the ranking are expected to add, best first."""
        return np.asarray(self._standard(seen) @ self.weights + self.gains)

    def _standard(self, seen: Array) -> Array:
        return np.clip((seen - self.usual) / self.spread, -UNUSUAL, UNUSUAL)

    @classmethod
    def learn(cls, seen: Array, added: Array) -> Gains:
        """From held-out rows: what is seen of them (n, f), and what their features do add (n, k)."""
        usual, spread, gains = seen.mean(axis=0), seen.std(axis=0) + 1e-6, added.mean(axis=0)
        x = cls(usual, spread, np.zeros((len(usual), len(gains))), gains)._standard(seen)
        weights = np.linalg.solve(x.T @ x + SHRINKAGE * np.eye(x.shape[1]), x.T @ (added - gains))
        return cls(usual, spread, weights, gains)


def cross_fitted(seen: Array, added: Array) -> Array:
    """(n, k) what features are expected to add by regressions that have not seen the row: what is chosen by
    these keeps its promise on other rows, too, however few there are."""
    part, expected = np.arange(len(seen)) % PARTS, np.empty(added.shape)
    for own in (part == i for i in range(min(PARTS, len(seen)))):
        expected[own] = Gains.learn(seen[~own], added[~own]).expected(seen[own])
    return expected


def seen_in_scores(scores: Array, k: int) -> Array:
    """(n, f) of each row, how far its best k + 1 scores stand above its mean, that in standard deviations of
    the row, and their logarithms as probabilities; and the squares of all."""
    selectable = scores > -np.inf
    count = selectable.sum(axis=1, keepdims=True).clip(1)
    known = np.where(selectable, scores, 0.0).astype(np.float64)
    mean = known.sum(axis=1, keepdims=True) / count
    deviation = np.sqrt((np.where(selectable, known - mean, 0.0) ** 2).sum(axis=1, keepdims=True) / count)
    # A row with fewer features ends in its lowest score, again and again.
    lowest = np.where(selectable, known, np.inf).min(axis=1, keepdims=True)
    filled = np.where(selectable, known, np.where(np.isfinite(lowest), lowest, 0.0))
    order = best(scores, min(k + 1, LOOKED_AT, scores.shape[1]))
    above = np.take_along_axis(filled, order, axis=1) - mean
    odds = np.where(selectable, np.exp(filled - mean - above[:, :1]), 0.0).sum(axis=1, keepdims=True)
    logs = above - above[:, :1] - np.log(odds.clip(1))
    found = np.concatenate([above, deviation, above / np.maximum(deviation, 1e-6), logs], axis=1)
    return np.concatenate([found, found**2], axis=1)


def seen_by_q(heads: Array, likelihood: Likelihood) -> Array:
    """(n, f) of q's outputs for the first 0 .. k features of a ranking, (n, k + 1, outputs): how much surer
    each feature makes q of what it says of all k, and whether it turns q's class to theirs (of means, how
    much nearer it brings them); and squares."""
    outputs = torch.from_numpy(heads)
    n, sizes, width = outputs.shape
    answer = likelihood.to_targets(outputs[:, -1]).repeat_interleave(sizes, dim=0)
    flat = outputs.reshape(n * sizes, width)
    said = [
        measure(flat, answer).reshape(n, sizes).double().diff(dim=1)
        for measure in (likelihood.log_likelihood, likelihood.agreement)
    ]
    found = torch.cat(said, dim=1).numpy()
    return np.concatenate([found, found**2], axis=1)
