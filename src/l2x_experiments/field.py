"""The field in one run: every method that a reader asks for, on every kind of input, under one protocol.

tasks     switch (both formulas, a trained network), a nested gate (the true model), Adult, digits (3 and 8;
          all ten), ten words and one sentence of a review
protocol  the same model, inputs, k, masking and stop words for all; methods that query the model hundreds of
          times for each input explain the first `few` test inputs, and every method is reported on these as
          well; nothing is chosen on test inputs
records   one for each task, method and seed; a method that cannot explain a model has the reason instead
Quantus   metrics that we did not write, for the first seed, on a network for a table and one for digits
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from importlib import import_module
from os import getloadavg
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone
from torch import Tensor, nn

import l2x
from l2x import baselines
from l2x._base.arrays import Array
from l2x.baselines import GlobalTopK
from l2x.datasets import Variant, glove, imdb, synthetic
from l2x.datasets import adult as census_rows
from l2x.datasets import mnist as digit_images
from l2x.display import ACCENT, MUTED, SECOND, THIRD
from l2x.errors import InputError, L2XError
from l2x.evaluation import BoostedEvaluator, exact_sets, fit_boosted_evaluator, fit_evaluator
from l2x.explanation import Explanation
from l2x.features import Columns, View, selectable_units
from l2x.learning import COUNTED_ROWS, masked_predictions
from l2x.model import as_black_box, query
from l2x_experiments import adult, mnist
from l2x_experiments import imdb as reviews
from l2x_experiments import synthetic as sets
from l2x_experiments.comparison import Comparison, ranked
from l2x_experiments.methods import METHODS as TABULATED
from l2x_experiments.methods import Budget, Fit, Method, Setting, baseline, ours, report_record
from l2x_experiments.plots import panels
from l2x_experiments.records import NOTHING, Record, Records, measured_here, timed
from l2x_experiments.report import Cell, Report, Table, mean_sd, measured_on
from l2x_experiments.runner import Experiment, Job, only_methods

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Offset of the seeds of rows for evaluators, as in leakage.py.
EVALUATOR_SEED = 3_000_000
# Background rows of Kernel SHAP and shapiq on tables, by queries per row.
BACKGROUND = {100: 5, 1000: 10}
REFINED = 30
# A limit of 100 queries, with those for the predicted class and the background.
CHEAP = 110
# ERASER (DeYoung et al. 2020) averages over these shares of the features.
SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
# Noise of the stability test: this share of a column's spread, or of the range of brightness.
NOISE = 0.01


@dataclass(frozen=True, kw_only=True)
class FieldBudget:
    """The budgets of the experiments whose set-ups are used here, and numbers of inputs.

    Attributes
    ----------
    sets, census, digits, reviews : Budget
        For switch, Adult, digits and reviews.
    gate_rows : int
        Training rows of the nested gate.
    few : mapping
        By kind of input, how many test inputs slow methods explain.
    reported : mapping
        By kind of input, training and test inputs for the leakage test.
    quantus : tuple of int
        Inputs for Quantus, random subsets for its correlation, and noisy copies for its sensitivity.
    """

    sets: sets.SyntheticBudget
    census: Budget
    digits: Budget
    reviews: Budget
    gate_rows: int = 100_000
    few: Mapping[str, int]
    reported: Mapping[str, tuple[int, int]]
    quantus: tuple[int, int, int] = (24, 50, 4)


FULL = FieldBudget(
    sets=replace(sets.FULL, test_rows=5000),
    census=adult.FULL,
    digits=replace(mnist.FULL, test_rows=2000),
    reviews=replace(reviews.FULL, test_rows=1000),
    few={"table": 100, "image": 60, "text": 20},
    reported={"table": (8000, 5000), "image": (4000, 2000), "text": (2000, 500)},
)
QUICK = FieldBudget(
    sets=replace(sets.QUICK, test_rows=500),
    census=adult.QUICK,
    digits=mnist.QUICK,
    reviews=reviews.QUICK,
    gate_rows=20_000,
    few={"table": 5, "image": 3, "text": 2},
    reported={"table": (2000, 500), "image": (500, 200), "text": (200, 100)},
    quantus=(4, 10, 2),
)

BUDGETS = {False: FULL, True: QUICK}


# ---- methods ----


class With:
    """A fitted explainer with options of `explain`, such as refine."""

    def __init__(self, explainer: l2x.Explainer, options: Mapping[str, Any]) -> None:
        self.explainer, self.options = explainer, options

    def explain(self, X: Any, k: int) -> Explanation:
        """Return the explanation with these options."""
        return self.explainer.explain(X, k, **self.options)


def l2x_with(**options: Any) -> Fit:
    """Return how to make l2x with options of `explain`; it is fitted once for all of them."""
    return lambda setting, seed: With(fitted_here(setting, "l2x", seed).explainer, options)


def per_input(name: str, queries: int) -> Fit:
    """Return how to make a baseline that queries the model this many times for each input."""
    shap_like, method = name != "lime", baselines.METHODS[name]

    def fit(setting: Setting, seed: int) -> Any:
        options: dict[str, Any] = {"samples": queries}
        if shap_like and view_of(setting).kind == "table":
            rows = BACKGROUND[queries]
            options = {"samples": queries // rows, "background_rows": rows}
        return baseline(name)(replace(setting, options={method.name: options}), seed)

    return fit


def global_top_k(setting: Setting, seed: int) -> Any:
    """Search for the one subset that is best for all rows, by l2x's own surrogate."""
    explainer = fitted_here(setting, "l2x", seed).explainer
    return GlobalTopK(explainer.surrogate_, features=explainer.features_, seed=seed).fit(
        setting.train, setting.k
    )


