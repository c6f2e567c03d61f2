"""Reports: one file that needs nothing else, with every text escaped unless it is marked as safe."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import l2x
from l2x.display._report import SafeHtml, Section, write_report

BAD = "<script>alert(1)</script>"


@pytest.fixture
def page(tmp_path: Path) -> str:
    explanation = l2x.Explanation(np.random.default_rng(0).random((30, 3)), 2, [BAD, "b", "c"])
    everything = Section(
        BAD,
        [BAD],
        facts=[(BAD, BAD)],
        table=((BAD, "number"), [(BAD, 1234567), ("b", 0.123456789)]),
        figures=[explanation.plot(), explanation[0].plot()],
        caption=BAD,
        html=SafeHtml(explanation.to_html()),
    )
    path = write_report(
        tmp_path / "new" / "report.html", title=BAD, subtitle=BAD, sections=[everything, Section()]
    )
    return path.read_text(encoding="utf-8")


def test_everything_is_escaped(page: str) -> None:
    assert "<script" not in page
    assert page.count("&lt;script&gt;") > 10


def test_self_contained(page: str) -> None:
    assert not re.search(r"""(src|href)\s*=\s*["']?\s*(https?:)?//""", page)
    assert not re.search(r"<link|@import|url\((?!#)", page)
    assert page.count("<svg ") == 2


def test_numbers_are_formatted_and_at_the_right(page: str) -> None:
    assert '<td class="number">1,234,567</td>' in page
    assert '<td class="number">0.1235</td>' in page


def test_footer_says_what_made_it(page: str) -> None:
    footer = page[page.index("<footer>") :]
    assert f"l2x {l2x.__version__}" in footer
    assert "thread" in footer
    assert "UTC" in footer


def test_markup_must_be_marked_as_safe(tmp_path: Path) -> None:
    with pytest.raises(l2x.InputError, match="SafeHtml"):
        write_report(tmp_path / "r.html", title="t", sections=[Section("h", html="<b>x</b>")])  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_row_of_the_wrong_length_is_named(tmp_path: Path) -> None:
    with pytest.raises(l2x.InputError, match="2 columns has a row of 1"):
        write_report(tmp_path / "r.html", title="t", sections=[Section("h", table=(("a", "b"), [(1,)]))])


def test_an_older_report_survives_a_failure(tmp_path: Path) -> None:
    path = write_report(tmp_path / "r.html", title="older", sections=[])
    with pytest.raises(l2x.InputError):
        write_report(path, title="newer", sections=[Section("h", table=(("a", "b"), [(1,)]))])
    assert "older" in path.read_text(encoding="utf-8")
