"""LightGBM on raw census rows: how well do k = 1 to 5 columns reproduce its predictions?

rows      shuffled once and split: the model and the explainers learn from the first part, the evaluator from
          the second; every method is measured on the same test rows (`rows`), and methods that are fast
          enough on all test rows (`all_rows`); nothing is chosen on test rows
records   one for each method and seed: entries for k = 1, 2, ... are lists; also a report with k = 3
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from l2x.datasets import adult
from l2x.display import plot_lines
from l2x.evaluation import fit_evaluator, posthoc_accuracy
from l2x.explanation import Explanation
from l2x.features import Columns
from l2x.learning import FittedSurrogate
from l2x.model import as_black_box
from l2x_experiments.cache import evaluator_accuracy
from l2x_experiments.methods import METHODS, Budget, Setting, fitted, labels, report_record
from l2x_experiments.records import NOTHING, Record, Records, measured_here, timed
from l2x_experiments.report import FINDINGS, Cell, Report, Table, mean_sd, measured_on, name_of
from l2x_experiments.runner import Experiment, Job

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SIZES = (1, 2, 3, 4, 5)
FITTED_K = 3  # one explainer serves every k
SEEDED = ("l2x", "l2x-told", "l2x-surrogate", "l2x-model")
COMPARED = (*SEEDED, "tree_shap", "kernel_shap", "random")
EVALUATOR_ROWS = 8000

# The rows for all methods are those of Kernel SHAP, which needs 200,000 queries per row.
FULL = Budget(train_rows=16_000, test_rows=8561, sampling_rows=200)
QUICK = Budget(
    train_rows=16_000, test_rows=1000, sampling_rows=5, value_steps=500, selector_steps=300, evaluations=10
)


def experiment(*, quick: bool = False, seeds: int = 3) -> Experiment:
    """Return the jobs: every method with the first seed, methods that learn with all seeds."""
    jobs = [
        Job({"method": method, "seed": seed}, f"{method}, seed {seed}", group=seed)
        for seed in range(seeds)
        for method in COMPARED
        if seed == 0 or method in SEEDED
    ]
    return Experiment(
        "adult",
        jobs,
        partial(measure_all, budget=QUICK if quick else FULL),
        fetch=lambda progress: adult(progress=progress),
    )


@dataclass(kw_only=True)
class Census(Setting):
    """The model, trained on the first part of the rows, and the evaluator, fitted on the second."""

    features: Columns
    evaluator: FittedSurrogate
    accuracy: float


def measure_all(jobs: Sequence[Job], budget: Budget) -> Iterator[Record]:
    """Measure the jobs of one seed."""
    setting = set_up(budget)
    for job in jobs:
        yield measure(setting, job["method"], job["seed"], rows=budget.sampling_rows)


def set_up(budget: Budget) -> Census:
    """Split the rows, train the model and fit the evaluator."""
    from lightgbm import LGBMClassifier

    data = adult(progress=False)
    order, plans = np.random.default_rng(0).permutation(len(data)), budget.plans(Columns)
    first = budget.train_rows or 0
    second = first + EVALUATOR_ROWS
    train, for_evaluator, test = order[:first], order[first:second], order[second:][: budget.test_rows]
    X, y = data.X, data.y
    model = LGBMClassifier(n_jobs=1, verbose=-1).fit(X.iloc[train], y[train])
    black_box = as_black_box(model)
    return Census(
        black_box=black_box,
        k=FITTED_K,
        train=X.iloc[train],
        probe_rows=X.iloc[for_evaluator],
        test=X.iloc[test],
        plans=plans,
        features=Columns().fit(X.iloc[train]),
        model=model,
        evaluator=fit_evaluator(black_box, X.iloc[for_evaluator], FITTED_K, training=plans.ours),
        accuracy=float(np.mean(model.predict(X.iloc[test]) == y[test])),
    )


def measure(setting: Census, method: str, seed: int, *, rows: int) -> Record:
    """Return the record of one method and seed."""
    explainer, fit_seconds = timed(lambda: fitted(setting, method, seed))
    same = setting.test.iloc[:rows]
    explanation, explain_seconds = timed(lambda: explainer.explain(same, max(SIZES)))
    record = {
        "method": method,
        "seed": seed,
        "k": list(SIZES),
        "rows": len(same),
        "fit_seconds": fit_seconds,
        "explain_seconds": explain_seconds,
        "model_accuracy": setting.accuracy,
        "learn_rows": len(setting.train),
        "columns": setting.features.d,
        "selected_share": explanation.mask.mean(axis=0).tolist(),
        "names": list(setting.features.names_),
        **measured_here(),
        **accuracies(setting, same, explanation),
    }
    if METHODS[method].cost == "sampling":  # too slow for all rows: the report is about these few
        selected = replace(explanation, k=FITTED_K)
        return record | {"card": report_record(setting, selected, same, seed, name=method)}
    record["card"] = report_record(setting, explainer, setting.test, seed, name=method)
    everything, seconds = timed(lambda: explainer.explain(setting.test, max(SIZES)))
    record |= {"all_rows": len(setting.test), "all_seconds": seconds}
    shares = accuracies(setting, setting.test, everything)
    return record | {f"all_{name}": values for name, values in shares.items()}


def accuracies(setting: Census, X: pd.DataFrame, explanation: Explanation) -> dict[str, list[float]]:
    """Return, for each k, how often the model and the evaluator predict the model's class from k columns."""
    predictions = setting.black_box(X)
    selections = [replace(explanation, k=k) for k in SIZES]
    classes = predictions.argmax(axis=1)
    return {
        "posthoc_accuracy": [
            posthoc_accuracy(setting.black_box, X, s, predictions=predictions) for s in selections
        ],
        "judge_accuracy": [evaluator_accuracy(setting.evaluator, X, s, classes) for s in selections],
    }