LEARNED, PER_INPUT, GRADIENT, CONTROL = "learned", "per input", "gradients and trees", "control"


class Contender(NamedTuple):
    """A method, its kind, and the method that has to be fitted for it first."""

    method: Method
    kind: str
    base: str | None = None


METHODS: dict[str, Contender] = {
    "l2x": Contender(TABULATED["l2x"], LEARNED),
    "l2x-told": Contender(TABULATED["l2x-told"], LEARNED),
    "learned": Contender(Method("l2x, not polished", l2x_with(polish=False)), LEARNED, "l2x"),
    "refined": Contender(
        Method(f"l2x, refined with {REFINED} queries", l2x_with(refine=REFINED)), LEARNED, "l2x"
    ),
    "sequential": Contender(Method("l2x, sequential", ours(selector="sequential", sampler=None)), LEARNED),
    "fastshap": Contender(TABULATED["fastshap"], LEARNED),
    "invase": Contender(TABULATED["invase"], LEARNED),
    "realx": Contender(TABULATED["realx"], LEARNED),
    "paper": Contender(TABULATED["paper"], LEARNED),
    **{
        f"{name}-{queries}": Contender(
            Method(f"{TABULATED[name].label}, {queries:,}", per_input(name, queries), "sampling"),
            PER_INPUT,
        )
        for queries in (100, 1000)
        for name in ("kernel_shap", "lime", "shapiq")
    },
    "search": Contender(TABULATED["search"], PER_INPUT),
    "tree_shap": Contender(TABULATED["tree_shap"], GRADIENT),
    "saliency": Contender(TABULATED["saliency"], GRADIENT),
    "taylor": Contender(TABULATED["taylor"], GRADIENT),
    "deeplift": Contender(TABULATED["deeplift"], GRADIENT),
    "integrated_gradients": Contender(TABULATED["integrated_gradients"], GRADIENT),
    "global": Contender(Method("global top k", global_top_k), CONTROL, "l2x"),
    "random": Contender(TABULATED["random"], CONTROL),
}
LABELS = {name: contender.method.label for name, contender in METHODS.items()}
PEERS = ("fastshap", "invase", "realx", "paper")
# Methods with all seeds on tables; digits and reviews have the first seed unless --seeds asks for more.
SEEDED = [name for name, contender in METHODS.items() if contender.kind == LEARNED] + ["random"]


class Fitted(NamedTuple):
    """A method that is ready to explain, and what it took: seconds, and queries of the model."""

    explainer: Any
    seconds: float
    queries: int


def fitted_here(setting: Setting, name: str, seed: int) -> Fitted:
    """Return a method of this experiment, fitted only once; its base has a cost of its own."""
    if (name, seed) not in setting.fitted:
        if base := METHODS[name].base:
            fitted_here(setting, base, seed)
        before = setting.black_box.rows
        explainer, seconds = timed(lambda: METHODS[name].method.fit(setting, seed))
        setting.fitted[name, seed] = Fitted(explainer, seconds, setting.black_box.rows - before)
    found: Fitted = setting.fitted[name, seed]
    return found


def not_for(method: str, task: Task) -> str | None:
    """Return why a method cannot explain the model of a task, or None."""
    setting, kind = task.setting, view_of(task.setting).kind
    if METHODS[method].method.cost == "gradient" and not isinstance(setting.model, nn.Module):
        return "The model is not a network: it has no gradient."
    if method == "tree_shap" and (isinstance(setting.model, nn.Module) or setting.model is None):
        return "The model is not a tree ensemble."
    if method == "global" and kind != "table":
        return "A position in an image or a text has no meaning of its own."
    if method == "deeplift" and kind == "text":
        return "captum cannot follow the maximum of distinct windows, nor an LSTM."
    if method.startswith("lime") and kind == "table":
        view: Any = view_of(setting)  # that of a table, which has `numbers`
        if np.isnan(view.numbers(view.check(setting.train))).any():
            return "LIME does not take missing cells."
    return None


# ---- tasks ----


@dataclass(kw_only=True)
class Task:
    """One model and its inputs, set up once for all methods and seeds."""

    setting: Setting
    boosted: BoostedEvaluator | None = None
    quantus: bool = False


def view_of(setting: Setting) -> View:
    """Return the view, which every setting of this experiment has."""
    assert setting.features is not None
    return setting.features


