"""The report of results/ablation.json; draws only what the records say."""

from __future__ import annotations

from l2x_experiments.ablation import RECIPES, Problem
from l2x_experiments.records import Records
from l2x_experiments.report import Report, measured_on
from l2x_experiments.tables import Cell, Table, mean_sd

TITLES: dict[Problem, str] = {"xor": "XOR: exact sets", "mnist": "MNIST 3 against 8: post-hoc accuracy"}
CELLS: dict[str, Cell] = {
    "recipe": lambda group: str(group[0]["recipe"]),
    "each seed": lambda group: " ".join(f"{r['share']:.3f}" for r in sorted(group, key=lambda r: r["seed"])),
    "mean": mean_sd("share"),
}


def report(records: Records) -> Report:
    page = Report(
        "ablation",
        title="What it takes to reproduce L2X",
        subtitle="Pieces between the paper's text and its authors' runs, put in one by one",
    )
    page.add("", [measured_on(records)])
    for group in records.groups(problem=TITLES):
        problem: Problem = group[0]["problem"]
        page.add(TITLES[problem], table=Table.of(group.groups(recipe=RECIPES[problem]), CELLS))
    page.markdown = page.tables_markdown()
    return page
