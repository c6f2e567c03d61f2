"""As many features as a row needs: sizes that are learned on held-out rows.

A row has the size at which what its features are expected to add (`gains.py`), less a price per feature that
is common to all rows, is largest, and no fewer features than a common least. Which price and least keep a
share of the information, E[log q(Y | X_S)], with the fewest features, is found on the held-out rows.

What features add is expected by the scores and by q's own word on the first 0 .. k features of the ranking;
or, for shares near one, where that takes fewer features, by the scores alone. q's word alone would keep what
is not relevant: a few values that happen to convince it, or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from l2x.conditional import Q, head_outputs
from l2x.data import TrainingRows
from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.fitting import selector_scores
from l2x.foundations.arrays import Array, batches
from l2x.gains import Gains, cross_fitted, seen_by_q, seen_in_scores

# Held-out rows that sizes are learned from; with fewer that the model may be asked about, q's word is better
# than both on these few; and from too few nothing is learned. Prices and leasts that are tried.
ROWS, FEWEST, TOO_FEW, PRICES, LEASTS = 2000, 300, 20, 400, 32
# Of an answer its class counts, and a third as much how sure q is: by the class alone, relevant features that
# seldom change it are kept no sooner than irrelevant ones (docs/method.md).
SURENESS = 0.3
# Scores that are looked at together: a few times as many numbers are in memory.
CELLS_AT_ONCE = 1 << 20
SHARES = (*np.arange(0.5, 0.99, 0.01).round(2).tolist(), 0.99, 0.995, 0.999)


@dataclass(frozen=True, eq=False)
class Sizes:
    """What each further feature of a row's ranking adds, and what it has to add to be kept.

    shares, prices, least : for each share of what k features tell, rising, the price per feature and the
        fewest features of a row
    by_scores : what features add, expected by the scores alone
    by_q : the same, by q's word too; None where q is the model
    asking : for this many of the shares, the first ones, q is asked. A row keeps no fewer features for the
        others than for the last of these, and by q's word no more than by its scores for the largest share
    """

    shares: tuple[float, ...]
    prices: tuple[float, ...]
    least: tuple[int, ...]
    by_scores: Gains
    by_q: Gains | None = None
    asking: int = 0

    @property
    def k(self) -> int:
        """Of more features than this nothing is known."""
        return len(self.by_scores.gains)

    def shortened(self, explanation: Explanation, keep: float, ask: Callable[[slice], Array]) -> Explanation:
        """The explanation with a size for each row, up to its k.

        ask : gives what q sees in the first 0 .. k features of these rows' rankings, `seen_by_q`
        """
        # Rather more than asked for than less.
        known = int(np.searchsorted(self.shares, checked_share(keep)))
        scores, k = explanation.scores, explanation.indices.shape[1]
        sizes = np.minimum((scores > -np.inf).sum(axis=1), k)
        if known < len(self.prices):
            for rows in _some_rows(scores):
                wanted = self._wanted(scores[rows], known, k, partial(ask, rows))
                sizes[rows] = np.minimum(wanted, sizes[rows])
        return replace(explanation, sizes=sizes)

    def _wanted(self, scores: Array, share: int, k: int, ask: Callable[[], Array]) -> Array:
        """(n,) sizes of rows for a known share, k at most."""
        seen = seen_in_scores(scores, self.k)
        added = self.by_scores.expected(seen)[:, :k]
        if self.by_q is None:
            return self._at(share, added)
        added_q = self.by_q.expected(np.concatenate([seen, ask()], axis=1))[:, :k]
        by_q = np.minimum(self._at(min(share, self.asking - 1), added_q), self._at(-1, added))
        return by_q if share < self.asking else np.maximum(by_q, self._at(share, added))

    def _at(self, share: int, added: Array) -> Array:
        """(n,) sizes by the price and the least of that share."""
        return best_sizes(added, self.prices[share]).clip(self.least[share])

    @classmethod
    def learn(cls, scores: Array, worth: Array, told: Array, by_q: Array | None = None) -> Sizes:
        """From held-out rows: their scores (n, d), what the first 0 .. k features of the ranking are worth,
        (n, k + 1), what they tell: log q(y | x_S), and what q sees in them, if it can be asked.

        Shares are of what all k tell more than none. q is asked for as many of them, the first ones, as takes
        the fewest features over all shares.
        """
        k, added, at_most = worth.shape[1] - 1, np.diff(worth, axis=1), (scores > -np.inf).sum(axis=1)
        seen = np.concatenate([seen_in_scores(scores[rows], k) for rows in _some_rows(scores)])
        alone = Gains.learn(seen, added)
        prices, least, sizes = _cheapest(cross_fitted(seen, added), told, at_most)
        without = cls(SHARES, tuple(prices), tuple(least), by_scores=alone)
        if by_q is None:
            return without
        seen = np.concatenate([seen, by_q], axis=1)
        prices_q, least_q, sizes_q = _cheapest(cross_fitted(seen, added), told, at_most=sizes[-1])
        features = [sizes.sum()]
        for asking in range(1, len(SHARES)):  # the largest share is left to the scores: q's most is theirs
            others = np.maximum(sizes[asking:], sizes_q[asking - 1])
            features.append(sizes_q[:asking].sum() + others.sum())
        asking = int(np.argmin(features))
        if not asking:
            return without
        prices, least = prices_q[:asking] + prices[asking:], least_q[:asking] + least[asking:]
        by_both = Gains.learn(seen, added)
        return replace(without, prices=tuple(prices), least=tuple(least), by_q=by_both, asking=asking)


def _cheapest(added: Array, told: Array, at_most: Array) -> tuple[list[float], list[int], Array]:
    """For each of SHARES the price and the least that keep it with the fewest features, and the sizes of rows
    by these, (shares, n): of what features are expected to add (n, k), what the first 0 .. k tell (n, k + 1),
    and how many features a row can have (n,).

    With a larger share the price never rises and the least never falls, so that no row has fewer features.
    """
    n, k = added.shape
    prices = np.unique(np.quantile(added, np.linspace(0, 1, PRICES)).clip(0.0))[::-1]
    leasts = np.unique(np.linspace(1, k, LEASTS).round()).astype(int)
    wanted = np.stack([best_sizes(added, price) for price in prices])
    size, kept = np.empty((2, len(prices), len(leasts)))
    for j, least in enumerate(leasts):
        sizes = np.minimum(wanted.clip(least), at_most)
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
        found.append((i, j))
    of_rows = np.stack([np.minimum(wanted[i].clip(leasts[j]), at_most) for i, j in found])
    return [float(prices[i]) for i, _ in found], [int(leasts[j]) for _, j in found], of_rows


def checked_share(keep: Any) -> float:
    """A share of the information that is to be kept."""
    if isinstance(keep, bool) or not isinstance(keep, Real) or not 0 < float(keep) <= 1:
        raise InputError(f"keep is {keep!r}; expected the share of the information to keep, such as 0.95.")
    return round(float(keep), 6)  # numpy's float32 has its own idea of 0.999


def best_sizes(added: Array, price: float) -> Array:
    """(n,) the size, from 1 to k, at which what the features add (n, k), less their price, is largest; of
    equally good sizes the largest."""
    worth = added.cumsum(axis=1) - price * np.arange(1, added.shape[1] + 1)
    return np.asarray(added.shape[1] - worth[:, ::-1].argmax(axis=1))


def _some_rows(scores: Array) -> Iterator[slice]:
    """As many rows as are looked at together."""
    return batches(len(scores), max(1, CELLS_AT_ONCE // scores.shape[1]))


def sizes_of(selector: nn.Module, q: Q, data: TrainingRows, *, sees_answer: bool) -> Sizes | None:
    """How many features rows need, from some held-out rows; None where these are too few, or the model may
    not be asked about enough of them."""
    asked, n = _affordable(q, min(len(data.held), ROWS), data.k + 1)
    if n < TOO_FEW:
        return None
    rows = data.held[torch.arange(n)]
    with torch.inference_mode():
        scores = selector_scores(
            selector, rows, likelihood=data.likelihood, sees_answer=sees_answer, never=-torch.inf
        ).cpu()
        heads = [head_outputs(each, rows, scores, data.k) for each in asked]
        agreed = torch.stack([_by_head(data.likelihood.agreement, each, rows.target) for each in heads])
        told = _by_head(data.likelihood.log_likelihood, heads[0], rows.target).numpy()
    worth = agreed.mean(dim=0).numpy() + SURENESS * told
    by_q = seen_by_q(heads[0].numpy(), data.likelihood) if q.networks else None
    return Sizes.learn(scores.numpy(), worth, told, by_q)


def _affordable(q: Q, rows: int, questions: int) -> tuple[Sequence[Q], int]:
    """Whose word counts, and about how many of the rows that many questions may be asked."""
    affordable = min(each.questions_at_once(rows * questions) // questions for each in q.parts)
    if len(q.parts) > 1 and affordable < min(rows, FEWEST):
        return q.parts[:1], rows
    return q.parts, affordable


def _by_head(measure: Callable[[Tensor, Tensor], Tensor], heads: Tensor, target: Tensor) -> Tensor:
    """(n, k + 1) that measure of outputs (n, k + 1, outputs) and the rows' targets."""
    target = target.to(heads.device)
    return torch.stack([measure(heads[:, size], target) for size in range(heads.shape[1])], dim=1).double()