LABELS = labels(COMPARED)
# Record key: heading, title of the figure, end of the figure's file name.
MEASURES = {
    "posthoc_accuracy": ("Post-hoc accuracy", "Post-hoc accuracy with k columns", "posthoc"),
    "judge_accuracy": ("Evaluator", "An evaluator predicts the same class from k columns", "evaluator"),
}
# Lines of the table of reports, and where their numbers are in a record.
REPORT_LINES = {
    "post-hoc accuracy, masked by the mean": ("fidelity", "mean"),
    "post-hoc accuracy, masked by zero": ("fidelity", "zero"),
    "post-hoc accuracy, masked by resampling": ("fidelity", "resample"),
    "removal test, masked by the mean": ("fidelity", "mean_complement"),
    "evaluator": ("judge", "selection"),
    "share of the information, by the evaluator": ("information", "share"),
    "leakage: share of the information in the mask alone": ("encoding", "share"),
    "same selection under small noise": ("stability", "noise"),
    "same selection in all rows": ("stability", "collapse"),
}


def report(records: Records) -> Report:
    """Return the page: accuracies by k, reports with k = 3, and times."""
    page = Report(
        "adult",
        title="Which columns decided who earns more?",
        subtitle="Adult census rows, LightGBM on the raw frame, k = 1 to 5 of 12 columns",
    )
    first, all_rows = records[0], records.values("all_rows")[0]
    page.add("", introduction(records))
    for key, (heading, _, end) in MEASURES.items():
        page.add(
            heading,
            [f"On the same {first['rows']:,} test rows for all methods:"],
            table=table(records, key),
            figures={end: figure(records, key)},
            caption="Mean ± standard deviation over seeds for methods that learn; the band is their range.",
        )
        text = f"On all {all_rows:,} test rows, without Kernel SHAP, which would take hours:"
        page.add("", [text], table=table(records, f"all_{key}"))
    page.add(
        "Reports",
        [
            "For three columns: does the model predict the same class if the other columns are masked in "
            "different ways, does the evaluator, and does the choice of columns leak the prediction "
            "(docs/concepts/trust.md)?"
        ],
        table=reports(records),
        caption=f"k = {first['card']['k']}. The report of Kernel SHAP has few rows, half of which trained "
        "the probes.",
    )
    caption = "Explaining: on all test rows, for Kernel SHAP on its own rows. One explainer serves every k."
    page.add("Time", table=times(records), caption=caption)
    return page


