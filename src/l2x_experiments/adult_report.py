"""Tables, a figure and a page from results/adult.json; draws only what the records say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from l2x.evaluation.card import FINDING_NAMES
from l2x.plots.lines import plot_lines
from l2x.plots.report import Section, write_report
from l2x.plots.style import save_figure
from l2x_experiments.results import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = {
    "l2x": "l2x",
    "l2x-model": "l2x, value = model",
    "tree_shap": "TreeSHAP",
    "kernel_shap": "Kernel SHAP",
    "random": "random",
}
MEASURES = {"posthoc_accuracy": "The model", "judge_accuracy": "An independent judge"}


def of(records: Sequence[Record], method: str) -> list[Record]:
    return [record for record in records if record["method"] == method]


def shown(records: Sequence[Record], key: str) -> dict[str, list[Record]]:
    """The records of each method, in order, that have been measured so."""
    found = {method: [r for r in of(records, method) if key in r] for method in NAMES}
    return {method: some for method, some in found.items() if some}


def table(records: Sequence[Record], key: str) -> tuple[list[str], list[list[object]]]:
    """One line for each method, one column for each k: mean over seeds ± standard deviation."""
    rows: list[list[object]] = []
    for method, some in shown(records, key).items():
        values = np.array([record[key] for record in some])
        means, spread = values.mean(axis=0), values.std(axis=0, ddof=1) if len(values) > 1 else None
        cells = [f"{m:.3f}" if spread is None else f"{m:.3f} ± {spread[i]:.3f}" for i, m in enumerate(means)]
        rows.append([NAMES[method], *cells])
    return ["method", *(f"k = {k}" for k in records[0]["k"])], rows


# Of the report card: what a line says, and where the figure stands.
CARD = {
    "the model, others set to the mean": ("fidelity", "mean"),
    "the model, others set to zero": ("fidelity", "zero"),
    "the model, others resampled": ("fidelity", "resample"),
    "the model, these set to the mean": ("fidelity", "mean_complement"),
    "the judge": ("judge", "selection"),
    "share of the bits, by the judge": ("information", "share"),
    "share told by the places alone": ("encoding", "share"),
    "the same under small noise": ("stability", "noise"),
    "the same for all rows": ("stability", "collapse"),
}


def cards(records: Sequence[Record]) -> tuple[list[str], list[list[object]]]:
    """One column for each method: its report card, means over seeds."""
    found = {method: [r["card"] for r in some] for method, some in shown(records, "card").items()}
    lines: list[list[object]] = [["rows", *(f"{some[0]['rows']:,}" for some in found.values())]]
    for name, (part, key) in CARD.items():
        lines.append([name, *(_mean([c["parts"][part].get(key) for c in some]) for some in found.values())])
    verdicts = (sorted({FINDING_NAMES[card["finding"]] for card in some}) for some in found.values())
    lines.append(["encoding", *(", ".join(some) for some in verdicts)])
    return ["", *(NAMES[method] for method in found)], lines


def _mean(estimates: Sequence[dict[str, float] | None]) -> str:
    """– where explanations came ready, and nothing could be explained again."""
    values = [estimate["value"] for estimate in estimates if estimate is not None]
    return f"{np.mean(values):.3f}" if values else "–"


def times(records: Sequence[Record]) -> tuple[list[str], list[list[object]]]:
    """What learning and explaining cost."""
    rows: list[list[object]] = []
    for method, some in shown(records, "explain_seconds").items():
        fit = np.mean([r["fit_seconds"] for r in some])
        fast = [1e3 * r["all_seconds"] / r["all_rows"] for r in some if "all_seconds" in r]
        each = np.mean(fast or [1e3 * r["explain_seconds"] / r["rows"] for r in some])
        learns = method in ("l2x", "l2x-model")
        shown_ms = f"{each:,.0f}" if each >= 100 else f"{each:.2g}"
        rows.append([NAMES[method], f"{fit:.0f}" if learns else "–", shown_ms])
    return ["method", "learning, s", "explaining, ms per row"], rows


def figure(records: Sequence[Record], key: str) -> Figure:
    methods = shown(records, key)
    return plot_lines(
        records[0]["k"],
        {NAMES[method]: [record[key] for record in some] for method, some in methods.items()},
        title=f"{MEASURES[key.removeprefix('all_')]} gives the same answer from k columns alone",
        x_label="k, of 12 columns",
        y_label="share of rows",
    )


def write(records: Sequence[Record], folder: Path) -> Path:
    """Figures (SVG and PNG) and one self-contained page into `folder`."""
    first = records[0]
    sections = [_introduction(first)]
    for key, name in MEASURES.items():
        drawn = figure(records, key)
        for ending in ("svg", "png"):
            save_figure(drawn, folder / "figures" / f"adult-{key.partition('_')[0]}.{ending}")
        text = [f"On the same {first['rows']:,} test rows for all methods:"]
        caption = "Mean ± standard deviation over seeds where a method learns; the band is their range."
        sections.append(Section(name, text, table=table(records, key), figures=[drawn], caption=caption))
        rows = next(record["all_rows"] for record in records if "all_rows" in record)
        text = [f"On all {rows:,} test rows, without Kernel SHAP, which would take hours:"]
        sections.append(Section("", text, table=table(records, f"all_{key}")))
    text = [
        "Three columns: do others, or the model when the rest is removed in other ways, give the same answer "
        "from them? And do their places encode it (docs/report-card.md)?"
    ]
    caption = f"k = {records[0]['card']['k']}. Kernel SHAP's card is of its few rows: half taught the reader."
    sections.append(Section("Report cards", text, table=cards(records), caption=caption))
    caption = "Explaining: on all test rows, Kernel SHAP on its own. One explainer serves every k."
    sections.append(Section("Time", table=times(records), caption=caption))
    return write_report(
        folder / "adult.html",
        title="Which columns decided who earns more?",
        subtitle="Adult census rows, LightGBM on the raw frame, k = 1 to 5 of 12 columns",
        sections=sections,
    )


def _introduction(first: Record) -> Section:
    return Section(
        "",
        [
            "The model is shown k columns of a row; each of the others is set to its mean, or to its most "
            "frequent category. How often does it give the answer that it gives for the whole row? That can "
            "be reached by columns which only make the model say the right thing, so a judge stands beside "
            "it: a network fitted on random subsets of other rows, to which no selection can pass a code.",
            f"The model, right on {100 * first['model_accuracy']:.1f} % of the test rows, and the explainers "
            f"learned from {first['learn_rows']:,} rows, the judge from others; nothing was chosen on test "
            "rows. SHAP values are for another question, how a prediction divides among all columns; their "
            "top k, by absolute value, is how they are commonly read. Kernel SHAP averages over 100 "
            "background rows, TreeSHAP over the paths of the trees.",
            f"Measured on {first['machine']}, {first['threads']} thread(s) per run. "
            # A person's remark about the run, such as what else kept the machine busy.
            + first.get("conditions", ""),
        ],
    )
