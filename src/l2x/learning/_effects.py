"""Signed effects: how much each selected feature moves the prediction, and in which direction.

For the selected features S of a row, the surrogate gives v(T), its prediction from T alone, for every T ⊆ S.
The effects are the Shapley values of this game with k players (Shapley 1953), so they add up:

    base + Σ effects = v(S),    base + Σ effects + rest = prediction,    base = v(∅)

Only the prediction is the model's. Up to EXACT features all 2^k subsets are evaluated. Beyond that, effects
are means over random orders and their reverses (antithetic pairs, Mitchell et al. 2022); these also add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from l2x._base.arrays import Array
from l2x.errors import InputError
from l2x.explanation import Effects, Explanation, Scale
from l2x.features import selectable_units
from l2x.learning._rows import Gaussian, Likelihood
from l2x.learning._surrogate import CELLS_AT_ONCE, FittedSurrogate
from l2x.model import query

# The largest number of features for which all subsets are evaluated: 256 of them.
EXACT = 8
# Pairs of orders beyond that. Ten words of a review have standard errors below 0.01 (benchmarks/effects.py).
PAIRS = 16
# Probabilities closer to 0 or 1 than this have the log-odds of this.
CERTAIN = 1e-6


def effects_of(
    surrogate: FittedSurrogate,
    X: Any,
    indices: Array,
    selected: Array,
    predictions: Array,
    *,
    outputs: Array,
    scale: Scale,
) -> Effects:
    """Return the effects of the selected features of checked inputs.

    Parameters
    ----------
    surrogate : FittedSurrogate
        The explainer's own q(y | x_S).
    X : checked inputs
    indices : (n, k) array
        The selected features, best first.
    selected : (n, k) array of bool
        False for ranks that a row does not fill; their effect is zero.
    predictions : (n, outputs) array
        The predictions that the effects add up to.
    outputs : (n,) array of int
        Which class, or which predicted value, is explained in each row.
    scale : "probability", "log-odds" or "value"
    """
    n, k = indices.shape
    subsets, combine = (_all_subsets(k), _exact) if k <= EXACT else (_orders(k), _by_orders)
    wanted = np.concatenate([subsets, np.ones((1, k), dtype=bool)])  # the last one: every feature but these
    values = np.empty((len(wanted), n))
    for part, found in _values(surrogate, X, indices, selected, wanted):
        values[:, part] = on_scale(found, outputs[part], scale, surrogate.likelihood)
    alone, without = values[len(subsets) - 1], values[-1]
    effects, errors = combine(values[:-1], k)
    prediction = on_scale(predictions[None], outputs, scale, surrogate.likelihood, known=True)[0]
    return Effects(
        base=values[0],
        effects=np.where(selected, effects, 0.0),
        rest=prediction - alone,
        prediction=prediction,
        alone=alone,
        without=without,
        errors=None if errors is None else np.where(selected, errors, 0.0),
        outputs=outputs,
        scale=scale,
    )


def on_scale(
    found: Array, outputs: Array, scale: Scale, likelihood: Likelihood, *, known: bool = False
) -> Array:
    """Return the explained output of each row on a scale: (m, n, outputs) -> (m, n).

    `found` holds the surrogate's outputs, or predictions in the model's own units if they are `known`.
    """
    if isinstance(likelihood, Gaussian) != (scale == "value"):
        choices = "'value'" if isinstance(likelihood, Gaussian) else "'probability' or 'log-odds'"
        raise InputError(f"scale is {scale!r}; choose {choices} for this model.")
    units = found if known else likelihood.predictions(found)
    values = np.take_along_axis(units, outputs[None, :, None], axis=2)[..., 0].astype(np.float64)
    if scale != "log-odds":
        return values
    values = values.clip(CERTAIN, 1 - CERTAIN)
    return np.asarray(np.log(values / (1 - values)))


def _values(
    surrogate: FittedSurrogate, X: Any, indices: Array, selected: Array, subsets: Array
) -> Iterator[tuple[slice, Array]]:
    """Yield the surrogate's outputs (m, rows, outputs) for m subsets of the selected features, in batches.

    The last subset stands for all features except the selected ones.
    """
    d, m = surrogate.view.d, len(subsets)
    bits = torch.from_numpy(subsets)[:, None]  # (m, 1, k)
    for part, rows in surrogate.encoded(X, max(1, CELLS_AT_ONCE // (m * d))):
        chosen = torch.from_numpy(indices[part]).expand(m, -1, -1)
        present = (bits & torch.from_numpy(selected[part])).float()
        masks = torch.zeros(m, len(rows), d).scatter_(2, chosen, present)
        masks[-1] = 1 - masks[-1]
        if (selectable := surrogate.view.selectable(rows.x)) is not None:
            masks *= selectable.cpu()
        with torch.inference_mode():
            found: Tensor = surrogate.surrogate.outputs(rows, masks.reshape(-1, d).to(rows.x.device)).cpu()
        yield part, found.reshape(m, len(rows), -1).numpy()


@lru_cache(maxsize=16)
def _all_subsets(k: int) -> Array:
    """Return all subsets of k features as rows, (2^k, k); the first is empty, the last has all."""
    subsets: Array = (np.arange(1 << k)[:, None] >> np.arange(k) & 1).astype(bool)
    return subsets


def _exact(values: Array, k: int) -> tuple[Array, None]:
    """Return the Shapley values of a game with k players, (n, k), from the values of all subsets (2^k, n)."""
    return (_shapley_weights(k) @ values).T, None


@lru_cache(maxsize=16)
def _shapley_weights(k: int) -> Array:
    """Return the matrix (k, 2^k) that maps the values of `_all_subsets` to Shapley values."""
    subsets = _all_subsets(k)
    sizes = subsets.sum(axis=1)
    orders = np.array([math.factorial(s) * math.factorial(k - 1 - s) / math.factorial(k) for s in range(k)])
    # v(T) counts for a player in T with the weight of T without it, and against a player outside T.
    inside, outside = orders[np.maximum(sizes - 1, 0)], orders[np.minimum(sizes, k - 1)]
    weights: Array = np.where(subsets, inside[:, None], -outside[:, None]).T
    return weights


@lru_cache(maxsize=16)
def _ranks(k: int) -> Array:
    """Return PAIRS random orders of k features and their reverses, (2 PAIRS, k)."""
    orders = np.random.default_rng(0).permuted(np.tile(np.arange(k), (PAIRS, 1)), axis=1)
    return np.concatenate([orders, orders[:, ::-1]])


@lru_cache(maxsize=16)
def _orders(k: int) -> Array:
    """Return the subsets of `_ranks`: none, the first 1 .. k - 1 features of each order, all."""
    place = _ranks(k).argsort(axis=1)  # (orders, k): when each feature joins
    prefixes = place[:, None] < np.arange(1, k)[None, :, None]  # (orders, k - 1, k)
    ends = np.zeros((1, k), dtype=bool), np.ones((1, k), dtype=bool)
    return np.concatenate([ends[0], prefixes.reshape(-1, k), ends[1]])


def _by_orders(values: Array, k: int) -> tuple[Array, Array]:
    """Return means over orders of what each feature adds, (n, k), and their standard errors."""
    orders = _ranks(k)
    inner = values[1:-1].reshape(len(orders), k - 1, -1)
    ends = (np.broadcast_to(v, (len(orders), 1, v.shape[-1])) for v in (values[0], values[-1]))
    first, last = ends
    added = np.diff(np.concatenate([first, inner, last], axis=1), axis=1)  # (orders, k, n), by rank
    by_feature = np.empty_like(added)
    np.put_along_axis(by_feature, orders[..., None], added, axis=1)
    pairs = (by_feature[:PAIRS] + by_feature[PAIRS:]) / 2
    return pairs.mean(axis=0).T, (pairs.std(axis=0, ddof=1) / math.sqrt(PAIRS)).T


@dataclass(frozen=True)
class SurrogateSource:
    """Predictions and effects for the explanations of one explainer; see `Source`.

    Attributes
    ----------
    surrogate : FittedSurrogate
    classes : sequence or None
        The names of the classes; None for regression.
    """

    surrogate: FittedSurrogate
    classes: Sequence[Any] | None

    @property
    def has_model(self) -> bool:
        """Whether the model is available."""
        return self.surrogate.black_box is not None

    def predict(self, X: Any) -> Array:
        """Query the model for checked inputs; without it, return the surrogate's predictions for them."""
        view, black_box = self.surrogate.view, self.surrogate.black_box
        if not len(X):
            return np.zeros((0, self.surrogate.likelihood.outputs))
        if black_box is not None:
            return query(black_box, view, X)
        selectable = selectable_units(view, X)
        everything = np.ones((len(X), view.d), dtype=bool) if selectable is None else selectable
        return self.surrogate.predict(X, everything)

    def effects(self, explanation: Explanation, outputs: Array, scale: Scale) -> Effects:
        """Return the effects of the selected features of an explanation."""
        return effects_of(
            self.surrogate,
            explanation.inputs,
            explanation.indices,
            explanation.selected,
            explanation.predictions,
            outputs=outputs,
            scale=scale,
        )
