"""A different number of features in each row, `explain(X, keep=...)`, compared with one number for all rows.

accuracies  of model and evaluator, with sizes that vary, and with one size for all rows with the same mean
            (between two whole sizes: a random share of the rows has the larger one, in expectation)
rates       against the truth, on INVASE's six sets, whose rows have two to five relevant features
card        the report with keep=0.95: the size depends on the row, so it could leak the prediction just as
            the choice of features can
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from l2x._base.arrays import Array
from l2x.datasets import INVASE_SETS, SetName, synthetic
from l2x.display import plot_lines
from l2x.evaluation import false_discovery_rate, true_positive_rate
from l2x.explanation import Explanation
from l2x.features import fitted_view
from l2x.learning import masked_predictions
from l2x_experiments import adult, leakage
from l2x_experiments.leakage import LeakageBudget
from l2x_experiments.methods import Setting, fitted, report_record
from l2x_experiments.records import NOTHING, Record, Records, measured_here
from l2x_experiments.report import FINDINGS, Report, Table, measured_on
from l2x_experiments.runner import Experiment, Job

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEEP = (0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
REPORTED = 0.95  # the share for which a report is made
# The most features a row may have; no row of INVASE's sets has more relevant ones.
MOST = {"adult": 5, "mnist-38": 4} | dict.fromkeys(INVASE_SETS, 5)
FULL, QUICK = leakage.FULL, leakage.QUICK
# With this many columns the budget's steps do not find Syn5's product: the view's own plan is used.
WIDE = 100
# Offsets of seeds that nothing was tried on: earlier draws were used while the rule was developed.
FRESH = {11: 1300, WIDE: 1600}


def experiment(
    *, quick: bool = False, seeds: int = 3, sets: Sequence[str] | None = None, wide: bool = True
) -> Experiment:
    """Return the jobs: INVASE's sets, Adult and MNIST; with `wide`, INVASE's sets with 100 columns, too."""
    budget = QUICK if quick else FULL
    problems = [(name, 11) for name in INVASE_SETS] + [("adult", None), ("mnist-38", None)]
    problems += [(name, WIDE) for name in INVASE_SETS] if wide and not quick else []
    jobs = [
        Job({"set": name, "d": d, "seed": seed}, f"{name}, seed {seed}", group=(name, d, seed))
        for name, d in problems
        for seed in range(seeds)
        if not sets or name in sets
    ]
    return Experiment("sizes", jobs, partial(measure_all, budget=budget))


def measure_all(jobs: Sequence[Job], budget: LeakageBudget) -> Iterator[Record]:
    """Measure the jobs of one group."""
    for job in jobs:
        setting = replace(set_up(job["set"], job["d"], job["seed"], budget), fitted={})
        yield {**job.key, **measure(setting, job["seed"]), **measured_here()}


def set_up(name: str, d: int | None, seed: int, budget: LeakageBudget) -> Setting:
    """Set up the problem and its evaluator; k is the most features that a row may have."""
    if name == "adult":
        return replace(adult.set_up(adult.QUICK if budget.quick else adult.FULL), k=MOST[name])
    if name == "mnist-38":
        return replace(leakage.three_or_eight(seed, budget), k=MOST[name])
    if d == WIDE:
        budget = replace(budget, value_steps=None, selector_steps=None)
    assert d is not None
    draw = partial(synthetic, cast(SetName, name), d=d)
    return leakage.evaluated(draw, budget.first_seed + FRESH[d] + seed, budget, k=MOST[name])


def measure(setting: Setting, seed: int) -> Record:
    """Return the record of one problem and seed."""
    explainer, X = fitted(setting, "l2x", seed), setting.test
    whole = explainer.explain(X)
    varying = [explainer.explain(X, keep=share) for share in KEEP]
    sizes = [explanation.sizes.mean() for explanation in varying]
    fixed = accuracies(setting, [replace(whole, k=size) for size in range(1, setting.k + 1)])
    record = {
        "k": setting.k,
        "rows": len(whole),
        "keep": list(KEEP),
        "mean_size": [float(size) for size in sizes],
        **accuracies(setting, varying),
        **{f"fixed_{name}": [at_size(shares, size) for size in sizes] for name, shares in fixed.items()},
        "fit_seconds": explainer.fit_seconds_,
    }
    if explainer.n_features_in_ < WIDE:  # with more, a report would take longer than all the rest
        record["card"] = report_record(
            setting, explainer, X, seed, name=f"l2x, keep={REPORTED}", keep=REPORTED
        )
    if setting.truth is not None:
        record["tpr"] = [
            float(true_positive_rate(explanation, setting.truth).mean()) for explanation in varying
        ]
        record["fdr"] = [
            float(false_discovery_rate(explanation, setting.truth).mean()) for explanation in varying
        ]
    return record


def accuracies(setting: Setting, explanations: Sequence[Explanation]) -> dict[str, list[float]]:
    """Return post-hoc accuracy, removal test and evaluator accuracy of each explanation."""
    view, evaluator = fitted_view(setting.features, setting.train), setting.evaluator
    assert evaluator is not None
    X = view.check(setting.test)
    classes = evaluator.predictions(setting.test).argmax(axis=1)

    def share(predictions: Array) -> float:
        return float((predictions.argmax(axis=1) == classes).mean())

    masks = [explanation.mask for explanation in explanations]
    return {
        "posthoc_accuracy": [share(masked_predictions(setting.black_box, view, X, mask)) for mask in masks],
        "complement_accuracy": [
            share(masked_predictions(setting.black_box, view, X, ~mask)) for mask in masks
        ],
        "judge_accuracy": [share(evaluator.outputs(setting.test, mask)) for mask in masks],
    }


def at_size(shares: Sequence[float], size: float) -> float:
    """Interpolate between the accuracies of sizes 1, 2, ...: a mixture of two sizes."""
    return float(np.interp(size, np.arange(1, len(shares) + 1), shares))


NAMES = {"adult": "Adult", "mnist-38": "MNIST, 3 versus 8"}
# Record key: title of the figure, end of the figure's file name.
MEASURES = {
    "posthoc_accuracy": ("post-hoc accuracy", "posthoc"),
    "judge_accuracy": ("accuracy of an independent evaluator", "evaluator"),
}


def report(records: Records) -> Report:
    """Return the page: a table and two figures for each problem."""
    page = Report(
        "sizes",
        title="How many features does a row need?",
        subtitle="explain(X, keep=...), compared with one size for all rows",
    )
    page.add("", introduction(records))
    for name, d in dict.fromkeys((record["set"], record["d"]) for record in records):
        group = records.select(set=name, d=d)
        ends = {} if d == WIDE else {key: f"{name}-{end}" for key, (_, end) in MEASURES.items()}
        figures = {end: figure(group, key) for key, end in ends.items()}
        page.add(title(group[0]), table=table(group), figures=figures, caption=caption(group))
    return page


def introduction(records: Records) -> list[str]:
    """Describe what is measured, and on what."""
    return [
        "explain(X, keep=0.95) chooses the size of each row: expected gain minus price times size is "
        "largest, with one price for all rows. The price is set on held-out rows so that 95 % of the "
        "information in the k features is kept on average. The comparison is one size for all rows with the "
        "same mean, from the same ranking. Expected gains come from the scores and the explainer's own "
        "surrogate, learned on its held-out rows; the rule was chosen on other rows than these. "
        f"Sets with {WIDE} columns are trained with the default plan, INVASE's other sets with fewer steps.",
        measured_on(records),
    ]


def title(record: Record) -> str:
    """Return the name of a problem."""
    name = NAMES.get(record["set"], record["set"].capitalize())
    return name if record["d"] is None else f"{name}, {record['d']} columns"


def table(group: Records) -> Table:
    """Return one line for each value of `keep`."""

    def cell(key: str, i: int) -> str:
        values = [record[key][i] for record in group if key in record]
        return f"{np.mean(values):.3f}" if values else NOTHING

    columns: dict[str, Callable[[int], str]] = {
        "keep": lambda i: f"{group[0]['keep'][i]:g}",
        "features": lambda i: f"{np.mean([r['mean_size'][i] for r in group]):.2f}",
        "post-hoc": lambda i: cell("posthoc_accuracy", i),
        "one size": lambda i: cell("fixed_posthoc_accuracy", i),
        "removal test": lambda i: cell("complement_accuracy", i),
        "evaluator": lambda i: cell("judge_accuracy", i),
        "one size ": lambda i: cell("fixed_judge_accuracy", i),
        "TPR": lambda i: cell("tpr", i),
        "FDR": lambda i: cell("fdr", i),
    }
    rows = [[text(i) for text in columns.values()] for i in range(len(group[0]["keep"]))]
    return Table(list(columns), rows)


def figure(group: Records, key: str) -> Figure:
    """Draw an accuracy over the mean number of features."""
    sizes = np.mean([record["mean_size"] for record in group], axis=0).round(3).tolist()
    return plot_lines(
        sizes,
        {
            "size chosen for each row": [record[key] for record in group],
            "one size for all rows": [record[f"fixed_{key}"] for record in group],
        },
        title=f"{title(group[0])}: {MEASURES[key][0]}",
        x_label="mean number of features in a row",
        y_label="share of rows",
    )


def caption(group: Records) -> str:
    """Explain the columns and summarise the reports."""
    return (
        f"Mean over {len(group)} seed(s); at most {group[0]['k']} features, {group[0]['rows']:,} test rows. "
        "One size: the same number of features in every row, for the model and for the evaluator. Removal "
        "test: accuracy of the model without the selected features. "
        "TPR: share of the relevant features that are selected. "
        f"FDR: share of the selected features that are not relevant.{leakage_summary(group)}"
    )


def leakage_summary(group: Records) -> str:
    """Return what the reports found: do sizes and choice of features leak the prediction?"""
    reports = [record["card"] for record in group if "card" in record]
    if not reports:
        return ""
    shares = [made["parts"]["encoding"]["share"]["value"] for made in reports]
    findings = ", ".join(
        f"{FINDINGS[made['finding']]} ({share:+.3f})" for made, share in zip(reports, shares, strict=True)
    )
    return (
        f" Leakage with keep={REPORTED}, seed by seed: {findings}. In brackets: what the choice of features "
        "and of their number adds to their values, as a share of the information."
    )
