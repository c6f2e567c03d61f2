"""HTML and plain text of explanations: what is shown, and that names, cells and texts never become markup."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import polars as pl
import pytest

import l2x
from l2x.display import KINDS, patch_rectangles, plot_explanation, row_html, shade
from l2x.display._html import SHADES, TABLE
from l2x.display._style import figure_svg
from l2x.explanation import Explanation
from l2x.features._view import View

BAD = "<script>alert(1)</script>"


class Seen(HTMLParser):
    """The tags, attributes and text of a fragment."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def test_names_values_and_row_labels_are_escaped() -> None:
    frame = pd.DataFrame({BAD: [f"{BAD}'\"", "b"], "c": [1.0, 2.0]}, index=[BAD, "second"])
    explanation = l2x.Explanation(np.array([[2.0, 1.0], [2.0, 1.0]]), 2, [BAD, "c"], inputs=frame)
    seen = Seen(explanation.to_html())
    assert set(seen.tags) == {"div", "table", "thead", "tbody", "tr", "th", "td", "br", "span"}
    assert seen.text.count(BAD) == 4  # one label, one value, a name in each of two rows


def test_long_names_cannot_break_out_of_their_tooltip() -> None:
    name = '" onmouseover="alert(1)' + "x" * 100
    seen = Seen(l2x.Explanation(np.ones((1, 1)), 1, [name]).to_html())
    assert ("title", name) in seen.attributes
    assert {key for key, _ in seen.attributes} == {"class", "style", "title"}


def test_the_number_of_shown_rows() -> None:
    explanation = l2x.Explanation(np.random.default_rng(0).random((500, 6)), 2, list("abcdef"))
    assert "showing 20 of 500 rows" in explanation._repr_html_()
    assert "showing 3 of 500 rows" in explanation.to_html(rows=3)
    assert Seen(explanation.to_html(rows=3)).tags.count("tr") == 1 + 3
    assert "500 rows" in explanation.to_html(rows=1000)
    assert "showing" not in explanation.to_html(rows=1000)


def test_the_best_feature_has_the_strongest_shade() -> None:
    html = l2x.Explanation(np.array([[3.0, 2.0, 1.0]]), 3, ["a", "b", "c"]).to_html()
    shades = [float(part.split(")")[0]) for part in html.split("rgba(47,109,181,")[1:]]
    assert len(shades) == 3
    assert shades == sorted(shades, reverse=True)


def test_values_come_from_any_table() -> None:
    scores = np.array([[2.0, 1.0]])
    for inputs in (np.array([[1.23456789, 2.0]]), pl.DataFrame({"a": [1.23456789], "b": [2]})):
        assert "1.235" in l2x.Explanation(scores, 1, ["a", "b"], inputs=inputs).to_html()
    # Inputs that are not a table have no value per feature: the names alone are shown.
    assert "a" in Seen(l2x.Explanation(scores, 1, ["a", "b"], inputs=["a text"]).to_html()).text


def test_printed_with_names_and_values_of_the_first_rows() -> None:
    frame = pd.DataFrame(
        {"age": range(20, 50), "mean radius": 12.3456789}, index=[f"p{i}" for i in range(30)]
    )
    scores = np.tile([[1.0, 2.0]], (30, 1))
    lines = repr(l2x.Explanation(scores, 2, list(frame.columns), inputs=frame)).splitlines()
    assert lines[0] == "Explanation of 30 rows, 2 of 2 features"
    assert lines[1] == "  p0  mean radius = 12.35; age = 20"
    assert lines[-1].strip() == "…"
    assert len(lines) == 10
    assert repr(l2x.Explanation(scores[:1], 1, ["a", "b"])) == "Explanation of 1 row, 1 of 2 features\n  0  b"
    assert repr(l2x.Explanation(scores[:0], 1, ["a", "b"])) == "Explanation of 0 rows, 1 of 2 features"