def switch(budget: FieldBudget, *, variant: Variant) -> Task:
    """Set up switch, explaining a trained network; evaluators learn from a fresh draw."""
    setting = sets.set_up(sets.Problem("switch", variant, "network", 0), budget.sets)
    rows = min(COUNTED_ROWS, budget.sets.train_rows or COUNTED_ROWS)
    fresh = synthetic("switch", rows, variant=variant, seed=EVALUATOR_SEED).X
    return with_evaluators(setting, fresh, quantus=variant == "code")


def with_evaluators(setting: Setting, fresh: Array, *, quantus: bool = False) -> Task:
    """Fit both evaluators of a table on fresh rows."""
    view = Columns().fit(setting.train)
    evaluator = fit_evaluator(
        setting.black_box, fresh, setting.k, features=view, training=setting.plans.ours, seed=EVALUATOR_SEED
    )
    setting = replace(setting, features=view, evaluator=evaluator, probe_rows=fresh)
    return Task(setting=setting, boosted=boosted(setting), quantus=quantus)


def boosted(setting: Setting) -> BoostedEvaluator:
    """Fit gradient-boosted trees on the rows of the evaluator."""
    return fit_boosted_evaluator(
        setting.black_box, setting.probe_rows, setting.k, features=view_of(setting), seed=EVALUATOR_SEED
    )


class NestedGate:
    """P(y = 1 | x): a switch chooses the second switch, which chooses the pair that matters.

    x1 > 0 chooses x2, otherwise x3; the sign of that one chooses (x4, x5) or (x6, x7) after x2, and (x8, x9)
    or (x10, x11) after x3. The log-odds are 3 times the sum of the pair. The other columns are noise.
    """

    columns, k = 25, 4

    def __call__(self, X: Array) -> Array:
        """Return P(y | x), (n, 2)."""
        first = self.pair(X)
        n = np.arange(len(X))
        p = 1 / (1 + np.exp(-3 * (X[n, first] + X[n, first + 1])))
        return np.stack([1 - p, p], axis=1)

    def second(self, X: Array) -> Array:
        """Return the column of the second switch, (n,)."""
        return np.where(X[:, 0] > 0, 1, 2)

    def pair(self, X: Array) -> Array:
        """Return the first column of the pair that matters, (n,)."""
        second = self.second(X)
        return np.asarray(3 + 4 * (second - 1) + 2 * (X[np.arange(len(X)), second] <= 0))

    def truth(self, X: Array) -> Array:
        """Return the relevant columns, (n, 25) booleans."""
        truth, n = np.zeros(X.shape, dtype=bool), np.arange(len(X))
        truth[:, 0] = True
        for column in (self.second(X), self.pair(X), self.pair(X) + 1):
            truth[n, column] = True
        return truth


def nested_gate(budget: FieldBudget) -> Task:
    """Set up the nested gate, explaining the true model."""
    gate = NestedGate()

    def draw(rows: int, seed: int) -> Array:
        return np.random.default_rng((seed, 36)).normal(size=(rows, gate.columns))

    test = draw(budget.sets.test_rows or 0, sets.TEST_SEED)
    train = draw(budget.gate_rows, 0)
    setting = Setting(
        black_box=as_black_box(gate),
        k=gate.k,
        train=train,
        test=test,
        plans=budget.sets.plans(Columns),
        background=train[: sets.BACKGROUND_ROWS],
        truth=gate.truth(test),
    )
    return with_evaluators(setting, draw(min(COUNTED_ROWS, budget.gate_rows), EVALUATOR_SEED))


def census(budget: FieldBudget) -> Task:
    """Set up Adult; its evaluator has learned from rows of its own."""
    setting = adult.set_up(budget.census)
    return Task(setting=replace(setting, background=setting.train), boosted=boosted(setting))


def digits(budget: FieldBudget, *, which: Sequence[int]) -> Task:
    """Set up digits."""
    return Task(setting=of_comparison(mnist.set_up(which, budget.digits)), quantus=len(which) == 2)


def review(budget: FieldBudget, *, problem: Any) -> Task:
    """Set up words or sentences; no method may select a stop word, if l2x may not."""
    setting = reviews.set_up(problem, budget.reviews)
    if setting.our_features is None:
        return Task(setting=of_comparison(setting))
    view = clone(setting.our_features).fit(setting.train)
    released = clone(setting.released_features).set_params(stop_words="english")
    return Task(setting=of_comparison(replace(setting, features=view, released_features=released)))


def of_comparison(setting: Comparison) -> Comparison:
    """Return the setting with inputs for probes; no explainer of this run reads the examples."""
    return replace(setting, probe_rows=setting.train, fitted={})


