"""The generated parts of README and docs/, each between two comments of its page.

`make table` refreshes the tables, which are made from the records; a test compares them. `make readme` also
refreshes the output of the README's code, and its pictures.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from l2x_experiments import ablation, adult, leakage
from l2x_experiments.methods import LABELS
from l2x_experiments.records import NOTHING, Records
from l2x_experiments.report import Cell, Table, mean_sd, name_of
from website import DOCS, ROOT
from website.pages import blocks, run_block, run_page, working_folder
from website.results import RECORDS, markdown_table

README = ROOT / "README.md"
PICTURES = DOCS / "pictures"
SHOWN = ("l2x", "l2x-told", "paper", "taylor", "lime", "kernel_shap", "random")
CENSUS_K = 3
PUBLISHED, RELEASED = "paper-letter", "paper"
REPORT_K = 3


def refresh() -> None:
    """Write the tables of README and docs/; takes a second."""
    README.write_text(between(README.read_text(), "results: make table", "results", results_table().strip()))
    for page, tables in PAGES.items():
        text = (DOCS / page).read_text()
        for name, table in tables.items():
            text = between(text, f"{name}: make table", name, f"\n{table()}\n")
        (DOCS / page).write_text(text)


def between(text: str, first: str, last: str, new: str) -> str:
    """Return the text with the part between two comments replaced."""
    pattern = re.compile(rf"(<!-- {first} -->\n).*?(<!-- /{last} -->)", flags=re.DOTALL)
    assert pattern.search(text), f"there is no <!-- {first} -->"
    return pattern.sub(lambda marks: f"{marks[1]}{new}\n{marks[2]}", text)


def records(name: str) -> Records:
    """Load the records of an experiment."""
    return Records.load(RECORDS / f"{name}.json")


def ablation_tables() -> str:
    """Return the effect of each released setting, seed by seed."""
    problems = records("ablation").groups(problem=ablation.TITLES)
    recipes = ablation.RECIPES
    return "\n".join(
        f"**{ablation.TITLES[group[0]['problem']]}**\n\n"
        + Table.of(group.groups(recipe=recipes[group[0]["problem"]]), ablation.CELLS).markdown()
        for group in problems
    ).rstrip()


def printed_table() -> str:
    """Return the figures that the paper prints, compared with L2X as published and as released."""
    formulas = records("synthetic").select(variant="code", model="true")
    exact = mean_sd("exact")

    def with_rank(group: Records) -> str:
        return f"{exact(group)}; {group.mean('median_rank_mean'):.2f}"

    post_hoc = mean_sd("posthoc_accuracy")
    lines: list[tuple[str, str, Records, Cell]] = [
        ("XOR, exact sets", "optimum", formulas.select(set="xor"), exact),
        ("orange skin, exact sets", "optimum", formulas.select(set="orange_skin"), exact),
        ("nonlinear additive, exact sets; median rank, optimum 2.5", "near the optimum",
         formulas.select(set="nonlinear_additive"), with_rank),
        ("switch, exact sets; median rank, optimum 3", "near the optimum",
         formulas.select(set="switch"), with_rank),
        ("MNIST 3 versus 8, post-hoc accuracy", "0.958", records("mnist").select(digits=[3, 8]), post_hoc),
        ("IMDB, ten words, post-hoc accuracy", "0.908", records("imdb-words"), post_hoc),
        ("IMDB, one sentence, post-hoc accuracy", "0.849", records("imdb-sentences"), post_hoc),
    ]  # fmt: skip
    rows = [
        [what, paper, *(with_count(cell, group.select(method=method)) for method in (PUBLISHED, RELEASED))]
        for what, paper, group, cell in lines
    ]
    return Table(["", "printed", LABELS[PUBLISHED], LABELS[RELEASED]], rows).markdown().rstrip()


def with_count(cell: Cell, group: Records) -> str:
    """Return a cell with the number of seeds in brackets."""
    return f"{cell(group)} ({len(group)})" if group else NOTHING


def verdicts_table() -> str:
    """Return how often the report flags each method on switch, and the numbers behind the verdict."""
    reports = records("leakage").select(kind="card", set="switch")
    rates = leakage.rates(reports)
    cells: dict[str, Cell] = {
        "": name_of("method", LABELS),
        "flagged": lambda group: "{} of {}".format(*rates[group[0]["method"]]),
        "leakage, share of the information": mean_sd("parts", "encoding", "share", "value"),
        "own probe (naive)": mean_sd("parts", "encoding", "own_reader", "value"),
        "mask alone": mean_sd("parts", "encoding", "mask_only", "value"),
        "post-hoc accuracy": mean_sd("parts", "fidelity", "mean", "value"),
        "evaluator": mean_sd("parts", "judge", "selection", "value"),
    }
    return Table.of(reports.groups(method=leakage.LABELS), cells).markdown().rstrip()


def adult_tables() -> str:
    """Return accuracies with k columns of a census row, the verdicts of the reports, and times."""
    measured = records("adult")
    posthoc, evaluator = (adult.table(measured, key).markdown() for key in adult.MEASURES)
    share = mean_sd("card", "parts", "encoding", "share", "value")
    cells: dict[str, Cell] = {
        "method": name_of("method", LABELS),
        "leakage, share of the information": share,
        "verdict": adult.findings,
    }
    parts = {
        "Post-hoc accuracy, with the other columns at their mean or most frequent category": posthoc,
        "Accuracy of an independent evaluator": evaluator,
        f"Leakage with k = {REPORT_K}": Table.of(adult.with_entry(measured, "card"), cells).markdown(),
        "Time": adult.times(measured).markdown(),
    }
    return "\n".join(f"{title}:\n\n{table}" for title, table in parts.items()).rstrip()


def refresh_readme() -> None:
    """Write the tables, run the README's code for its output, and draw its pictures."""
    refresh()
    text = README.read_text()
    names: dict[str, Any] = {}
    with working_folder():
        printed = run_block(blocks(text)[0], names, "README.md")[0]
    README.write_text(between(text, "output", "output", f"```\n{printed.rstrip()}\n```"))
    draw(names["explanation"])


