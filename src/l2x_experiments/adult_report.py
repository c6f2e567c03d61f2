"""The report of results/adult.json; draws only what the records say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from l2x.display import plot_lines
from l2x.evaluation._card import FINDING_NAMES
from l2x_experiments.adult import METHODS, SEEDED
from l2x_experiments.contenders import labels
from l2x_experiments.records import NOTHING, Records
from l2x_experiments.report import Report, measured_on
from l2x_experiments.tables import Cell, Table, mean_sd, name_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = labels(METHODS)
MEASURES = {"posthoc_accuracy": "The model", "judge_accuracy": "An independent judge"}
# Of the report card: what a line says, and where the number stands.
CARD = {
    "the model, others set to the mean": ("fidelity", "mean"),
    "the model, others set to zero": ("fidelity", "zero"),
    "the model, others resampled": ("fidelity", "resample"),
    "the model, these set to the mean": ("fidelity", "mean_complement"),
    "the judge": ("judge", "selection"),
    "share of the bits, by the judge": ("information", "share"),
    "share told by the index set alone": ("encoding", "share"),
    "the same under small noise": ("stability", "noise"),
    "the same for all rows": ("stability", "collapse"),
}


def report(records: Records) -> Report:
    page = Report(
        "adult",
        title="Which columns decided who earns more?",
        subtitle="Adult census rows, LightGBM on the raw frame, k = 1 to 5 of 12 columns",
    )
    first, all_rows = records[0], records.values("all_rows")[0]
    page.add("", introduction(records))
    for key, name in MEASURES.items():
        page.add(
            name,
            [f"On the same {first['rows']:,} test rows for all methods:"],
            table=table(records, key),
            figures={key.partition("_")[0]: figure(records, key)},
            caption="Mean ± standard deviation over seeds where a method learns; the band is their range.",
        )
        text = f"On all {all_rows:,} test rows, without Kernel SHAP, which would take hours:"
        page.add("", [text], table=table(records, f"all_{key}"))
    page.add(
        "Report cards",
        [
            "Three columns: do others, or the model when the rest is removed in other ways, give the same "
            "answer from them? And does the choice of columns encode it (docs/report-card.md)?"
        ],
        table=cards(records),
        caption=f"k = {first['card']['k']}. Kernel SHAP's card is of its few rows: half taught the probes.",
    )
    caption = "Explaining: on all test rows, Kernel SHAP on its own. One explainer serves every k."
    page.add("Time", table=times(records), caption=caption)
    return page


def with_entry(records: Records, key: str) -> list[Records]:
    """The records of each method, in order, that have been measured so."""
    return list(Records(record for record in records if key in record).groups(method=LABELS))


def table(records: Records, key: str) -> Table:
    """One line for each method, one column for each k."""
    cells = {f"k = {k}": mean_sd(key, i) for i, k in enumerate(records[0]["k"])}
    return Table.of(with_entry(records, key), {"method": name_of("method", LABELS), **cells})


def findings(group: Records) -> str:
    """What the report cards of a group say about encoding."""
    return ", ".join(sorted({FINDING_NAMES[finding] for finding in group.values("card", "finding")}))


def cards(records: Records) -> Table:
    """One column for each method: its report card, means over seeds."""

    def mean(part: str, key: str) -> Cell:
        def cell(group: Records) -> str:
            values = group.values("card", "parts", part, key, "value")
            return f"{np.mean(values):.3f}" if values else NOTHING  # precomputed: nothing is explained again

        return cell

    cells: dict[str, Cell] = {
        "": name_of("method", LABELS),
        "rows": lambda group: f"{group[0]['card']['rows']:,}",
    }
    cells |= {line: mean(part, key) for line, (part, key) in CARD.items()}
    return Table.of(with_entry(records, "card"), cells | {"encoding": findings}).transposed()


def times(records: Records) -> Table:
    """What learning and explaining cost."""

    def learning(group: Records) -> str:
        return f"{group.mean('fit_seconds'):.0f}" if group[0]["method"] in SEEDED else NOTHING

    def explaining(group: Records) -> str:
        fast = [1e3 * r["all_seconds"] / r["all_rows"] for r in group if "all_seconds" in r]
        each = np.mean(fast or [1e3 * r["explain_seconds"] / r["rows"] for r in group])
        return f"{each:,.0f}" if each >= 100 else f"{each:.2g}"

    cells = {
        "method": name_of("method", LABELS), "learning, s": learning, "explaining, ms per row": explaining
    }  # fmt: skip
    return Table.of(records.groups(method=LABELS), cells)


def figure(records: Records, key: str) -> Figure:
    return plot_lines(
        records[0]["k"],
        {LABELS[group[0]["method"]]: group.values(key) for group in with_entry(records, key)},
        title=f"{MEASURES[key]} gives the same answer from k columns alone",
        x_label="k, of 12 columns",
        y_label="share of rows",
    )


def introduction(records: Records) -> list[str]:
    first = records[0]
    return [
        "The model is shown k columns of a row; each of the others is set to its mean, or to its most "
        "frequent category. How often does it give the answer that it gives for the whole row? That can be "
        "reached by columns which only make the model say the right thing, so a judge stands beside it: a "
        "network fitted on random subsets of other rows, to which no selection can pass a code.",
        f"The model, right on {100 * first['model_accuracy']:.1f} % of the test rows, and the explainers "
        f"learned from {first['learn_rows']:,} rows, the judge from others; nothing was chosen on test rows. "
        "SHAP values are for another question, how a prediction divides among all columns; their top k, by "
        "absolute value, is how they are commonly read. Kernel SHAP averages over 100 background rows, "
        "TreeSHAP over the paths of the trees.",
        measured_on(records),
    ]
