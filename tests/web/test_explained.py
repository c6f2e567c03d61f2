"""One explained row as HTML: what is shown, and that nothing in names, cells or texts becomes markup."""

from __future__ import annotations

import re
from html import unescape
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import l2x
from l2x.display._html import SHADES, explained_html, patch_rectangles, shade
from l2x.explanation import Explanation

NASTY = ['<script>alert("x")</script>', "a'b\"c", "שלום & >", "🙂 {{ 7*7 }}"]


def parsed(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{html}</div>")


def test_bars_show_rank_name_value_and_the_next_features() -> None:
    frame = pd.DataFrame([[1.5, 2.0, 3.0, 4.0, 5.0, 6.0]], columns=list("abcdef"))
    view = l2x.Columns().fit(frame)
    scores = np.array([[0.0, 5.0, 4.0, 3.0, 2.0, 1.0]], dtype=np.float32)
    tree = parsed(explained_html(Explanation(scores, 2, view.names_, inputs=frame, view=view)))
    bars = tree.findall(".//li")
    assert [bar.get("class") for bar in bars] == ["selected"] * 2 + ["other"] * 3
    assert ["".join(bar.itertext()).split() for bar in bars][:2] == [["1", "b", "2"], ["2", "c", "3"]]
    widths = [float(bar.find(".//rect").get("width")) for bar in bars]  # type: ignore[union-attr, arg-type]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] == 100
    assert "1 feature with lower scores is" in explained_html(
        Explanation(scores, 2, view.names_, inputs=frame, view=view)
    )


def test_a_missing_cell_is_called_so() -> None:
    frame = pd.DataFrame({"a": [1.0, np.nan], "b": ["nan", None]})
    view = l2x.Columns().fit(frame)
    scores = np.zeros((2, 2))
    shown = [
        explained_html(Explanation(scores, 1, view.names_, inputs=frame, view=view), row) for row in (0, 1)
    ]
    assert "missing" not in shown[0]
    assert shown[1].count(">missing<") == 2


def test_names_and_cells_are_text() -> None:
    frame = pd.DataFrame([[NASTY[1], NASTY[0], NASTY[3], 1.0]], columns=NASTY)
    view = l2x.Columns().fit(frame)
    html = explained_html(Explanation(np.arange(4.0)[None, ::-1], 4, view.names_, inputs=frame, view=view), 0)
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
    html = explained_html(Explanation(scores, 2, view.names_, inputs=view.check([text]), view=view))
    assert "<script" not in html
    tree = parsed(html)
    shown = "".join(tree.find("p").itertext())  # type: ignore[union-attr]
    assert shown == " ".join(text.split())
    selectable = np.isfinite(scores).sum()
    ranks = re.findall(r"\d+\.", " ".join(unescape(mark.get("title", "")) for mark in tree.iter("mark")))
    assert len(ranks) == min(2, selectable)  # adjacent words are one mark
    assert ("There is no word" in html) == (selectable == 0)


def test_patches_are_framed_where_they_lie() -> None:
    view = l2x.Patches(4, padding="edge").fit(np.ones((1, 6, 10)))
    assert patch_rectangles(view, [0, 5]) == [
        {"x": 0, "y": 0, "width": 4, "height": 4},
        {"x": 8, "y": 4, "width": 2, "height": 2},
    ]
    scores = np.array([[1.0, 0, 0, 0, 0, 2.0]])
    html = explained_html(Explanation(scores, 2, view.names_, inputs=np.ones((1, 6, 10)), view=view))
    frames = parsed(html).findall(".//rect")
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
