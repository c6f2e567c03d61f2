"""`explain(X, keep=...)` for decision paths: each row stops as soon as little is left to learn from its path.

After each step, a ridge regression predicts from the surrogate's prediction for the features so far how much
information the remaining steps will add. A path ends at the first step for which this is at most the price of
the share, so that the stopping rule, too, reads nothing but the values of the features that it keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from l2x._base.arrays import Array
from l2x.errors import ArtifactError
from l2x.explanation import Explanation
from l2x.learning._rows import Likelihood, TrainingRows
from l2x.learning._selector import ranking_scores
from l2x.learning._sizes import PRICES, ROWS, SHARES, TOO_FEW, Gains, checked_share, cross_fitted
from l2x.learning._surrogate import BaseSurrogate, prefix_outputs


@dataclass(frozen=True, eq=False)
class PathSizes:
    """When paths stop.

    Attributes
    ----------
    shares, prices : tuples of equal length
        For each share of the information in k features, ascending: the most information that may be left.
    left : tuple of Gains
        For 1 .. k - 1 features, what the remaining ones are expected to add.
    """

    shares: tuple[float, ...]
    prices: tuple[float, ...]
    left: tuple[Gains, ...]

    @property
    def k(self) -> int:
        """The number of steps that were learned."""
        return len(self.left) + 1

    def shortened(
        self, explanation: Explanation, keep: float, prefixes: Iterator[Array], likelihood: Likelihood
    ) -> Explanation:
        """Return the explanation with a size for each row, at most its k.

        `prefixes` are `prefix_outputs` of all rows, batch by batch.
        """
        share, k = int(np.searchsorted(self.shares, checked_share(keep))), explanation.k
        if share == len(self.prices):
            return replace(explanation, sizes=np.full(len(explanation), k))
        parts = [np.zeros(0, dtype=np.int64)]
        for outputs in prefixes:
            inputs = path_inputs(outputs, likelihood)
            expected = [gains.expected(each)[:, 0] for gains, each in zip(self.left, inputs, strict=True)]
            parts.append(stops(np.array(expected).reshape(len(self.left), len(outputs)), self.prices[share]))
        return replace(explanation, sizes=np.minimum(np.concatenate(parts), k))

    @classmethod
    def learn(cls, prefixes: Array, information: Array, likelihood: Likelihood) -> PathSizes:
        """Learn from `prefix_outputs` (n, k + 1, outputs) of held-out rows and their log-likelihoods."""
        n, k = len(prefixes), prefixes.shape[1] - 1
        left = (information[:, -1:] - information)[:, 1:-1]  # after 1 .. k - 1 features
        inputs = path_inputs(prefixes, likelihood)
        gains = tuple(Gains.learn(each, left[:, [j]]) for j, each in enumerate(inputs))
        expected = np.zeros((k - 1, n))
        for j, each in enumerate(inputs):
            expected[j] = cross_fitted(each, left[:, [j]])[:, 0]
        none, everything = information[:, 0].mean(), information[:, -1].mean()
        tried = np.unique(np.quantile(expected, np.linspace(0, 1, PRICES)))[::-1] if k > 1 else np.zeros(1)
        kept = [information[np.arange(n), stops(expected, price)].mean() for price in tried]
        prices: list[float] = []
        for share in SHARES:
            enough = np.flatnonzero(np.array(kept) >= none + share * (everything - none))
            price = float(tried[enough[0]]) if len(enough) else -1e9  # never: all k steps
            prices.append(min([price, *prices[-1:]]))
        return cls(SHARES, tuple(prices), gains)

    def header(self) -> dict[str, Any]:
        """Return what a saved file stores as JSON."""
        return {"shares": self.shares, "prices": self.prices, "steps": self.k}

    def tensors(self) -> dict[str, Array]:
        """Return what a saved file stores as tensors."""
        return {
            f"path_sizes_{j}.{field.name}": getattr(gains, field.name)
            for j, gains in enumerate(self.left)
            for field in fields(gains)
        }

    @classmethod
    def restore(
        cls, header: Mapping[str, Any], tensors: Mapping[str, Array], *, d: int, outputs: int
    ) -> PathSizes:
        """Invert `header` and `tensors`; raise an ArtifactError if they are invalid."""
        shares, prices = (tuple(map(float, header[name])) for name in ("shares", "prices"))
        k = int(header["steps"])
        if len(shares) != len(prices) or not np.isfinite(prices).all() or list(shares) != sorted(shares):
            raise ArtifactError("Corrupt size table: prices must be finite, and shares must ascend.")
        if not 1 <= k <= d:
            raise ArtifactError(f"Corrupt size table: paths of {k} steps through {d} features.")
        width = 2 * (outputs + 1)
        left = (Gains.restore(f"path_sizes_{j}", tensors, width, 1) for j in range(k - 1))
        return cls(shares, prices, tuple(left))


def stops(expected: Array, price: float) -> Array:
    """Return the first number of features after which at most `price` is expected, (k - 1, n) -> (n,).

    >>> stops(np.array([[0.5, 0.1, 0.5], [0.4, 0.3, 0.0]]), 0.2).tolist()
    [3, 1, 2]
    """
    stopped = np.concatenate([expected <= price, np.ones((1, expected.shape[1]), dtype=bool)])
    return np.asarray(stopped.argmax(axis=0) + 1)


def path_inputs(prefixes: Array, likelihood: Likelihood) -> list[Array]:
    """Return inputs of the regressions after 1 .. k - 1 features, each (n, f).

    They are the surrogate's prediction for these features alone, its entropy, and the squares of both.
    """
    inputs = []
    for step in range(1, prefixes.shape[1] - 1):
        outputs = torch.from_numpy(prefixes[:, step])
        predicted = likelihood.to_targets(outputs)
        entropy = -likelihood.log_likelihood(outputs, predicted)[:, None]
        known = torch.cat([predicted, entropy], dim=1).double().numpy()
        inputs.append(np.concatenate([known, known**2], axis=1))
    return inputs


def path_sizes_of(selector: nn.Module, surrogate: BaseSurrogate, data: TrainingRows) -> PathSizes | None:
    """Learn when to stop from held-out rows; return None if they are too few, or without a network."""
    n = min(len(data.held), ROWS)
    if n < TOO_FEW or not surrogate.networks:
        return None
    network, rows = surrogate.parts[0], data.held[torch.arange(n)]
    with torch.inference_mode():
        scores = ranking_scores(selector, surrogate, rows, data).cpu()
        prefixes = prefix_outputs(network, rows, scores, data.k)
        information = [
            data.likelihood.log_likelihood(prefixes[:, size], rows.target.cpu()) for size in range(data.k + 1)
        ]
    return PathSizes.learn(
        prefixes.numpy(), torch.stack(information, dim=1).double().numpy(), data.likelihood
    )
