"""Which picture a view gets: its own if there is one, else the next base class's, else bars and a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import l2x
from l2x.display._pictures import html_of, picture_of
from l2x.display._style import figure_svg
from l2x.features._view import View

NUMBERS = np.random.default_rng(0).normal(size=(4, 3))


class Ratings(l2x.Columns):
    """A view that nobody has drawn yet."""


class Spectra(l2x.Columns):
    """A view that is drawn as is right for it."""


@html_of.register(Spectra)
def _(view: Spectra, explanation: l2x.Explanation, rows: int) -> str:
    return f"<p>{min(rows, len(explanation))} spectra"


def explained(view: View, X: Any) -> l2x.Explanation:
    return l2x.baselines.RandomK(features=view).explain(X, k=2)


@pytest.mark.parametrize(
    ("view", "X", "html", "svg"),
    [
        (Ratings(), NUMBERS, "4 rows", "How often each feature"),
        (Spectra(), NUMBERS, "<p>4 spectra", "How often each feature"),
        (l2x.ColumnGroups({"both": [0, 2]}), NUMBERS, "4 rows", "How often each feature"),
        (l2x.Patches(size=2), np.ones((3, 4, 4)), "<img", "patches that decided"),
        (l2x.Words(length=4), ["a good film", "a bad film"], "<mark", "The words selected"),
        (l2x.Sentences(length=4), ["Good. Bad.", "Bad. Good."], "<mark", "Where the selected"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, View) else "",
)
def test_by_the_class_of_the_view(view: View, X: Any, html: str, svg: str) -> None:
    explanation = explained(view, X)
    assert html in explanation.to_html()
    assert svg in figure_svg(explanation.plot())


def test_saved_if_there_is_a_path(tmp_path: Path) -> None:
    picture_of(None, l2x.Explanation(NUMBERS, 1, list("abc")), tmp_path / "bars.png")
    explained(l2x.Patches(size=2), np.ones((3, 4, 4))).plot(tmp_path / "images.png")
    explained(l2x.Words(length=4), ["a good film"]).plot(tmp_path / "words.png")
    assert {file.name for file in tmp_path.iterdir()} == {"bars.png", "images.png", "words.png"}
