"""Highlighted texts: escaped, with adjacent words in one mark; long texts are cut around their marks."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import l2x
from l2x.apps.cli._terminal import highlighted
from l2x.display import pieces, verdict_table
from l2x.display._html import first_of_each_kind, text_rows
from l2x.display._style import figure_svg

TEXT = "A truly well-made, wonderful film.<br /><br />Wonderful actors too: see it!"
HOSTILE = [
    "<script>alert(1)</script> good",
    "\"quotes\" 'and' &amp; entities &lt;b&gt; good film",
    "<img src=x onerror=alert(1)> good",
    "שלום סרט good",
    "\u202egood film",
    "👨‍👩‍👧 good 🎬",
    "good " + "x" * 3000,
    "\x1b[31mgood\x00\x07 film",
    "",
]


def explained(
    texts: list[str], *choice: list[int], view: l2x.Words | l2x.Sentences | None = None
) -> l2x.Explanation:
    """Return an explanation that selects these features of each text, best first."""
    view = (view or l2x.Words(length=30)).fit(texts)
    scores = np.full((len(texts), view.d), -np.inf)
    for row, features in enumerate(choice):
        scores[row, features] = np.arange(len(features), 0, -1)
    k = max(1, *map(len, choice))
    return l2x.Explanation(scores, k, view.names_, inputs=view.check(texts), view=view)


class Reader(HTMLParser):
    """The tags of a fragment, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.said = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.said += data


def test_neighbours_are_one_piece() -> None:
    # 0 A, 1 truly, 2 well, 3 made, 4 wonderful, 5 film, 6 Wonderful, 7 actors, 8 too, 9 see, 10 it
    found = pieces(explained([TEXT], [5, 2, 3, 4, 6, 1]), 0)
    marked = [(piece.text, piece.rank) for piece in found if piece.rank is not None]
    # A comma, a full stop or a line break between them parts marks; a blank or a hyphen does not.
    assert marked == [("truly well-made", 1), ("wonderful film", 0), ("Wonderful", 4)]
    assert found[1].about == "6. truly (score 1), 2. well (score 5), 3. made (score 4)"
    assert "".join(piece.text for piece in found) == TEXT.replace("<br /><br />", " ")


def test_the_text_around_marks() -> None:
    text = "good " + "blah " * 200 + "film " + "blah " * 200
    explanation = explained([text], [0], view=l2x.Words(length=400))
    assert len(pieces(explanation, 0)) == 2
    short = "".join(piece.text for piece in pieces(explanation, 0, context=20))
    assert short == "good blah blah blah … "
    middle = explained([text], [201], view=l2x.Words(length=400))
    assert (
        "".join(p.text for p in pieces(middle, 0, context=20)) == " … blah blah blah film blah blah blah … "
    )
    nothing = explained([text], [], view=l2x.Words(length=400))
    assert "".join(p.text for p in pieces(nothing, 0, context=10)) == "good blah blah blah … "


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_texts_are_escaped(text: str) -> None:
    explanation = l2x.baselines.RandomK(features=l2x.Words(length=30)).explain([text, "good"], k=3)
    for html in (
        explanation.to_html(),
        text_rows(explanation, 2, context=None),
        verdict_table(explanation, *"ab"),
    ):
        reader = Reader(html)
        assert set(reader.tags) <= {"div", "table", "thead", "tbody", "tr", "th", "td", "mark"}
        assert not re.search(r"[\x00-\x08\x1b]", html)
    whole = Reader(text_rows(explanation, 2, context=None)).said
    assert re.sub(r"[\s\x00-\x1f]+", " ", text).strip() in whole