TASKS: dict[str, Callable[[FieldBudget], Task]] = {
    "switch": partial(switch, variant="code"),
    "switch, paper": partial(switch, variant="paper"),
    "nested gate": nested_gate,
    "Adult": census,
    "digits 3 and 8": partial(digits, which=mnist.THREE_EIGHT),
    "ten digits": partial(digits, which=range(10)),
    "ten words": partial(review, problem="words"),
    "one sentence": partial(review, problem="sentences"),
}
TABLES = ("switch", "switch, paper", "nested gate", "Adult")
TITLES = {
    "switch": "Switch, k = 5 of 10 columns, a trained network",
    "switch, paper": "Switch with the paper's formula, k = 5 of 10 columns, a trained network",
    "nested gate": "Nested gate, k = 4 of 25 columns, the true model",
    "Adult": "Adult, k = 3 of 12 columns, LightGBM",
    "digits 3 and 8": "Digits 3 and 8, k = 4 of 49 patches",
    "ten digits": "All ten digits, k = 4 of 49 patches",
    "ten words": "Reviews, ten words",
    "one sentence": "Reviews, one sentence",
}


@lru_cache(maxsize=1)
def set_up(task: str, quick: bool) -> Task:
    """Return the task; it is set up only once."""
    return TASKS[task](BUDGETS[quick])


def experiment(
    *,
    quick: bool = False,
    seeds: int = 1,
    tasks: Sequence[str] | None = None,
    only: Sequence[str] | None = None,
) -> Experiment:
    """Return the jobs, the first seed of everything first; more seeds are for methods that learn."""
    if unknown := sorted(set(tasks or ()) - set(TASKS)):
        raise InputError(f"There is no task {unknown[0]!r}; choose among {', '.join(TASKS)}.")
    jobs = [
        Job({"task": task, "method": method, "seed": seed, "quick": quick}, f"{task}: {method}", (task, seed))
        for seed in range(seeds)
        for task in tasks or TASKS
        for method in METHODS
        if seed == 0 or method in SEEDED
    ]

    def fetch(progress: bool) -> None:
        chosen = set(tasks or TASKS)
        if "Adult" in chosen:
            census_rows(progress=progress)
        if chosen & {"digits 3 and 8", "ten digits"}:
            digit_images(None, progress=progress)
        if chosen & {"ten words", "one sentence"}:
            imdb("train", progress=progress)
            glove(progress=progress)

    return Experiment(
        "field", only_methods(jobs, only), measure_all, fetch=fetch, belongs={"quick": quick}
    )  # fmt: skip


def measure_all(jobs: Sequence[Job]) -> Iterator[Record]:
    """Measure the methods on one task with one seed."""
    for job in jobs:
        task, budget = set_up(job["task"], job["quick"]), BUDGETS[job["quick"]]
        reason = not_for(job["method"], task)
        record: Record = {"reason": reason}
        if reason is None:
            try:
                record = measure(task, job["method"], job["seed"], budget)
            except L2XError as error:
                record = {"reason": str(error)}
        yield {**job.key, **record, **measured_here(), "code": commit(), "load": round(getloadavg()[0], 1)}


