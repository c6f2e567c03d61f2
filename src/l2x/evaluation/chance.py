"""Chance: random selections that have as many features as the real ones."""

from __future__ import annotations

import numpy as np

from l2x.foundations.arrays import Array

# The word as a number: it names a random stream of its own. With `default_rng(seed)` alone, a random method
# with the same seed would look exactly like chance, or like its opposite.
CHANCE = int.from_bytes(b"chance", "big")


def random_selections(mask: Array, selectable: Array | None, *, seed: int) -> Array:
    """Return (n, d) booleans: in each row as many features as `mask` has, drawn among the `selectable` ones;
    among all of them where that is None.

    >>> mask = np.array([[True, True, False, False]] * 3)
    >>> random_selections(mask, None, seed=0).sum(axis=1).tolist()
    [2, 2, 2]
    """
    noise = np.asarray(np.random.default_rng((seed, CHANCE)).random(mask.shape))
    if selectable is not None:
        noise = np.where(selectable, noise, 2.0)
    ranks = noise.argsort(axis=1).argsort(axis=1)
    return np.asarray(ranks < mask.sum(axis=1, keepdims=True))
