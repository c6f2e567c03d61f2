"""`compare`: methods side by side on one's own data: what they keep of the model's answers, what they cost.

Half of the rows are learned from, the same few of the other half are explained by every method.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from l2x._base.arrays import Array
from l2x.baselines import METHODS, Method
from l2x.errors import InputError, some
from l2x.evaluation._evidence import knowing
from l2x.explainer import Explainer
from l2x.explanation import Explanation
from l2x.features import View, checked_k, fitted_view, selectable_units
from l2x.learning import (
    Bootstrap,
    Estimate,
    FittedQ,
    TrainingPlan,
    agreement,
    checked_seed,
    masked_answers,
    removal_test,
)
from l2x.model import BlackBox, as_black_box, query

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LEARNED = "l2x"
# Methods that can be called by name: all but those that need to be told what a subset is worth.
BY_NAME = {
    name.lower().replace(" ", "_"): method
    for name, method in METHODS.items()
    if "value" not in {field.name for field in fields(method)}
}
FEWEST_ROWS = 20


@dataclass(frozen=True)
class Compared:
    """What was measured of one method.

    kept : the share of answers that the model keeps from the selection alone, or R²; with its interval
    random : the same for as many random features; complement : with exactly the selected features masked
    judge : the share that an independent judge guesses from the selection; NaN without a judge
    fit_seconds : to learn, before the first row; seconds_per_row : to explain
    """

    method: str
    kept: Estimate
    random: float
    complement: float
    judge: float
    fit_seconds: float
    seconds_per_row: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods side by side, the one that keeps most first: print it, `to_frame()`, `plot()`.

    Attributes
    ----------
    methods : a `Compared` each
    k, features : how many features were selected, of how many
    rows : how many rows were explained by each method
    measure : what `kept` is, "share of answers kept" or "R²"
    explanations : {method: its `Explanation` of these rows}
    """

    methods: list[Compared]
    k: int
    features: int
    rows: int
    measure: str
    explanations: Mapping[str, Explanation]

    def to_frame(self) -> Any:
        """A pandas frame, one line for each method; no column `judge` without a judge."""
        import pandas as pd

        lines = [asdict(line) | {"kept": line.kept.value, "low": line.kept.low, "high": line.kept.high}
                 for line in self.methods]  # fmt: skip
        columns = ["kept", "low", "high", "random", "complement", "judge", "fit_seconds", "seconds_per_row"]
        frame = pd.DataFrame(lines).set_index("method")[columns]
        return frame.dropna(axis="columns", how="all")

    def plot(self, path: str | Path | None = None) -> Figure:
        """What each method keeps, with its interval, beside what it costs. Saved if a path is given."""
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
    methods: Iterable[Any] = (LEARNED, "random"),
    k: int = 5,
    *,
    features: View | None = None,
    rows: int = 200,
    judge: FittedQ | None = None,
    training: TrainingPlan | None = None,
    seed: int = 0,
) -> Comparison:
    """Methods side by side on your own data, in one call: what they keep of the model's answers, and when.

    Half of X, drawn at random, is for learning: explainers are fitted on it, and LIME and Kernel SHAP draw
    from it. Every method then explains the same rows of the other half.

    Parameters
    ----------
    model : the model that is explained, anything that `as_black_box` takes
    X : rows, as the view takes them
    methods : names ("l2x", "lime", "kernel_shap", "tree_shap", "saliency", "taylor", "deeplift", "lrp",
        "parzen", "greedy_search", "random_k"), an `Explainer` (fitted here if it is not yet), anything with
        explain(X, k), or pairs (label, any of these); "random" is short for "random_k"
    k : how many features are selected
    features : what one feature is; default `Columns()`
    rows : at most this many rows are explained; Kernel SHAP takes seconds for each
    judge : a fitted `l2x.evaluation.fit_judge`, of rows that are not in X: adds the share that it guesses
    training : how "l2x" is trained, by default as the view has it
    seed : of the split, of "l2x", of what is drawn

    Returns
    -------
    A `Comparison`: a table, a picture, and every method's explanations.

    Raises
    ------
    InputError
        If there are too few rows, no method, a name that is not known, or a method without explain(X, k).

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 5))
    >>> def model(X):
    ...     p = 1 / (1 + np.exp(-4 * X[:, 1]))
    ...     return np.stack([1 - p, p], axis=1)
    >>> found = compare(model, X, ["l2x", "greedy_search", "random"], k=1, training=TrainingPlan.quick())
    >>> found.explanations["l2x"].names[0], found.to_frame().loc["l2x", "kept"] > 0.9
    (['x1'], np.True_)
    """
    bench = Bench.prepare(as_black_box(model), model, X, features, k, rows, seed)
    contenders = list(labelled(methods))
    if not contenders:
        raise InputError("There is nothing to compare: name at least one method.")
    names = [label for label, _ in contenders]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"Two methods are called {some(twice)}; pass pairs (label, method).")
    measured: list[Compared] = []
    explanations: dict[str, Any] = dict.fromkeys(names)
    # What has to learn comes last: whatever is wrong with the others shows before the long wait.
    for label, contender in sorted(contenders, key=lambda contender: learns(contender[1])):
        line, explanations[label] = bench.measure(label, contender, judge, training)
        measured.append(line)
    return Comparison(
        methods=sorted(measured, key=lambda line: -line.kept.value),
        k=bench.k,
        features=bench.view.d,
        rows=len(bench.answers),
        measure="share of answers kept" if bench.classes else "R²",
        explanations=explanations,
    )