@cache
def commit() -> str | None:
    """Return the commit of this code, or None outside a clone."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


# ---- measures ----


def measure(task: Task, method: str, seed: int, budget: FieldBudget) -> Record:
    """Return the record of one method."""
    setting, contender = task.setting, METHODS[method]
    view, black_box, k = view_of(setting), setting.black_box, setting.k
    few, slow = budget.few[view.kind], contender.kind == PER_INPUT
    X = view.take(view.check(setting.test), slice(few if slow else None))
    steps = [fitted_here(setting, name, seed) for name in filter(None, (contender.base, method))]
    explainer = steps[-1].explainer
    explainer.explain(view.take(X, slice(1)), k)  # imports are not part of the time for each input
    before = black_box.rows
    explanation, seconds = timed(lambda: ranked(explainer.explain(X, k)))
    queries = (black_box.rows - before) / len(X)
    predictions = query(black_box, view, X)
    record: Record = {
        "k": k,
        "features": view.d,
        "rows": len(X),
        "few": min(few, len(X)),
        "train_rows": len(setting.train),
        "setup_seconds": sum(step.seconds for step in steps),
        "setup_queries": sum(step.queries for step in steps),
        "milliseconds": 1e3 * seconds / len(X),
        "queries": queries,
        "all": fidelity(task, X, explanation.mask, predictions),
        "first": fidelity(
            task, view.take(X, slice(few)), explanation.mask[:few], predictions[:few]
        ),
        "selected": explanation.indices[:few].tolist(),
        **eraser(setting, view.take(X, slice(few)), explanation[:few], predictions[:few]),
        "noise": stability(setting, explainer, view.take(X, slice(few)), explanation.mask[:few]),
    }  # fmt: skip
    if setting.truth is not None:
        record["exact"] = float(exact_sets(explanation, setting.truth[: len(X)]).mean())
    if seed == 0 and not slow:
        record["leakage"] = leakage(setting, explainer, method, budget)
    if seed == 0 and task.quantus:
        record["quantus"] = quantus_metrics(setting, explainer, budget.quantus)
    return record


def fidelity(task: Task, X: Any, mask: Array, predictions: Array) -> Record:
    """Return how often the model and the evaluators predict the same class from the selected features."""
    setting = task.setting
    view, classes = view_of(setting), predictions.argmax(axis=1)

    def same(guesses: Array) -> float:
        return float((guesses.argmax(axis=1) == classes).mean())

    def by_model(mask: Array, masking: str | None = None) -> float:
        return same(masked_predictions(setting.black_box, view, X, mask, masking=masking))

    assert setting.evaluator is not None
    found = {
        "posthoc": by_model(mask),
        "removal": by_model(~mask),
        "evaluator": same(setting.evaluator.outputs(X, mask)),
    }
    if task.boosted is not None:
        found |= {"resampled": by_model(mask, "resample"), "boosted": same(task.boosted.predict(X, mask))}
    return found


def eraser(setting: Setting, X: Any, explanation: Explanation, predictions: Array) -> Record:
    """Return ERASER's sufficiency and comprehensiveness (AOPC).

    They are means over SHARES of the features of the probability of the predicted class that is lost if only
    the best features are kept (sufficiency: low is good), or if they are removed (comprehensiveness: high is
    good).
    """
    view, rows = view_of(setting), np.arange(len(predictions))
    classes, ranks = predictions.argmax(axis=1), rank_of(explanation)
    selectable = selectable_units(view, X)
    present = np.full(len(rows), view.d) if selectable is None else selectable.sum(axis=1)
    lost: dict[str, list[float]] = {"sufficiency": [], "comprehensiveness": []}
    for share in SHARES:
        best = ranks < np.ceil(share * present)[:, None]
        for name, mask in zip(lost, (best, ~best), strict=True):
            left = masked_predictions(setting.black_box, view, X, mask)[rows, classes]
            lost[name].append(float((predictions[rows, classes] - left).mean()))
    return {name: float(np.mean(values)) for name, values in lost.items()}


def rank_of(explanation: Explanation) -> Array:
    """Return the rank of every feature, (n, d): the selected ones first, then the others by their scores."""
    scores = np.array(explanation.scores, dtype=float)
    top = np.nanmax(np.where(np.isfinite(scores), scores, np.nan), axis=1, keepdims=True, initial=0.0)
    np.put_along_axis(scores, explanation.indices, top + np.arange(explanation.k, 0, -1), axis=1)
    ranks = np.empty(scores.shape, dtype=int)
    np.put_along_axis(ranks, np.argsort(-scores, axis=1, kind="stable"), np.arange(scores.shape[1])[None], 1)
    return ranks


def stability(setting: Setting, explainer: Any, X: Any, mask: Array) -> float | None:
    """Return the overlap (Jaccard) with the selections of slightly noisy inputs; None for texts."""
    noisy = with_noise(view_of(setting).kind, X)
    if noisy is None:
        return None
    return overlap(mask, explainer.explain(noisy, setting.k).mask)


def with_noise(kind: str, X: Any) -> Any:
    """Return inputs with a noise of 1 %, or None for texts, which have no small noise."""
    rng = np.random.default_rng(0)
    if kind == "text":
        return None
    if kind == "image":
        return np.clip(np.rint(X + 255 * NOISE * rng.normal(size=X.shape)), 0, 255).astype(X.dtype)
    if not hasattr(X, "columns"):
        return X + NOISE * X.std(axis=0) * rng.normal(size=X.shape)
    noisy = X.copy()
    for column in noisy.select_dtypes("number"):
        noisy[column] = noisy[column] + NOISE * noisy[column].std() * rng.normal(size=len(noisy))
    return noisy


def overlap(mask: Array, other: Array) -> float:
    """Return the mean Jaccard index of masks (n, d)."""
    return float(((mask & other).sum(axis=1) / np.maximum((mask | other).sum(axis=1), 1)).mean())


def leakage(setting: Setting, explainer: Any, method: str, budget: FieldBudget) -> Record:
    """Return what the report finds: the share of the information that the choice of features adds."""
    view = view_of(setting)
    probes, rows = budget.reported[view.kind]
    few = replace(setting, probe_rows=view.take(view.check(setting.probe_rows), slice(probes)))
    X = view.take(view.check(setting.test), slice(rows))
    truth = None if setting.truth is None else setting.truth[: len(X)]
    found = report_record(replace(few, truth=truth), explainer, X, 0, name=LABELS[method])
    share = found["parts"].get("encoding", {}).get("share")
    return {"finding": found["finding"], "share": None if share is None else share["value"]}


# ---- Quantus ----


class Adapted(nn.Module):
    """A network for what Quantus passes: (n, 1, ...) with values that are divided by `scale`."""

    def __init__(self, network: nn.Module, scale: float) -> None:
        super().__init__()
        self.network, self.scale = network, scale

    def forward(self, x: Tensor) -> Tensor:
        """Return the network's logits."""
        logits: Tensor = self.network(x[:, 0] * self.scale)
        return logits


