"""What the README shows and nobody types: the output of its code, its pictures, and the table of results.

`make readme` refreshes all three, `make table` the table alone (and those of docs/: tables.py).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from l2x_experiments.contenders import LABELS
from l2x_experiments.records import NOTHING, Records
from l2x_experiments.tables import Table
from website import DOCS, ROOT
from website.pages import blocks, run_block, run_page, working_folder
from website.results import RECORDS
from website.tables import between

README = ROOT / "README.md"
PICTURES = DOCS / "pictures"
METHODS = ("l2x", "l2x-told", "paper", "taylor", "lime", "kernel_shap", "random")
CENSUS_K = 3


def refresh_table() -> None:
    """Only the table: after new records, in a second."""
    README.write_text(between(README.read_text(), "results: make table", "results", results_table().strip()))


def refresh() -> None:
    refresh_table()
    text = README.read_text()
    space: dict[str, Any] = {}
    with working_folder():
        said = run_block(blocks(text)[0], space, "README.md")[0]
    README.write_text(between(text, "output", "output", f"```\n{said.rstrip()}\n```"))
    draw(space["explanation"])


def draw(explanation: Any) -> None:
    """The three kinds: the README's own table, and what the tutorials of texts and images draw first."""
    explanation[0].plot(PICTURES / "readme-table.svg")
    with tempfile.TemporaryDirectory() as folder:
        for kind, tutorial in (("text", "reviews"), ("image", "digits")):
            run_page(Path(shutil.copy(DOCS / "tutorials" / f"{tutorial}.md", folder)))
            shutil.copy(Path(folder) / "pictures" / f"{tutorial}-1.svg", PICTURES / f"readme-{kind}.svg")


def results_table() -> str:
    """One line for each method, one column for each experiment; means over seeds."""
    shown = {
        "switch, exact": (Records.load(RECORDS / "synthetic.json").select(
            set="switch", variant="code", model="network"), share("exact")),
        f"{CENSUS_K} columns of a census row": (Records.load(RECORDS / "adult.json"), of_judge(CENSUS_K - 1)),
        "10 words of a review": (Records.load(RECORDS / "imdb-words.json"), of_judge()),
        "4 patches of a 3 or 8": (Records.load(RECORDS / "mnist.json").select(digits=[3, 8]), of_judge()),
    }  # fmt: skip
    rows = [
        [LABELS[method], *(cell(records.select(method=method)) for records, cell in shown.values())]
        for method in METHODS
    ]
    return Table(["method", *shown], rows).markdown()


def share(*path: str | int) -> Callable[[Records], str]:
    return lambda records: f"{records.mean(*path):.3f}" if records.values(*path) else NOTHING


def of_judge(*index: int) -> Callable[[Records], str]:
    """What the model keeps, and what the judge guesses."""
    model, judge = share("posthoc_accuracy", *index), share("judge_accuracy", *index)
    return lambda records: f"{model(records)} ({judge(records)})" if records else NOTHING
