"""Tables, a figure and a page from results/honesty.json; draws only what the records say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from l2x.datasets.invase import INVASE_SETS
from l2x.evaluation.card import FINDING_NAMES
from l2x.plots.honesty import plot_encoding
from l2x.plots.report import Section, write_report
from l2x.plots.style import save_figure, write_file
from l2x_experiments.honesty import CARD_METHODS, TRUTH_METHODS, rates
from l2x_experiments.results import Record

LABELS = {
    "l2x": "l2x",
    "paper": "L2X, paper",
    "position": "cheats by position",
    "prediction": "cheats by prediction",
    "marginal": "cheats by marginal",
}
# What a line of a set's table says, and where its figure stands in the cards.
FIGURES = {
    "share told by the places": ("encoding", "share"),
    "encode-meter, bits": ("encoding", "encode_meter"),
    "own reader": ("encoding", "own_reader"),
    "places alone": ("encoding", "mask_only"),
    "the model, the rest removed": ("fidelity", ""),  # the view's own way of removing
    "judge": ("judge", "selection"),
    "bits captured": ("information", "captured"),
    "exact sets": ("truth", "exact"),
}
Table = tuple[list[str], list[list[str]]]

SET_NAMES = {
    "switch": "Switch",
    "syn4": "Syn4",
    "syn5": "Syn5",
    "syn6": "Syn6",
    "syn4-k5": "Syn4, k = 5",
    "syn5-k5": "Syn5, k = 5",
    "mnist-38": "MNIST, 3 against 8",
    "imdb-words": "IMDB, words",
}


def cards(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if record["kind"] == "card"]


def sets_of(records: Sequence[Record]) -> list[str]:
    """The sets that occur, in the order of running."""
    return list(dict.fromkeys(record["set"] for record in cards(records)))


def table(records: Sequence[Record], name: str) -> Table:
    """One column for each method on a set: means over seeds."""
    found = {
        method: some
        for method in CARD_METHODS
        if (some := [r for r in cards(records) if r["set"] == name and r["method"] == method])
    }
    own = next(iter(next(iter(found.values()))[0]["parts"]["fidelity"]))  # the view's own way of removing
    figures = FIGURES | {"the model, the rest removed": ("fidelity", own)}
    rows = [["encoding", *(_findings(some) for some in found.values())]]
    for title, (part, key) in figures.items():
        cells = [_over_seeds(some, part, key) for some in found.values()]
        if set(cells) != {"–"}:
            rows.append([title, *cells])
    return ["", *(LABELS[method] for method in found)], rows


def caption(records: Sequence[Record], name: str) -> str:
    """What the table's figures are to be held against."""
    some = [record for record in cards(records) if record["set"] == name]
    seeds = len({record["seed"] for record in some})
    return (
        f"{seeds} seed(s), k = {some[0]['k']} of {some[0]['features']} features, {some[0]['rows']:,} rows. "
        f"There are {_mean(some, 'information', 'available'):.3f} bits to know; the most frequent class has "
        f"{_mean(some, 'encoding', 'majority'):.3f}; with everything selected the judge misses "
        f"{_mean(some, 'encoding', 'missed'):.3f} bits. Share: what the places tell of all there is to "
        "know. Own reader: a predictor fitted on the method's own selections, a naive measure that a code "
        "raises."
    )


def _over_seeds(some: Sequence[Record], part: str, key: str) -> str:
    found = (record["parts"].get(part, {}).get(key) for record in some)
    values = [figure["value"] for figure in found if figure is not None]
    return _mean_and_spread(values) if values else "–"  # measured before the card had this figure


def _mean_and_spread(values: Sequence[float]) -> str:
    """± where seeds differ in what is shown."""
    mean = f"{np.mean(values):.3f}"
    spread = f"{np.std(values, ddof=1):.3f}" if len(values) > 1 else "0.000"
    return mean if spread == "0.000" else f"{mean}\u00a0±\u00a0{spread}"  # in one line


def _findings(some: Sequence[Record]) -> str:
    counts = {name: sum(record["finding"] == key for record in some) for key, name in FINDING_NAMES.items()}
    if len([count for count in counts.values() if count]) == 1:
        return FINDING_NAMES[some[0]["finding"]]
    return ", ".join(f"{name} {count} of {len(some)}" for name, count in counts.items() if count)


def rate_table(records: Sequence[Record]) -> Table:
    """The verdict's error rates: how often each method is flagged on switch."""
    rows = [
        [LABELS[method], f"{flagged} of {seeds}", "should be" if method not in ("l2x", "paper") else
         "should not be" if method == "l2x" else "trained jointly: it may or may not"]
        for method, (flagged, seeds) in rates(records).items()
    ]  # fmt: skip
    return ["method", "flagged", "expected"], rows


