"""Does the self-check at the end of `fit` say so when a selection is no better than chance?

problems  = breast cancer with three models, Adult, digits; each split has its own model, explainers and test
            rows, and its columns in another order
methods   = the default, and three explainers as they come out when something went wrong: a selector that
            took one vanishing step, which is little better than one random subset for all rows; a network of
            random weights, whose selections differ from row to row; answers brought in another order
truth     = on all test rows (10,000 at most): what the model keeps with the selection, less what it keeps
            with random features: better (its 95 % interval lies above zero), no better (it is not positive)
            or too close to tell; in answers out of order there is nothing to find
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

import l2x
from l2x._base.arrays import Array
from l2x.datasets import adult
from l2x.features import View, fitted_view
from l2x.learning import (
    Bootstrap,
    SelfCheck,
    TrainingPlan,
    masked_answers,
    plan_in_small_batches,
    random_selections,
    same_class,
)
from l2x.model import BlackBox, as_black_box, query
from l2x_experiments.machine import measured_here
from l2x_experiments.records import Record
from l2x_experiments.runner import Experiment, Job
from l2x_experiments.setting import Budget

OUT_OF_ORDER = "answers out of order"
METHODS = ("default", "one step", "random weights", OUT_OF_ORDER)
# Earlier splits are those on which the check's rule was chosen.
FIRST_SPLIT = 20
# Random selections that each test row is compared with.
DRAWS = 3
MOST_TEST_ROWS = 10_000

FULL = Budget(value_steps=200, selector_steps=80)
QUICK = Budget(value_steps=30, selector_steps=10)


@dataclass(frozen=True)
class Problem:
    """Rows (a frame, or images), labels, a model for them, and how they are explained."""

    X: Any
    y: Array
    model: Callable[[], Any]
    k: int
    train_rows: int
    features: View | None = None
    # Options with which its selector does not start at scores of zero.
    random_weights: Mapping[str, Any] = field(default_factory=lambda: {"prior": False})


def experiment(*, quick: bool = False, seeds: int = 4) -> Experiment:
    """`seeds` splits of each of the five problems."""
    jobs = [
        Job(
            {"problem": problem, "split": split, "method": method},
            f"{problem}, split {split}",
            (problem, split),
        )
        for split in range(FIRST_SPLIT, FIRST_SPLIT + seeds)
        for problem in PROBLEMS
        for method in METHODS
    ]
    budget = QUICK if quick else FULL
    return Experiment(
        "robustness",
        jobs,
        partial(measure_all, budget=budget),
        fetch=lambda progress: adult(progress=progress),
        belongs={"value_steps": budget.value_steps},
    )


def measure_all(jobs: Sequence[Job], budget: Budget) -> Iterator[Record]:
    """The records of one split."""
    problem, split = PROBLEMS[jobs[0]["problem"]](), jobs[0]["split"]
    X, train, test = divided(problem, split)
    rows, model = taken(X, train), problem.model()
    if X.ndim == 3:
        model = flat(model.fit(rows.reshape(len(rows), -1), problem.y[train]))
    else:
        model.fit(rows, problem.y[train])
    truth = Truth(fitted_view(problem.features, rows), as_black_box(model), taken(X, test), problem.k, split)
    for job in jobs:
        found = measure(problem, model, rows, truth, job["method"], budget)
        yield {**job.key, "value_steps": budget.value_steps, **found, **measured_here()}


def divided(problem: Problem, split: int) -> tuple[Any, Array, Array]:
    """The rows, their columns in an order of this split's own; which to learn from, and which to test on."""
    rng = np.random.default_rng(split)
    order, X = rng.permutation(len(problem.X)), problem.X
    if X.ndim == 2:
        X = X[list(rng.permutation(X.columns))]
    return X, order[: problem.train_rows], order[problem.train_rows :][:MOST_TEST_ROWS]


def taken(X: Any, rows: Array) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def flat(model: Any) -> Callable[[Array], Array]:
    """A model of rows of pixels, asked about images."""
    return lambda images: np.asarray(model.predict_proba(images.reshape(len(images), -1)))


def measure(problem: Problem, model: Any, train: Any, truth: Truth, method: str, budget: Budget) -> Record:
    """What the self-check says of one explainer, and what is true."""
    explainer = l2x.Explainer(
        model, problem.k, features=problem.features, seed=truth.split, training=plan(budget)
    )
    responses = None
    if method == "one step":
        explainer.set_params(value="model", training=one_step(plan(budget)))
    elif method == "random weights":
        selector = dict(problem.random_weights)
        explainer.set_params(value="model", training=one_step(plan(budget)), selector=selector)
    elif method == OUT_OF_ORDER:
        answers = query(truth.black_box, truth.view, truth.view.check(train))
        responses = np.random.default_rng(truth.split).permutation(answers)
        explainer.set_params(training=plan(QUICK))  # there is nothing to learn
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        explainer.fit(train, responses=responses)
        own = explainer.explain(truth.test).mask
    check = explainer.check_
    assert check is not None
    return {"k": problem.k, "check": check.to_dict(), **truth.of(own)}


