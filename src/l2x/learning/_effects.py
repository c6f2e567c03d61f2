"""Signed effects: how much each selected feature moves the prediction, and in which direction.

For the selected features S of a row, the surrogate gives v(T), its prediction from T alone, for every T ⊆ S.
The effects are the Shapley values of this game with k players (Shapley 1953), so they add up:

    base + Σ effects = v(S),    base + Σ effects + rest = prediction,    base = v(∅)

Only the prediction is the model's. Up to EXACT features all 2^k subsets are evaluated. Beyond that, effects
are means over random orders and their reverses (antithetic pairs, Mitchell et al. 2022); these also add up.

With `samplers.Shapley` the selector itself returns Shapley values, of the game with all d features. Effects
are then those of the selected features, and `rest` includes the values of all others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from l2x._base.arrays import Array
from l2x.errors import InputError
from l2x.explanation import Effects, Explanation, Scale
from l2x.features import selectable_units
from l2x.learning._rows import Gaussian, Likelihood, Rows, check_outputs
from l2x.learning._selector import everything, for_explained_output, signed_scores
from l2x.learning._surrogate import CELLS_AT_ONCE, BaseSurrogate, FittedSurrogate
from l2x.model import Endpoint, query

# The largest number of features for which all subsets are evaluated: 1,024 of them, as for ten words.
EXACT = 10
# Pairs of random orders for more features.
PAIRS = 32
# Log-odds are those of probabilities that are clipped at this distance from 0 and 1.
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
    subsets, combine = (subsets_of(k), _exact) if k <= EXACT else (_orders(k), _by_orders)
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
    at_once = max(1, CELLS_AT_ONCE // (len(subsets) * surrogate.view.d))
    for part, rows in surrogate.encoded(X, at_once):
        yield part, subset_outputs(surrogate.surrogate, rows, indices[part], selected[part], subsets)


def subset_outputs(
    surrogate: BaseSurrogate, rows: Rows, indices: Array, selected: Array, subsets: Array
) -> Array:
    """Return the surrogate's outputs (m, n, outputs) for m subsets of the selected features of encoded rows.

    The last subset stands for all features except the selected ones.
    """
    m, n, d = len(subsets), len(rows), rows.view.d
    chosen = torch.from_numpy(indices).expand(m, -1, -1)
    present = (torch.from_numpy(subsets)[:, None] & torch.from_numpy(selected)).float()  # (m, n, k)
    masks = torch.zeros(m, n, d).scatter_(2, chosen, present)
    masks[-1] = 1 - masks[-1]
    if (selectable := rows.view.selectable(rows.x)) is not None:
        masks *= selectable.cpu()
    with torch.inference_mode():
        found: Tensor = surrogate.outputs(rows, masks.reshape(-1, d).to(rows.x.device)).cpu()
    return found.reshape(m, n, -1).numpy()


@lru_cache(maxsize=16)
def subsets_of(k: int) -> Array:
    """Return all subsets of k features as rows, (2^k, k); the first is empty, the last has all."""
    subsets: Array = (np.arange(1 << k)[:, None] >> np.arange(k) & 1).astype(bool)
    return subsets


def shapley_values(values: Array, k: int) -> Array:
    """Return the Shapley values of games with k players, (n, k), from the values of `subsets_of(k)`."""
    return np.asarray((shapley_weights(k) @ values).T)


def _exact(values: Array, k: int) -> tuple[Array, None]:
    return shapley_values(values, k), None


@lru_cache(maxsize=16)
def shapley_weights(k: int) -> Array:
    """Return the matrix (k, 2^k) that maps the values of `subsets_of` to Shapley values."""
    subsets = subsets_of(k)
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
    none, all_ = np.zeros((1, k), dtype=bool), np.ones((1, k), dtype=bool)
    return np.concatenate([none, prefixes.reshape(-1, k), all_])


def _by_orders(values: Array, k: int) -> tuple[Array, Array]:
    """Return means over orders of what each feature adds, (n, k), and their standard errors."""
    orders = _ranks(k)
    inner = values[1:-1].reshape(len(orders), k - 1, -1)
    first, last = (np.broadcast_to(end, (len(orders), 1, len(end))) for end in (values[0], values[-1]))
    added = np.diff(np.concatenate([first, inner, last], axis=1), axis=1)  # (orders, k, n), by rank
    by_feature = np.empty_like(added)
    np.put_along_axis(by_feature, orders[..., None], added, axis=1)
    pairs = (by_feature[:PAIRS] + by_feature[PAIRS:]) / 2
    return pairs.mean(axis=0).T, (pairs.std(axis=0, ddof=1) / math.sqrt(PAIRS)).T


@dataclass(frozen=True)
class SignedValues:
    """Signed values of all features, from a selector that was trained by `samplers.Shapley`.

    Attributes
    ----------
    values : (n, d) array
        In the model's own units; zero for features that may not be selected.
    base : (n,) array
        The surrogate's prediction from no feature; base + Σ values is its prediction from all of them.
    selectable : (n, d) array of bool
    unseen : Counter
        For each column, the rows with a category that did not occur in training.
    """

    values: Array
    base: Array
    selectable: Array
    unseen: Counter[str]

    @property
    def ranking(self) -> Array:
        """Absolute values, by which features are ranked; -inf for those that may not be selected."""
        return np.where(self.selectable, np.abs(self.values), -np.inf).astype(np.float32)


def signed_values(
    surrogate: FittedSurrogate, selector: nn.Module, X: Any, outputs: Array | None = None
) -> SignedValues:
    """Return the signed values of checked inputs for one output of each row.

    `outputs` (n,) are positions of classes or predicted values; by default, the class that the surrogate
    predicts from all features, or the first value.
    """
    n, d, likelihood = len(X), surrogate.view.d, surrogate.likelihood
    found = SignedValues(np.empty((n, d)), np.empty(n), np.empty((n, d), dtype=bool), Counter())
    for part, rows in surrogate.encoded(X):
        with torch.inference_mode():
            present = everything(rows)
            if outputs is None:
                rows = replace(rows, target=surrogate.surrogate.outputs(rows, present))
            wanted = None if outputs is None else torch.from_numpy(outputs[part])
            rows = for_explained_output(rows, likelihood, wanted)
            values, base = (tensor.cpu() for tensor in signed_scores(selector, surrogate.surrogate, rows))
            chosen = rows.target.cpu()
        scale, mean = torch.ones(1), torch.zeros(1)
        if isinstance(likelihood, Gaussian):  # from standard deviations to the model's units
            scale, mean = (chosen @ torch.tensor(each) for each in (likelihood.scale, likelihood.mean))
        found.values[part] = (values * scale[:, None]).numpy()
        found.base[part] = (base * scale + mean).numpy()
        found.selectable[part] = present.cpu().numpy() > 0
        found.unseen.update(surrogate.view.unseen(rows.x))
    return found


@dataclass(frozen=True)
class SurrogateSource:
    """Predictions and effects for the explanations of one explainer; see `Source`.

    Attributes
    ----------
    surrogate : FittedSurrogate
    classes : sequence or None
        The names of the classes; None for regression.
    selector : torch module or None
        The selector, if it returns signed values of all features.
    """

    surrogate: FittedSurrogate
    classes: Sequence[Any] | None
    selector: nn.Module | None = None

    @property
    def has_model(self) -> bool:
        """Whether the model is available."""
        return self.surrogate.black_box is not None

    @property
    def available(self) -> bool:
        """Whether effects can be computed: from a network or, for objective="model", by the model."""
        return bool(self.surrogate.surrogate.networks) or self.has_model

    def affordable(self) -> SurrogateSource | None:
        """Return a source for what is shown by default, such as a printed explanation; None if too costly.

        A remote model is not queried: predictions are the surrogate's. Without a network, every effect would
        take masked queries.
        """
        if not self.surrogate.surrogate.networks:
            return None
        black_box = self.surrogate.black_box
        remote = black_box is not None and isinstance(black_box.predict, Endpoint)
        return replace(self, surrogate=replace(self.surrogate, black_box=None)) if remote else self

    def predict(self, X: Any) -> Array:
        """Query the model for checked inputs; without it, return the surrogate's predictions for them."""
        view, black_box = self.surrogate.view, self.surrogate.black_box
        if not len(X):
            return np.zeros((0, self.surrogate.likelihood.outputs))
        if black_box is not None:
            predictions = query(black_box, view, X)
            check_outputs(predictions, self.surrogate.likelihood, black_box)
            return predictions
        selectable = selectable_units(view, X)
        mask = np.ones((len(X), view.d), dtype=bool) if selectable is None else selectable
        return self.surrogate.predict(X, mask)

    def effects(self, explanation: Explanation, outputs: Array, scale: Scale) -> Effects:
        """Return the effects of the selected features of an explanation."""
        if self.selector is not None:
            return self._signed_effects(explanation, outputs, scale)
        return effects_of(
            self.surrogate,
            explanation.inputs,
            explanation.indices,
            explanation.selected,
            explanation.predictions,
            outputs=outputs,
            scale=scale,
        )

    def values(self, X: Any, outputs: Array) -> Array:
        """Return signed values of all features of checked inputs, (n, d); raise an InputError without any."""
        if self.selector is None:
            raise InputError(
                "values need an explainer that learned them: l2x.Explainer(..., "
                "sampler=l2x.samplers.Shapley()); `effects` has those of the selected features."
            )
        return signed_values(self.surrogate, self.selector, X, outputs).values

    def _signed_effects(self, explanation: Explanation, outputs: Array, scale: Scale) -> Effects:
        """Return the selector's own values of the selected features; `rest` includes all others."""
        if scale == "log-odds":
            raise InputError(
                "scale is 'log-odds', but Shapley() learned values of probabilities; leave out scale=."
            )
        assert self.selector is not None
        X, indices, selected = explanation.inputs, explanation.indices, explanation.selected
        found = signed_values(self.surrogate, self.selector, X, outputs)
        effects = np.where(selected, np.take_along_axis(found.values, indices, axis=1), 0.0)
        likelihood = self.surrogate.likelihood
        prediction = on_scale(explanation.predictions[None], outputs, scale, likelihood, known=True)[0]
        alone, without = np.empty((2, len(effects)))
        wanted = np.ones((2, explanation.k), dtype=bool)  # the selected features; all others
        for part, both in _values(self.surrogate, X, indices, selected, wanted):
            alone[part], without[part] = on_scale(both, outputs[part], scale, likelihood)
        return Effects(
            base=found.base,
            effects=effects,
            rest=prediction - found.base - effects.sum(axis=1),
            prediction=prediction,
            alone=alone,
            without=without,
            errors=None,
            outputs=outputs,
            scale=scale,
        )