@given(st.lists(st.text(max_size=40), min_size=1, max_size=3), st.integers(0, 5))
@settings(max_examples=80, deadline=None)
def test_nothing_is_lost_or_added(texts: list[str], seed: int) -> None:
    view = l2x.Words(length=20, lowercase=False).fit([*texts, "good"])
    explanation = l2x.baselines.RandomK(features=view, seed=seed).explain(texts, k=3)
    for row, text in enumerate(texts):
        found = pieces(explanation, row)
        blank = re.compile(r"(?:[\s\x00-\x1f\x7f-\x9f]|<br\s*/?>)+", re.IGNORECASE)
        assert "".join(piece.text for piece in found).split() == blank.sub(" ", text).split()
        marked = " ".join(piece.text for piece in found if piece.rank is not None)
        assert all(word in marked for word in explanation.names[row])
    said = Reader(explanation.to_html()).said
    assert all(word in said for words in explanation.names for word in words)


def test_the_fragment() -> None:
    explanation = explained([TEXT] * 3, [4, 0], [1, 2], [6])
    html = explanation.to_html(rows=2)
    assert html.count("<mark") == 3
    assert 'title="1. wonderful (score 2)"' in html
    assert 'dir="auto"' in html
    assert "showing 2 of 3 texts" in html
    shades = re.findall(r"<mark style=\"background:rgba\([^)]*,([.\d]+)\)", html)
    assert shades[1] > shades[0]  # "A" comes first in the text, but second in rank


def test_the_papers_table() -> None:
    truth, predictions = [0, 1, 0, 1, 1], [0, 0, 0, 1, 1]
    assert first_of_each_kind(truth, predictions) == [0, 3, 1]
    assert first_of_each_kind(["n", "p"], ["n", "p"]) == [0, 1]
    explanation = explained([f"{TEXT} Number {i}." for i in range(5)], *[[4]] * 5)
    html = verdict_table(explanation, truth, predictions, classes=("<neg>", "pos"))
    rows = [unescape(re.sub(r"<[^>]+>", "|", row)) for row in html.split("<tr")[2:]]
    assert ["Number 0" in rows[0], "Number 3" in rows[1], "Number 1" in rows[2]] == [True] * 3
    assert re.findall(r"\|(<neg>|pos)\|", rows[2]) == ["pos", "<neg>"]
    assert "key word<" in html
    sentences = explained([TEXT, TEXT], [1], [0], view=l2x.Sentences(length=4))
    html = verdict_table(sentences, [0, 1], [0, 0], rows=[1])
    assert "key sentence" in html
    assert ">A truly well-made, wonderful film.</mark>" in html


def test_the_figures(tmp_path: Path) -> None:
    words = explained([TEXT, "Wonderful!", ""], [4, 0], [0], [])
    svg = figure_svg(words.plot(tmp_path / "words.png"))
    assert (tmp_path / "words.png").read_bytes().startswith(b"\x89PNG")
    assert "The words selected most often" in svg
    assert re.search(r">wonderful<.*>2<", svg, flags=re.DOTALL)
    one = figure_svg(words[0].plot())
    assert "The 2 most important words of this text" in one
    assert "has no word to select" in figure_svg(words[2].plot(tmp_path / "none.svg"))
    sentences = explained([TEXT, TEXT], [1], [0], view=l2x.Sentences(length=4))
    assert "Positions of the selected sentences" in figure_svg(sentences.plot())
    assert "The most important sentence of this text" in figure_svg(sentences[0].plot())


def test_in_the_terminal() -> None:
    found = pieces(explained([HOSTILE[7] + " [bold]x"], [0, 1]), 0)
    line = highlighted(found, 2)
    assert line.plain == " [31mgood film [bold]x"
    assert [line.plain[span.start : span.end] for span in line.spans] == ["31mgood", "film"]
    assert highlighted(found, 2, colour=False).plain == " [«31mgood» «film» [bold]x"


def test_without_texts() -> None:
    view = l2x.Words(length=3).fit(["good film"])
    bare = l2x.Explanation(np.zeros((1, 3)), 1, view.names_, view=view)
    assert "word 1" in bare.to_html()  # the usual table
    with pytest.raises(l2x.errors.InputError, match="holds no texts"):
        text_rows(bare, 1)
