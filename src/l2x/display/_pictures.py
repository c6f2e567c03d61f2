"""How an explanation is shown, by the class of its view: images with patches, texts with key words.

Views that are not registered here are shown as bars and as a table.
"""

from __future__ import annotations

from functools import singledispatch
from pathlib import Path
from typing import TYPE_CHECKING

from l2x.display._bars import plot_explanation
from l2x.display._images import images_html, plot_images
from l2x.display._tables import explanation_table
from l2x.display._texts import plot_texts, texts_html
from l2x.explanation import Explanation
from l2x.features import Patches, TextView, View

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@singledispatch
def picture_of(view: View | None, explanation: Explanation, path: str | Path | None) -> Figure:
    """A figure, saved if a path is given; `view` is None if the explanation has no inputs to draw."""
    return plot_explanation(explanation, path)


@singledispatch
def html_of(view: View | None, explanation: Explanation, rows: int) -> str:
    """An HTML fragment of the first `rows` inputs; `view` is None if the explanation has none to show."""
    return explanation_table(explanation, rows)


picture_of.register(Patches, lambda view, explanation, path: plot_images(explanation, path))
html_of.register(Patches, lambda view, explanation, rows: images_html(explanation, rows))
picture_of.register(TextView, lambda view, explanation, path: plot_texts(explanation, path))
html_of.register(TextView, lambda view, explanation, rows: texts_html(explanation, rows))
