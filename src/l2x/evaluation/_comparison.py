"""`compare`: methods side by side on the same rows: their post-hoc accuracy and their cost."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from l2x._base.arrays import Array
from l2x.baselines import METHODS, make_method
from l2x.errors import InputError
from l2x.evaluation._boosted import BoostedEvaluator
from l2x.evaluation._evidence import attach_model
from l2x.explainer import Explainer
from l2x.explanation import Explanation
from l2x.features import View, checked_k, fitted_view, selectable_units
from l2x.learning import (
    Bootstrap,
    Estimate,
    FittedSurrogate,
    TrainingPlan,
    agreement,
    checked_seed,
    masked_predictions,
    removal_test,
)
from l2x.learning.samplers import Shapley
from l2x.model import as_black_box, query

if TYPE_CHECKING:
    from matplotlib.figure import Figure


OURS = "l2x"
# Explainers that can be called by name, with the options that distinguish them.
EXPLAINERS: dict[str, dict[str, Any]] = {
    OURS: {},
    "fastshap": {"sampler": Shapley(), "objective": "surrogate"},
    "sequential": {"selector": "sequential"},
}
# The same explainer as OURS, fitted once for all of them, with other options of `explain`.
VARIANTS: dict[str, dict[str, Any]] = {"learned": {"polish": False}, "refined": {"refine": 30}}
# Methods that can be called by name; the others need a surrogate.
NAMES = [
    *EXPLAINERS,
    *VARIANTS,
    *(name for name, method in METHODS.items() if "surrogate" not in method.options()),
]
FEWEST_ROWS = 20


@dataclass(frozen=True)
class Compared:
    """What was measured about one method."""

    method: str
    posthoc_accuracy: Estimate  # or R², for regression
    random: float  # the same with as many random features
    removal: float  # the same with exactly the selected features masked
    evaluator: float  # the same measured by an independent evaluator; NaN without one
    fit_seconds: float
    seconds_per_row: float  # to explain


@dataclass(frozen=True, eq=False)
class Comparison:
    """Compared methods, the most faithful first; print it, or call `to_frame()` or `plot()`.

    Attributes
    ----------
    methods : list of Compared
        The measurements, one element per method.
    k, features, rows : int
        Numbers of selected features, of all features and of explained rows.
    measure : str
        "post-hoc accuracy" or "post-hoc R²".
    explanations : mapping of str to Explanation
        Each method's explanations of these rows.

    Examples
    --------
    >>> from l2x.datasets import synthetic
    >>> data = synthetic("xor", 100, seed=0)
    >>> comparison = compare(data.model, data.X, ["search", "random"], k=2, rows=20)
    >>> comparison.rows, comparison.measure, sorted(comparison.explanations)
    (20, 'post-hoc accuracy', ['random', 'search'])
    """

    methods: list[Compared]
    k: int
    features: int
    rows: int
    measure: str
    explanations: Mapping[str, Explanation]

    def to_frame(self) -> Any:
        """Return a pandas frame with one row per method; without an evaluator it has no such column."""
        import pandas as pd

        rows = [
            asdict(line) | asdict(line.posthoc_accuracy) | {"posthoc_accuracy": line.posthoc_accuracy.value}
            for line in self.methods
        ]
        columns = ["posthoc_accuracy", "low", "high", "random", "removal", "evaluator", "fit_seconds",
                   "seconds_per_row"]  # fmt: skip
        return pd.DataFrame(rows).set_index("method")[columns].dropna(axis="columns", how="all")

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw each method's post-hoc accuracy and its cost, and save the figure if a path is given."""
        from l2x.display import plot_comparison

        return plot_comparison(self, path)

    def __repr__(self) -> str:
        return f"{self._heading}\n{self.to_frame().to_string(float_format=_short)}"

    def _repr_html_(self) -> str:
        return f"<p>{self._heading}</p>{self.to_frame().to_html(float_format=_short)}"

    @property
    def _heading(self) -> str:
        return (
            f"{self.measure} with {self.k} of {self.features} features, on {self.rows:,} rows "
            "(low, high: 95 % interval)"
        )


