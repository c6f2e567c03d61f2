"""The report of results/sizes.json; draws only what the records say."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from l2x.display import plot_lines
from l2x.evaluation._card import FINDING_NAMES
from l2x_experiments.records import NOTHING, Record, Records
from l2x_experiments.report import Report, measured_on
from l2x_experiments.sizes import CARD, WIDE
from l2x_experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = {"adult": "Adult", "mnist-38": "MNIST, 3 against 8"}
MEASURES = {"posthoc_accuracy": "the model", "judge_accuracy": "an independent judge"}


def report(records: Records) -> Report:
    page = Report(
        "sizes",
        title="How many features does a row need?",
        subtitle="explain(X, keep=...) beside one size for all rows",
    )
    page.add("", introduction(records))
    for which in dict.fromkeys((record["set"], record["d"]) for record in records):
        group = records.select(set=which[0], d=which[1])
        figures = {} if which[1] == WIDE else {f"{which[0]}-{end}": figure(group, end) for end in MEASURES}
        page.add(title(group[0]), table=table(group), figures=figures, caption=caption(group))
    return page


def title(record: Record) -> str:
    name = NAMES.get(record["set"], record["set"].capitalize())
    return name if record["d"] is None else f"{name}, {record['d']} columns"


def table(group: Records) -> Table:
    """One line for each share that is kept."""

    def cell(key: str, i: int) -> str:
        values = [record[key][i] for record in group if key in record]
        return f"{np.mean(values):.3f}" if values else NOTHING

    columns: dict[str, Callable[[int], str]] = {
        "keep": lambda i: f"{group[0]['keep'][i]:g}",
        "features": lambda i: f"{np.mean([r['mean_size'][i] for r in group]):.2f}",
        "the model": lambda i: cell("posthoc_accuracy", i),
        "one size": lambda i: cell("fixed_posthoc_accuracy", i),
        "the rest": lambda i: cell("complement_accuracy", i),
        "the judge": lambda i: cell("judge_accuracy", i),
        "one size ": lambda i: cell("fixed_judge_accuracy", i),
        "TPR": lambda i: cell("tpr", i),
        "FDR": lambda i: cell("fdr", i),
    }
    rows = [[of(i) for of in columns.values()] for i in range(len(group[0]["keep"]))]
    return Table(list(columns), rows)


def figure(group: Records, key: str) -> Figure:
    sizes = np.mean([record["mean_size"] for record in group], axis=0).round(3).tolist()
    return plot_lines(
        sizes,
        {
            "as many as a row needs": [record[key] for record in group],
            "the same number in every row": [record[f"fixed_{key}"] for record in group],
        },
        title=f"{title(group[0])}: {MEASURES[key]} gives the same answer",
        x_label="features in a row, on average",
        y_label="share of rows",
    )


def caption(group: Records) -> str:
    return (
        f"Mean over {len(group)} seed(s); at most {group[0]['k']} features, {group[0]['rows']:,} test rows. "
        "One size: the same number in every row. The rest: the model, shown all but what is kept. "
        "TPR: share of the relevant features that are kept; "
        f"FDR: share of the kept ones that are not.{encoding(group)}"
    )


def encoding(group: Records) -> str:
    """What the report cards say: whether sizes and choice of features give the answer away."""
    cards = [record["card"] for record in group if "card" in record]
    if not cards:
        return ""
    shares = [card["parts"]["encoding"]["share"]["value"] for card in cards]
    found = ", ".join(
        f"{FINDING_NAMES[card['finding']]} ({s:+.3f})" for card, s in zip(cards, shares, strict=True)
    )
    return (
        f" Report card of keep={CARD}, seed by seed: {found}. In brackets, what the choice of features and "
        "of their number adds to their values, as a share of the information (encode-meter, gain)."
    )


def introduction(records: Records) -> list[str]:
    return [
        "explain(X, keep=0.95) gives each row the size that is worth most at one price per feature, so that "
        "on held-out rows 95 % of what the k features tell of the answer is kept on average. Beside it is "
        "one size for all rows with the same mean, of the same ranking. What a feature adds is expected by "
        "the scores and by the explainer's own q, as learned on its held-out rows, and so are prices; the "
        "rule was chosen on other rows than these. "
        f"Sets of {WIDE} columns have the default plan's steps, INVASE's others fewer.",
        measured_on(records),
    ]
