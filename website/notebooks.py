"""Three pages as notebooks, stored with their outputs, which the site shows, too.

`make notebooks` makes and runs them. The site is built from the stored outputs, so each of these pages is
run once: by `make notebooks`, or by the test that compares the stored outputs with those of a new run.
"""

from __future__ import annotations

import os
import re
import tempfile
from html import unescape
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from website import DOCS, ROOT
from website.pages import BLOCK, figure_output, html_output, text_output, write_outputs

NOTEBOOKS = ROOT / "notebooks"
PAGES = {
    "census": "tutorials/census.md",
    "digits": "tutorials/digits.md",
    "regression": "how-to/regression.md",
}
# Without PNG, which would double the files.
STORED = ("image/svg+xml", "text/html", "text/plain")


def refresh() -> None:
    """Make, run and store all notebooks."""
    NOTEBOOKS.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        print(f"running {name}.ipynb", flush=True)
        nbformat.write(run(from_page(DOCS / page)), NOTEBOOKS / f"{name}.ipynb")


def notebook_of(page: Path) -> Any | None:
    """Return the stored notebook of a page, or None if the page has none."""
    if PAGES.get(page.stem) != f"{page.parent.name}/{page.name}":
        return None
    return nbformat.read(NOTEBOOKS / f"{page.stem}.ipynb", as_version=4)


def from_page(page: Path) -> Any:
    """Return the page as a notebook: a cell for each block of Python, and one for the text between blocks."""
    pieces = BLOCK.split(page.read_text())  # text, code, text, code, ..., text
    cells = []
    for i, piece in enumerate(pieces):
        if source := piece.strip():
            cell = new_code_cell(source) if i % 2 else new_markdown_cell(with_links(source, page.parent.name))
            cell["id"] = f"{page.stem}-{i}"  # the same page gives the same notebook
            cells.append(cell)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


def with_links(text: str, folder: str) -> str:
    """Return the text of a page in `folder` with its links to other pages as seen from the notebooks."""
    text = re.sub(r"\]\((?!\.\./|https?:|#)", f"](../docs/{folder}/", text)
    return text.replace("](../", "](../docs/").replace("](../docs/docs/", "](../docs/")


def run(notebook: Any) -> Any:
    """Run the notebook in a temporary folder and return it; a cell that fails raises."""
    from nbclient import NotebookClient

    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}})
        client.execute(env=environment)
    for cell in notebook.cells:
        cell.get("metadata", {}).pop("execution", None)  # when each cell ran
        if cell.cell_type == "code":
            # Warnings of other packages, such as "IProgress not found", depend on the machine.
            cell["outputs"] = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.get("outputs", ()):
            if "data" in output:
                output["data"] = {kind: output["data"][kind] for kind in STORED if kind in output["data"]}
    return notebook


def show_outputs(page: Path, notebook: Any) -> None:
    """Write the outputs of a notebook into its page; raise if the notebook has other code."""
    cells = iter([cell for cell in notebook.cells if cell.cell_type == "code"])

    def outputs(code: str) -> list[str]:
        cell = next(cells, None)
        if cell is None or cell.source != code.strip():
            raise ValueError(f"notebooks/{page.stem}.ipynb is older than {page.name}; run make notebooks")
        return [output_text(output, page) for output in cell.outputs]

    write_outputs(page, outputs)


def output_text(output: Any, page: Path) -> str:
    """Return one output of a notebook as Markdown."""
    if output.output_type == "stream":
        return text_output(output.text)
    data = output.data
    if svg := data.get("image/svg+xml"):
        title = re.search(r"<text[^>]*font-weight: 700[^>]*>([^<]*)</text>", svg)
        return figure_output(svg, unescape(title[1]) if title else "", page)
    if "text/html" in data:
        return html_output(data["text/html"])
    return text_output(data["text/plain"])


def wording(notebook: Any) -> list[str]:
    """Return printed lines and the first line of each result, without numbers, which vary by machine."""
    lines: list[str] = []
    for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
        text = output.text if output.output_type == "stream" else output.data["text/plain"].split("\n")[0]
        lines += re.sub(r"-?\d[\d.,]*", "#", text).splitlines()
    return lines