def truth_table(records: Sequence[Record]) -> Table:
    """True-positive and false-discovery rates on INVASE's sets."""
    columns = ["set", "d", "k", "method", "seeds", "TPR", "FDR", "best TPR", "best FDR", "TPR at true size",
               "exact sets"]  # fmt: skip
    known = [record for record in records if record["kind"] == "truth"]
    rows = []
    for d in sorted({record["d"] for record in known}):
        for name in INVASE_SETS:
            for method in TRUTH_METHODS:
                some = [r for r in known if (r["d"], r["set"], r["method"]) == (d, name, method)]
                if some:
                    keys = ("tpr", "fdr", "best_tpr", "best_fdr", "tpr_at_true_size", "exact")
                    figures = [_mean_and_spread([r[key] for r in some]) for key in keys]
                    first = [name.capitalize(), str(d), str(some[0]["k"]), LABELS[method], str(len(some))]
                    rows.append([*first, *figures])
    return columns, rows


def tables(records: Sequence[Record]) -> dict[str, Table]:
    """Every table that has rows, by its title."""
    found = {f"Report cards: {SET_NAMES.get(name, name)}": table(records, name) for name in sets_of(records)}
    found |= {"Flagged on switch": rate_table(records), "INVASE's sets": truth_table(records)}
    return {title: some for title, some in found.items() if some[1]}


def show(records: Sequence[Record]) -> None:
    """The tables in the terminal."""
    from rich.console import Console
    from rich.table import Table as Grid

    for title, (columns, rows) in tables(records).items():
        grid = Grid(*columns, title=title)
        for row in rows:
            grid.add_row(*row)
        Console().print(grid)


def markdown(records: Sequence[Record]) -> str:
    """The same tables for the documentation."""
    return "\n".join(f"## {title}\n\n{_markdown(some)}" for title, some in tables(records).items())


def _markdown(some: Table) -> str:
    columns, rows = some
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def write(records: Sequence[Record], folder: Path) -> Path:
    """The figure, the tables as Markdown, and one self-contained page into `folder`."""
    figure = plot_encoding(
        {
            SET_NAMES.get(name, name): {
                LABELS[method]: [r["parts"]["encoding"]["share"] for r in some]
                for method in CARD_METHODS
                if (some := [r for r in cards(records) if r["set"] == name and r["method"] == method])
            }
            for name in sets_of(records)
        }
    )
    for ending in ("svg", "png"):
        save_figure(figure, folder / "figures" / f"honesty.{ending}")
    write_file(folder / "honesty.md", markdown(records).encode())
    sections = [
        Section("", _introduction(records), figures=[figure]),
        *(
            Section(SET_NAMES.get(name, name), table=table(records, name), caption=caption(records, name))
            for name in sets_of(records)
        ),
        Section(
            "How often the verdict errs",
            ["On switch, with seeds that nothing was tuned on: flagged means that the card says it encodes."],
            table=rate_table(records),
        ),
    ]
    if any(record["kind"] == "truth" for record in records):
        sections.append(
            Section(
                "INVASE's sets",
                [
                    "Code variant of the formulas; the true P(y|x) is explained. In Syn4 and Syn5 rows have "
                    "3 or 5 relevant features, and k is 4, their mean: best TPR and FDR are what a perfect "
                    "ranking reaches with this k. TPR at true size takes as many features as the row truly "
                    "has; FDR is then one minus that.",
                ],
                table=truth_table(records),
            )
        )
    return write_report(
        folder / "honesty.html",
        title="Can the explanations be trusted?",
        subtitle="Report cards of l2x, of the paper's recipe, and of three deliberate cheaters",
        sections=sections,
    )


def _introduction(records: Sequence[Record]) -> list[str]:
    first: dict[str, Any] = records[0]
    return [
        "Post-hoc accuracy can be gamed: a selection may pass the answer in which features it selects. Each "
        "card fits an independent judge and two readers of the selections; what the reader of the real "
        "selections knows more than the reader of the dealt ones is the code, as a share of all there is to "
        "know about the model's answer. Above 3 % (dashed), with 95 % confidence and beyond what the judge "
        "itself misses, the card says that it encodes.",
        f"Explainers learned from {first['train_rows']:,} fresh rows of each synthetic set. Measured on "
        f"{first['machine']}, {first['threads']} thread(s).",
    ]


def _mean(some: Sequence[Record], part: str, key: str) -> float:
    return float(np.mean([record["parts"][part][key]["value"] for record in some]))
