"""Three tutorials as notebooks, run, with their outputs kept: `python -m website notebooks`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from website import DOCS, ROOT
from website.pages import BLOCK

NOTEBOOKS = ROOT / "notebooks"
NAMES = ("census", "digits", "regression")
# Figures twice, as PNG too, would double the files.
SHOWN = ("image/svg+xml", "text/html", "text/plain")


def refresh() -> None:
    NOTEBOOKS.mkdir(exist_ok=True)
    for name in NAMES:
        print(f"running {name}.ipynb", flush=True)
        nbformat.write(run(from_page(DOCS / "tutorials" / f"{name}.md")), NOTEBOOKS / f"{name}.ipynb")


def from_page(page: Path) -> Any:
    """The page as a notebook: a cell for each block of Python, and one for the text between two of them."""
    pieces = BLOCK.split(page.read_text())  # text, code, text, code, ..., text
    cells = []
    for i, piece in enumerate(pieces):
        if source := piece.strip():
            cell = new_code_cell(source) if i % 2 else new_markdown_cell(without_links(source))
            cell["id"] = f"{page.stem}-{i}"  # the same page gives the same notebook
            cells.append(cell)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


def without_links(text: str) -> str:
    """Pages of the site lie elsewhere, seen from a notebook."""
    return text.replace("](../", "](../docs/")


def run(notebook: Any) -> Any:
    """The notebook after running, in a folder of its own; a cell that fails raises."""
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}})
        client.execute(env=environment)
    for cell in notebook.cells:
        cell.get("metadata", {}).pop("execution", None)  # when each cell ran
        for output in cell.get("outputs", ()):
            if "data" in output:
                output["data"] = {kind: output["data"][kind] for kind in SHOWN if kind in output["data"]}
    return notebook