def compare(
    model: Any,
    X: Any,
    methods: Iterable[Any] = (OURS, "random"),
    k: int = 5,
    *,
    features: View | None = None,
    rows: int = 200,
    evaluator: FittedSurrogate | BoostedEvaluator | None = None,
    training: TrainingPlan | None = None,
    seed: int = 0,
) -> Comparison:
    """Compare methods on your own data: their post-hoc accuracy and their cost.

    A random half of X is for learning: explainers are fitted on it, and LIME and Kernel SHAP use it as
    background. Every method then explains the same rows of the other half.

    Parameters
    ----------
    model : object
        The model being explained, in any form that `as_black_box` takes.
    X : rows
        At least 20 rows, as the view takes them.
    methods : list
        Names ("l2x", "learned" for the same without polishing, "refined" for the same with up to 30 queries
        per row, "fastshap" for Shapley values in one forward pass, "sequential" for explanations that cannot
        leak, and the keys of `l2x.baselines.METHODS` that need no surrogate, such as "lime" or
        "random"), explainers (fitted here if necessary), other objects with explain(X, k), or pairs (label,
        any of these).
    k : int
        Number of features to select.
    features : View, optional
        What one feature is; default `Columns()`.
    rows : int
        Explain at most this many rows; Kernel SHAP takes seconds for each.
    evaluator : FittedSurrogate or BoostedEvaluator, optional
        A `fit_evaluator` or `fit_boosted_evaluator` on rows that are not in X; adds a column.
    training : TrainingPlan, optional
        Training plan of explainers that are named, by default the view's.
    seed : int
        Seed of the split, of methods that learn, and of methods that draw samples.

    Returns
    -------
    Comparison
        A table, a figure, and every method's explanations.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 5))
    >>> def model(X):
    ...     p = 1 / (1 + np.exp(-4 * X[:, 1]))
    ...     return np.stack([1 - p, p], axis=1)
    >>> comparison = compare(model, X, ["l2x", "search", "random"], k=1, training=TrainingPlan.quick())
    >>> comparison.explanations["l2x"].names[0], comparison.to_frame().loc["l2x", "posthoc_accuracy"] > 0.9
    (['x1'], np.True_)
    """
    contenders, seed = _labelled(methods), checked_seed(seed)
    view, train, test = _halves(X, features, rows, seed)
    black_box, k = as_black_box(model), checked_k(view, k)
    predictions = query(black_box, view, test)
    boot, classes = Bootstrap(len(predictions), seed=seed), black_box.task != "regression"
    options = {
        "model": model, "k": k, "features": view, "background": train, "training": training, "seed": seed,
    }  # fmt: skip

    def measure(guesses: Array) -> Estimate:
        return agreement(guesses, predictions, boot, classes=classes)

    lines: list[Compared] = []
    explanations: dict[str, Any] = dict.fromkeys(contenders)
    fits: dict[str, tuple[Explainer, float]] = {}
    # Methods that need training come last: errors in the others then show before the long wait.
    for label in sorted(contenders, key=lambda label: _needs_fit(contenders[label])):
        contender = contenders[label]
        method, fit_seconds = _fitted(contender, k, options, fits)
        started = time.perf_counter()
        how = VARIANTS.get(contender, {}) if isinstance(contender, str) else {}
        explanation = explanations[label] = method.explain(test, k, **how)
        explained = time.perf_counter()
        masks = removal_test(explanation.mask, selectable_units(view, test), seed=seed)
        measured = masks.map(partial(masked_predictions, black_box, view, test)).map(measure)
        line = Compared(
            method=label,
            posthoc_accuracy=measured.selected,
            random=measured.random[0].value,
            removal=measured.removal.value,
            evaluator=float("nan"),
            fit_seconds=fit_seconds,
            seconds_per_row=(explained - started) / len(predictions),
        )
        if evaluator is not None:
            line = replace(line, evaluator=measure(evaluator.predict(test, explanation.mask)).value)
        lines.append(line)
    return Comparison(
        methods=sorted(lines, key=lambda line: -line.posthoc_accuracy.value),
        k=k,
        features=view.d,
        rows=len(predictions),
        measure="post-hoc accuracy" if classes else "post-hoc R²",
        explanations=explanations,
    )