def quantus_metrics(setting: Setting, explainer: Any, sizes: tuple[int, int, int]) -> Record:
    """Return means of Quantus' metrics (Hedström et al. 2023), for the predicted class of a few inputs."""
    quantus: Any = import_module("quantus")  # its exports have no types
    view, k = view_of(setting), setting.k
    n, runs, copies = sizes
    image, raw = view.kind == "image", view.take(view.check(setting.test), slice(n))
    scale = 255.0 if image else 1.0
    x = (np.asarray(raw, dtype=np.float32) / scale)[:, None]  # (n, 1, d) or (n, 1, side, side)
    y = query(setting.black_box, view, raw).argmax(axis=1)

    def attributions(model: nn.Module, inputs: Array, targets: Array, **_: Any) -> Array:
        values = np.asarray(inputs, dtype=np.float64)[:, 0] * scale
        given = np.clip(np.rint(values), 0, 255).astype(raw.dtype) if image else values
        return on_inputs(attribution(explainer, given, k), x.shape[1:])

    quiet = {"disable_warnings": True, "display_progressbar": False}
    metrics: dict[str, Any] = {
        "faithfulness correlation": quantus.FaithfulnessCorrelation(
            nr_runs=runs, subset_size=x[0].size // 2, perturb_baseline=0.0, return_aggregate=False, **quiet
        ),
        "pixel flipping": quantus.PixelFlipping(
            features_in_step=max(1, x[0].size // 28), perturb_baseline=0.0,
            **quiet,
        ),
        "max-sensitivity": quantus.MaxSensitivity(
            nr_samples=copies, lower_bound=NOISE, **quiet
        ),
        "sparseness": quantus.Sparseness(**quiet),
    }  # fmt: skip
    if image:
        metrics["selectivity"] = quantus.Selectivity(patch_size=4, perturb_baseline=0.0, **quiet)
    # Curves are averaged here: Quantus 0.6 computes areas with np.trapz, which numpy 2.4 has not.
    network, found = Adapted(setting.model, scale).eval(), {}
    given = attributions(network, x, y)
    for name, metric in metrics.items():
        np.random.seed(0)  # Quantus draws from numpy's global generator
        values = metric(
            model=network, x_batch=x, y_batch=y, a_batch=given, explain_func=attributions,
            channel_first=True, device="cpu",
        )  # fmt: skip
        found[name] = float(np.nanmean([np.mean(value) for value in values]))
    return found


def attribution(explainer: Any, X: Any, k: int) -> Array:
    """Return what a method reports for each feature, (n, d).

    For selections by an explainer these are signed effects, zero if not selected; for FastSHAP its Shapley
    values; for INVASE and REAL-X the probabilities of selection; for all others their scores.
    """
    explanation: Explanation = explainer.explain(X, k)
    if isinstance(explainer, baselines.Invase | baselines.RealX):
        return np.asarray(1 / (1 + np.exp(-explanation.scores)))
    if explanation.source is None:
        return np.where(np.isfinite(explanation.scores), explanation.scores, 0.0)
    try:
        return np.asarray(explanation.values)
    except L2XError:  # only the sampler Shapley has values of all features
        values = np.zeros(explanation.scores.shape)
        np.put_along_axis(values, explanation.indices, explanation.effects, axis=1)
        return values


def on_inputs(values: Array, shape: tuple[int, ...]) -> Array:
    """Return the values of features (n, d) for each number of an input, (n, 1, ...); patches share theirs."""
    if len(shape) == 2:
        return values[:, None]
    side = round(values.shape[1] ** 0.5)
    grid, patch = values.reshape(len(values), 1, side, side), shape[-1] // side
    return grid.repeat(patch, axis=2).repeat(patch, axis=3)


# ---- page ----

QUANTUS = {
    # metric: whether higher is better
    "faithfulness correlation": True,
    "pixel flipping": False,
    "selectivity": False,
    "max-sensitivity": False,
    "sparseness": True,
}
FAITHFUL = ("faithfulness correlation", "pixel flipping", "selectivity")


def report(records: Records) -> Report:
    """Return the page: goals, a table for each task, Quantus, break-even, reasons."""
    page = Report(
        "field",
        title="The field in one run",
        subtitle="Learned explainers, per-input methods and gradients under one protocol",
    )
    measured = Records(record for record in records if "all" in record)
    goals_found = goals(measured)
    page.add("", [*first_paragraph(measured), *introduction(records)])
    if goals_found:
        lines = [[g["goal"], g["value"], "yes" if g["holds"] else "no"] for g in goals_found]
        page.add("Goals", table=Table(["goal", "value", "reached"], lines))
    if measured:
        page.add("Fidelity against time", figures={"time": time_figure(measured)})
    for task in TASKS:
        if group := measured.select(task=task):
            page.add(TITLES[task], table=task_table(group), caption=caption(group))
    if quantus := Records(record for record in measured if record.get("quantus")):
        text = (
            "Means over the first test inputs, for the predicted class. Attributions are signed effects for "
            "l2x and L2X, Shapley values for FastSHAP, probabilities for INVASE and REAL-X, and scores "
            "for the others. Effects are zero outside the selection; metrics that perturb half of the "
            "input at random reward methods that spread their values. Quantus' randomisation metrics would "
            "need a fit for each randomised model. Selectivity needs an image."
        )
        page.add("Metrics by Quantus", [text], table=quantus_table(quantus))
    if measured:
        page.add("When learning pays", table=break_even(measured), caption=BREAK_EVEN)
    if missing := Records(record for record in records if record.get("reason")):
        lines = [[r["task"], LABELS[r["method"]], r["reason"]] for r in missing if r["seed"] == 0]
        page.add("Not measured, and why", table=Table(["task", "method", "reason"], lines))
    page.markdown = page.tables_markdown()
    return page


def introduction(records: Records) -> list[str]:
    """Describe the protocol."""
    return [
        "All methods explain the same model and inputs with the same k, masking and stop words. Methods that "
        "query the model hundreds of times for each input explain the first test inputs only; "
        "the columns 'first' compare all methods on these. A number after a method is its limit of queries "
        "per input. Post-hoc accuracy: the model predicts the same class from the selected features alone. "
        "Evaluators learned from random subsets of other inputs; the boosted one is made of trees. Removal: "
        "the model without the selected features, low is good.",
        "Sufficiency and comprehensiveness (ERASER): the probability of the predicted class that is lost if "
        "only the best 1, 5, 10, 20 and 50 % of the features are kept, or are removed. Leakage: the share of "
        "the information in the choice of features beyond their values, by the report of l2x, which needs "
        "more inputs than per-input methods explain. Noise: overlap of selections after 1 % noise; texts "
        "have no small noise. Seeds: overlap of the selections of different seeds.",
        "Queries are the model's; gradient methods differentiate the network instead, Integrated Gradients "
        "50 times. INVASE and REAL-X adapt the price of a feature so that k are selected on average.",
        f"{measured_on(records)} {conditions(records)}",
    ]


def conditions(records: Records) -> str:
    """Name the commits, and how busy the machine was: times at a load above 1 are upper bounds."""
    loads, code = records.values("load"), ", ".join(map(str, records.distinct("code")))
    load = f"{min(loads)} to {max(loads)}" if loads else NOTHING
    return f"Code: {code}. Load of the machine: {load}; above 1, times are upper bounds."


def value(group: Records, *path: str | int, digits: int = 3) -> str:
    """Return mean ± standard deviation of an entry."""
    return group.mean_sd(*path, digits=digits)


def task_table(group: Records) -> Table:
    """Return one line for each method."""

    def short(name: str) -> Cell:
        def cell(g: Records) -> str:
            number = g.mean(name)
            return f"{number:,.0f}" if number >= 100 else f"{number:.2g}"

        return cell

    def whole(*path: str) -> Cell:
        # The first inputs have columns of their own.
        return lambda g: NOTHING if METHODS[g[0]["method"]].kind == PER_INPUT else value(g, *path)

    cells: dict[str, Cell] = {
        "method": lambda g: LABELS[g[0]["method"]],
        "post-hoc": whole("all", "posthoc"),
        "evaluator": whole("all", "evaluator"),
        "first: post-hoc": mean_sd("first", "posthoc"),
        "first: evaluator": mean_sd("first", "evaluator"),
    }
    if group.values("all", "boosted"):
        cells |= {
            "resampled": whole("all", "resampled"),
            "boosted": whole("all", "boosted"),
            "first: resampled": mean_sd("first", "resampled"),
            "first: boosted": mean_sd("first", "boosted"),
        }
    if group.values("exact"):
        cells["exact sets"] = mean_sd("exact")
    cells |= {
        "removal": mean_sd("all", "removal"),
        "sufficiency": mean_sd("sufficiency"),
        "comprehensiveness": mean_sd("comprehensiveness"),
        "leakage": mean_sd("leakage", "share"),
        "noise": mean_sd("noise"),
        "seeds": seed_overlap,
        "ms": short("milliseconds"),
        "queries": short("queries"),
        "setup, s": mean_sd("setup_seconds", digits=1),
        "setup queries": lambda g: f"{g.mean('setup_queries'):,.0f}",
    }
    return Table.of(group.groups(method=METHODS), cells)


def seed_overlap(group: Records) -> str:
    """Return the mean overlap of the selections of pairs of seeds in the first inputs."""
    chosen = [[set(row) for row in record["selected"]] for record in group]
    pairs = [
        len(mine & others) / len(mine | others)
        for i, one in enumerate(chosen)
        for other in chosen[:i]
        for mine, others in zip(one, other, strict=False)
    ]
    return f"{np.mean(pairs):.3f}" if pairs else NOTHING


def caption(group: Records) -> str:
    """Return numbers of inputs and seeds."""
    rows, few = max(group.values("rows")), max(group.values("few"))
    seeds = len(group.distinct("seed"))
    return (
        f"{rows:,} test inputs; first: {few}. {group[0]['train_rows']:,} training inputs. Seeds: {seeds} for "
        "methods that learn, 1 for the others."
    )


def time_figure(records: Records) -> Figure:
    """Draw post-hoc accuracy on the first inputs against the time for each input, a panel for each task."""
    colours = {LEARNED: ACCENT, PER_INPUT: SECOND, GRADIENT: THIRD, CONTROL: MUTED}
    content = {task: group for task in TASKS if (group := records.select(task=task))}
    with panels(
        content,
        height=2.6,
        title="Post-hoc accuracy against milliseconds per input",
        caption="On the same first test inputs for all methods. Blue: learned; other colours: per-input "
        "methods, gradients and trees, controls. Setup is not included.",
    ) as (figure, drawn):
        for axes, _, group in drawn:
            for method in group.groups(method=METHODS):
                name = method[0]["method"]
                x, y = max(1e-4, method.mean("milliseconds")), method.mean("first", "posthoc")
                axes.plot(x, y, "o", color=colours[METHODS[name].kind], markersize=4)
                axes.annotate(LABELS[name], (x, y), (3, 2), textcoords="offset points", fontsize=5)
            axes.set_xscale("log")
    return figure


def quantus_table(records: Records) -> Table:
    """Return one line for each task and method."""
    cells: dict[str, Cell] = {
        "task": lambda g: g[0]["task"],
        "method": lambda g: LABELS[g[0]["method"]],
    }
    for name, higher in QUANTUS.items():
        cells[f"{name} ({'high' if higher else 'low'} is good)"] = mean_sd("quantus", name)
    return Table.of(records.groups(task=TASKS, method=METHODS), cells)


BREAK_EVEN = (
    "The number of inputs after which setup and explanations of a learned method cost less than Kernel SHAP "
    "with 1,000 queries per input, in seconds, and in queries of the model. Refining uses queries of its own."
)


def break_even(records: Records) -> Table:
    """Return after how many inputs each learned method has paid, on each task."""
    columns = ["task", "method", "inputs, by seconds", "inputs, by queries"]
    rows = []
    first = records.select(seed=0)
    for task in TASKS:
        rival = first.select(task=task, method="kernel_shap-1000")
        for group in first.select(task=task).groups(method=METHODS):
            if not rival or METHODS[group[0]["method"]].kind != LEARNED:
                continue
            paid = []
            for setup, each, unit in (
                ("setup_seconds", "milliseconds", 1e-3),
                ("setup_queries", "queries", 1.0),
            ):
                saved = unit * (rival.mean(each) - group.mean(each))
                paid.append(f"{group.mean(setup) / saved:,.0f}" if saved > 0 else "never")
            rows.append([task, LABELS[group[0]["method"]], *paid])
    return Table(columns, rows)


def goals(records: Records) -> list[Record]:
    """Return the goals of this experiment, as far as there are records.

    The learned methods are compared with the default of l2x, the others with the best of its options (OURS).
    """
    found = []

    def add(goal: str, text: str, holds: bool) -> None:
        found.append({"goal": goal, "value": text, "holds": holds})

    for task in TASKS:
        group = records.select(task=task)
        mine = group.select(method="l2x")
        for part, name in (("posthoc", "post-hoc"), ("evaluator", "evaluator")):
            peers = {m: g.mean("all", part) for m in PEERS if (g := group.select(method=m))}
            if mine and peers:
                best = max(peers, key=peers.__getitem__)
                own, error = mine.mean("all", part), standard_error(peers[best], mine[0]["rows"])
                text = f"{own:.3f}; best peer {LABELS[best]} {peers[best]:.3f}"
                add(
                    f"{task}: first of the learned methods, {name}, or within a standard error",
                    text,
                    own >= peers[best] - error,
                )
        cheap = {
            m: g.mean("first", "posthoc")
            for m, contender in METHODS.items()
            if contender.kind == PER_INPUT and (g := group.select(method=m)) and g.mean("queries") <= CHEAP
        }
        if mine and cheap:
            own = max(g.mean("first", "posthoc") for m in OURS if (g := group.select(method=m)))
            best = max(cheap, key=cheap.__getitem__)
            text = f"{own:.3f}; {LABELS[best]} {cheap[best]:.3f}"
            add(f"{task}: first of the methods with 100 queries or fewer, post-hoc", text, own >= cheap[best])
    for task, least in (("switch, paper", 0.98), ("nested gate", 0.97)):
        if mine := records.select(task=task, method="l2x"):
            add(f"{task}: exact sets of at least {least}", mine.mean_sd("exact"), mine.mean("exact") >= least)
    images = records.select(task="digits 3 and 8", seed=0)
    for name in FAITHFUL:
        scores = {r["method"]: r["quantus"][name] for r in images if name in (r.get("quantus") or {})}
        if "l2x" in scores:
            order = sorted(scores, key=scores.__getitem__, reverse=QUANTUS[name])
            place = 1 + min(order.index(method) for method in OURS if method in scores)
            add(f"Quantus, {name}: among the first two", f"place {place} of {len(order)}", place <= 2)
    return found


OURS = ("l2x", "l2x-told", "learned", "refined", "sequential")


def standard_error(share: float, rows: int) -> float:
    """Return the standard error of a share of rows."""
    return float(np.sqrt(max(share * (1 - share), 1 / rows) / rows))


def first_paragraph(records: Records) -> list[str]:
    """Name the goals that are missed, at the top of the page."""
    missed = [g["goal"] for g in goals(records) if not g["holds"]]
    return [f"Missed: {'; '.join(missed)}."] if missed else []
