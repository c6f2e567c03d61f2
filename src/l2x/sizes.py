"""As many features as a row needs: sizes that are learned on held-out rows.

How far the best scores of a row stand apart tells how many of its features are needed. From that is learned
what each further feature of the ranking adds: how much more often the model, and q, then give the model's
answer. A row has the size that is worth most at a price per feature, common to all rows, and no fewer than a
common least. Which price and least keep a share of the information, E[log q(Y | X_S)], with the fewest
features, is found on the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
import torch
from torch import Tensor, nn

from l2x.conditional import Q
from l2x.data import Rows, TrainingRows
from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.fitting import selector_scores
from l2x.foundations.arrays import Array, batches
from l2x.ranking import best

# Held-out rows that sizes are learned from; with fewer that the model may be asked about, q's word is better
# than both on these few. Prices and leasts that are tried.
ROWS, FEWEST, PRICES, LEASTS = 2000, 300, 400, 32
# Of an answer its class counts, and a third as much how sure q is: by the class alone, relevant features that
# seldom change it are kept no sooner than irrelevant ones (docs/method.md).
SURENESS = 0.3
# Best scores of a row that are looked at, at most; how strongly what they tell is shrunk to the mean of all
# rows (measured with 50 to 2,000 rows: docs/method.md); and how far from usual they may be.
LOOKED_AT, SHRINKAGE, UNUSUAL = 16, 10.0, 4.0
# Scores that are looked at together: a few times as many numbers are in memory.
CELLS_AT_ONCE = 1 << 20
SHARES = (*np.arange(0.5, 0.99, 0.01).round(2).tolist(), 0.99, 0.995, 0.999)


@dataclass(frozen=True, eq=False)
class Sizes:
    """What each further feature of a row's ranking adds, and what it has to add to be kept.

    shares, prices, least : for each share of what k features tell, rising, the price per feature and the
        fewest features of a row
    usual, spread : (f,) mean and standard deviation of what is looked at in a row
    weights, gains : (f, k) and (k,) what the 1st .. k-th feature of the ranking adds, as a linear function of
        it, and on average
    """

    shares: tuple[float, ...]
    prices: tuple[float, ...]
    least: tuple[int, ...]
    usual: Array
    spread: Array
    weights: Array
    gains: Array

    def shortened(self, explanation: Explanation, keep: float) -> Explanation:
        """The explanation with a size for each row, from 1 to its k."""
        if isinstance(keep, bool) or not isinstance(keep, Real) or not 0 < float(keep) <= 1:
            raise InputError(
                f"keep is {keep!r}; expected the share of the information to keep, such as 0.95."
            )
        # Rather more than asked for than less.
        known = np.searchsorted(self.shares, keep)
        scores, k = explanation.scores, explanation.indices.shape[1]
        sizes = np.minimum((scores > -np.inf).sum(axis=1), k)
        if known < len(self.prices):
            wanted = best_sizes(self.added(scores)[:, :k], self.prices[known])
            sizes = np.minimum(wanted.clip(self.least[known]), sizes)
        return replace(explanation, sizes=sizes)

    def added(self, scores: Array) -> Array:
        """(n, k) what the features of the ranking are expected to add, best first, by scores (n, d)."""
        added = np.empty((len(scores), len(self.gains)))
        for rows in batches(len(scores), max(1, CELLS_AT_ONCE // scores.shape[1])):
            found = looked_at(scores[rows], len(self.gains))
            added[rows] = self._standard(found) @ self.weights + self.gains
        return added

    def _standard(self, found: Array) -> Array:
        return np.clip((found - self.usual) / self.spread, -UNUSUAL, UNUSUAL)

    @classmethod
    def learn(cls, scores: Array, worth: Array, told: Array) -> Sizes:
        """From held-out rows: their scores (n, d), what the first 0 .. k features of the ranking are worth,
        (n, k + 1), and what they tell: log q(y | x_S).

        What a feature adds is a ridge regression; shares are of what all k tell more than none.
        """
        k = worth.shape[1] - 1
        found, added = looked_at(scores, k), np.diff(worth, axis=1)
        usual, spread = found.mean(axis=0), found.std(axis=0) + 1e-6
        start = cls((), (), (), usual, spread, np.zeros((found.shape[1], k)), added.mean(axis=0))
        x = start._standard(found)
        weights = np.linalg.solve(x.T @ x + SHRINKAGE * np.eye(x.shape[1]), x.T @ (added - start.gains))
        learned = replace(start, weights=weights)
        expected, selectable = learned.added(scores), (scores > -np.inf).sum(axis=1)
        prices, least = _cheapest(expected, told, selectable)
        return replace(learned, shares=SHARES, prices=prices, least=least)


def _cheapest(added: Array, told: Array, selectable: Array) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """For each of SHARES the price and the least that keep it with the fewest features.

    With a larger share the price never rises and the least never falls, so that no row has fewer features.
    """
    n, k = added.shape
    prices = np.unique(np.quantile(added, np.linspace(0, 1, PRICES)).clip(0.0))[::-1]
    leasts = np.unique(np.linspace(1, k, LEASTS).round()).astype(int)
    wanted = np.stack([best_sizes(added, price) for price in prices])
    size, kept = np.empty((2, len(prices), len(leasts)))
    for j, least in enumerate(leasts):
        sizes = np.minimum(wanted.clip(least), selectable)
        size[:, j], kept[:, j] = sizes.mean(axis=1), told[np.arange(n), sizes].mean(axis=1)
    none, all_of_them = told[:, 0].mean(), told[:, k].mean()
    i, j, found = 0, 0, []
    for share in SHARES:
        cost = np.where(kept >= none + share * (all_of_them - none), size, np.inf)
        cost[:i], cost[:, :j] = np.inf, np.inf
        if np.isfinite(cost).any():
            i, j = divmod(int(cost.argmin()), len(leasts))
        else:  # k features tell less than none
            i, j = len(prices) - 1, len(leasts) - 1
        found.append((float(prices[i]), int(leasts[j])))
    return tuple(price for price, _ in found), tuple(least for _, least in found)


def best_sizes(added: Array, price: float) -> Array:
    """(n,) the size, from 1 to k, at which what the features add (n, k), less their price, is largest; of
    equally good sizes the largest."""
    worth = added.cumsum(axis=1) - price * np.arange(1, added.shape[1] + 1)
    return np.asarray(added.shape[1] - worth[:, ::-1].argmax(axis=1))


def looked_at(scores: Array, k: int) -> Array:
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


def sizes_of(selector: nn.Module, q: Q, data: TrainingRows, *, sees_answer: bool) -> Sizes | None:
    """How many features rows need, from some held-out rows; None where the model may not be asked."""
    asked, n = _affordable(q, min(len(data.held), ROWS), data.k + 1)
    if not n:
        return None
    rows = data.held[torch.arange(n)]
    with torch.inference_mode():
        scores = selector_scores(
            selector, rows, likelihood=data.likelihood, sees_answer=sees_answer, never=-torch.inf
        ).cpu()
        agreed, sure = torch.stack([_said(each, rows, scores, data.k) for each in asked]).unbind(dim=1)
    worth = agreed.mean(dim=0) + SURENESS * sure[0]
    return Sizes.learn(scores.numpy(), worth.numpy(), sure[0].numpy())


def _affordable(q: Q, rows: int, questions: int) -> tuple[Sequence[Q], int]:
    """Whose word counts, and about how many of the rows that many questions may be asked."""
    affordable = min(each.questions_at_once(rows * questions) // questions for each in q.parts)
    if len(q.parts) > 1 and affordable < min(rows, FEWEST):
        return q.parts[:1], rows
    return q.parts, affordable


def _said(q: Q, rows: Rows, scores: Tensor, k: int) -> Tensor:
    """(2, n, k + 1) whether q gives the model's answer from the first 0 .. k features of each row's ranking,
    and how surely: log q(y | x_S)."""
    order, selectable = torch.from_numpy(best(scores.numpy(), k)), scores > -torch.inf
    agreed, sure = [], []
    for size in range(k + 1):
        mask = torch.zeros(scores.shape).scatter(1, order[:, :size], 1.0) * selectable
        outputs = q.outputs(rows, mask.to(rows.x.device))
        agreed.append(q.likelihood.agreement(outputs, rows.target))
        sure.append(q.likelihood.log_likelihood(outputs, rows.target))
    return torch.stack([torch.stack(agreed, dim=1), torch.stack(sure, dim=1)]).cpu().double()
