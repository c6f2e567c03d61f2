"""What one feature is: a view turns raw inputs into tensors, and masks over features into masked inputs."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from l2x.errors import InputError
from l2x.foundations.arrays import Array
from l2x.training import TrainingPlan


class View(BaseEstimator, ABC):  # type: ignore[misc]
    """The contract between raw inputs and networks. `fit` learns names and statistics from training rows.

    A fitted view has `names_`, one name per feature; their number is d.
    """

    names_: list[str]

    # Options of the networks that make them the paper's; the defaults are our recipe's.
    paper_selector: ClassVar[dict[str, Any]] = {}
    paper_predictor: ClassVar[dict[str, Any]] = {}
    # How networks for such inputs are trained, by our recipe and by the paper's.
    plan: ClassVar[TrainingPlan] = TrainingPlan()
    paper_plan: ClassVar[TrainingPlan] = TrainingPlan.paper()
    # Inputs that are encoded, explained or asked at a time: memory does not grow with their number.
    rows_at_once: ClassVar[int] = 8192

    @property
    def removals(self) -> tuple[str, ...]:
        """The ways in which `remove` can work: values of the parameter `removal`, if the view has one."""
        return ()

    @property
    def d(self) -> int:
        """How many features (units of selection) one input has."""
        return len(self.names_)

    def checked_k(self, k: Any) -> int:
        """k, if so many features can be selected."""
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= self.d:
            raise InputError(
                f"k = {k!r} but there are {self.d} features; choose a whole number between 1 and {self.d}."
            )
        return int(k)

    @abstractmethod
    def fit(self, X: Any) -> Self:
        """Learn what the view needs to know from training inputs."""

    @abstractmethod
    def check(self, X: Any) -> Any:
        """X in the form that the other methods take, or an InputError that says what is wrong."""

    @abstractmethod
    def take(self, X: Any, rows: Any) -> Any:
        """The inputs of `rows` (a slice or an index array), in their raw form."""

    @abstractmethod
    def encode(self, X: Any, *, first_row: int = 0) -> Tensor:
        """Raw inputs as the tensor that networks read; errors count rows from `first_row`."""

    @abstractmethod
    def mask(self, x: Tensor, mask: Tensor) -> Tensor:
        """x̃_S of section 3.1: the encoded input with what is not selected set to zero."""

    def selectable(self, x: Tensor) -> Tensor | None:
        """(n, d): which features of encoded inputs may be selected; None for all. Padding may not."""
        return None

    def for_model(self, X: Any) -> Any:
        """Whole inputs as the black box reads them."""
        return X

    @abstractmethod
    def remove(self, X: Any, mask: Array, *, rng: np.random.Generator | None = None) -> Any:
        """Raw inputs for the black box in which unselected features carry no information."""

    def with_removal(self, removal: str) -> Self:
        """The same fitted view with another way to remove features."""
        if removal not in self.removals:
            raise InputError(f"removal is {removal!r}; choose among {', '.join(map(repr, self.removals))}.")
        other = copy.copy(self)
        other.set_params(removal=removal)
        return other

    def jitter(self, X: Any, rng: np.random.Generator) -> Any:
        """Checked inputs with a little noise; None where there is no such thing."""
        return None

    @abstractmethod
    def selector(self, outputs: int, **options: Any) -> nn.Module:
        """The default w_θ: encoded input -> (n, d) scores.

        If it has a part called `reader`, (input, mask) -> (n, outputs), that part learns first to say what
        the value says of random subsets.
        """

    @abstractmethod
    def predictor(self, outputs: int, **options: Any) -> nn.Module:
        """The default g_α: (masked input, mask) -> (n, outputs)."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What `fit` learned, as JSON and arrays."""

    @abstractmethod
    def restore(self, learned: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The inverse of `state`."""

    def unseen(self, x: Tensor) -> dict[str, int]:
        """Per name, how many encoded inputs hold something that the training inputs never had."""
        return {}

    def spread(self, values: Array) -> Array:
        """Values of features, (n, d), over the inputs that they are made of; it broadcasts to their shape."""
        return values

    def names_in(self, X: Any, indices: Array) -> Array | None:
        """What the features (n, k) are called in each input, such as the words of a text; None where they
        are called the same in all."""
        return None


def as_tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