def draw(explanation: Any) -> None:
    """Draw three kinds of input: the README's own table, and the first figures of two tutorials."""
    explanation[0].plot(PICTURES / "readme-table.svg")
    with tempfile.TemporaryDirectory() as folder:
        for kind, tutorial in (("text", "reviews"), ("image", "digits")):
            run_page(Path(shutil.copy(DOCS / "tutorials" / f"{tutorial}.md", folder)))
            shutil.copy(Path(folder) / "pictures" / f"{tutorial}-1.svg", PICTURES / f"readme-{kind}.svg")


def results_table() -> str:
    """Return one line for each method, one column for each experiment; means over seeds."""
    columns = {
        "switch, exact": (
            records("synthetic").select(set="switch", variant="code", model="network"),
            share("exact"),
        ),
        f"{CENSUS_K} columns of a census row": (records("adult"), accuracies(CENSUS_K - 1)),
        "10 words of a review": (records("imdb-words"), accuracies()),
        "4 patches of a 3 or 8": (records("mnist").select(digits=[3, 8]), accuracies()),
    }
    rows = [
        [LABELS[method], *(cell(measured.select(method=method)) for measured, cell in columns.values())]
        for method in SHOWN
    ]
    return Table(["method", *columns], rows).markdown()


def share(*path: str | int) -> Callable[[Records], str]:
    """Return a cell that shows the mean of an entry."""
    return lambda group: f"{group.mean(*path):.3f}" if group.values(*path) else NOTHING


def accuracies(*index: int) -> Callable[[Records], str]:
    """Return a cell that shows post-hoc accuracy and, in brackets, the evaluator's accuracy."""
    posthoc, evaluator = share("posthoc_accuracy", *index), share("judge_accuracy", *index)
    return lambda group: f"{posthoc(group)} ({evaluator(group)})" if group else NOTHING


def capacity_table() -> str:
    """Return the absolute figures of the service: a line for each kind of input."""
    found = records("serve").select(part="figures")
    if not len(found):
        return "`python benchmarks/serve.py --only figures` measures them; there are no records yet."
    values: dict[str, dict[str, float]] = {}
    for record in found:
        kind, _, name = record["measure"].partition(": ")
        values.setdefault(kind, {})[name] = record["value"]
    columns = ["one worker", *next(iter(values.values()))]
    rows = [[kind, *map(_rounded, figures.values())] for kind, figures in values.items()]
    return f"{markdown_table(columns, rows)}\n\nMeasured on {found[0]['machine']}."


def _rounded(value: float) -> str:
    """Return a figure with two digits that count, or as a whole number."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "serve.md": {"capacity": capacity_table},
    "reproduce.md": {"ablation": ablation_tables, "printed": printed_table},
    "report.md": {"verdicts": verdicts_table},
    "tables.md": {"adult": adult_tables},
}
