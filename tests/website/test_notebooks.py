"""The notebooks are their tutorials, hold their outputs, and run."""

from __future__ import annotations

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
notebooks = pytest.importorskip("website.notebooks")


@pytest.mark.parametrize("name", notebooks.NAMES)
def test_a_notebook_is_its_tutorial_with_outputs(name: str) -> None:
    kept = nbformat.read(notebooks.NOTEBOOKS / f"{name}.ipynb", as_version=4)
    made = notebooks.from_page(notebooks.DOCS / "tutorials" / f"{name}.md")
    assert [(c.cell_type, c.source) for c in kept.cells] == [(c.cell_type, c.source) for c in made.cells]
    outputs = [output for cell in kept.cells for output in cell.get("outputs", ())]
    assert any("image/svg+xml" in output.get("data", {}) for output in outputs)
    assert not any(output.output_type == "error" for output in outputs)
    assert (notebooks.NOTEBOOKS / f"{name}.ipynb").stat().st_size < 500_000


@pytest.mark.slow
@pytest.mark.parametrize("name", notebooks.NAMES)
def test_a_notebook_runs(name: str) -> None:
    pytest.importorskip("lightgbm")
    done = notebooks.run(notebooks.from_page(notebooks.DOCS / "tutorials" / f"{name}.md"))
    assert all(cell.execution_count for cell in done.cells if cell.cell_type == "code")