def plan(budget: Budget) -> TrainingPlan:
    """Small batches: the tables have hundreds of rows."""
    assert budget.value_steps is not None
    assert budget.selector_steps is not None
    steps = plan_in_small_batches(value=budget.value_steps, selector=budget.selector_steps)
    return replace(steps, evaluations=4, progress=False)


def one_step(plan: TrainingPlan) -> TrainingPlan:
    """The selector's only step changes nothing but ties, by the sign of one gradient."""
    return replace(plan, selector=replace(plan.selector, steps=1, learning_rate=1e-12))


@dataclass(frozen=True)
class Truth:
    """What selections keep on all test rows of a split; chance is measured once."""

    view: View
    black_box: BlackBox
    test: Any
    k: int
    split: int

    def of(self, own: Array) -> Record:
        """What a selection, its complement and chance keep, and its advantage over chance."""
        selection = self._kept(own)
        advantage = Bootstrap(len(own), seed=self.split).mean(selection - self._chance)
        return {
            "rows": len(own),
            "selection": float(selection.mean()),
            "complement": float(self._kept(~own).mean()),
            "random": float(self._chance.mean()),
            "advantage": advantage.to_dict(),
        }

    @cached_property
    def _checked(self) -> Any:
        return self.view.check(self.test)

    @cached_property
    def _answers(self) -> Array:
        return query(self.black_box, self.view, self._checked)

    @cached_property
    def _chance(self) -> Array:
        """(n,) how often k random features keep the answer of a row."""
        everything = np.ones((len(self._answers), self.view.d), dtype=bool)
        some = everything & (np.arange(self.view.d) < self.k)
        draws = [random_selections(some, everything, seed=self.split + 100 + draw) for draw in range(DRAWS)]
        return np.asarray(np.mean([self._kept(mask) for mask in draws], axis=0))

    def _kept(self, mask: Array) -> Array:
        guesses = masked_answers(self.black_box, self.view, self._checked, mask)
        return same_class(guesses, self._answers).astype(float)


def true_finding(record: Record) -> str:
    """ "better", "no better" or "close", by the advantage on the test rows; "nothing to find" in answers that
    belong to other rows, by construction: an advantage by the model's own answers is luck."""
    if record["method"] == OUT_OF_ORDER:
        return "nothing to find"
    advantage = record["advantage"]
    if advantage["low"] > 0:
        return "better"
    return "no better" if advantage["value"] <= 0 else "close"


def doubted(record: Record) -> bool:
    """Whether the self-check warns that the selection is not clearly better than chance."""
    return SelfCheck.from_dict(record["check"]).finding in ("no better", "undecided")


def doubted_by_q(record: Record) -> bool:
    """Whether q, by itself, does not find it clearly better than chance."""
    by_q = SelfCheck.from_dict(record["check"]).by_q
    return by_q is not None and by_q.finding != "better"


def rest_keeps_more(record: Record) -> bool:
    """Whether the self-check warns that everything but the selection keeps more."""
    return any("Everything but" in message for message in SelfCheck.from_dict(record["check"]).warnings)


def rest_truly_keeps_more(record: Record) -> bool:
    """Whether everything but the selection keeps more answers of the test rows."""
    return bool(record["complement"] > record["selection"])


def _breast_cancer(model: Callable[[], Any]) -> Problem:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return Problem(X, np.asarray(y), model, k=3, train_rows=300)


def _forest() -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(30, random_state=0, n_jobs=1)


def _boosted() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=1, verbose=-1)


def _svc() -> Any:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    return make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC(), ensemble=False))


def _adult() -> Problem:
    data = adult(progress=False)
    return Problem(data.X, data.y, _boosted, k=3, train_rows=3000)


def _digits() -> Problem:
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    X, y = load_digits(return_X_y=True)
    model = partial(LogisticRegression, max_iter=300)
    return Problem(
        X.reshape(-1, 8, 8),
        y,
        model,
        k=4,
        train_rows=900,
        features=l2x.Patches(size=2),
        random_weights={"head": "conv"},
    )


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "breast cancer, random forest": partial(_breast_cancer, _forest),
    "breast cancer, LightGBM": partial(_breast_cancer, _boosted),
    "breast cancer, SVC": partial(_breast_cancer, _svc),
    "Adult, LightGBM": _adult,
    "digits, logistic regression": _digits,
}
