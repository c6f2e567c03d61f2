"""Pages that run, formulas, and tables generated from the records."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md"))
ADVERSARIES = ("position", "prediction", "marginal")
pages = pytest.importorskip("website.pages")


def test_output_and_value_follow_their_block(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    code = "x = 2\nprint('output')\nx + 1"
    page.write_text(f"# Hello\n\n```python\n{code}\n```\n\nText.\n\n```\nnot run\n```\n")
    names = pages.run_page(page)
    text = page.read_text()
    assert names["x"] == 2
    assert text.index(code) < text.index("\noutput\n") < text.index("\n3\n") < text.index("Text.")
    assert text.count("not run") == 1


def test_html_and_figures_are_shown(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nclass Table:\n    def _repr_html_(self):\n        return '<b>\\n\\nbold</b>'\n"
        "Table()\n```\n\n"
        "```python\nfrom l2x.display import new_figure\nnew_figure(1.0, title='A title')[0]\n```\n"
    )
    pages.run_page(page)
    assert '<div class="output"><b> bold</b></div>' in page.read_text()
    assert "![A title](pictures/page-1.svg)" in page.read_text()
    assert (tmp_path / "pictures" / "page-1.svg").exists()


def test_a_block_that_fails_ends_the_build(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\n1 / 0\n```\n")
    with pytest.raises(ZeroDivisionError):
        pages.run_page(page)


def test_every_page_with_python_runs_or_is_known_not_to() -> None:
    """No test runs the code blocks of these pages, for the reasons given."""
    build = pytest.importorskip("website.build")
    docs = ROOT / "docs"
    run = {page for pattern in build.RUN for page in docs.glob(pattern)}
    left = {page.name: len(pages.blocks(page.read_text())) for page in docs.rglob("*.md") if page not in run}
    # Spark needs Java, and its own tests run it; the other has fragments for the reader's own data.
    assert {name for name, blocks in left.items() if blocks} == {"scale.md", "tables.md"}


def test_formulas_become_mathml() -> None:
    pytest.importorskip("latex2mathml")
    from markdown import markdown
    from website.formulas import Formulas

    html = markdown(
        "Prices of $5 and $6, a formula $x_S$, `$code$`.\n\n$$\\frac{1}{2}$$", extensions=[Formulas()]
    )
    assert html.count("<math") == 2
    assert "Prices of $5 and $6" in html
    assert "<code>$code$</code>" in html
    assert 'display="block"' in html


def test_results_pages_show_the_records() -> None:
    from website import results

    page = results.page_of(results.RECORDS / "serve.json", Path())[2]
    for record in json.loads((ROOT / "results" / "serve.json").read_text()):
        assert f"| {record['measure']} | {record['value']} |" in page
    assert "python benchmarks/serve.py" in page


def test_every_experiment_of_the_records_has_a_report() -> None:
    from importlib.util import find_spec

    from website import results

    for name in results.names():
        module = results.MODULES.get(name, name)
        assert name in results.BENCHMARKS or find_spec(f"l2x_experiments.{module}"), name


def test_tables_of_pages_are_those_of_the_records() -> None:
    from website import tables

    for page, made in tables.PAGES.items():
        text = (ROOT / "docs" / page).read_text()
        for name, table in made.items():
            current = f"<!-- {name}: make table -->\n\n{table()}\n\n<!-- /{name} -->"
            assert current in text, f"{page}, {name}: run make table"


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", *PAGES])
def test_numbers_in_pages_are_those_of_the_records(page: str) -> None:
    from website import figures

    text = (ROOT / page).read_text()
    assert figures.refreshed(text) == text, "run make table"


# Settings and a constant of nature; everything else with three decimals was measured.
GIVEN = {"0.001", "0.693", "0.00001"}


@pytest.mark.parametrize("page", [page for page in ["README.md", *PAGES] if page != "docs/notebook.md"])
def test_measured_numbers_name_their_records(page: str) -> None:
    """Outside of code, and of what `make table` writes, no measured number is typed by hand."""
    text = (ROOT / page).read_text()
    made = r"<!-- ([\w -]+): make table -->.*?<!-- /\1 -->|<!-- = [^>]+ -->[^<]*<!-- / -->"
    shown_by_code = r"<!-- output -->.*?<!-- /output -->|```.*?```|`[^`\n]*`"
    for pattern in (made, shown_by_code):
        text = re.sub(pattern, "", text, flags=re.DOTALL)
    assert not set(re.findall(r"(?<![\d.])[01]\.\d{3,}", text)) - GIVEN


def test_a_number_names_its_records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from website import figures

    records = [
        {"method": m, "seed": s, "share": [0.25 * s, 1.0], "t": 3.0, "n": 2000} for m in "ab" for s in (1, 2)
    ]
    (tmp_path / "few.json").write_text(json.dumps(records))
    monkeypatch.setattr(figures, "RECORDS", tmp_path)
    assert figures.number("few method=a share.0") == "0.375"
    assert figures.number("few method=a share.0 each .0%") == "25 % and 50 %"
    assert figures.number("few share.0 max .2f") == "0.50"
    assert figures.number("few t/n ms") == "1.5"
    assert figures.number("few seed=2 count") == "2"
    assert figures.refreshed("<!-- = few seed=2 count -->7<!-- / --> rows") == (
        "<!-- = few seed=2 count -->2<!-- / --> rows"
    )
    with pytest.raises(ValueError, match="method=c"):
        figures.number("few method=c share.0")


def test_error_rates_on_how_it_works_match_the_records() -> None:
    from website.tables import records

    from l2x_experiments.leakage import rates

    measured = rates(records("leakage").select(kind="card"))
    flagged, seeds = (sum(rate) for rate in zip(*(measured[name] for name in ADVERSARIES), strict=True))
    rates_of_both = r"\D*".join(map(str, (flagged, seeds, *measured["l2x"])))  # "30 of 30 ... 0 of 10"
    assert re.search(rf"\b{rates_of_both}\b", (ROOT / "docs" / "concepts" / "how-it-works.md").read_text())


def test_screenshots_are_small_and_committed() -> None:
    shots = sorted((ROOT / "docs" / "screenshots").glob("*.png"))
    assert len(shots) >= 6
    assert all(shot.stat().st_size < 200_000 for shot in shots)


def test_markdown_links_between_pages_exist() -> None:
    """People also read the sources: links work in the repository as well."""
    for page in (ROOT / "docs").rglob("*.md"):
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
