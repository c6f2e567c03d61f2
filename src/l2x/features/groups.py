"""Groups of columns selected as units: one-hot blocks, parts of a date, columns that belong together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from l2x.features.columns import Columns, Groups, Missing, Removal


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

    def __init__(
        self,
        groups: Groups,
        *,
        names: Sequence[str] | None = None,
        standardize: bool = True,
        bins: int = 16,
        removal: Removal = "mean",
        categorical: Sequence[str | int] = (),
        max_categories: int = 64,
        missing: Missing = "auto",
    ) -> None:
        super().__init__(
            names,
            standardize=standardize,
            bins=bins,
            removal=removal,
            categorical=categorical,
            max_categories=max_categories,
            missing=missing,
            groups=groups,
        )

    @classmethod
    def from_transformer(cls, transformer: Any, **options: Any) -> ColumnGroups:
        """The groups of what a fitted scikit-learn ColumnTransformer, OneHotEncoder, or Pipeline that starts
        with one gives out: the one-hot columns of one input column are one feature."""
        from l2x.features.onehot import transformed_groups

        return cls(transformed_groups(transformer), **options)
