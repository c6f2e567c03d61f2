"""What one feature is: a view turns raw inputs into tensors, and masks over features into masked inputs.

    raw inputs X ── check ──► take ──► encode ──► x  (n, ...)          what networks read
                                 │                └── mask ──► x̃_S     selected features only (section 3.1)
                                 └── for_model ──► what the black box reads, whole or masked

A new kind of input is one subclass of `View` and one `l2x.learning.register` call for its networks. Drawing,
serving, streaming and exporting work from what the view declares; `l2x.testing.check_view` tests it, and
examples/new_view.py is a complete one.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self, get_args, get_type_hints

import numpy as np
import pyarrow as pa
import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from l2x._base import Registered
from l2x._base.arrays import Array, batches, is_whole
from l2x.errors import InputError, shown, some


@dataclass(frozen=True)
class TableLayout:
    """How a view reads a table on disk or in a stream.

    Attributes
    ----------
    form : "frame", "text" or "matrix"
        What the view's `check` gets: a data frame with the columns of fitting; a single column of texts,
        whose name is free; or an array (rows, columns) with the numbers of all columns.
    columns : sequence of str, optional
        Names of the columns of fitting, in their order; None if any columns will do.
    named : bool
        Whether the training rows had column names. If not, columns are matched by position.
    lists : bool
        Whether the column of a "text" form holds lists of texts: a list column in Parquet, JSON in a CSV.
    categories : mapping of int to sequence of str
        Categories of columns, by position, whose cells are read as text even if they look like numbers.
    """

    form: Literal["frame", "text", "matrix"] = "frame"
    columns: Sequence[str] | None = None
    named: bool = True
    lists: bool = False
    categories: Mapping[int, Sequence[str]] = field(default_factory=dict)

    def match(self, offered: Sequence[str], *, copied: Sequence[str] = (), source: str) -> list[str]:
        """Return the offered columns that the view reads, in its order.

        Columns are matched by name, or by position if the view was fitted on an array. Columns that are
        `copied` to the result count as inputs only if they match by name. Errors name the `source`.

        >>> TableLayout(columns=["a", "b"]).match(["b", "id", "a"], source="rows.csv")
        ['a', 'b']
        """
        rest = [name for name in offered if name not in copied]
        if self.form == "text" and len(rest) != 1:
            raise InputError(f"Expected one column of texts, but {source} has {len(rest)}: {some(rest)}.")
        if self.columns is None:
            return rest
        missing = [name for name in self.columns if name not in offered]
        if missing and not self.named:
            if len(rest) != len(self.columns):
                raise InputError(
                    f"The explainer was fitted on {len(self.columns)} columns without names, but {source} "
                    f"has {len(rest)}: {some(rest)}. Drop the columns that are not features."
                )
            return rest
        if missing:
            raise InputError(
                f"{source} lacks columns that the explainer was fitted on: {some(missing)}; "
                f"it has {some(list(offered))}."
            )
        if twice := [name for name in self.columns if list(offered).count(name) > 1]:
            raise InputError(f"{source} has the column '{twice[0]}' more than once; rename or drop one.")
        return list(self.columns)

    def inputs(self, table: Any) -> Any:
        """Return a table (pyarrow or pandas) of matched columns in the form that `View.check` accepts."""
        if self.form != "matrix":
            return table
        try:
            if isinstance(table, pa.Table):
                return np.stack([column.to_numpy() for column in table.columns], axis=1).astype(np.float64)
            return table.to_numpy(dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"The table holds cells that are not numbers: {error}.") from error


@dataclass(frozen=True, eq=False)
class Measurement:
    """One number or category per input, whose distribution is compared with that of the training inputs.

    Attributes
    ----------
    name : str
        The column, or what is measured, such as "brightness".
    values : (n,) array of floats
        NaN where a value is missing; codes of categories are 0, 1, ..., and -1 for a new category.
    is_category : bool
        Whether the values are codes of categories.
    """

    name: str
    values: Array
    is_category: bool = False


class View(Registered, BaseEstimator, ABC):  # type: ignore[misc]
    """The contract between raw inputs and networks.

    Options are constructor parameters, as in scikit-learn; fields of a dataclass will do. `fit` learns names
    and statistics from training inputs. An option called `masking` selects how `for_model` masks features;
    its annotation, a `Literal`, lists the choices.

    Attributes
    ----------
    names_ : list of str
        One name per feature, set by `fit` and `restore`.
    kind : "table", "text" or "image"
        How inputs are drawn and how clients send them. A table is a row of features with names.
    unit : str
        What one feature is called in reports and on pages: "column", "word", "patch".
    rows_at_once : int
        How many inputs are encoded, explained or queried at a time; it bounds the memory.

    Examples
    --------
    Every view turns inputs into tensors for the networks, and masks into masked inputs for the model:

    >>> from l2x.features import Columns
    >>> view = Columns(["age", "income"]).fit(np.array([[20.0, 1.0], [30.0, 2.0], [70.0, 9.0]]))
    >>> view.d, view.unit, tuple(view.encode(np.array([[20.0, 1.0]])).shape)
    (2, 'column', (1, 2))
    >>> view.for_model(np.array([[20.0, 1.0]]), np.array([[True, False]]))  # income is masked by its median
    array([[20.,  2.]])
    """

    names_: list[str]
    kind: ClassVar[Literal["table", "text", "image"]] = "table"
    unit: ClassVar[str] = "feature"
    rows_at_once: int = 8192
    # Whether feature i of a masked input is feature i of the whole input; False if features are found in each
    # input, as segments are.
    fixed_features: ClassVar[bool] = True
    _in_weights: ClassVar[tuple[str, ...]] = ()  # options that are part of the networks' weights

    @property
    def d(self) -> int:
        """Return the number of features (units of selection) of one input."""
        return len(self.names_)

    @property
    def has_distances(self) -> bool:
        """Return whether differences between encoded inputs are meaningful, as for numbers."""
        return True

    @property
    def draws_replacements(self) -> bool:
        """Return whether masking the same input twice may give different results."""
        return bool(self.get_params(deep=False).get("masking") == "resample")

    def attach(self, model: Any) -> Self:
        """Note the model that is explained, for views that read parts of it; return self."""
        return self

    @abstractmethod
    def fit(self, X: Any) -> Self:
        """Learn names and statistics from training inputs; return self."""

    @abstractmethod
    def check(self, X: Any) -> Any:
        """Return X in the form that the other methods accept; raise an InputError that says why not."""

    def take(self, X: Any, rows: Any) -> Any:
        """Return the given rows (a slice or an index array) of checked inputs."""
        return X[rows]

    @abstractmethod
    def encode(self, X: Any, *, first_row: int = 0) -> Tensor:
        """Return checked inputs as the tensor (n, ...) that networks read; errors count from `first_row`."""

    def mask(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return x̃_S of section 3.1: encoded inputs (n, d, ...) with unselected features set to zero."""
        return x * mask.reshape(*mask.shape, *[1] * (x.ndim - 2))

    def selectable(self, x: Tensor) -> Tensor | None:
        """Return (n, d) booleans: which features of encoded inputs may be selected; None for all of them.

        Padding, for example, may not be selected.
        """
        return None

    @abstractmethod
    def for_model(self, X: Any, mask: Array | None = None, *, rng: np.random.Generator | None = None) -> Any:
        """Return checked inputs as the black box reads them, whole or masked.

        Parameters
        ----------
        X : checked inputs
            As `check` returns them.
        mask : (n, d) array of bool, optional
            Features outside the mask are replaced by values that carry no information.
        rng : numpy Generator, optional
            For maskings that draw replacements at random.
        """

    def units(self, parts: Tensor) -> Tensor:
        """Return scores of features, (n, d), by summing scores of what the model reads, (n, d, ...).

        For absolute gradients the sum is the l1 norm, for input times gradient the inner product.
        """
        if parts.ndim < 2 or parts.shape[1] != self.d:
            raise InputError(
                f"Attributions of shape {tuple(parts.shape)} do not fit a view of {self.d} features."
            )
        return parts.flatten(start_dim=2).sum(dim=2) if parts.ndim > 2 else parts

    def names_in(self, X: Any, indices: Array) -> Array | None:
        """Return the names of features (n, k) in each input, such as the words of a text.

        None means that features have the same names, `names_`, in all inputs.
        """
        return None

    def sample(self, n: int, rng: np.random.Generator) -> Any:
        """Return n made-up inputs like the training inputs, as `check` accepts them.

        The service and the ONNX export try an explainer with them.
        """
        raise InputError(
            f"{type(self).__name__} has no made-up inputs to try an explainer with: define "
            "`sample(self, n, rng)`, which returns n inputs like the training inputs."
        )

    def jitter(self, X: Any, rng: np.random.Generator) -> Any:
        """Return checked inputs with a little noise; None if noise has no meaning, as for texts."""
        return None

    def measurements(self, X: Any) -> list[Measurement]:
        """Return what can be compared between checked inputs and those of training, to notice drift.

        By default nothing: only predictions and scores are compared.
        """
        return []

    def unseen(self, x: Tensor) -> dict[str, int]:
        """Return, by column, how many encoded inputs have a category that the training inputs did not."""
        return {}

    def table_layout(self) -> TableLayout:
        """Return how the view, fitted or not, reads a table on disk: by default as a matrix of numbers."""
        return TableLayout("matrix")

    def maskings(self) -> dict[str | None, Self]:
        """Return this fitted view with each masking that its option `masking` allows, its own first.

        A view without that option is returned alone, under the key None.
        """
        own = self.get_params(deep=False).get("masking")
        if own is None:
            return {None: self}
        ways = get_args(get_type_hints(type(self)).get("masking"))
        return {own: self} | {way: copy.copy(self).set_params(masking=way) for way in ways if way != own}

    def reported_maskings(self) -> tuple[str | None, ...]:
        """Return the maskings that every figure of fidelity is reported under, the view's own first.

        None stands for the view's own masking. It is the only one for texts and images: there is no median
        word, and patches of another image are not a background.
        """
        return (None,)

    def _portable(self) -> dict[str, Any]:
        """Return, as JSON, the options of a fitted view that are objects."""
        return {}

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what `fit` learned, as JSON and as arrays."""

    @abstractmethod
    def restore(self, learned: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """Set what `state` returned; return self."""


def selectable_units(view: View, X: Any) -> Array | None:
    """Return (n, d) booleans: which features of checked inputs may be selected; None for all of them."""
    if view.selectable(view.encode(view.take(X, slice(0, 1)))) is None:
        return None
    parts = [view.selectable(view.encode(view.take(X, rows))) for rows in batches(len(X), view.rows_at_once)]
    return np.concatenate([part.numpy() for part in parts if part is not None])


def saved_options(view: View) -> dict[str, Any]:
    """Return the options that an artifact stores, with None for those held by the networks' weights."""
    options: dict[str, Any] = view.get_params(deep=False)
    return options | view._portable() | dict.fromkeys(view._in_weights)


def checked_k(view: View, k: Any) -> int:
    """Return k as an int; raise an InputError unless it is between 1 and the number of features."""
    if not is_whole(k) or k > view.d:
        raise InputError(
            f"k = {shown(k)} but there are {view.d} features; choose a whole number between 1 and {view.d}."
        )
    return int(k)


def as_tensor(array: Array) -> Tensor:
    """Return an array as a contiguous float32 tensor."""
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))


def shared_tensor(array: Array) -> Tensor:
    """Return an array as a tensor of its own type, without a copy where torch allows it.

    Torch accepts no negative strides, and warns about arrays that are not writeable.
    """
    if not array.flags.writeable or min(array.strides) < 0:
        array = array.copy()
    return torch.from_numpy(array)