def introduction(records: Records) -> list[str]:
    """Describe what is measured, and on what."""
    first = records[0]
    return [
        "Post-hoc accuracy: the model sees k columns of a row, every other column is set to its mean or its "
        "most frequent category, and we count how often it predicts the same class as for the whole row. "
        "Columns that merely push the model towards the right class reach it, too. Therefore an independent "
        "evaluator is reported as well: a network fitted on random subsets of other rows, to which a "
        "selection cannot leak the prediction.",
        f"The model is right on {100 * first['model_accuracy']:.1f} % of the test rows. Model and explainers "
        f"learned from {first['learn_rows']:,} rows, the evaluator from others; nothing was chosen on test "
        "rows. SHAP values measure something else: how a prediction divides among all columns. Their top k "
        "by absolute value is how they are commonly read. Kernel SHAP averages over 100 background rows, "
        "TreeSHAP over the paths of the trees.",
        measured_on(records),
    ]


def with_entry(records: Records, key: str) -> list[Records]:
    """Return the records of each method, in order, that have this entry."""
    return list(Records(record for record in records if key in record).groups(method=LABELS))


def table(records: Records, key: str) -> Table:
    """Return one line for each method, one column for each k."""
    cells = {f"k = {k}": mean_sd(key, i) for i, k in enumerate(records[0]["k"])}
    return Table.of(with_entry(records, key), {"method": name_of("method", LABELS), **cells})


def figure(records: Records, key: str) -> Figure:
    """Draw an accuracy over k, a line for each method."""
    return plot_lines(
        records[0]["k"],
        {LABELS[group[0]["method"]]: group.values(key) for group in with_entry(records, key)},
        title=MEASURES[key][1],
        x_label="k, of 12 columns",
        y_label="share of rows",
    )


def findings(group: Records) -> str:
    """Return what the reports of a group found about leakage."""
    return ", ".join(sorted({FINDINGS[finding] for finding in group.values("card", "finding")}))


def reports(records: Records) -> Table:
    """Return one column for each method: its report, means over seeds."""

    def mean(part: str, key: str) -> Cell:
        def cell(group: Records) -> str:
            values = group.values("card", "parts", part, key, "value")
            return f"{np.mean(values):.3f}" if values else NOTHING  # no stability without an explainer

        return cell

    cells: dict[str, Cell] = {
        "": name_of("method", LABELS),
        "rows": lambda group: f"{group[0]['card']['rows']:,}",
    }
    cells |= {line: mean(part, key) for line, (part, key) in REPORT_LINES.items()}
    return Table.of(with_entry(records, "card"), cells | {"leakage": findings}).transposed()


def times(records: Records) -> Table:
    """Return what training and explaining cost."""

    def training(group: Records) -> str:
        return f"{group.mean('fit_seconds'):.0f}" if group[0]["method"] in SEEDED else NOTHING

    def explaining(group: Records) -> str:
        fast = [1e3 * r["all_seconds"] / r["all_rows"] for r in group if "all_seconds" in r]
        each = np.mean(fast or [1e3 * r["explain_seconds"] / r["rows"] for r in group])
        return f"{each:,.0f}" if each >= 100 else f"{each:.2g}"

    cells = {
        "method": name_of("method", LABELS), "training, s": training, "explaining, ms per row": explaining
    }  # fmt: skip
    return Table.of(records.groups(method=LABELS), cells)
