"""Tables that pages keep and nobody types: made from the records, between two comments of the page.

`make table` refreshes them, and a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from l2x_experiments import ablation_report, adult_report, honesty_report
from l2x_experiments.contenders import LABELS
from l2x_experiments.records import NOTHING, Records
from l2x_experiments.tables import Cell, Table, mean_sd, name_of
from website import DOCS
from website.results import RECORDS

LETTER, AUTHORS = "paper-letter", "paper"
CARD_K = 3


def refresh() -> None:
    for page, tables in PAGES.items():
        text = (DOCS / page).read_text()
        for name, table in tables.items():
            text = between(text, f"{name}: make table", name, f"\n{table()}\n")
        (DOCS / page).write_text(text)


def between(text: str, first: str, last: str, new: str) -> str:
    """The text with what stands between two comments replaced."""
    found = re.compile(rf"(<!-- {first} -->\n).*?(<!-- /{last} -->)", flags=re.DOTALL)
    assert found.search(text), f"there is no <!-- {first} -->"
    return found.sub(lambda marks: f"{marks[1]}{new}\n{marks[2]}", text)


def records(name: str) -> Records:
    return Records.load(RECORDS / f"{name}.json")


def ablation() -> str:
    """What each piece of the authors' settings does, seed by seed."""
    problems = records("ablation").groups(problem=ablation_report.TITLES)
    recipes = ablation_report.RECIPES
    return "\n".join(
        f"**{ablation_report.TITLES[group[0]['problem']]}**\n\n"
        + Table.of(group.groups(recipe=recipes[group[0]["problem"]]), ablation_report.CELLS).markdown()
        for group in problems
    ).rstrip()


def printed() -> str:
    """The paper's figures beside its text's and its authors' settings."""
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
        ("MNIST 3 against 8, post-hoc accuracy", "0.958", records("mnist").select(digits=[3, 8]), post_hoc),
        ("IMDB, ten words, post-hoc accuracy", "0.908", records("imdb-words"), post_hoc),
        ("IMDB, one sentence, post-hoc accuracy", "0.849", records("imdb-sentences"), post_hoc),
    ]  # fmt: skip
    rows = [
        [what, paper, *(with_count(cell, some.select(method=method)) for method in (LETTER, AUTHORS))]
        for what, paper, some, cell in lines
    ]
    return Table(["", "printed", "the text", "as it was run"], rows).markdown().rstrip()


def with_count(cell: Cell, group: Records) -> str:
    return f"{cell(group)} ({len(group)})" if group else NOTHING


def verdicts() -> str:
    """How often the report card flags each method on switch, and the numbers behind it."""
    cards = records("honesty").select(kind="card", set="switch")
    rates = honesty_report.rates(cards)
    cells: dict[str, Cell] = {
        "": name_of("method", LABELS),
        "flagged": lambda group: "{} of {}".format(*rates[group[0]["method"]]),
        "share carried by the choice": mean_sd("parts", "encoding", "share", "value"),
        "own probe (naive)": mean_sd("parts", "encoding", "own_reader", "value"),
        "mask alone": mean_sd("parts", "encoding", "mask_only", "value"),
        "the model, the rest removed": mean_sd("parts", "fidelity", "mean", "value"),
        "judge": mean_sd("parts", "judge", "selection", "value"),
    }
    return Table.of(cards.groups(method=honesty_report.LABELS), cells).markdown().rstrip()


def adult() -> str:
    """What the model and a judge keep from k columns of a census row, what that takes, what the cards say."""
    measured = records("adult")
    tables = [adult_report.table(measured, key).markdown() for key in adult_report.MEASURES]
    share = mean_sd("card", "parts", "encoding", "share", "value")
    cells: dict[str, Cell] = {
        "method": name_of("method", LABELS),
        "share of the information carried by the choice": share,
        "verdict": adult_report.findings,
    }
    cards = Table.of(adult_report.with_entry(measured, "card"), cells).markdown()
    parts = {
        "By the model, the other columns at their mean or most frequent category": tables[0],
        "By an independent judge": tables[1],
        f"The report cards, k = {CARD_K}": cards,
        "Time": adult_report.times(measured).markdown(),
    }
    return "\n".join(f"{title}:\n\n{table}" for title, table in parts.items()).rstrip()


PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "reproduce.md": {"ablation": ablation, "printed": printed},
    "report-card.md": {"verdicts": verdicts},
    "tables.md": {"adult": adult},
}
