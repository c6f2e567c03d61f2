"""Columns of a table, each one feature: numeric arrays and data frames (pandas, polars, pyarrow)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self, get_args

import narwhals as nw
import numpy as np
import torch
from torch import Tensor, nn

from l2x.errors import InputError
from l2x.features.view import Array, View, as_tensor
from l2x.networks.columns import ColumnPredictor, ColumnSelector

Removal = Literal["mean", "zero", "resample"]

# Rows kept to resample from: enough for a smooth average, small enough to travel in an artifact.
BACKGROUND_ROWS = 512
QUANTILE_ROWS = 100_000
# Small noise, in standard deviations of a column.
JITTER = 0.05


class Columns(View):
    """One feature per numeric column.

    Parameters
    ----------
    names : sequence of str, optional
        Names for the columns of an array; a data frame brings its own.
    standardize : bool
        Give the networks (x - mean) / standard deviation, so that "not selected" (zero) is the mean.
        False passes x itself, as the paper does with its standard Gaussian data.
    bins : int
        How finely the predictor sees a value: besides x itself, its place between so many quantiles
        (piecewise-linear encoding, Gorishniy et al. 2022), all of it zero when the column is not selected.
        Models with thresholds need it; 0 gives x alone, as in the paper.
    removal : "mean", "zero" or "resample"
        What the black box sees in place of an unselected value: the column's training mean, zero,
        or the value of a random training row.

    >>> Columns().fit(np.arange(6.0).reshape(3, 2)).names_
    ['x0', 'x1']
    """

    # Section 4.1: all layers are of dimension 200, two hidden for the explainer, three for the family.
    paper_selector: ClassVar[dict[str, Any]] = {"hidden": (200, 200), "activation": "relu", "prior": False}
    paper_predictor: ClassVar[dict[str, Any]] = {"hidden": (200, 200, 200), "activation": "relu"}
    removals: ClassVar[tuple[str, ...]] = get_args(Removal)

    def __init__(
        self,
        names: Sequence[str] | None = None,
        *,
        standardize: bool = True,
        bins: int = 16,
        removal: Removal = "mean",
    ) -> None:
        self.names = names
        self.standardize = standardize
        self.bins = bins
        self.removal = removal

    def fit(self, X: Any) -> Self:
        if self.removal not in ("mean", "zero", "resample"):
            raise InputError(f"removal is {self.removal!r}; choose 'mean', 'zero' or 'resample'.")
        X = _native(X)
        self.names_, self.has_names_ = self._names_of(X)
        matrix = self._matrix(X, first_row=0)
        self.mean_ = matrix.mean(axis=0)
        spread = matrix.std(axis=0)
        # A constant column says nothing: leave it unscaled rather than divide by zero.
        self.scale_ = np.where(spread > 1e-12 * (1 + np.abs(self.mean_)), spread, 1.0)
        rng = np.random.default_rng(0)
        self.background_ = matrix[rng.choice(len(matrix), min(len(matrix), BACKGROUND_ROWS), replace=False)]
        some = matrix[rng.choice(len(matrix), min(len(matrix), QUANTILE_ROWS), replace=False)]
        self._set_edges(np.quantile(self._standard(some), np.linspace(0, 1, self.bins + 1), axis=0))
        return self

    def check(self, X: Any) -> Any:
        X = _native(X)
        if len(X) == 0:
            raise InputError("The table has no rows.")
        if isinstance(X, np.ndarray):
            if X.shape[1] != self.d:
                raise InputError(
                    f"The table has {X.shape[1]} columns, but the explainer was fitted on {self.d}: "
                    f"{_some(self.names_)}."
                )
            return X
        return self._in_order(X)

    def take(self, X: Any, rows: Any) -> Any:
        return X[rows] if isinstance(X, np.ndarray) else nw.from_native(X, eager_only=True)[rows].to_native()

    def encode(self, X: Any, *, first_row: int = 0) -> Tensor:
        return as_tensor(self._standard(self._matrix(X, first_row=first_row)))  # (n, d)

    def mask(self, x: Tensor, mask: Tensor) -> Tensor:
        if not self.bins:
            return x * mask
        place = ((x[..., None] - self.lower_.to(x.device)) * self.inverse_width_.to(x.device)).clamp_(0, 1)
        vectors = torch.cat([x[..., None], place - 0.5], dim=-1)  # (n, d, 1 + bins)
        return (vectors * mask[..., None]).flatten(1)

    def remove(self, X: Any, mask: Array, *, rng: np.random.Generator | None = None) -> Any:
        matrix = self._matrix(X, first_row=0)
        if self.removal == "mean":
            fill = self.mean_
        elif self.removal == "zero":
            fill = np.zeros(self.d)
        else:
            rng = rng or np.random.default_rng(0)
            fill = self.background_[rng.integers(len(self.background_), size=len(matrix))]
        return self._like(X, np.where(mask, matrix, fill))

    def jitter(self, X: Any, rng: np.random.Generator) -> Any:
        matrix = self._matrix(X, first_row=0)
        return self._like(X, matrix + JITTER * self.scale_ * rng.standard_normal(matrix.shape))

    def selector(self, outputs: int, **options: Any) -> nn.Module:
        return ColumnSelector(self.d, **options)

    def predictor(self, outputs: int, **options: Any) -> nn.Module:
        return ColumnPredictor(self.d, outputs, per_feature=1 + self.bins, **options)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        arrays = {
            "mean": self.mean_,
            "scale": self.scale_,
            "background": self.background_,
            "edges": self.edges_,
        }
        return {"names": self.names_, "has_names": self.has_names_}, arrays

    def restore(self, learned: dict[str, Any], arrays: dict[str, Array]) -> Self:
        self.names_, self.has_names_ = list(learned["names"]), bool(learned["has_names"])
        self.mean_, self.scale_ = arrays["mean"], arrays["scale"]
        self.background_ = arrays["background"]
        self._set_edges(arrays["edges"])
        return self

    def _standard(self, matrix: Array) -> Array:
        return np.asarray((matrix - self.mean_) / self.scale_) if self.standardize else matrix

    def _set_edges(self, edges: Array) -> None:
        """Quantiles of each column, (bins + 1, d), and what `mask` computes with."""
        self.edges_ = edges
        self.lower_ = as_tensor(edges[:-1].T)  # (d, bins)
        # A bin without width (a value that many rows share) becomes a step.
        self.inverse_width_ = as_tensor(1 / np.maximum(np.diff(edges, axis=0).T, 1e-6))

    def _names_of(self, X: Any) -> tuple[list[str], bool]:
        if not isinstance(X, np.ndarray):
            return list(nw.from_native(X, eager_only=True).columns), True
        d = X.shape[1]
        if self.names is None:
            return [f"x{i}" for i in range(d)], False
        if len(self.names) != d:
            raise InputError(f"{len(self.names)} names were given for a table of {d} columns.")
        return [str(name) for name in self.names], False

    def _in_order(self, X: Any) -> Any:
        """The frame with its columns checked by name and put in the order of fitting."""
        frame = nw.from_native(X, eager_only=True)
        if frame.columns == self.names_:
            return X
        if not self.has_names_:
            if len(frame.columns) != self.d:
                raise InputError(f"The table has {len(frame.columns)} columns; expected {self.d}.")
            return X
        missing = [name for name in self.names_ if name not in frame.columns]
        extra = [name for name in frame.columns if name not in self.names_]
        if missing or extra:
            parts = [f"missing: {_some(missing)}"] * bool(missing) + [f"not expected: {_some(extra)}"] * bool(
                extra
            )
            raise InputError(f"The table's columns are not those of fitting ({'; '.join(parts)}).")
        return frame.select(self.names_).to_native()

    def _matrix(self, X: Any, *, first_row: int) -> Array:
        """Numbers of a checked table, (n, d) floats."""
        if isinstance(X, np.ndarray):
            matrix = X if X.dtype.kind == "f" else X.astype(np.float64)
        else:
            frame = nw.from_native(X, eager_only=True)
            for name, dtype in frame.schema.items():
                if not (dtype.is_numeric() or dtype == nw.Boolean):
                    raise InputError(
                        f"Column '{name}' is {dtype}; Columns takes numbers. Encode it first, or drop it."
                    )
            matrix = frame.to_numpy().astype(np.float64)
        finite = np.isfinite(matrix)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            names = getattr(self, "names_", None)
            name = names[column] if names else f"x{column}"
            raise InputError(
                f"Row {first_row + row}, column '{name}' is {matrix[row, column]}: fill or drop missing and "
                "infinite values first."
            )
        return matrix

    def _like(self, X: Any, matrix: Array) -> Any:
        """`matrix` in the type of X."""
        if isinstance(X, np.ndarray):
            return matrix
        frame = nw.from_native(X, eager_only=True)
        return nw.from_numpy(matrix, schema=frame.columns, backend=frame.implementation).to_native()


def _native(X: Any) -> Any:
    """X as a two-dimensional numeric array or a data frame."""
    if hasattr(X, "detach"):
        X = X.detach().cpu().numpy()
    if isinstance(X, np.ndarray | list | tuple):
        try:
            array = np.asarray(X)
            array = array if array.dtype.kind in "fiub" else array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"The table holds values that are not numbers: {error}.") from error
        if array.ndim != 2:
            hint = " For one row pass x[None, :]." if array.ndim == 1 else ""
            raise InputError(f"Expected a table (rows, columns), got an array of shape {array.shape}.{hint}")
        if 0 in array.shape:
            raise InputError(f"The table is empty: shape {array.shape}.")
        return array
    try:
        frame = nw.from_native(X, eager_only=True)
    except TypeError as error:
        raise InputError(
            f"Expected an array or a pandas, polars or pyarrow table, got {type(X).__name__}."
        ) from error
    if not isinstance(frame, nw.DataFrame):
        raise InputError(f"Expected a table, got {type(X).__name__}.")
    if len(frame) == 0 or len(frame.columns) == 0:
        raise InputError(f"The table is empty: {len(frame)} rows, {len(frame.columns)} columns.")
    return X


def _some(names: list[str]) -> str:
    """At most five names, so that an error stays one sentence."""
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown}, ... ({len(names)} in all)"
