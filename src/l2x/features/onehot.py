"""Which input column each output of a scikit-learn transformer comes from: groups for one-hot columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from l2x.errors import InputError

Groups = dict[str, list[int]]


def transformed_groups(transformer: Any) -> Groups:
    """Input column -> indices of the columns made from it, for a fitted OneHotEncoder, ColumnTransformer,
    or a Pipeline of which one step is such; other steps must keep the columns."""
    groups = _groups(transformer, [str(name) for name in getattr(transformer, "feature_names_in_", [])])
    if groups is None:
        raise InputError(
            f"{type(transformer).__name__} has no fitted one-hot encoder whose columns can be followed; "
            "name the groups: ColumnGroups({'colour': [...]})."
        )
    return groups


def _groups(transformer: Any, inputs: Sequence[str]) -> Groups | None:
    """None where the outputs cannot be followed back to single columns."""
    if hasattr(transformer, "steps"):
        found = [_groups(step, inputs) for _, step in transformer.steps]
        return next((groups for groups in found if groups is not None), None)
    if not hasattr(transformer, "n_features_in_"):
        return None
    inputs = inputs or [f"x{i}" for i in range(transformer.n_features_in_)]
    if hasattr(transformer, "transformers_"):
        return _column_transformer(transformer, inputs)
    return _one_hot(transformer, inputs) if hasattr(transformer, "drop_idx_") else None


def _one_hot(encoder: Any, inputs: Sequence[str]) -> Groups:
    """Outputs come column by column: one per category, all infrequent ones together, less the dropped."""
    groups: Groups = {}
    start = 0
    rare = getattr(encoder, "infrequent_categories_", [None] * len(inputs))
    dropped = [None] * len(inputs) if encoder.drop_idx_ is None else encoder.drop_idx_
    for name, categories, few, drop in zip(inputs, encoder.categories_, rare, dropped, strict=True):
        width = len(categories) - (0 if few is None else len(few) - 1) - (drop is not None)
        if width:
            groups[name] = list(range(start, start + width))
        start += width
    return groups


def _column_transformer(transformer: Any, inputs: Sequence[str]) -> Groups:
    """The parts' groups side by side; a part that cannot be followed is one group of its name."""
    groups: Groups = {}
    for part, step, columns in transformer.transformers_:
        span = transformer.output_indices_[part]
        width = span.stop - span.start
        own = _named(columns, inputs)
        inside = _groups(step, own) if hasattr(step, "get_params") else None
        if inside is None or sum(map(len, inside.values())) != width:
            alike = width == len(own)
            inside = {n: [i] for i, n in enumerate(own)} if alike else {str(part): list(range(width))}
        for name, indices in inside.items():
            if indices:
                groups.setdefault(name, []).extend(span.start + i for i in indices)
    return groups


def _named(columns: Any, inputs: Sequence[str]) -> list[str]:
    """Names of columns that were given by name, position, slice or mask."""
    if isinstance(columns, str):
        return [columns]
    if not isinstance(columns, slice) and all(isinstance(column, str) for column in columns):
        return list(columns)
    return [str(name) for name in np.atleast_1d(np.asarray(inputs, dtype=object)[columns])]
