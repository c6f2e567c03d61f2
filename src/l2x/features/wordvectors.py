"""Pretrained word vectors: those of a vocabulary, from whatever the user brings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from l2x.errors import InputError
from l2x.foundations.arrays import Array

# Words and their vectors, (words, width), or each word's own.
Vectors = tuple[Sequence[str], Array] | Mapping[str, Any]


def vectors_of(vocabulary: Sequence[str], given: Vectors) -> Array:
    """The vector of each word of a vocabulary, (words, width) float32; NaN for those that have none.

    Where "Good" has none, it is given that of "good".
    """
    words, vectors = _as_table(given)
    row = {word: i for i, word in enumerate(words)}
    rows = np.array([row.get(word, row.get(word.lower(), -1)) for word in vocabulary])
    found = rows >= 0
    if not found.any():
        raise InputError(
            f"Not one of the {len(vocabulary):,} words of the vocabulary has a vector: the words of vectors= "
            f"are such as {list(words[:3])}."
        )
    chosen = np.full((len(vocabulary), vectors.shape[1]), np.nan, dtype=np.float32)
    chosen[found] = vectors[rows[found]]
    if not np.isfinite(chosen[found]).all():
        raise InputError("vectors= holds numbers that are not finite.")
    return chosen


def _as_table(given: Any) -> tuple[Sequence[str], Array]:
    """The words, and an array of as many rows."""
    if isinstance(given, Mapping):
        given = list(given), list(given.values())
    try:
        words, vectors = given
        vectors = np.asarray(vectors, dtype=np.float32)
        sound = vectors.ndim == 2 and len(words) == len(vectors) > 0 and vectors.shape[1] > 0
    except (TypeError, ValueError) as error:
        raise InputError(
            "vectors must be a mapping of words to vectors of one length, or a pair (words, array) such as "
            f"l2x.datasets.glove(); got a {type(given).__name__} ({error})."
        ) from error
    if not sound:
        raise InputError(
            f"vectors has {len(words):,} words and an array of shape {vectors.shape}; give one row per word."
        )
    return words, vectors
