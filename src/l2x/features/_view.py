"""What one feature is: a view turns raw inputs into tensors, and masks over features into masked inputs.

    raw inputs X ── check ──► take ──► encode ──► x  (n, ...)          what networks read
                                 │                └── mask ──► x̃_S     of the selection alone (section 3.1)
                                 └── for_model ──► what the black box reads, whole or of the selection alone

A new kind of input is one file here and one in networks/: examples/new_view.py is a complete one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from l2x._base.arrays import Array, is_whole
from l2x._base.registry import Registered
from l2x.errors import InputError


class View(Registered, BaseEstimator, ABC):  # type: ignore[misc]
    """The contract between raw inputs and networks. `fit` learns names and statistics from training inputs.

    A fitted view has `names_`, one name per feature; their number is d. Options are constructor parameters,
    as scikit-learn has them, such as the fields of a dataclass; one called `removal` says how `for_model`
    removes features, and its annotation in the class, a `Literal`, which ways there are.
    """

    names_: list[str]
    # Inputs that are encoded, explained or queried at a time, so that memory does not grow with their number.
    rows_at_once: ClassVar[int] = 8192
    _in_weights: ClassVar[tuple[str, ...]] = ()  # options that are part of the networks' weights

    @property
    def d(self) -> int:
        """How many features (units of selection) one input has."""
        return len(self.names_)

    @abstractmethod
    def fit(self, X: Any) -> Self:
        """Learn what the view needs to know from training inputs."""

    @abstractmethod
    def check(self, X: Any) -> Any:
        """X in the form that the other methods take, or an InputError that says what is wrong."""

    def take(self, X: Any, rows: Any) -> Any:
        """The inputs of `rows` (a slice or an index array), in their raw form."""
        return X[rows]

    @abstractmethod
    def encode(self, X: Any, *, first_row: int = 0) -> Tensor:
        """Raw inputs as the tensor (n, ...) that networks read; errors count rows from `first_row`."""

    def mask(self, x: Tensor, mask: Tensor) -> Tensor:
        """x̃_S of section 3.1: encoded inputs (n, d, ...) with what the mask (n, d) leaves out set to zero."""
        return x * mask.reshape(*mask.shape, *[1] * (x.ndim - 2))

    def selectable(self, x: Tensor) -> Tensor | None:
        """(n, d): which features of encoded inputs may be selected; None for all. Padding may not."""
        return None

    @abstractmethod
    def for_model(self, X: Any, mask: Array | None = None, *, rng: np.random.Generator | None = None) -> Any:
        """Inputs as the black box reads them: whole, or, given a mask (n, d), with the features outside of it
        carrying no information. `rng` is for removals that draw replacements."""

    def units(self, parts: Tensor) -> Tensor:
        """Scores of features from scores of what the model reads, by summing: (n, d, ...) -> (n, d).

        Of absolute gradients that is the l1 norm, of input times gradient the inner product (section 4).
        """
        if parts.ndim < 2 or parts.shape[1] != self.d:
            raise InputError(
                f"Attributions of shape {tuple(parts.shape)} do not fit a view of {self.d} features."
            )
        return parts.flatten(start_dim=2).sum(dim=2) if parts.ndim > 2 else parts

    def names_in(self, X: Any, indices: Array) -> Array | None:
        """What the features (n, k) are called in each input, such as the words of a text; None where they
        have the same names in all."""
        return None

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What `fit` learned, as JSON and arrays."""

    @abstractmethod
    def restore(self, learned: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The inverse of `state`."""


def saved_options(view: View) -> dict[str, Any]:
    """The options that an artifact keeps; None in place of those that the networks' weights hold already."""
    options: dict[str, Any] = view.get_params(deep=False)
    return options | dict.fromkeys(view._in_weights)


def checked_k(view: View, k: Any) -> int:
    """k, if the view has this many features."""
    if not is_whole(k) or k > view.d:
        raise InputError(
            f"k = {k!r} but there are {view.d} features; choose a whole number between 1 and {view.d}."
        )
    return int(k)


def as_tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))


def shared_tensor(array: Array) -> Tensor:
    """The same numbers, of the same type, without a copy where torch can do without: it takes no negative
    steps, and warns of arrays that may not be written to."""
    if not array.flags.writeable or min(array.strides) < 0:
        array = array.copy()
    return torch.from_numpy(array)
