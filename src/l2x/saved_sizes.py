"""Sizes in an explainer's file: shares and prices in its header, the regressions as tensors.

What a file says is checked before it is believed: sizes decide how much of an explanation is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from l2x.errors import ArtifactError
from l2x.foundations.arrays import Array
from l2x.gains import Gains, seen_by_q, seen_in_scores
from l2x.likelihood import Likelihood
from l2x.sizes import Sizes

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
