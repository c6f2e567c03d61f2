"""Does the self-check at the end of `fit` warn when a selection is no better than chance?

problems  breast cancer with three models, Adult, digits; each split has its own model, explainers, test rows
          and order of columns
methods   the default, and three explainers that went wrong: a selector after one vanishing step, hardly
          better than the same random features in all rows; a selector with random weights, whose selections
          differ from row to row; predictions that belong to other rows
truth     on all test rows (10,000 at most): post-hoc accuracy minus that of random features. Better: the
          95 % interval lies above zero; no better: the difference is not positive; otherwise too close to
          tell. From predictions of other rows nothing can be learned.
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
    masked_predictions,
    plan_in_small_batches,
    random_selections,
    same_class,
)
from l2x.model import BlackBox, as_black_box, query
from l2x_experiments.methods import Budget
from l2x_experiments.records import NOTHING, Record, Records, measured_here
from l2x_experiments.report import Cell, Report, Table, mean_sd, measured_on, name_of
from l2x_experiments.runner import Experiment, Job

# Names in the records.
OUT_OF_ORDER = "answers out of order"
COMPARED = ("default", "one step", "random weights", OUT_OF_ORDER)
# The rule of the self-check was chosen on earlier splits.
FIRST_SPLIT = 20
# Random selections per test row.
DRAWS = 3
MOST_TEST_ROWS = 10_000

FULL = Budget(value_steps=200, selector_steps=80)
QUICK = Budget(value_steps=30, selector_steps=10)


@dataclass(frozen=True)
class Problem:
    """Rows (a frame or images), labels, a model, and how it is explained."""

    X: Any
    y: Array
    model: Callable[[], Any]
    k: int
    train_rows: int
    features: View | None = None
    # Options with which the selector does not start with scores of zero.
    random_weights: Mapping[str, Any] = field(default_factory=lambda: {"prior": False})


def experiment(*, quick: bool = False, seeds: int = 4) -> Experiment:
    """Return the jobs: `seeds` splits of each of the five problems."""
    jobs = [
        Job(
            {"problem": problem, "split": split, "method": method},
            f"{problem}, split {split}",
            (problem, split),
        )
        for split in range(FIRST_SPLIT, FIRST_SPLIT + seeds)
        for problem in PROBLEMS
        for method in COMPARED
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
    """Measure the explainers of one split."""
    problem, split = PROBLEMS[jobs[0]["problem"]](), jobs[0]["split"]
    X, train, test = divided(problem, split)
    rows, model = taken(X, train), problem.model()
    if X.ndim == 3:
        model = flat(model.fit(rows.reshape(len(rows), -1), problem.y[train]))
    else:
        model.fit(rows, problem.y[train])
    truth = Truth(fitted_view(problem.features, rows), as_black_box(model), taken(X, test), problem.k, split)
    for job in jobs:
        record = measure(problem, model, rows, truth, job["method"], budget)
        yield {**job.key, "value_steps": budget.value_steps, **record, **measured_here()}


def divided(problem: Problem, split: int) -> tuple[Any, Array, Array]:
    """Return the rows, with the columns in this split's order, and the row numbers for training and test."""
    rng = np.random.default_rng(split)
    order, X = rng.permutation(len(problem.X)), problem.X
    if X.ndim == 2:
        X = X[list(rng.permutation(X.columns))]
    return X, order[: problem.train_rows], order[problem.train_rows :][:MOST_TEST_ROWS]