def test_printed_lines_are_short_whatever_is_in_them() -> None:
    names = [f"{'long ' * 30}\n\x1b[31m{i}" for i in range(40)]
    printed = repr(l2x.Explanation(np.ones((3, 40)), 40, names, inputs=np.ones((3, 40))))
    assert all(len(line) < 120 for line in printed.splitlines())
    assert len(printed.splitlines()) == 4
    assert "\x1b" not in printed


def test_texts_are_printed_with_their_words() -> None:
    texts = ["A wonderful film", ""]
    words = l2x.Words(length=4).fit(texts)
    scores = np.array([[1.0, 3.0, 2.0, -np.inf], [-np.inf] * 4])
    printed = repr(l2x.Explanation(scores, 2, words.names_, words.check(texts), words))
    assert printed.splitlines()[1:] == ["  0  wonderful; film", "  1"]


NASTY = ['<script>alert("x")</script>', "a'b\"c", "שלום & >", "🙂 {{ 7*7 }}"]


def parsed(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{html}</div>")


def test_bars_show_rank_name_value_and_the_next_features() -> None:
    frame = pd.DataFrame([[1.5, 2.0, 3.0, 4.0, 5.0, 6.0]], columns=list("abcdef"))
    view = l2x.Columns().fit(frame)
    scores = np.array([[0.0, 5.0, 4.0, 3.0, 2.0, 1.0]], dtype=np.float32)
    tree = parsed(row_html(Explanation(scores, 2, view.names_, inputs=frame, view=view)))
    bars = tree.findall(".//li")
    assert [bar.get("class") for bar in bars] == ["selected"] * 2 + ["other"] * 3
    assert ["".join(bar.itertext()).split() for bar in bars][:2] == [["1", "b", "2"], ["2", "c", "3"]]
    widths = [float(bar.find(".//rect").get("width")) for bar in bars]  # type: ignore[union-attr, arg-type]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] == 100
    assert "1 feature with lower scores" in row_html(
        Explanation(scores, 2, view.names_, inputs=frame, view=view)
    )


def test_missing_cells() -> None:
    frame = pd.DataFrame({"a": [1.0, np.nan], "b": ["nan", None]})
    view = l2x.Columns().fit(frame)
    scores = np.zeros((2, 2))
    shown = [row_html(Explanation(scores, 1, view.names_, inputs=frame, view=view), row) for row in (0, 1)]
    assert "missing" not in shown[0]
    assert shown[1].count(">missing<") == 2


def test_names_and_cells_are_text() -> None:
    frame = pd.DataFrame([[NASTY[1], NASTY[0], NASTY[3], 1.0]], columns=NASTY)
    view = l2x.Columns().fit(frame)
    html = row_html(Explanation(np.arange(4.0)[None, ::-1], 4, view.names_, inputs=frame, view=view), 0)
    assert "<script" not in html
    names = ["".join(name.itertext()) for name in parsed(html).findall(".//span[@class='name']")]
    assert names == NASTY
    assert "49" not in html


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script> good & film", 'a "good" שלום film 🙂', "", "zzz"]
)
def test_texts_are_shown_whole_and_as_text(text: str) -> None:
    view = l2x.Words(length=6, vocabulary=20).fit(["good film 🙂", "alert script שלום"])
    x = view.encode([text])
    scores = np.where(view.selectable(x).numpy(), 1.0, -np.inf)
    html = row_html(Explanation(scores, 2, view.names_, inputs=view.check([text]), view=view))
    assert "<script" not in html
    tree = parsed(html)
    shown = "".join(tree.find("p").itertext())  # type: ignore[union-attr]
    assert shown == " ".join(text.split())
    selectable = np.isfinite(scores).sum()
    ranks = re.findall(r"\d+\.", " ".join(unescape(mark.get("title", "")) for mark in tree.iter("mark")))
    assert len(ranks) == min(2, selectable)  # adjacent words are one mark
    assert ("There is no word" in html) == (selectable == 0)


