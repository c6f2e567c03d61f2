"""A page for every file of records: the texts, tables and figures of its report, and its command."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

from l2x.display import save_figure
from website import ROOT
from website.pictures import both_modes

RECORDS = ROOT / "results"
# Records of benchmarks, which have no report: their title, and the command that measures them.
BENCHMARKS = {
    "fit": ("Time to fit, and what the default plan loses", "python benchmarks/fit.py --write"),
    "explain": ("Time to explain rows, compared with a forward pass", "python benchmarks/explain.py --write"),
    "onnx": ("Time to explain with ONNX", "python benchmarks/export.py"),
    "soak": ("Half an hour of watching", "python benchmarks/soak.py"),
    "serve": ("Time to explain over HTTP", "python benchmarks/serve.py"),
}
# Experiments that share a module.
MODULES = {"imdb-words": "imdb", "imdb-sentences": "imdb"}


def write(pages: Path) -> None:
    """Write the pages, their figures and their table of contents."""
    folder = pages / "benchmarks"
    folder.mkdir(exist_ok=True)
    entries = []
    for name in names():
        title, subtitle, text = page_of(RECORDS / f"{name}.json", folder)
        (folder / f"{name}.md").write_text(text)
        entries.append(f"| [{title}]({name}.md) | {subtitle} | `{command(name)}` |")
    index = (folder / "index.md").read_text()
    table = "\n".join(["| experiment | what | command |", "|---|---|---|", *entries])
    (folder / "index.md").write_text(index.replace("<!-- the experiments -->", table))


def names() -> list[str]:
    """Return the experiments and benchmarks that have records."""
    return sorted(records.stem for records in RECORDS.glob("*.json"))


def command(name: str) -> str:
    """Return the command that makes the records."""
    return BENCHMARKS[name][1] if name in BENCHMARKS else f"l2x reproduce {name}"


def page_of(records: Path, folder: Path) -> tuple[str, str, str]:
    """Return title, subtitle and text of a page; save its figures in `folder`."""
    name = records.stem
    made = f"Made by `{command(name)}` from `results/{records.name}`"
    if name in BENCHMARKS:
        title, subtitle = BENCHMARKS[name][0], "Compared with goals that were set beforehand"
        found = json.loads(records.read_text())
        return title, subtitle, f"# {title}\n\n{made}. {conditions(found)}\n\n{benchmark_table(found)}"
    report = report_of(name)
    body = [section_text(section, name, number, folder) for number, section in enumerate(report.sections)]
    head = f"# {report.title}\n\n*{report.subtitle}.* {made} (`--report-only` makes only the page)."
    return report.title, report.subtitle, "\n\n".join([head, *body]) + "\n"


def report_of(name: str) -> Any:
    """Return the experiment's own report of its records."""
    records = import_module("l2x_experiments.records").Records.load(RECORDS / f"{name}.json")
    return import_module(f"l2x_experiments.{MODULES.get(name, name)}").report(records)


def section_text(section: Any, name: str, number: int, folder: Path) -> str:
    """Return a section of a report as Markdown; save its figures in `folder`."""
    parts = [f"## {section.heading}"] if section.heading else []
    parts += [escape(text, quote=False) for text in section.text]
    parts += [f"**{fact}** {meaning}" for fact, meaning in section.facts]
    if section.table is not None:
        parts.append(markdown_table(*section.table))
    for i, figure in enumerate(section.figures):
        file = save_figure(figure, folder / "figures" / f"{name}-{number}-{i}.svg")
        file.write_text(both_modes(file.read_text()))
        parts.append(f"![{figure.get_suptitle() or section.heading}](figures/{file.name}){{ .figure }}")
    if section.caption:
        parts.append(f"*{section.caption}*".replace("\n", " "))
    if section.html is not None:
        parts.append(f'<div class="output">{section.html.markup}</div>'.replace("\n", " "))
    return "\n\n".join(parts)


def conditions(records: list[dict[str, Any]]) -> str:
    """Name the machines of a benchmark, its threads and its seeds."""

    def distinct(key: str) -> str:
        return " or ".join(dict.fromkeys(str(record[key]) for record in records if key in record))

    seeds = f", seed {distinct('seed')}" if distinct("seed") else ""
    return f"Measured on {distinct('machine')}, {distinct('threads')} thread(s) per process{seeds}."


def benchmark_table(records: list[dict[str, Any]]) -> str:
    """Return the measurements of a benchmark and its goals."""
    reached = {True: "yes", False: "**no**", None: "–"}
    measured = [record for record in records if "measure" in record]
    goals = ["–" if r["goal"] is None else str(r["goal"]) for r in measured]
    rows = [
        [r["measure"], str(r["value"]), goal, reached[r["holds"]]]
        for r, goal in zip(measured, goals, strict=True)
    ]
    return markdown_table(["measured", "value", "goal", "reached"], rows)


def markdown_table(columns: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """Return a table as Markdown."""
    lines = [[cell(value) for value in line] for line in (columns, *rows)]
    lines.insert(1, ["---"] * len(columns))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(value: object) -> str:
    """Return a value as the text of a cell."""
    return str(value).replace("|", "\\|").replace("\n", " ")
