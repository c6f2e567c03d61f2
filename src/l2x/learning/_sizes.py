"""What each further feature of a row's ranking is expected to add, by what can be seen without the model.

How far the best scores of a row stand apart says something of it. So does the explainer's own q, asked about
the first 0 .. k features of the ranking: what it would gain by each if its word on all k were the answer. How
much of that is so is learned by a ridge regression on held-out rows, where the model's answers are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from l2x._base.arrays import Array, batches
from l2x._base.ranking import best
from l2x.errors import ArtifactError, InputError
from l2x.explanation import Explanation
from l2x.learning._likelihood import Likelihood
from l2x.learning._phases import selector_scores
from l2x.learning._rows import TrainingRows
from l2x.learning._surrogate import Q, head_outputs

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


HEADER = ("shares", "prices", "least", "asking")
GAINS = tuple(field.name for field in fields(Gains))
# The names that tensors begin with.
BY_SCORES, BY_Q = "sizes", "sizes_q"


def header_of(sizes: Sizes | None) -> dict[str, Any] | None:
    """What the header says of sizes."""
    return None if sizes is None else {name: getattr(sizes, name) for name in HEADER}


def tensors_of(sizes: Sizes | None) -> dict[str, Array]:
    """The regressions, by the names that they have in the file."""
    if sizes is None:
        return {}
    return _named(BY_SCORES, sizes.by_scores) | _named(BY_Q, sizes.by_q)


def restored(
    header: Mapping[str, Any] | None, tensors: Mapping[str, Array], *, k: int, d: int, likelihood: Likelihood
) -> Sizes | None:
    """The sizes of an explainer with these k and d; an ArtifactError if they cannot be."""
    if header is None:
        return None
    shares, prices = (tuple(map(float, header[name])) for name in ("shares", "prices"))
    least, asking = tuple(map(int, header["least"])), int(header["asking"])
    if not len(shares) == len(prices) == len(least) > asking >= 0:
        raise ArtifactError(
            f"The file holds {len(prices)} prices and {len(least)} leasts of {len(shares)} shares, {asking} "
            "of them with q."
        )
    if not np.isfinite(prices).all() or list(shares) != sorted(shares):
        raise ArtifactError("The file holds prices that are no numbers, or shares that do not rise.")
    f = seen_in_scores(np.zeros((1, d), dtype=np.float32), k).shape[1]
    by_scores, by_q = _gains(BY_SCORES, tensors, f, k), None
    if asking:
        heads = np.zeros((1, k + 1, 1), dtype=np.float32)  # what is seen does not grow with the outputs
        by_q = _gains(BY_Q, tensors, f + seen_by_q(heads, likelihood).shape[1], k)
    return Sizes(shares, prices, least, by_scores, by_q, asking)


def _named(prefix: str, gains: Gains | None) -> dict[str, Array]:
    return {} if gains is None else {f"{prefix}.{name}": getattr(gains, name) for name in GAINS}


def _gains(prefix: str, tensors: Mapping[str, Array], f: int, k: int) -> Gains:
    arrays = {name: tensors[f"{prefix}.{name}"] for name in GAINS}
    expected = {"usual": (f,), "spread": (f,), "weights": (f, k), "gains": (k,)}
    found = {name: array.shape for name, array in arrays.items()}
    if found != expected:
        raise ArtifactError(f"The file holds sizes of the shapes {found}; expected {expected}.")
    if not all(np.isfinite(array).all() for array in arrays.values()) or (arrays["spread"] <= 0).any():
        raise ArtifactError("The file holds sizes that are no numbers.")
    return Gains(**arrays)