def test_patches_are_outlined_at_their_positions() -> None:
    view = l2x.Patches(4, padding="edge").fit(np.ones((1, 6, 10)))
    assert patch_rectangles(view, [0, 5]) == [
        {"x": 0, "y": 0, "width": 4, "height": 4},
        {"x": 8, "y": 4, "width": 2, "height": 2},
    ]
    scores = np.array([[1.0, 0, 0, 0, 0, 2.0]])
    html = row_html(Explanation(scores, 2, view.names_, inputs=np.ones((1, 6, 10)), view=view))
    frames = parsed(html).findall(".//rect[@data-rank]")
    assert [(frame.get("x"), frame.get("y"), frame.get("data-rank")) for frame in frames] == [
        ("8", "4", "1"),
        ("0", "0", "2"),
    ]
    assert "row 2, column 3; row 1, column 1" in html


def test_every_rank_has_one_of_the_shades() -> None:
    for k in (1, 2, 3, 7, 50):
        shades = [shade(rank, k) for rank in range(k)]
        assert shades == sorted(shades)
        assert set(shades) <= set(range(1, SHADES + 1))
        assert shades[0] == 1


NUMBERS = np.random.default_rng(0).normal(size=(4, 3))


class Ratings(l2x.Columns):
    """A view without a registered display."""


class Spectra(l2x.Columns):
    """A view with a registered display."""


@pytest.fixture(autouse=True)
def spectra(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = replace(TABLE, view=Spectra, rows=lambda explanation, rows: f"<p>{rows} spectra")
    monkeypatch.setattr("l2x.display._html.KINDS", [shown, *KINDS])


def explained(view: View, X: Any) -> l2x.Explanation:
    return l2x.baselines.RandomK(features=view).explain(X, k=2)


@pytest.mark.parametrize(
    ("view", "X", "html", "svg"),
    [
        (Ratings(), NUMBERS, "4 rows", "How often each feature"),
        (Spectra(), NUMBERS, "<p>4 spectra", "How often each feature"),
        (l2x.ColumnGroups({"both": [0, 2]}), NUMBERS, "4 rows", "How often each feature"),
        (l2x.Patches(size=2), np.ones((3, 4, 4)), "<img", "2 of 4 patches"),
        (l2x.Words(length=4), ["a good film", "a bad film"], "<mark", "The words selected"),
        (l2x.Sentences(length=4), ["Good. Bad.", "Bad. Good."], "<mark", "Positions of the selected"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, View) else "",
)
def test_the_display_follows_the_class_of_the_view(view: View, X: Any, html: str, svg: str) -> None:
    explanation = explained(view, X)
    assert html in explanation.to_html()
    assert svg in figure_svg(explanation.plot())


def test_saved_if_there_is_a_path(tmp_path: Path) -> None:
    plot_explanation(l2x.Explanation(NUMBERS, 1, list("abc")), tmp_path / "bars.png")
    explained(l2x.Patches(size=2), np.ones((3, 4, 4))).plot(tmp_path / "images.png")
    explained(l2x.Words(length=4), ["a good film"]).plot(tmp_path / "words.png")
    assert {file.name for file in tmp_path.iterdir()} == {"bars.png", "images.png", "words.png"}


def test_tables_and_plain_text_need_neither_matplotlib_nor_jinja() -> None:
    code = """
import sys
sys.modules["matplotlib"] = sys.modules["jinja2"] = None  # importing them fails
import numpy, l2x
explanation = l2x.Explanation(numpy.array([[2.0, 1.0]]), 1, ["a", "b"])
assert "0  a" in repr(explanation) and "<table" in explanation.to_html()
try:
    explanation.plot()
except l2x.errors.L2XError as error:
    assert "plots" in str(error)
else:
    raise AssertionError("drawn without matplotlib")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
