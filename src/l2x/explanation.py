"""The features selected for each row, and how they are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, get_args

import narwhals as nw
import numpy as np

from l2x._base.arrays import Array, Rows, batches, best, labels, row_indices, take
from l2x.errors import InputError, shown, some

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

    from l2x.features import View

Column = TypeVar("Column")

# Effects are differences of probabilities, of log-odds, or of predicted values.
Scale = Literal["probability", "log-odds", "value"]

# The attributes of an explanation that are arrays with an entry for each row, or None.
BY_ROW = ("scores", "sizes", "known_predictions", "explained", "chosen", "confirmed", "queries")


@dataclass(frozen=True, eq=False)
class Effects:
    """What the selected features of each row add to its prediction: base + Σ effects + rest = prediction.

    Everything is on one scale, for one class or predicted value of each row. Effects, `base`, `alone` and
    `without` are the surrogate's.

    Attributes
    ----------
    base : (n,) array
        The prediction from no feature at all.
    effects : (n, k) array
        The signed contribution of each selected feature, best first; zero for ranks that a row does not fill.
    rest : (n,) array
        What all other features add; it includes the surrogate's error.
    prediction : (n,) array
        The prediction from all features.
    alone : (n,) array
        The prediction from the selected features alone.
    without : (n,) array
        The prediction from all other features.
    errors : (n, k) array or None
        Standard errors of the effects; None if they are exact.
    outputs : (n,) array of int
        The explained class, or predicted value, of each row.
    scale : "probability", "log-odds" or "value"
    """

    base: Array
    effects: Array
    rest: Array
    prediction: Array
    alone: Array
    without: Array
    errors: Array | None
    outputs: Array
    scale: Scale

    def __getitem__(self, rows: slice | Array) -> Effects:
        """Return the effects of some rows."""
        taken: dict[str, Any] = {
            f.name: value if value is None or f.name == "scale" else value[rows]
            for f in fields(self)
            for value in [getattr(self, f.name)]
        }
        return Effects(**taken)


class Source(Protocol):
    """The part of an explainer that an explanation needs for predictions and effects."""

    @property
    def classes(self) -> Sequence[Any] | None:
        """The names of the classes; None for regression."""

    @property
    def has_model(self) -> bool:
        """Whether predictions are the model's own; otherwise they are the surrogate's."""

    @property
    def available(self) -> bool:
        """Whether effects can be computed."""

    def affordable(self) -> Source | None:
        """Return a source for what is shown by default, as by `print`; None if effects would be costly."""

    def predict(self, X: Any) -> Array:
        """Return predictions for checked inputs, (n, outputs)."""

    def effects(self, explanation: Explanation, outputs: Array, scale: Scale) -> Effects:
        """Return the effects of the selected features."""

    def values(self, X: Any, outputs: Array) -> Array:
        """Return signed values of all features of checked inputs, (n, d)."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """The k most important features of each row, and their effects on its prediction.

    Scores rank the features of a row; effects quantify how much each selected feature adds to the prediction.

    Attributes
    ----------
    scores : (n, d) array
        The importance of each feature in each row, w_θ(x); -inf for features that may not be selected.
    k : int
        Selected features per row.
    feature_names : sequence of str
        The names of the d features.
    inputs : array, tensor, list, data frame or None
        The explained rows, which figures and tables show; with a view, what `view.check` returns.
    view : View or None
        The fitted view of the inputs.
    unseen : mapping of str to int
        For each column, the number of rows with a category that did not occur in training.
    sizes : (n,) array or None
        How many of the k features each row keeps, as set by `explain(X, keep=...)`.
    source : Source or None
        The explainer, for predictions and effects; None for methods that have no surrogate.
    known_predictions : (n, outputs) array or None
        The model's predictions, if they were known when the rows were explained.
    explained : (n,) array of int or None
        The class, or predicted value, that effects refer to; None for the predicted class. See `for_class`.
    scale : "probability", "log-odds", "value" or None
        The scale of the effects; None for the probability, or for regression the predicted value.
    sequential : bool
        Whether features were selected one after the other, each by the values of those before it, as with
        `Explainer(..., selector="sequential")`. Such an explanation cannot leak the prediction.
    chosen : (n, k) array of int or None
        The selected features, best first, if they are not simply those with the k highest scores: polishing
        and refining choose among the features with high scores.
    confirmed : (n,) array of bool or None
        Whether the model predicts the same from the selected features alone; None if it was not queried for
        that: see `explain(X, verify=True)`.
    queries : (n,) array of int or None
        Masked rows that the model was queried for to confirm each row; None without such queries.

    Examples
    --------
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
    source: Source | None = None
    known_predictions: Array | None = None
    explained: Array | None = None
    scale: Scale | None = None
    sequential: bool = False
    chosen: Array | None = None
    confirmed: Array | None = None
    queries: Array | None = None

    def __post_init__(self) -> None:
        d = self.scores.shape[1]
        if len(self.feature_names) != d:
            raise InputError(f"{len(self.feature_names)} names for scores of {d} features.")
        if not 1 <= self.k <= d:
            raise InputError(f"k = {self.k} but there are {d} features; choose k between 1 and {d}.")

    @cached_property
    def indices(self) -> Array:
        """Selected features, best first, (n, k); ties go to the lower index."""
        if self.chosen is None:
            return best(self.scores, self.k)
        if self.k <= self.chosen.shape[1]:
            return self.chosen[:, : self.k]
        others = self.scores.copy()  # the best of the others follow
        np.put_along_axis(others, self.chosen, np.inf, axis=1)
        return np.concatenate([self.chosen, best(others, self.k)[:, self.chosen.shape[1] :]], axis=1)

    @cached_property
    def mask(self) -> Array:
        """Booleans (n, d), True for the selected features."""
        mask = np.zeros(self.scores.shape, dtype=bool)
        np.put_along_axis(mask, self.indices, values=self.selected, axis=1)
        return mask

    @cached_property
    def selected_scores(self) -> Array:
        """Scores of `indices`, (n, k); -inf if a row has fewer than k selectable features."""
        return np.take_along_axis(self.scores, self.indices, axis=1)

    @cached_property
    def selected(self) -> Array:
        """Booleans (n, k), False for ranks that a row does not fill."""
        selectable = np.asarray(self.selected_scores > -np.inf)
        return selectable if self.sizes is None else selectable & (np.arange(self.k) < self.sizes[:, None])

    @property
    def names(self) -> list[list[str]]:
        """Names of each row's selected features, best first; for texts, its words."""
        rows = zip(self._padded_names, self.selected, strict=True)
        return [names[selected].tolist() for names, selected in rows]

    @cached_property
    def predictions(self) -> Array:
        """Predictions (n, outputs): the model's if they are known or it is available, else the surrogate's.

        The model is queried at most once. `predicted_by` tells the two cases apart.
        """
        return self._source.predict(self.inputs) if self.known_predictions is None else self.known_predictions

    @property
    def predicted_by(self) -> Literal["model", "surrogate"]:
        """Whether `predictions` are the model's, or those of the surrogate."""
        return "model" if self.known_predictions is not None or self._source.has_model else "surrogate"

    @cached_property
    def contributions(self) -> Effects:
        """Effects with everything they add up to, from the surrogate and `predictions`, on first use."""
        source, scale = self._source, self.scale
        if scale is None:
            scale = "value" if source.classes is None else "probability"
        return source.effects(self, self._outputs(), scale)

    def _outputs(self) -> Array:
        """Return the explained class, or predicted value, of each row, (n,)."""
        if self.explained is not None:
            return self.explained
        single = self._source.classes is None or not len(self)
        return np.zeros(len(self), dtype=np.int64) if single else self.predictions.argmax(axis=1)

    @cached_property
    def values(self) -> Array:
        """Signed Shapley values of all features, (n, d), if the sampler is `l2x.samplers.Shapley()`.

        `base` + their sum is the surrogate's prediction from all features.
        """
        return self._source.values(self.inputs, self._outputs())

    @property
    def effects(self) -> Array:
        """Signed contribution of each selected feature to the prediction, best first, (n, k).

        They are Shapley values within the selected features: `base` + their sum + `rest` is the prediction.
        """
        return self.contributions.effects

    @property
    def base(self) -> Array:
        """The surrogate's prediction from no feature at all, (n,)."""
        return self.contributions.base

    @property
    def rest(self) -> Array:
        """What all unselected features add to the prediction, (n,); it includes the surrogate's error."""
        return self.contributions.rest

    def for_class(self, name: Any = None, *, scale: Scale | None = None) -> Explanation:
        """Return the same explanation with effects on another class or scale.

        Parameters
        ----------
        name : class or int, optional
            One of `source.classes`; for regression the position of a predicted value. By default the
            predicted class of each row.
        scale : "probability", "log-odds" or "value", optional
            By default the probability, or for regression the predicted value.
        """
        if scale not in (None, *get_args(Scale)):
            raise InputError(f"scale is {scale!r}; choose one of {', '.join(map(repr, get_args(Scale)))}.")
        explained = None if name is None else self._outputs_for(name)
        return replace(self, explained=explained, scale=scale, known_predictions=self._from_model())

    def _outputs_for(self, name: Any) -> Array:
        classes = self._source.classes
        known: Sequence[Any] = range(self.predictions.shape[1]) if classes is None else classes
        single = np.ndim(name) == 0
        matches = [i for i, c in enumerate(known) if single and c == name]
        matches += [i for i, c in enumerate(known) if single and str(c) == str(name)]
        if not matches:
            what = "predicted value" if classes is None else "class"
            raise InputError(
                f"There is no {what} {shown(name)}; choose one of {some([str(c) for c in known])}."
            )
        return np.full(len(self), matches[0])

    def _from_model(self) -> Array | None:
        """Return the model's predictions, so that parts and copies need not query it again; else None."""
        return self.predictions if self.predicted_by == "model" else None

    @property
    def _source(self) -> Source:
        if self.source is None or self.inputs is None:
            raise InputError(
                "Predictions and effects come from an explainer's surrogate, and this explanation has none; "
                "use l2x.Explainer(...).explain(X)."
            )
        return self.source

    def __len__(self) -> int:
        return len(self.scores)

    def __iter__(self) -> Iterator[Explanation]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, rows: Rows) -> Explanation:
        """Return the explanation of some rows: `explanation[3]`, `explanation[:10]`, `explanation[wrong]`.

        `unseen` is counted in these rows; without a view or inputs it stays the same.
        """
        chosen = row_indices(rows, len(self))
        known = self._from_model() if "predictions" in self.__dict__ else self.known_predictions
        arrays = {name: getattr(self, name) for name in BY_ROW} | {"known_predictions": known}
        taken: dict[str, Any] = {name: array[chosen] for name, array in arrays.items() if array is not None}
        part = replace(self, inputs=self._take(chosen), **taken)
        part = replace(part, unseen=part._count_unseen()) if self.unseen else part
        if "contributions" in self.__dict__:  # computed before: do not compute it again
            part.__dict__["contributions"] = self.contributions[chosen]
        return part

    def to_frame(self, *, effects: bool = False) -> Any:
        """Return a frame with one row per input and the columns feature_1 .. feature_k, score_1 .. score_k.

        The frame comes from the same library as the input (pandas for arrays) and has its index. If a row
        has fewer than k features, the last names are missing and the last scores are NaN. Explanations that
        were verified have a column confirmed.

        Parameters
        ----------
        effects : bool
            Also return effect_1 .. effect_k; base and rest, with which they add up to the prediction; the
            predictions from all features, from only the selected ones (alone) and from all others (without);
            the class that these refer to; and whether the model or the surrogate predicted it (predicted_by).
        """
        names = self._padded_names
        names[~self.selected] = None
        scores = np.where(self.selected, self.selected_scores, np.nan).T
        columns: dict[str, Any] = by_rank(names.T.tolist(), scores)
        if self.confirmed is not None:
            columns["confirmed"] = self.confirmed
        if effects:
            found = self.contributions
            shown = np.where(self.selected, found.effects, np.nan)
            columns |= {f"effect_{rank}": column for rank, column in enumerate(shown.T, 1)}
            columns |= self._row_facts()
        given = nw.from_native(self.inputs, pass_through=True)
        backend: Any = given.implementation if isinstance(given, nw.DataFrame) else "pandas"
        frame = nw.from_dict(columns, backend=backend).to_native()
        index = labels(self.inputs)
        return frame if index is None else frame.set_index(index)

    def to_dict(self, *, effects: bool = False) -> list[dict[str, Any]]:
        """Return plain Python objects, for JSON: per row the selected features with index, name and score.

        With `effects`, each feature has its effect, and each row the other columns of `to_frame`.
        """
        rows: list[dict[str, Any]] = [
            {
                "features": [
                    {"index": int(i), "name": str(name), "score": float(row[i])}
                    for i, name in zip(picked, names, strict=False)  # padding sorts last and has no name
                ]
            }
            for row, picked, names in zip(self.scores, self.indices, self.names, strict=True)
        ]
        if self.confirmed is not None:
            for row, confirmed in zip(rows, self.confirmed.tolist(), strict=True):
                row["confirmed"] = confirmed
        if effects:
            found = self.contributions
            for i, row in enumerate(rows):
                for feature, effect in zip(row["features"], found.effects[i], strict=False):
                    feature["effect"] = float(effect)
            for name, column in self._row_facts().items():
                for row, value in zip(rows, column, strict=True):
                    row[name] = float(value) if isinstance(value, np.floating) else value
        return rows

    def _row_facts(self) -> dict[str, Any]:
        """Return columns with what the effects of each row add up to, and refer to."""
        found, classes = self.contributions, self._source.classes
        facts: dict[str, Any] = {
            name: getattr(found, name) for name in ("base", "rest", "prediction", "alone", "without")
        }
        if classes is not None:
            facts["class"] = [str(classes[output]) for output in found.outputs]
        return facts | {"predicted_by": [self.predicted_by] * len(self)}

    def to_html(self, *, rows: int = 20) -> str:
        """Return the first `rows` as HTML: values shaded by rank, highlighted texts, or images."""
        from l2x.display import explanation_html

        return explanation_html(self, rows)

    def _repr_html_(self) -> str:
        return self.to_html()

    def __repr__(self) -> str:
        from l2x.display import explanation_text

        return explanation_text(self)

    def to_shap(self) -> Any:
        """Return a `shap.Explanation` for shap's plots: shap.plots.waterfall, beeswarm, bar, scatter, force.

        Values are the signed effects of the selected features, and zero for all others; a last entry, named
        "all other features", is `rest`. Base values are `base`, so that base and values add up to the
        prediction. Without effects, as for baselines, a value is how far the score of a selected feature
        stands above the best unselected one, and nothing adds up.
        """
        from l2x.display import shap_explanation

        return shap_explanation(self)

    def plot(self, path: str | Path | None = None) -> Figure:
        """Plot the explanation, and save it to `path` if given.

        A single row is drawn with its prediction and signed effects: a waterfall from the base to the
        prediction, a text with highlighted words, or an image with outlined patches. Several rows of a table
        or texts are drawn as selection frequencies, also by predicted class; images next to each other.
        Explanations without effects, as those of baselines, are drawn with scores.
        """
        from l2x.display import plot_explanation

        self._check_rows()
        return plot_explanation(self, path)

    def paths(self) -> list[str]:
        """Return the decision path of each row in words, such as "gain = 0, then education = 13".

        Each feature was selected by the values before it; for texts, the values are the words themselves.
        Raise an InputError unless the explanation is `sequential`.
        """
        from l2x.display import path_texts

        return path_texts(self)

    def tree(self, path: str | Path | None = None) -> Figure:
        """Plot the decision paths of all rows as a tree, and save it to `path` if given.

        Each node is a selected feature with the share of rows that reach it, and each branch the values that
        lead to the next one. Raise an InputError unless the explanation is `sequential`.
        """
        from l2x.display import plot_tree

        self._check_rows()
        return plot_tree(self, path)

    def beeswarm(self, path: str | Path | None = None) -> Figure:
        """Plot the effects of each feature, one dot per row that selects it, and save it to `path` if given.

        Effects refer to one class in all rows: that of `for_class`, or the second of two classes, or the
        class that is predicted most often. Colours show the values of the features. For texts there is one
        line of dots per word. At most 1,000 rows, or 200 texts, are drawn.
        """
        from l2x.display import plot_beeswarm

        self._check_rows()
        return plot_beeswarm(self, path)

    def dependence(self, feature: str | int, path: str | Path | None = None) -> Figure:
        """Plot the effect of one column of a table against its value, and save it to `path` if given.

        Parameters
        ----------
        feature : str or int
            The name or the position of the feature.
        path : str or Path, optional
            Where to save the figure: .svg, .png or .pdf.
        """
        from l2x.display import plot_dependence

        self._check_rows()
        return plot_dependence(self, feature, path)

    def _check_rows(self) -> None:
        if not len(self):
            raise InputError("There is nothing to plot: the explanation has no rows.")

    @property
    def _padded_names(self) -> Array:
        """Names of `indices`, (n, k), including padding."""
        own = own_names(self)
        return np.asarray(self.feature_names, dtype=object)[self.indices] if own is None else own

    def _take(self, rows: slice | Array) -> Any:
        if self.inputs is None:
            return None
        return take(self.inputs, rows) if self.view is None else self.view.take(self.inputs, rows)

    def _count_unseen(self) -> Mapping[str, int]:
        """Count `unseen` again in the inputs, if there are any."""
        if self.view is None or self.inputs is None:
            return self.unseen
        counts: Counter[str] = Counter()
        for rows in batches(len(self), self.view.rows_at_once):
            counts.update(self.view.unseen(self.view.encode(self.view.take(self.inputs, rows))))
        return counts