def _halves(X: Any, features: View | None, rows: int, seed: int) -> tuple[View, Any, Any]:
    """Split X into random halves; return a view fitted on the first, the first, and rows of the second."""
    n = len(X)
    if n < FEWEST_ROWS:
        raise InputError(f"X has {n} rows; compare needs at least {FEWEST_ROWS}, half of them to learn.")
    if rows < 1:
        raise InputError(f"rows is {rows}; at least one row has to be explained.")
    order = np.random.default_rng(seed).permutation(n)
    whole = fitted_view(features, X)  # only to take rows: methods see a view fitted on the first half alone
    checked = whole.check(X)
    train, test = whole.take(checked, order[: n // 2]), whole.take(checked, order[n // 2 :][:rows])
    view = fitted_view(features, train)
    return view, train, view.check(test)


def _fitted(
    method: Any, k: int, options: dict[str, Any], fits: dict[str, tuple[Explainer, float]]
) -> tuple[Any, float]:
    """Return the method, made with those of the options that it takes and fitted if needed, and the seconds.

    `fits` holds the explainers that were fitted by name, because variants share one.
    """
    train, started = options["background"], time.perf_counter()
    if isinstance(method, str) and method in (*EXPLAINERS, *VARIANTS):
        name = OURS if method in VARIANTS else method
        if name not in fits:
            # A fitted view is fitted once more, on the same rows.
            own = {option: options[option] for option in ("features", "training", "seed")}
            explainer = Explainer(options["model"], k, **own, **EXPLAINERS[name]).fit(train)
            fits[name] = explainer, time.perf_counter() - started
        return fits[name]
    if isinstance(method, Explainer):
        method = attach_model(method, options["model"])
        method = method if hasattr(method, "selector_") else method.fit(train)
    elif isinstance(method, str):
        method = make_method(method, **options, progress=False)
        method = method.fit(train) if method.needs_training else method
    return method, time.perf_counter() - started


def _labelled(methods: Iterable[Any]) -> dict[str, Any]:
    """Return {label: method}; names label themselves, objects are labelled by their own names."""
    if isinstance(methods, str):
        raise InputError(f"methods is the text {methods!r}; pass a list, [{methods!r}].")
    by_label: dict[str, Any] = {}
    for given in methods:
        label, method = given if isinstance(given, tuple) else (None, given)
        if isinstance(method, str):
            label = label or method
            if method not in NAMES:
                raise InputError(f"There is no method {method!r}; choose among {', '.join(NAMES)}.")
        elif not hasattr(method, "explain"):
            raise InputError(f"A {type(method).__name__} has no explain(X, k); pass a method, or its name.")
        label = label or getattr(method, "name", OURS)
        if label in by_label:
            raise InputError(f"Two methods are called {label}; pass pairs (label, method).")
        by_label[label] = method
    if not by_label:
        raise InputError("There is nothing to compare: pass at least one method.")
    return by_label


def _needs_fit(method: Any) -> bool:
    """Return whether an explainer has to be trained first."""
    if isinstance(method, str):
        return method in (*EXPLAINERS, *VARIANTS)
    return isinstance(method, Explainer) and not hasattr(method, "selector_")


def _short(number: float) -> str:
    """Return a number with three significant digits, for shares and for microseconds."""
    return f"{number:.3f}" if 0.001 <= abs(number) < 1000 or number == 0 else f"{number:.2g}"
