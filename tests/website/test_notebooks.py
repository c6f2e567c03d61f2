"""Notebooks have the code of their pages and current outputs; the site shows these outputs."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
notebooks = pytest.importorskip("website.notebooks")
PAGES = {name: notebooks.DOCS / page for name, page in notebooks.PAGES.items()}


@pytest.mark.parametrize("name", PAGES)
def test_a_notebook_is_its_tutorial_with_outputs(name: str) -> None:
    stored = notebooks.notebook_of(PAGES[name])
    made = notebooks.from_page(PAGES[name])
    assert [(c.cell_type, c.source) for c in stored.cells] == [(c.cell_type, c.source) for c in made.cells]
    assert all(cell.execution_count for cell in stored.cells if cell.cell_type == "code")
    outputs = [output for cell in stored.cells for output in cell.get("outputs", ())]
    assert any("image/svg+xml" in output.get("data", {}) for output in outputs)
    assert not any(output.output_type == "error" for output in outputs)
    text = (notebooks.NOTEBOOKS / f"{name}.ipynb").read_text()
    assert len(text) < 500_000
    assert not re.search(r"/home/|/root/|/tmp/|site-packages|\"stderr\"", text)  # nothing of this machine


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_notebook_runs_and_its_stored_outputs_are_current(name: str) -> None:
    """The only run of these pages in the tests: the site is built from the stored outputs."""
    pytest.importorskip("lightgbm")
    done = notebooks.run(notebooks.from_page(PAGES[name]))
    assert all(cell.execution_count for cell in done.cells if cell.cell_type == "code")
    stored = notebooks.notebook_of(PAGES[name])
    assert notebooks.wording(done) == notebooks.wording(stored), "run make notebooks"


def test_a_page_shows_the_stored_outputs(tmp_path: Path) -> None:
    page = Path(shutil.copy(PAGES["regression"], tmp_path))
    notebooks.show_outputs(page, notebooks.notebook_of(PAGES["regression"]))
    text = page.read_text()
    assert text.count("(pictures/regression-") == len(list((tmp_path / "pictures").glob("*.svg"))) > 0
    assert "![](" not in text  # every picture has a title
    assert text.index("explain(") < text.index('<div class="output">')


def test_a_page_with_other_code_than_its_notebook_ends_the_build(tmp_path: Path) -> None:
    page = tmp_path / "regression.md"
    page.write_text("```python\n1 + 1\n```\n")
    with pytest.raises(ValueError, match=r"regression\.ipynb"):
        notebooks.show_outputs(page, notebooks.notebook_of(PAGES["regression"]))


def test_only_three_pages_have_notebooks() -> None:
    assert notebooks.notebook_of(notebooks.DOCS / "tutorials" / "service.md") is None
    assert notebooks.notebook_of(notebooks.DOCS / "how-to" / "digits.md") is None
