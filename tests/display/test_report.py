"""Report pages: self-contained, and every text is escaped unless it is marked as safe."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import l2x
from l2x.display import (
    SECURITY_HEADERS,
    STATIC,
    SafeHtml,
    Section,
    environment,
    plot_report,
    report_page,
    write_report,
)
from l2x.evaluation import Estimate, Report
from l2x.evaluation._parts import Entry, Part
from l2x.evaluation._verdict import UNTESTED

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


def test_footer_names_version_machine_and_date(page: str) -> None:
    footer = page[page.index("<footer>") :]
    assert f"l2x {l2x.__version__}" in footer
    assert "thread" in footer
    assert "UTC" in footer


def test_markup_must_be_marked_as_safe(tmp_path: Path) -> None:
    with pytest.raises(l2x.errors.InputError, match="SafeHtml"):
        write_report(tmp_path / "r.html", title="t", sections=[Section("h", html="<b>x</b>")])  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_row_of_the_wrong_length_is_named(tmp_path: Path) -> None:
    with pytest.raises(l2x.errors.InputError, match="2 columns, but a row has 1"):
        write_report(tmp_path / "r.html", title="t", sections=[Section("h", table=(("a", "b"), [(1,)]))])


def test_an_older_report_survives_a_failure(tmp_path: Path) -> None:
    path = write_report(tmp_path / "r.html", title="older", sections=[])
    with pytest.raises(l2x.errors.InputError):
        write_report(path, title="newer", sections=[Section("h", table=(("a", "b"), [(1,)]))])
    assert "older" in path.read_text(encoding="utf-8")


HALF = Estimate(0.5, 0.4, 0.6)
BRIEF = Report(
    name="brief",
    task="classification",
    rows=100,
    features=3,
    k=1,
    finding=UNTESTED.finding,
    fidelity="undecided",
    verdict=UNTESTED.sentence,
    parts=[
        Part("fidelity", "Fidelity", [Entry(key, key, HALF) for key in ("mean", "mean_removal", "random")]),
        Part(
            "evaluator",
            "Evaluator",
            [Entry("selection", "the selection", HALF)],
            about="About the evaluator.",
        ),
        Part(
            "information",
            "Information",
            [Entry("available", "available", Estimate(1.0)), Entry("share", "share", Estimate(float("nan")))],
        ),
    ],
    curve=[(1, HALF), (2, Estimate(0.8, 0.7, 0.9))],
)


def test_parts_that_were_not_measured_are_left_out() -> None:
    axes = plot_report(BRIEF).axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["model, masking: mean", "model, removal test", "model, random features", "evaluator"]


def test_the_page_shows_the_finding() -> None:
    page = report_page(BRIEF)
    assert "can be gamed" in page
    assert "About the evaluator." in page
    assert "50.0 %" in page
    assert "–" in page  # of NaN
    assert "Leakage test: untested." in page


def test_a_notebook_shows_the_verdict_and_every_number() -> None:
    table = BRIEF._repr_html_()
    assert UNTESTED.sentence.replace("'", "&#x27;") in table
    assert table.count("<tr") == sum(1 + len(part.entries) for part in BRIEF.parts)
    assert "<style" not in table  # notebooks drop it
    assert "0.500 [0.400, 0.600]" in table


def test_a_share_below_zero_is_none() -> None:
    """The large number is 0.0 %, as in the verdict; the table shows the negative estimate."""
    leakage = Part("leakage", "Leakage", [Entry("share", "share", Estimate(-0.2, -0.4, -0.1))])
    page = report_page(replace(BRIEF, parts=[*BRIEF.parts, leakage]))
    assert "0.0 %" in page
    assert "-20.0 %" not in page
    assert "-0.200 [-0.400, -0.100]" in page


def test_the_base_loads_files_that_are_there_and_nothing_else() -> None:
    page = environment("l2x.display", extra="plots").get_template("base.html").render(root="/under/a/proxy")
    loaded = re.findall(r'(?:src|href)="([^"#]+)"', page)
    files = [address for address in loaded if address.startswith("/under/a/proxy/static/")]
    assert len(files) == 2
    assert all((STATIC / address.rpartition("/")[2]).stat().st_size for address in files)
    assert set(loaded) - set(files) == {"data:,"}


def test_our_files_name_no_other_host() -> None:
    sheet = (STATIC / "l2x.css").read_text()
    assert "://" not in sheet
    assert "@import" not in sheet
    assert "url(" not in sheet


def test_templates_escape() -> None:
    made = environment("l2x.display", extra="plots")
    assert made.from_string("{{ name }}").render(name="<b>") == "&lt;b&gt;"
    with pytest.raises(Exception, match="undefined"):
        made.from_string("{{ nothing }}").render()


def test_headers_allow_no_inline_script() -> None:
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
