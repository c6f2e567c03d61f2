"""Groups of columns selected as units: one-hot blocks, parts of a date, columns that belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor, nn

from l2x.errors import InputError
from l2x.features.columns import Columns
from l2x.features.frames import place_of
from l2x.features.view import View
from l2x.foundations.arrays import Array
from l2x.networks.columns import ColumnPredictor, ColumnSelector

Groups = Mapping[str, Sequence[str | int]]


class ColumnGroups(View):
    """One feature per group of columns; a column in no group is a feature by itself.

    Parameters
    ----------
    groups : {"income": ["salary", "bonus"], ...}, columns by name or position
    columns : Columns, default `Columns()`
        How the columns themselves are read and removed.

    >>> view = ColumnGroups({"place": [0, 2]}).fit(np.arange(6.0).reshape(2, 3))
    >>> view.names_
    ['place', 'x1']
    """

    paper_selector: ClassVar[dict[str, Any]] = Columns.paper_selector
    paper_predictor: ClassVar[dict[str, Any]] = Columns.paper_predictor

    def __init__(self, groups: Groups, *, columns: Columns | None = None) -> None:
        self.groups = groups
        self.columns = columns

    @classmethod
    def from_transformer(cls, transformer: Any, *, columns: Columns | None = None) -> ColumnGroups:
        """The groups of what a fitted scikit-learn ColumnTransformer, OneHotEncoder, or Pipeline that starts
        with one gives out: the one-hot columns of one input column are one feature."""
        from l2x.features.onehot import transformed_groups

        return cls(transformed_groups(transformer), columns=columns)

    def fit(self, X: Any) -> Self:
        self.columns_: Columns = clone(self.columns or Columns()).fit(X)
        self._assign()
        return self

    def check(self, X: Any) -> Any:
        return self.columns_.check(X)

    def take(self, X: Any, rows: Any) -> Any:
        return self.columns_.take(X, rows)

    def encode(self, X: Any, *, first_row: int = 0) -> Tensor:
        return self.columns_.encode(X, first_row=first_row)

    def mask(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.columns_.mask(x, mask[:, torch.from_numpy(self.group_).to(mask.device)])

    def jitter(self, X: Any, rng: np.random.Generator) -> Any:
        return self.columns_.jitter(X, rng)

    def remove(self, X: Any, mask: Array, *, rng: np.random.Generator | None = None) -> Any:
        return self.columns_.remove(X, mask[:, self.group_], rng=rng)

    def spread(self, values: Array) -> Array:
        return values[:, self.group_]

    def unseen(self, x: Tensor) -> dict[str, int]:
        return self.columns_.unseen(x)

    @property
    def column_names_(self) -> list[str]:
        """The names of the table's columns, in the order of fitting."""
        return self.columns_.names_

    @property
    def has_names_(self) -> bool:
        return self.columns_.has_names_

    def selector(self, outputs: int, **options: Any) -> nn.Module:
        return ColumnSelector(self.d, **(self.columns_.selector_inputs() | options))

    def predictor(self, outputs: int, **options: Any) -> nn.Module:
        return ColumnPredictor(self.d, outputs, width=self.columns_.masked_width, **options)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        return self.columns_.state()

    def restore(self, learned: dict[str, Any], arrays: dict[str, Array]) -> Self:
        self.columns_ = clone(self.columns or Columns()).restore(learned, arrays)
        self._assign()
        return self

    def _assign(self) -> None:
        """Which feature each column belongs to."""
        known = self.columns_.names_
        owner: dict[int, str] = {}
        for name, members in self.groups.items():
            if not members:
                raise InputError(f"The group '{name}' has no columns.")
            for member in members:
                place = place_of(member, known, f"The group '{name}'")
                if place in owner:
                    raise InputError(
                        f"Column '{known[place]}' is in two groups, '{owner[place]}' and '{name}'."
                    )
                owner[place] = name
        names = [owner.get(place, known[place]) for place in range(len(known))]
        self.names_ = list(dict.fromkeys(names))
        if clash := [known[p] for p in range(len(known)) if p not in owner and known[p] in self.groups]:
            raise InputError(f"'{clash[0]}' is the name of a group and of a column outside of it; rename it.")
        self.group_ = np.array([self.names_.index(name) for name in names])  # (columns,)