def own_names(explanation: Explanation) -> Array | None:
    """Return the names of the selected features in each row, (n, k), such as the words of a text.

    Padding is included. Return None if features have the same names in every row.
    """
    view, inputs = explanation.view, explanation.inputs
    return None if view is None or inputs is None else view.names_in(inputs, explanation.indices)


def by_rank(names: Iterable[Column], scores: Iterable[Column]) -> dict[str, Column]:
    """Return the columns of a table of results: feature_1 .. feature_k, best first, then score_1 .. score_k.

    >>> by_rank([["b", "a"]], [[2.0, 1.5]])
    {'feature_1': ['b', 'a'], 'score_1': [2.0, 1.5]}
    """
    columns = {f"feature_{rank}": column for rank, column in enumerate(names, 1)}
    return columns | {f"score_{rank}": column for rank, column in enumerate(scores, 1)}


def arrow_columns(explanation: Explanation, *, effects: bool = False) -> dict[str, pa.Array]:
    """Return the columns of `Explanation.to_frame` as Arrow arrays, without a Python object for every cell.

    Names are dictionary-encoded if all rows have the same features, and strings if each row has its own, such
    as words. Cells are null if a row has fewer than k selectable features.
    """
    import pyarrow as pa

    # (k, n): contiguous columns, which Arrow uses without a copy
    scores = explanation.selected_scores.T.copy()
    masks = [None] * explanation.k if explanation.selected.all() else ~explanation.selected.T.copy()
    own = own_names(explanation)
    if own is None:
        every = pa.array([str(name) for name in explanation.feature_names])
        codes = explanation.indices.T.astype(np.int32, order="C")
        names = [pa.DictionaryArray.from_arrays(codes[j], every, mask=masks[j]) for j in range(explanation.k)]
    else:
        names = [pa.array(own[:, j], pa.string(), mask=masks[j]) for j in range(explanation.k)]
    columns = by_rank(names, [pa.array(scores[j], mask=masks[j]) for j in range(explanation.k)])
    if explanation.confirmed is not None:
        columns["confirmed"] = pa.array(explanation.confirmed)
    if effects:
        found = explanation.contributions.effects.T.copy()
        columns |= {f"effect_{j + 1}": pa.array(found[j], mask=masks[j]) for j in range(explanation.k)}
        columns |= {
            name: pa.array(column) if isinstance(column, np.ndarray) else pa.array(column).dictionary_encode()
            for name, column in explanation._row_facts().items()
        }
    return columns
