"""`explain(X, keep=...)`: how many of its k features each row needs.

A ridge regression on held-out rows, whose predictions are known, estimates what each further feature of a
row's ranking adds. Its inputs need no model: how far the row's best scores stand out, and what the surrogate
gains by each of the first k features if its prediction for all k is taken as the truth. Each row then keeps
the number of features that maximises expected gain minus price times size; the price is shared by all rows.
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

from l2x._base.arrays import Array, batches, best
from l2x.errors import ArtifactError, InputError, shown
from l2x.explanation import Explanation
from l2x.learning._rows import Likelihood, TrainingRows
from l2x.learning._selector import ranking_scores
from l2x.learning._surrogate import BaseSurrogate, prefix_outputs

# Best scores per row that are inputs, at most; the ridge penalty (measured with 50 to 2,000 rows:
# docs/notebook.md); and the number of standard deviations at which inputs are clipped.
MOST_SCORES, SHRINKAGE, CLIP = 16, 10.0, 4.0
# Folds of the cross-fitting.
FOLDS = 10
# Held-out rows that sizes are learned from. If the model may be queried for fewer than FEWEST of them, the
# surrogate alone on all of them is better. TOO_FEW rows are not enough to learn from.
ROWS, FEWEST, TOO_FEW = 2000, 300, 20
# Prices and minimum sizes that are tried.
PRICES, MINIMA = 400, 32
# A feature is worth the change of class agreement plus this share of the change of log-likelihood: by the
# class alone, relevant features that seldom change it would rank no higher than irrelevant ones
# (docs/notebook.md).
LIKELIHOOD_SHARE = 0.3
# Scores that are processed at a time; memory is a few times this.
CELLS_AT_ONCE = 1 << 20
SHARES = (*np.arange(0.5, 0.99, 0.01).round(2).tolist(), 0.99, 0.995, 0.999)


@dataclass(frozen=True, eq=False)
class Gains:
    """A linear model of what the 1st .. k-th feature of a ranking adds.

    Attributes
    ----------
    mean, spread : (f,) arrays
        Mean and standard deviation of the inputs.
    weights : (f, k) array
    gains : (k,) array
        What the features add on average.
    """

    mean: Array
    spread: Array
    weights: Array
    gains: Array

    def expected(self, inputs: Array) -> Array:
        """Return what the features of each ranking are expected to add, best first, (n, k)."""
        return np.asarray(self._standard(inputs) @ self.weights + self.gains)

    def _standard(self, inputs: Array) -> Array:
        return np.clip((inputs - self.mean) / self.spread, -CLIP, CLIP)

    @classmethod
    def learn(cls, inputs: Array, added: Array) -> Gains:
        """Fit to the inputs of held-out rows (n, f) and what their features add (n, k)."""
        mean, spread, gains = inputs.mean(axis=0), inputs.std(axis=0) + 1e-6, added.mean(axis=0)
        x = cls(mean, spread, np.zeros((len(mean), len(gains))), gains)._standard(inputs)
        weights = np.linalg.solve(x.T @ x + SHRINKAGE * np.eye(x.shape[1]), x.T @ (added - gains))
        return cls(mean, spread, weights, gains)

    @classmethod
    def restore(cls, prefix: str, tensors: Mapping[str, Array], f: int, k: int) -> Gains:
        """Read it from the tensors of a file; raise an ArtifactError if they are invalid."""
        arrays = {field.name: tensors[f"{prefix}.{field.name}"] for field in fields(cls)}
        expected = {"mean": (f,), "spread": (f,), "weights": (f, k), "gains": (k,)}
        shapes = {name: array.shape for name, array in arrays.items()}
        if shapes != expected:
            raise ArtifactError(f"Corrupt size table: shapes {shapes}; expected {expected}.")
        if not all(np.isfinite(array).all() for array in arrays.values()) or (arrays["spread"] <= 0).any():
            raise ArtifactError(f"Corrupt size table: '{prefix}' has numbers that are not finite.")
        return cls(**arrays)


def cross_fitted(inputs: Array, added: Array) -> Array:
    """Return what features are expected to add, (n, k), each row by a regression on other rows.

    Sizes chosen by these estimates keep their promise on new rows, however few rows there are.
    """
    fold, expected = np.arange(len(inputs)) % FOLDS, np.empty(added.shape)
    for own in (fold == i for i in range(min(FOLDS, len(inputs)))):
        expected[own] = Gains.learn(inputs[~own], added[~own]).expected(inputs[own])
    return expected


def score_inputs(scores: Array, k: int) -> Array:
    """Return inputs of the regression from scores (n, d), (n, f).

    They are: how far the best k + 1 scores of a row stand above its mean; the same in standard deviations of
    the row; their logarithms as probabilities; and the squares of all these.
    """
    selectable = scores > -np.inf
    count = selectable.sum(axis=1, keepdims=True).clip(1)
    finite = np.where(selectable, scores, 0.0).astype(np.float64)
    mean = finite.sum(axis=1, keepdims=True) / count
    deviation = np.sqrt((np.where(selectable, finite - mean, 0.0) ** 2).sum(axis=1, keepdims=True) / count)
    # A row with fewer features repeats its lowest score.
    lowest = np.where(selectable, finite, np.inf).min(axis=1, keepdims=True)
    filled = np.where(selectable, finite, np.where(np.isfinite(lowest), lowest, 0.0))
    order = best(scores, min(k + 1, MOST_SCORES, scores.shape[1]))
    above = np.take_along_axis(filled, order, axis=1) - mean
    odds = np.where(selectable, np.exp(filled - mean - above[:, :1]), 0.0).sum(axis=1, keepdims=True)
    logs = above - above[:, :1] - np.log(odds.clip(1))
    inputs = np.concatenate([above, deviation, above / np.maximum(deviation, 1e-6), logs], axis=1)
    return np.concatenate([inputs, inputs**2], axis=1)


def surrogate_inputs(prefixes: Array, likelihood: Likelihood) -> Array:
    """Return inputs of the regression from `prefix_outputs` (n, k + 1, outputs), (n, f).

    The surrogate's prediction for all k features is taken as the truth. The inputs are how much each feature
    raises its log-likelihood and its agreement, and the squares of both.
    """
    outputs = torch.from_numpy(prefixes)
    n, sizes, width = outputs.shape
    truth = likelihood.to_targets(outputs[:, -1]).repeat_interleave(sizes, dim=0)
    flat = outputs.reshape(n * sizes, width)
    gains = [
        measure(flat, truth).reshape(n, sizes).double().diff(dim=1)
        for measure in (likelihood.log_likelihood, likelihood.agreement)
    ]
    inputs = torch.cat(gains, dim=1).numpy()
    return np.concatenate([inputs, inputs**2], axis=1)


@dataclass(frozen=True, eq=False)
class Sizes:
    """How many features each row keeps for a share of the information.

    Attributes
    ----------
    shares, prices, minima : tuples of equal length
        For each share of the information in k features, ascending: the price per feature, and the minimum
        size.
    by_scores : Gains
        Expected gains given the scores alone.
    by_surrogate : Gains or None
        Expected gains given the surrogate as well; None if the surrogate is the model.
    surrogate_shares : int
        The surrogate is used for this many of the shares, the first ones. For larger shares, a row keeps at
        least as many features as for the last of these; with the surrogate, at most as many as its scores
        give for the largest share.
    """

    shares: tuple[float, ...]
    prices: tuple[float, ...]
    minima: tuple[int, ...]
    by_scores: Gains
    by_surrogate: Gains | None = None
    surrogate_shares: int = 0

    @property
    def k(self) -> int:
        """The largest size that was learned."""
        return len(self.by_scores.gains)

    def shortened(
        self, explanation: Explanation, keep: float, inputs_of: Callable[[slice], Array]
    ) -> Explanation:
        """Return the explanation with a size for each row, at most its k.

        `inputs_of` returns the `surrogate_inputs` of a slice of rows.
        """
        # Round up to the next known share.
        share = int(np.searchsorted(self.shares, checked_share(keep)))
        scores, k = explanation.scores, explanation.indices.shape[1]
        sizes = np.minimum((scores > -np.inf).sum(axis=1), k)
        if share < len(self.prices):
            for rows in _row_batches(scores):
                wanted = self._wanted(scores[rows], share, k, partial(inputs_of, rows))
                sizes[rows] = np.minimum(wanted, sizes[rows])
        return replace(explanation, sizes=sizes)

    def _wanted(self, scores: Array, share: int, k: int, surrogate: Callable[[], Array]) -> Array:
        """Return the sizes of rows for a known share, at most k, (n,)."""
        inputs = score_inputs(scores, self.k)
        added = self.by_scores.expected(inputs)[:, :k]
        if self.by_surrogate is None:
            return self._at(share, added)
        added_q = self.by_surrogate.expected(np.concatenate([inputs, surrogate()], axis=1))[:, :k]
        sizes = np.minimum(self._at(min(share, self.surrogate_shares - 1), added_q), self._at(-1, added))
        return sizes if share < self.surrogate_shares else np.maximum(sizes, self._at(share, added))

    def _at(self, share: int, added: Array) -> Array:
        """Return the sizes by the price and the minimum of that share, (n,)."""
        return best_sizes(added, self.prices[share]).clip(self.minima[share])

    @classmethod
    def learn(cls, scores: Array, worth: Array, information: Array, surrogate: Array | None = None) -> Sizes:
        """Learn prices and minimum sizes from held-out rows.

        Parameters
        ----------
        scores : (n, d) array
            The selector's scores.
        worth : (n, k + 1) array
            What the first 0 .. k features of each ranking are worth.
        information : (n, k + 1) array
            Their log q(y | x_S). Shares refer to what all k features add to none.
        surrogate : (n, f) array or None
            The `surrogate_inputs`. The surrogate is used for as many of the first shares as gives the fewest
            features over all shares.
        """
        k, added, at_most = worth.shape[1] - 1, np.diff(worth, axis=1), (scores > -np.inf).sum(axis=1)
        inputs = np.concatenate([score_inputs(scores[rows], k) for rows in _row_batches(scores)])
        alone = Gains.learn(inputs, added)
        prices, minima, sizes = _cheapest(cross_fitted(inputs, added), information, at_most)
        without = cls(SHARES, tuple(prices), tuple(minima), by_scores=alone)
        if surrogate is None:
            return without
        inputs = np.concatenate([inputs, surrogate], axis=1)
        prices_q, minima_q, sizes_q = _cheapest(cross_fitted(inputs, added), information, at_most=sizes[-1])
        features = [sizes.sum()]
        for first in range(1, len(SHARES)):  # the scores alone decide the largest share
            others = np.maximum(sizes[first:], sizes_q[first - 1])
            features.append(sizes_q[:first].sum() + others.sum())
        first = int(np.argmin(features))
        if not first:
            return without
        return replace(
            without,
            prices=tuple(prices_q[:first] + prices[first:]),
            minima=tuple(minima_q[:first] + minima[first:]),
            by_surrogate=Gains.learn(inputs, added),
            surrogate_shares=first,
        )

    def header(self) -> dict[str, Any]:
        """Return what a saved file stores as JSON."""
        return {name: getattr(self, name) for name in ("shares", "prices", "minima", "surrogate_shares")}

    def tensors(self) -> dict[str, Array]:
        """Return what a saved file stores as tensors."""
        parts = {"sizes": self.by_scores, "sizes_surrogate": self.by_surrogate}
        return {
            f"{prefix}.{field.name}": getattr(gains, field.name)
            for prefix, gains in parts.items()
            if gains is not None
            for field in fields(gains)
        }

    @classmethod
    def restore(cls, header: Mapping[str, Any], tensors: Mapping[str, Array], *, d: int) -> Sizes:
        """Read the sizes of an explainer with d features; raise an ArtifactError if they are invalid.

        Their k is that of the fit, which may differ from the explainer's: users may change it.
        """
        shares, prices = (tuple(map(float, header[name])) for name in ("shares", "prices"))
        minima, first = tuple(map(int, header["minima"])), int(header["surrogate_shares"])
        if not len(shares) == len(prices) == len(minima) > first >= 0:
            raise ArtifactError(
                f"Corrupt size table: {len(prices)} prices and {len(minima)} minimum sizes for {len(shares)} "
                f"shares, {first} of them with the surrogate; the lengths should match."
            )
        if not np.isfinite(prices).all() or list(shares) != sorted(shares):
            raise ArtifactError("Corrupt size table: prices must be finite, and shares must ascend.")
        gains = tensors["sizes.gains"]
        if gains.ndim != 1 or not 1 <= len(gains) <= d:
            raise ArtifactError(f"Corrupt size table: gains of shape {gains.shape} for {d} features.")
        k = len(gains)
        f = 2 * (3 * min(k + 1, MOST_SCORES, d) + 1)  # inputs from scores; the surrogate adds 4 per feature
        by_scores = Gains.restore("sizes", tensors, f, k)
        by_surrogate = Gains.restore("sizes_surrogate", tensors, f + 4 * k, k) if first else None
        return cls(shares, prices, minima, by_scores, by_surrogate, first)


def _cheapest(added: Array, information: Array, at_most: Array) -> tuple[list[float], list[int], Array]:
    """Find, for each of SHARES, the price and minimum size that keep the share with the fewest features.

    `added` (n, k) is what features are expected to add, `information` (n, k + 1) that of the first 0 .. k,
    and `at_most` (n,) the number of features of each row. Return prices, minima, and the sizes of rows
    (shares, n). With a larger share the price never rises and the minimum never falls, so that no row has
    fewer features.
    """
    n, k = added.shape
    prices = np.unique(np.quantile(added, np.linspace(0, 1, PRICES)).clip(0.0))[::-1]
    minima = np.unique(np.linspace(1, k, MINIMA).round()).astype(int)
    wanted = np.stack([best_sizes(added, price) for price in prices])
    size, kept = np.empty((2, len(prices), len(minima)))
    for j, minimum in enumerate(minima):
        sizes = np.minimum(wanted.clip(minimum), at_most)
        size[:, j], kept[:, j] = sizes.mean(axis=1), information[np.arange(n), sizes].mean(axis=1)
    none, everything = information[:, 0].mean(), information[:, k].mean()
    i, j, chosen = 0, 0, []
    for share in SHARES:
        cost = np.where(kept >= none + share * (everything - none), size, np.inf)
        cost[:i], cost[:, :j] = np.inf, np.inf
        if np.isfinite(cost).any():
            i, j = divmod(int(cost.argmin()), len(minima))
        else:  # k features have less information than none
            i, j = len(prices) - 1, len(minima) - 1
        chosen.append((i, j))
    sizes = np.stack([np.minimum(wanted[i].clip(minima[j]), at_most) for i, j in chosen])
    return [float(prices[i]) for i, _ in chosen], [int(minima[j]) for _, j in chosen], sizes


def checked_share(keep: Any) -> float:
    """Return the share of the information to keep, or raise an InputError."""
    number: Any = keep  # an integer may be too large for a float
    if isinstance(keep, bool) or not isinstance(keep, Real) or not 0 < number <= 1:
        raise InputError(
            f"keep is {shown(keep)}; expected the share of the information to keep, such as 0.95."
        )
    return round(float(keep), 6)  # a float32 of 0.999 is not exactly 0.999


def best_sizes(added: Array, price: float) -> Array:
    """Return the sizes, 1 to k, that maximise gain (n, k) minus price times size; the larger of equals."""
    worth = added.cumsum(axis=1) - price * np.arange(1, added.shape[1] + 1)
    return np.asarray(added.shape[1] - worth[:, ::-1].argmax(axis=1))


def _row_batches(scores: Array) -> Iterator[slice]:
    """Yield slices of rows that are processed at a time."""
    return batches(len(scores), max(1, CELLS_AT_ONCE // scores.shape[1]))


def sizes_of(selector: nn.Module, surrogate: BaseSurrogate, data: TrainingRows) -> Sizes | None:
    """Learn sizes from held-out rows; return None if there are too few, or too few that may be queried."""
    evaluators, n = _affordable(surrogate, min(len(data.held), ROWS), data.k + 1)
    if n < TOO_FEW:
        return None
    rows = data.held[torch.arange(n)]
    with torch.inference_mode():
        scores = ranking_scores(selector, surrogate, rows, data).cpu()
        prefixes = [prefix_outputs(each, rows, scores, data.k) for each in evaluators]
        agreed = torch.stack([_by_size(data.likelihood.agreement, each, rows.target) for each in prefixes])
        information = _by_size(data.likelihood.log_likelihood, prefixes[0], rows.target).numpy()
    worth = agreed.mean(dim=0).numpy() + LIKELIHOOD_SHARE * information
    inputs = surrogate_inputs(prefixes[0].numpy(), data.likelihood) if surrogate.networks else None
    return Sizes.learn(scores.numpy(), worth, information, inputs)


def _affordable(surrogate: BaseSurrogate, rows: int, masks: int) -> tuple[Sequence[BaseSurrogate], int]:
    """Return which surrogates evaluate the features, and how many rows, each under this many masks."""
    affordable = min(part.rows_per_call(rows * masks) // masks for part in surrogate.parts)
    if len(surrogate.parts) > 1 and affordable < min(rows, FEWEST):
        return surrogate.parts[:1], rows
    return surrogate.parts, affordable


def _by_size(measure: Callable[[Tensor, Tensor], Tensor], prefixes: Tensor, target: Tensor) -> Tensor:
    """Apply a measure to the outputs for each size, (n, k + 1, outputs) -> (n, k + 1)."""
    target = target.to(prefixes.device)
    by_size = [measure(prefixes[:, size], target) for size in range(prefixes.shape[1])]
    return torch.stack(by_size, dim=1).double()
