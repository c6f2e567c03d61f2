"""Tables in notebooks: everything escaped, the count said, inline styles only."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl

import l2x

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


def test_says_how_many_rows_are_shown() -> None:
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
