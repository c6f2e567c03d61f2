"""The generated tables of docs/, each between two comments of its page; website/readme.py has the README's.

`make table` refreshes them from the records; a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from l2x_experiments import ablation, adult, audit, leakage, refine, robustness
from l2x_experiments.methods import LABELS
from l2x_experiments.records import NOTHING, Records
from l2x_experiments.report import Cell, Table, mean_sd, name_of
from website import DOCS, ROOT, figures
from website.results import RECORDS, markdown_table

PUBLISHED, RELEASED = "paper-letter", "paper"
REPORT_K = 3
OTHER_SETS = {
    "syn4": "Syn4, k = 4",
    "syn4-k5": "Syn4, k = 5",
    "syn5": "Syn5, k = 4",
    "syn5-k5": "Syn5, k = 5",
    "syn6": "Syn6",
    "mnist-38": "MNIST, 3 against 8",
}
# Cases of results/fit.json that the page about costs shows.
FITTED = {
    "switch, code": "switch, 10 columns",
    "adult": "Adult, 12 columns, LightGBM",
    "breast cancer, LightGBM": "breast cancer, 30 columns, LightGBM",
    "3 versus 8": "MNIST, 3 against 8, 49 patches",
    "ten words": "IMDB, words of reviews",
}
# Titles, files and records of the experiments from which break-even points are computed.
BREAK_EVEN: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("Adult, 12 columns", "adult", {}),
    ("MNIST, 3 against 8, 49 patches", "mnist", {"digits": [3, 8]}),
    ("IMDB, sentences", "imdb-sentences", {}),
    ("IMDB, words", "imdb-words", {}),
)


def refresh() -> None:
    """Write the tables of docs/; takes a second."""
    for page, tables in PAGES.items():
        text = (DOCS / page).read_text()
        for name, table in tables.items():
            text = between(text, f"{name}: make table", name, f"\n{table()}\n")
        (DOCS / page).write_text(text)
    for page in (ROOT / "README.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md")):
        page.write_text(figures.refreshed(page.read_text()))


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


def other_verdicts_table() -> str:
    """Return how often the report flags each method on other data, with the mean share in brackets."""
    reports = records("leakage").select(kind="card")

    def flagged(*methods: str) -> Cell:
        def cell(group: Records) -> str:
            chosen = Records(record for record in group if record["method"] in methods)
            text = f"{len(chosen.select(finding='encodes'))} of {len(chosen)}"
            one = f" ({chosen.mean('parts', 'encoding', 'share', 'value'):.3f})" if len(methods) == 1 else ""
            return text + one

        return cell

    cells: dict[str, Cell] = {"data": lambda group: OTHER_SETS[group[0]["set"]]}
    cells |= {LABELS[method]: flagged(method) for method in ("l2x", "l2x-told", RELEASED)}
    cells["adversaries flagged"] = flagged(*leakage.ADVERSARIES)
    return Table.of(reports.groups(set=OTHER_SETS), cells).markdown().rstrip()


def refine_table() -> str:
    """Return what polishing and refining achieve, compared with methods that query the model for each row."""
    found = records("refine").select(part="tables")
    chosen = Records(record for record in found if record["problem"] in refine.FINAL)
    if not chosen:
        return "`l2x reproduce refine` measures this; there are no records yet."
    table = refine.table(chosen).markdown()
    return f"{table}\n{chosen[0]['rows']:,} rows of each table; {' and '.join(chosen.distinct('machine'))}."


def self_check_table() -> str:
    """Return how often the self-check warns, compared with the truth."""
    return robustness.rates(records("robustness")).markdown().rstrip()


def census_table() -> str:
    """Return, for k columns of a census row, what each method reaches and costs."""
    measured = records("adult")
    times = {row[0]: row[1:] for row in adult.times(measured).rows}

    def time(column: int) -> Cell:
        return lambda group: times[LABELS[group[0]["method"]]][column]

    posthoc, evaluator = (mean_sd(name, REPORT_K - 1) for name in ("posthoc_accuracy", "judge_accuracy"))
    cells: dict[str, Cell] = {
        "method": name_of("method", LABELS),
        "post-hoc accuracy": posthoc,
        "evaluator": evaluator,
        "leakage: verdict": adult.findings,
        "training, s": time(0),
        "explaining, ms per row": time(1),
    }
    table = Table.of(adult.with_entry(measured, "card"), cells).markdown()
    seeds = len(measured.select(method="l2x"))
    return f"{table}\n{conditions(measured)} {seeds} seeds for methods that learn."


def conditions(measured: Records) -> str:
    """Return under which conditions the census rows were measured."""
    first = measured[0]
    names = {"mean", "median"} & set(first["card"]["parts"]["fidelity"])
    masking = "median" if "median" in names else "mean"
    machines = sorted({machine.partition(",")[0] for machine in measured.distinct("machine")})
    busy = [LABELS[name] for name in LABELS if measured.select(method=name).values("conditions")]
    remark = f" Another process was running while {' and '.join(busy)} were timed." if busy else ""
    return (
        f"{first['rows']} test rows, k = {REPORT_K}; unselected columns at their {masking} or most frequent "
        f"category; measured on {' and '.join(machines)}, one thread.{remark}"
    )


def break_even_table() -> str:
    """Return after how many rows training has paid off, compared with methods that query for each row."""
    rows = []
    for title, name, chosen in BREAK_EVEN:
        measured = records(name).select(**chosen)
        ours = measured.select(method="l2x")
        for method in ("tree_shap", "kernel_shap", "lime"):
            if others := measured.select(method=method):
                saved = seconds_per_row(others) - seconds_per_row(ours)
                cell = f"{ours.mean('fit_seconds') / saved:,.0f}" if saved > 0 else "never"
                rows.append([title, LABELS[method], cell])
    return Table(["data", "compared with", "rows"], rows).markdown().rstrip()


def seconds_per_row(group: Records) -> float:
    """Return the mean time to explain a row, on all rows where that was measured."""
    each = [r["all_seconds"] / r["all_rows"] for r in group if "all_seconds" in r]
    return float(np.mean(each or [r["explain_seconds"] / r["rows"] for r in group]))


def costs_table() -> str:
    """Return what the default plan costs: rows, training time, and the machine."""
    default = Records(r for r in records("fit").select(timed="default") if "tested" not in r)
    cells: dict[str, Cell] = {
        "data": lambda group: FITTED[group[0]["case"]],
        "training rows": lambda group: f"{group[0]['rows']:,}",
        "k": lambda group: str(group[0]["k"]),
        "seeds": lambda group: str(len(group)),
        "fit, s": lambda group: f"{group.mean('wall_seconds'):,.0f}",
    }
    table = Table.of(default.groups(case=FITTED), cells).markdown()
    return f"{table}\nMeasured on {' and '.join(default.distinct('machine'))}, one thread."


def explaining_table() -> str:
    """Return the time per row of the forward pass and of `explain(X, polish=False)`."""
    measured = Records(r for r in records("explain") if "explain_rows_per_second" in r)
    cells: dict[str, Cell] = {
        "input": lambda group: group[0]["inputs"],
        "forward pass alone, µs per row": lambda group: f"{1e6 / group[0]['forward_rows_per_second']:.1f}",
        "`explain`, µs per row": lambda group: f"{1e6 / group[0]['explain_rows_per_second']:.1f}",
        "a single row, µs": lambda group: f"{group[0]['explain_one_row_microseconds']:,.0f}",
    }
    table = Table.of(measured.groups(inputs=measured.distinct("inputs")), cells).markdown()
    first = measured[0]
    return f"{table}\n{first['rows']:,} rows at once; {first['machine']}, {first['threads']} thread."


def audit_tables() -> str:
    """Return what the sequential selector reaches, compared with the default."""
    found = audit.report(records("audit")).tables
    return "\n".join(f"**{heading}**\n\n{table.markdown()}" for heading, table in found).rstrip()


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
    "how-to/serve.md": {"capacity": capacity_table},
    "how-to/check.md": {"self-check": self_check_table},
    "how-to/audit.md": {"audit": audit_tables},
    "how-to/every-row.md": {"refine": refine_table},
    "benchmarks/reproduce.md": {"ablation": ablation_tables, "printed": printed_table},
    "concepts/trust.md": {"verdicts": verdicts_table, "other data": other_verdicts_table},
    "concepts/which-method.md": {"census": census_table},
    "concepts/costs.md": {"fit": costs_table, "explain": explaining_table, "break-even": break_even_table},
}
