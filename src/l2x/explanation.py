"""What was selected for each row, and how it is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import narwhals as nw
import numpy as np

from l2x._base.arrays import Array, Rows, batches, labels, row_indices, take
from l2x._base.ranking import best
from l2x.errors import InputError
from l2x.features import unseen

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from l2x.features import View

Column = TypeVar("Column")


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
    inputs : the explained rows, if they are to be shown
        An array, tensor, list or data frame; with a view, what `view.check` returns.
    view : the fitted view that says what the features of the inputs are, if there is one
    unseen : {column: how many rows hold a category that the training rows did not have}
    sizes : (n,) how many of the k features each row keeps, where `explain(X, keep=...)` said so; else None

    >>> e = Explanation(np.array([[0.1, 2.0, 1.0]]), k=2, feature_names=["a", "b", "c"])
    >>> e.indices.tolist(), e.names, e.mask.tolist()
    ([[1, 2]], [['b', 'c']], [[False, True, True]])
    >>> e
    Explanation of 1 row, 2 of 3 features
      0  b; c
    """

    scores: Array
    k: int
    feature_names: Sequence[str]
    inputs: Any = None
    view: View | None = None
    unseen: Mapping[str, int] = field(default_factory=dict)
    sizes: Array | None = None

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
        """(n, d) booleans, k of them True in each row; fewer where a row keeps fewer (`selected`)."""
        mask = np.zeros(self.scores.shape, dtype=bool)
        np.put_along_axis(mask, self.indices, values=self.selected, axis=1)
        return mask

    @cached_property
    def selected_scores(self) -> Array:
        """(n, k) scores of `indices`; -inf where a row has fewer than k selectable features."""
        return np.take_along_axis(self.scores, self.indices, axis=1)

    @cached_property
    def selected(self) -> Array:
        """(n, k): False where a row has fewer than k selectable features (score -inf), or keeps fewer."""
        selectable = np.asarray(self.selected_scores > -np.inf)
        return selectable if self.sizes is None else selectable & (np.arange(self.k) < self.sizes[:, None])

    @property
    def names(self) -> list[list[str]]:
        """The names of each row's selected features, best first; for texts, its words."""
        rows = zip(self._padded_names, self.selected, strict=True)
        return [names[selected].tolist() for names, selected in rows]

    def __len__(self) -> int:
        return len(self.scores)

    def __iter__(self) -> Iterator[Explanation]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, rows: Rows) -> Explanation:
        """The explanation of some rows: `explanation[3]`, `explanation[:10]`, `explanation[wrong]`.

        Inputs are those of these rows, and `unseen` is counted in them; without a view or inputs to count in,
        it stays that of the whole.
        """
        chosen = row_indices(rows, len(self))
        sizes = None if self.sizes is None else self.sizes[chosen]
        part = replace(self, scores=self.scores[chosen], inputs=self._take(chosen), sizes=sizes)
        return replace(part, unseen=part._count_unseen()) if self.unseen else part

    def to_frame(self) -> Any:
        """One row per input, columns feature_1 .. feature_k and score_1 .. score_k.

        The frame is of the library that the input came in (pandas for arrays), with its index. Where a row
        has fewer than k selectable features, the last names are missing and the last scores NaN.
        """
        names = self._padded_names
        names[~self.selected] = None
        scores = np.where(self.selected, self.selected_scores, np.nan).T
        columns: dict[str, Any] = by_rank(names.T.tolist(), scores)
        given = nw.from_native(self.inputs, pass_through=True)
        backend: Any = given.implementation if isinstance(given, nw.DataFrame) else "pandas"
        frame = nw.from_dict(columns, backend=backend).to_native()
        index = labels(self.inputs)
        return frame if index is None else frame.set_index(index)

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain Python, ready for JSON: per row the selected features with index, name and score."""
        return [
            {
                "features": [
                    {"index": int(i), "name": str(name), "score": float(row[i])}
                    for i, name in zip(picked, names, strict=False)  # padding sorts last and has no name
                ]
            }
            for row, picked, names in zip(self.scores, self.indices, self.names, strict=True)
        ]

    def to_html(self, *, rows: int = 20) -> str:
        """A table of the first rows: selected features with their values, shaded by rank; or as inputs of
        this kind are shown, such as images with their selected patches."""
        from l2x.display import html_of

        return html_of(self._shown, self, rows)

    def _repr_html_(self) -> str:
        return self.to_html()

    def __repr__(self) -> str:
        from l2x.display import explanation_text

        return explanation_text(self)

    def to_shap(self) -> Any:
        """A `shap.Explanation` that shap's plots draw: shap.plots.bar, beeswarm, waterfall.

        Its values are how far a selected feature's score stands above the best that was not selected (above
        the lowest, where all are), and zero for the rest. They rank; they do not add up to the prediction as
        Shapley values do, and the base value is zero.
        """
        from l2x.display import shap_explanation

        return shap_explanation(self)

    def plot(self, path: str | Path | None = None) -> Figure:
        """How often each feature was selected; for a single row, its scores; or as inputs of this kind are
        drawn, such as images with their selected patches. Saved if a path is given."""
        from l2x.display import picture_of

        self._check_rows()
        return picture_of(self._shown, self, path)

    def summary_plot(self, path: str | Path | None = None) -> Figure:
        """Many rows at a glance: when is each feature selected, and at which of its values? For texts, which
        words are selected most often. Saved if a path is given."""
        from l2x.display import plot_summary

        self._check_rows()
        return plot_summary(self, path)

    def _check_rows(self) -> None:
        if not len(self):
            raise InputError("There is nothing to draw: the explanation has no rows.")

    @property
    def _padded_names(self) -> Array:
        """(n, k) names, including padding."""
        own = own_names(self)
        return np.asarray(self.feature_names, dtype=object)[self.indices] if own is None else own

    @property
    def _shown(self) -> View | None:
        """What the pictures are chosen by: the view, if there are inputs to show."""
        return None if self.inputs is None else self.view

    def _take(self, rows: slice | Array) -> Any:
        if self.inputs is None:
            return None
        return take(self.inputs, rows) if self.view is None else self.view.take(self.inputs, rows)

    def _count_unseen(self) -> Mapping[str, int]:
        """`unseen`, counted again in the inputs; as it is where there is nothing to count in."""
        if self.view is None or self.inputs is None:
            return self.unseen
        counts: Counter[str] = Counter()
        for rows in batches(len(self), self.view.rows_at_once):
            counts.update(unseen(self.view, self.view.encode(self.view.take(self.inputs, rows))))
        return counts


def own_names(explanation: Explanation) -> Array | None:
    """(n, k) names of the selected features in each row, including padding, such as the words of a text; None
    where features have the same names in every row."""
    view, inputs = explanation.view, explanation.inputs
    return None if view is None or inputs is None else view.names_in(inputs, explanation.indices)


def by_rank(names: Iterable[Column], scores: Iterable[Column]) -> dict[str, Column]:
    """The columns of every table of results: feature_1 .. feature_k, best first, then score_1 .. score_k.

    >>> by_rank([["b", "a"]], [[2.0, 1.5]])
    {'feature_1': ['b', 'a'], 'score_1': [2.0, 1.5]}
    """
    columns = {f"feature_{rank}": column for rank, column in enumerate(names, 1)}
    return columns | {f"score_{rank}": column for rank, column in enumerate(scores, 1)}
