"""What was selected for each row, and how it is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from l2x.errors import InputError
from l2x.foundations.arrays import Array, batches
from l2x.inputs import Rows, row_indices, take
from l2x.ranking import best

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from l2x.features.view import View


@dataclass(frozen=True, eq=False)
class Explanation:
    """The k features that decided each answer.

    Attributes
    ----------
    scores : (n, d) array
        How much each feature matters for each row, w_θ(x); larger is more important.
    k : int
        How many features are selected in each row.
    feature_names : list of d names
    inputs : the explained rows as they were given, if they are to be shown
    view : the fitted feature view that made them, for metrics that have to remove features
    unseen : per column, how many rows hold a category that the training rows did not have

    >>> e = Explanation(np.array([[0.1, 2.0, 1.0]]), k=2, feature_names=["a", "b", "c"])
    >>> e.indices.tolist(), e.names, e.mask.tolist()
    ([[1, 2]], [['b', 'c']], [[False, True, True]])
    """

    scores: Array
    k: int
    feature_names: Sequence[str]
    inputs: Any = field(default=None, repr=False)
    view: View | None = field(default=None, repr=False)
    unseen: Mapping[str, int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        d = self.scores.shape[1]
        if len(self.feature_names) != d:
            raise InputError(f"{len(self.feature_names)} names for scores of {d} features.")
        if not 1 <= self.k <= d:
            raise InputError(f"k = {self.k} but there are {d} features; choose k between 1 and {d}.")

    @cached_property
    def indices(self) -> Array:
        """(n, k) selected features, best first; ties go to the lower index."""
        return best(self.scores, self.k)

    @cached_property
    def mask(self) -> Array:
        """(n, d) booleans, exactly k of them True in each row; fewer where a text has fewer words."""
        mask = np.zeros(self.scores.shape, dtype=bool)
        np.put_along_axis(mask, self.indices, values=self.selected, axis=1)
        return mask

    @property
    def selected(self) -> Array:
        """(n, k): whether there is something at `indices`: what may not be selected has the score -inf."""
        found: Array = np.take_along_axis(self.scores, self.indices, axis=1) > -np.inf
        return found

    @property
    def names(self) -> list[list[str]]:
        """The k selected names of each row, best first; of a text, its words."""
        return [names[there].tolist() for names, there in zip(self._names, self.selected, strict=True)]

    def __len__(self) -> int:
        return len(self.scores)

    def __iter__(self) -> Iterator[Explanation]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, rows: Rows) -> Explanation:
        """The explanation of some rows: `explanation[3]`, `explanation[:10]`, `explanation[wrong]`.

        Inputs and `unseen` are those of these rows.
        """
        chosen = row_indices(rows, len(self))
        some = replace(self, scores=self.scores[chosen], inputs=self._take(chosen))
        return replace(some, unseen=some._count_unseen()) if self.unseen else some

    def to_frame(self) -> Any:
        """One row per input, columns feature_1 .. feature_k and score_1 .. score_k.

        The frame is of the library that the input came in (pandas for arrays), with its index.
        """
        names = self._names
        names[~self.selected] = None
        scores = np.take_along_axis(self.scores, self.indices, axis=1)
        scores = np.where(self.selected, scores, np.nan)
        columns: dict[str, Any] = {f"feature_{j + 1}": names[:, j].tolist() for j in range(self.k)}
        columns |= {f"score_{j + 1}": scores[:, j] for j in range(self.k)}
        backend: Any = getattr(nw.from_native(self.inputs, pass_through=True), "implementation", "pandas")
        frame = nw.from_dict(columns, backend=backend).to_native()
        # A list has a method of that name: only a frame's index is one. Texts keep it apart.
        given = self.inputs
        index = given.index if hasattr(given, "iloc") else getattr(given, "labels", None)
        return frame if index is None else frame.set_index(index)

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain Python, ready for JSON: per row the selected features with index, name and score."""
        return [
            {
                "features": [
                    {"index": int(i), "name": str(name), "score": float(row[i])}
                    for i, name in zip(picked, names, strict=False)  # what is not there comes last
                ]
            }
            for row, picked, names in zip(self.scores, self.indices, self.names, strict=True)
        ]

    def to_html(self, *, rows: int = 20) -> str:
        """A table of the first rows: selected features with their values, shaded by rank; or as the view
        shows its inputs, such as images with their selected patches."""
        from l2x.plots.tables import explanation_table

        shown = None if self.view is None else self.view.html_of(self, rows)
        return explanation_table(self, rows=rows) if shown is None else shown

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_shap(self) -> Any:
        """A `shap.Explanation` that shap's plots draw: shap.plots.bar, beeswarm, waterfall.

        Its values are how far a selected feature's score stands above the best that was not selected (above
        the lowest, where all are), and zero for the rest. They rank; they do not add up to the prediction as
        Shapley values do, and the base value is zero.
        """
        from l2x.interop import shap_explanation

        return shap_explanation(self)

    def plot(self, path: str | Path | None = None) -> Figure:
        """How often each feature was selected; for a single row, its scores; or as the view shows its inputs,
        such as images with their selected patches. Saved if a path is given."""
        from l2x.plots.bars import plot_explanation

        shown = None if self.view is None else self.view.figure_of(self, path)
        return plot_explanation(self, path=path) if shown is None else shown

    def _take(self, rows: slice | Array) -> Any:
        if self.inputs is None:
            return None
        return take(self.inputs, rows) if self.view is None else self.view.take(self.inputs, rows)

    def _count_unseen(self) -> Mapping[str, int]:
        """`unseen`, counted again from the inputs; as it was where there is nothing to count in."""
        if self.view is None or self.inputs is None:
            return self.unseen
        counts: Counter[str] = Counter()
        for rows in batches(len(self), self.view.rows_at_once):
            counts.update(self.view.unseen(self.view.encode(self.view.take(self.inputs, rows))))
        return counts

    @property
    def _names(self) -> Array:
        """(n, k) names, also of what is not there."""
        own = None
        if self.view is not None and self.inputs is not None:
            own = self.view.names_in(self.inputs, self.indices)
        return np.asarray(self.feature_names, dtype=object)[self.indices] if own is None else own


def values_of(explanation: Explanation, row: int) -> list[str]:
    """The row's d input values as short texts, not escaped; empty ones where there is no table of them."""
    inputs = explanation.inputs
    unknown = [""] * len(explanation.feature_names)
    if inputs is None:
        return unknown
    if isinstance(inputs, np.ndarray):
        cells = np.atleast_1d(inputs[row]).tolist()
    else:
        frame = nw.from_native(inputs, eager_only=True, pass_through=True)
        cells = list(frame.row(row)) if isinstance(frame, nw.DataFrame) else []
    # Features need not be cells: the patches of an image, the words of a text.
    return [_short(cell) for cell in cells] if len(cells) == len(unknown) else unknown


def _short(cell: Any) -> str:
    return f"{cell:.4g}" if isinstance(cell, float | np.floating) else str(cell)