def taken(X: Any, rows: Array) -> Any:
    """Return these rows of a frame or an array."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def flat(model: Any) -> Callable[[Array], Array]:
    """Wrap a model of flat pixel rows as a model of images."""
    return lambda images: np.asarray(model.predict_proba(images.reshape(len(images), -1)))


def measure(problem: Problem, model: Any, train: Any, truth: Truth, method: str, budget: Budget) -> Record:
    """Return the self-check of one explainer, and the truth."""
    explainer = l2x.Explainer(
        model, problem.k, features=problem.features, seed=truth.split, training=plan(budget)
    )
    predictions = None
    if method == "one step":
        explainer.set_params(objective="model", training=one_step(plan(budget)))
    elif method == "random weights":
        selector = dict(problem.random_weights)
        explainer.set_params(objective="model", training=one_step(plan(budget)), selector=selector)
    elif method == OUT_OF_ORDER:
        predictions = query(truth.black_box, truth.view, truth.view.check(train))
        predictions = np.random.default_rng(truth.split).permutation(predictions)
        explainer.set_params(training=plan(QUICK))  # there is nothing to learn
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        explainer.fit(train, predictions=predictions)
        own = explainer.explain(truth.test).mask
    check = explainer.check_
    assert check is not None
    return {"k": problem.k, "check": check_record(check), **truth.of(own)}


def plan(budget: Budget) -> TrainingPlan:
    """Return a plan with small batches: the tables have a few hundred rows."""
    assert budget.value_steps is not None
    assert budget.selector_steps is not None
    steps = plan_in_small_batches(value=budget.value_steps, selector=budget.selector_steps)
    return replace(steps, evaluations=4, progress=False)


def one_step(plan: TrainingPlan) -> TrainingPlan:
    """Return the plan with a single selector step so small that it only breaks ties."""
    return replace(plan, selector=replace(plan.selector, steps=1, learning_rate=1e-12))


@dataclass(frozen=True)
class Truth:
    """Post-hoc accuracies on all test rows of a split; random features are measured once."""

    view: View
    black_box: BlackBox
    test: Any
    k: int
    split: int

    def of(self, own: Array) -> Record:
        """Return the accuracies of a selection, its removal test and random features, and its advantage."""
        selection = self._same(own)
        advantage = Bootstrap(len(own), seed=self.split).mean(selection - self._chance)
        return {
            "rows": len(own),
            "selection": float(selection.mean()),
            "complement": float(self._same(~own).mean()),
            "random": float(self._chance.mean()),
            "advantage": advantage.to_dict(),
        }

    @cached_property
    def _checked(self) -> Any:
        return self.view.check(self.test)

    @cached_property
    def _predictions(self) -> Array:
        return query(self.black_box, self.view, self._checked)

    @cached_property
    def _chance(self) -> Array:
        """(n,) how often the prediction of a row is the same with k random features."""
        everything = np.ones((len(self._predictions), self.view.d), dtype=bool)
        k_features = everything & (np.arange(self.view.d) < self.k)
        draws = [
            random_selections(k_features, everything, seed=self.split + 100 + draw) for draw in range(DRAWS)
        ]
        return np.asarray(np.mean([self._same(mask) for mask in draws], axis=0))

    def _same(self, mask: Array) -> Array:
        """(n,) whether the predicted class is the same with these features."""
        predictions = masked_predictions(self.black_box, self.view, self._checked, mask)
        return same_class(predictions, self._predictions).astype(float)


def true_finding(record: Record) -> str:
    """Return "better", "no better" or "close", by the advantage on the test rows.

    "nothing to find" for predictions that belong to other rows, by construction: any advantage is luck.
    """
    if record["method"] == OUT_OF_ORDER:
        return "nothing to find"
    advantage = record["advantage"]
    if advantage["low"] > 0:
        return "better"
    return "no better" if advantage["value"] <= 0 else "close"


# The keys that results/robustness.json has for the fields of a self-check.
KEYS = {
    "posthoc_accuracy": "selection",
    "removal": "complement",
    "global_top_k": "one_subset",
    "over_random": "over_chance",
    "over_removal": "over_complement",
    "closer": "nearer",
    "by_surrogate": "by_q",
    "global_features": "subset",
}


def check_record(check: SelfCheck) -> Record:
    """Return a self-check as it is recorded."""
    record: Record = _renamed(check.to_dict(), KEYS)
    return record


def check_of(record: Record) -> SelfCheck:
    """Return the self-check in a record."""
    fields = {key: field for field, key in KEYS.items()}
    check: Record = {"global_features": ()} | _renamed(record["check"], fields)
    for name in ("by_model", "by_surrogate"):
        if check[name] is not None:
            check[name] = {"closer": {"value": None, "low": None, "high": None}} | check[name]
    return SelfCheck.from_dict(check)


def _renamed(record: Any, names: Mapping[str, str]) -> Any:
    if not isinstance(record, Mapping):
        return record
    return {names.get(key, key): _renamed(value, names) for key, value in record.items()}


def doubted(record: Record) -> bool:
    """Return whether the self-check warns that the selection is not clearly better than chance."""
    return check_of(record).finding in ("no better", "undecided")


def doubted_by_surrogate(record: Record) -> bool:
    """Return whether the surrogate alone does not find it clearly better than chance."""
    by_surrogate = check_of(record).by_surrogate
    return by_surrogate is not None and by_surrogate.finding != "better"


def removal_warned(record: Record) -> bool:
    """Return whether the self-check warns that the features outside the selection do better."""
    return check_of(record).removal_is_better


def removal_truly_better(record: Record) -> bool:
    """Return whether the features outside the selection reproduce more predictions on the test rows."""
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


NAMES = {method: method for method in COMPARED} | {OUT_OF_ORDER: "predictions of other rows"}
FINDINGS = {
    "no better": "truly no better than chance",
    "nothing to find": "predictions of other rows: nothing to find",
    "close": "too close to tell",
    "better": "truly better than chance",
}


def report(records: Records) -> Report:
    """Return the page: how often the self-check warns, compared with the truth."""
    page = Report(
        "robustness",
        title="Does the self-check warn when it should?",
        subtitle="The self-check at the end of fit, compared with the truth on the test rows",
    )
    first = records[0]
    splits = len({(record["problem"], record["split"]) for record in records})
    page.add(
        "",
        [
            f"{len(records)} explainers on {splits} splits of {len(PROBLEMS)} problems: the default, and "
            "three that went wrong. One step: a selector that has hardly begun to learn, little better than "
            "the same random features in all rows. Random weights: a selector that has not learned at all "
            "and selects different features in different rows. Predictions of other rows: the explainer is "
            "given predictions in the wrong order; the model is then not queried, and the surrogate decides.",
            "fit checked each explainer on held-out rows. Then each was measured on all test rows, 10,000 at "
            "most. Truly better: the 95 % interval of its advantage over random features, in post-hoc "
            "accuracy, lies above zero. Truly no better: it has no advantage. From predictions of other rows "
            "nothing can be learned; an advantage is luck.",
            f"Training was short ({first['value_steps']} steps for the surrogate, in small batches), because "
            "this experiment tests the check. The rule of the check was chosen on other splits.",
            measured_on(records),
        ],
    )
    page.add(
        "How often it warns",
        table=rates(records),
        caption="Goals: warnings for at least 90 % of the truly no better explainers, and for at most 10 % "
        "of the truly better ones. An explainer with random weights is truly better only by luck and by "
        "little; held-out rows may not show it.",
    )
    page.add(
        "How often it warns about the removal test",
        table=removal_tests(records),
        caption="The warning: the features outside the selection reproduce more predictions than the "
        "selected ones. Only for selections found better than chance; the others have their own warning.",
    )
    page.add(
        "By problem", table=details(records), caption="Post-hoc accuracies on test rows, means over splits."
    )
    page.markdown = page.tables_markdown()
    return page


def rates(records: Records) -> Table:
    """Return one line for each truth: how many explainers there are, and how many are warned about."""
    groups = {
        name: Records(record for record in records if true_finding(record) == finding)
        for finding, name in FINDINGS.items()
    }
    better = groups[FINDINGS["better"]]
    groups |= {
        f"of these: {NAMES[method]}": group for method in COMPARED if (group := better.select(method=method))
    }
    return Table(
        ["", "explainers", "warned", "in doubt by the surrogate, if there is one"],
        [[name, str(len(group)), share(group, doubted), share(with_surrogate(group), doubted_by_surrogate)]
         for name, group in groups.items()],
    )  # fmt: skip


def with_surrogate(group: Records) -> Records:
    """Return the records of explainers with a surrogate: two methods use objective="model", without one."""
    return Records(record for record in group if record["check"]["by_q"])


def removal_tests(records: Records) -> Table:
    """Return, for explainers that are not in doubt, the truth about removal tests and the warnings."""
    sure = [record for record in records if not doubted(record)]
    truths = {
        "the other features truly do better": Records(filter(removal_truly_better, sure)),
        "they do not": Records(record for record in sure if not removal_truly_better(record)),
    }
    return Table(
        ["", "explainers", "warned"],
        [[name, str(len(group)), share(group, removal_warned)] for name, group in truths.items()],
    )


def share(group: Records, warned: Callable[[Record], bool]) -> str:
    """Return a count and a share, "9 (90 %)"; a dash for an empty group."""
    number = sum(map(warned, group))
    return f"{number} ({100 * number / len(group):.0f} %)" if group else NOTHING


def details(records: Records) -> Table:
    """Return one line for each problem and method, means over splits."""

    def count(finding: str) -> Cell:
        return lambda group: str(sum(true_finding(record) == finding for record in group))

    cells: dict[str, Cell] = {
        "problem": lambda group: str(group[0]["problem"]),
        "method": name_of("method", NAMES),
        "held-out rows": lambda group: str(group[0]["check"]["rows"]),
        "selection": mean_sd("selection"),
        "random features": mean_sd("random"),
        "removal test": mean_sd("complement"),
        "better": count("better"),
        "close": count("close"),
        "no better": count("no better"),
        "warned": lambda group: str(sum(map(doubted, group))),
    }
    return Table.of(records.groups(problem=PROBLEMS, method=COMPARED), cells)
