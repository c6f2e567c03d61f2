"""Groups of columns selected as units: one-hot blocks, parts of a date, columns that belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from l2x.features.columns import Columns, Groups


@dataclass(eq=False, repr=False, kw_only=True)
class ColumnGroups(Columns):
    """`Columns` whose features are groups of columns; a column in no group is a feature by itself.

    Parameters
    ----------
    groups : {"income": ["salary", "bonus"], ...}, columns by name or position
    names, standardize, bins, removal, categorical, max_categories, missing : as for `Columns`

    >>> import numpy as np
    >>> view = ColumnGroups({"place": [0, 2]}).fit(np.arange(6.0).reshape(2, 3))
    >>> view.names_
    ['place', 'x1']
    """

    groups: Groups = field(kw_only=False)
    names: Sequence[str] | None = None

    @classmethod
    def from_transformer(cls, transformer: Any, **options: Any) -> ColumnGroups:
        """The groups of what a fitted scikit-learn ColumnTransformer, OneHotEncoder, or Pipeline that starts
        with one gives out: the one-hot columns of one input column are one feature."""
        from l2x.features.onehot import transformed_groups

        return cls(transformed_groups(transformer), **options)