@dataclass(frozen=True)
class Bench:
    """What all methods share: the rows to learn from and those to explain, the view, the model's answers."""

    black_box: BlackBox
    model: Any  # as it was given: gradient methods look inside
    view: View
    learn: Any
    X: Any
    answers: Array
    k: int
    seed: int

    @classmethod
    def prepare(
        cls, black_box: BlackBox, model: Any, X: Any, features: View | None, k: int, rows: int, seed: int
    ) -> Self:
        n = len(X)
        if n < FEWEST_ROWS:
            raise InputError(f"X has {n} rows; half of them are learned from: bring {FEWEST_ROWS} at least.")
        if rows < 1:
            raise InputError(f"rows is {rows}; at least one has to be explained.")
        seed = checked_seed(seed)
        order = np.random.default_rng(seed).permutation(n)
        whole = fitted_view(features, X)  # only to take rows: what methods see is fitted on `learn` alone
        checked = whole.check(X)
        learn, test = whole.take(checked, order[: n // 2]), whole.take(checked, order[n // 2 :][:rows])
        view = fitted_view(features, learn)
        test = view.check(test)
        answers = query(black_box, view, test)
        return cls(black_box, model, view, learn, test, answers, checked_k(view, k), seed)

    @property
    def classes(self) -> bool:
        return self.black_box.task != "regression"

    def measure(
        self, label: str, contender: Any, judge: FittedQ | None, training: TrainingPlan | None
    ) -> tuple[Compared, Explanation]:
        """Let a method learn and explain, each timed, and ask the model about what it selected."""
        started = time.perf_counter()
        method = self._ready(contender, training)
        learned = time.perf_counter()
        explanation = method.explain(self.X, self.k)
        explained = time.perf_counter()
        mask = explanation.mask
        masks = removal_test(mask, selectable_units(self.view, self.X), seed=self.seed)
        kept = masks.map(partial(masked_answers, self.black_box, self.view, self.X)).map(self._agreement)
        line = Compared(
            method=label,
            kept=kept.selection,
            random=kept.random[0].value,
            complement=kept.complement.value,
            judge=float("nan") if judge is None else self._agreement(judge.predict(self.X, mask)).value,
            fit_seconds=learned - started,
            seconds_per_row=(explained - learned) / len(self.answers),
        )
        return line, explanation

    def _agreement(self, guesses: Array) -> Estimate:
        bootstrap = Bootstrap(len(self.answers), seed=self.seed)
        return agreement(guesses, self.answers, bootstrap, classes=self.classes)

    def _ready(self, contender: Any, training: TrainingPlan | None) -> Any:
        """The method after learning, if there is anything to learn."""
        if contender == LEARNED:
            contender = Explainer(
                self.model, self.k, features=self.view, training=training, seed=self.seed
            )  # a fitted view is fitted once more, on the same rows
        if isinstance(contender, Explainer):
            contender = knowing(contender, self.model)
            return contender if hasattr(contender, "selector_") else contender.fit(self.learn)
        return self._by_name(contender) if isinstance(contender, str) else contender

    def _by_name(self, name: str) -> Method:
        kind = BY_NAME[name]
        shared = {"model": self.model, "features": self.view, "background": self.learn,
                  "seed": self.seed, "progress": False}  # fmt: skip
        method = kind(**{field.name: shared[field.name] for field in fields(kind) if field.name in shared})
        return method.fit(self.learn) if kind.needs_training else method


def labelled(methods: Iterable[Any]) -> Iterable[tuple[str, Any]]:
    """(label, method) of each: names as they are written, objects by their own names."""
    if isinstance(methods, str):
        raise InputError(f"methods is the text {methods!r}; pass a list, [{methods!r}].")
    for given in methods:
        label, method = given if isinstance(given, tuple) else (None, given)
        if isinstance(method, str):
            known = known_name(method)
            yield label or method, known
        elif hasattr(method, "explain"):
            yield label or getattr(method, "name", LEARNED), method
        else:
            raise InputError(f"A {type(method).__name__} has no explain(X, k); pass a method, or its name.")


def learns(method: Any) -> bool:
    """Whether it has to be trained before it can explain."""
    return method == LEARNED or (isinstance(method, Explainer) and not hasattr(method, "selector_"))


def known_name(name: str) -> str:
    """A method's name as it is kept here, however it was written.

    >>> known_name("Kernel SHAP"), known_name("random"), known_name("TreeSHAP")
    ('kernel_shap', 'random_k', 'treeshap')
    """
    plain = name.lower().replace(" ", "_").replace("-", "_")
    plain = {"random": "random_k", "tree_shap": "treeshap", "deep_lift": "deeplift"}.get(plain, plain)
    if plain != LEARNED and plain not in BY_NAME:
        raise InputError(f"There is no method {name!r}; choose among {', '.join([LEARNED, *BY_NAME])}.")
    return plain


def _short(number: float) -> str:
    """Three digits that count, for shares and for microseconds."""
    return f"{number:.3f}" if 0.001 <= abs(number) < 1000 or number == 0 else f"{number:.2g}"
