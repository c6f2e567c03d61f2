"""One explained row as escaped HTML: bars for a table, marks in a text, patches on an image.

Readable without colour: ranks are written beside bars, behind marked words and into patches.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache, singledispatch
from typing import Any

from l2x._base.arrays import cells
from l2x._base.ranking import ranked
from l2x.display._highlights import pieces
from l2x.display._images import overlay, plain, png
from l2x.display._labels import count, values_of
from l2x.display._pages import environment
from l2x.explanation import Explanation
from l2x.features import Patches, TextView, View, is_missing

# Features that were not selected, shown below those that were, so that the bars can be compared.
RUNNERS_UP = 3
# Shades of marks: l2x.css has as many.
SHADES = 3


def explained_html(explanation: Explanation, row: int = 0) -> str:
    """What was selected in one row, and its values, as a fragment of a page that loads l2x.css."""
    return _fragment(explanation.view, explanation[row])


def image_uri(pixels: Any) -> str:
    """(h, w, 3) colours in 0 .. 1 as a picture for `src` and `href`."""
    return f"data:image/png;base64,{b64encode(png(pixels)).decode()}"


def shade(rank: int, k: int) -> int:
    """Which of the SHADES a rank (from 0) gets: 1 is the strongest."""
    return 1 + rank * SHADES // max(k, 1)


@singledispatch
def _fragment(view: View | None, one: Explanation) -> str:
    """The single row of `one`; a new kind of view that is not shown as bars: `_fragment.register`."""
    raw, values, scores = cells(one.inputs, 0), values_of(one, 0), one.scores[0]
    if len(raw) == len(values):
        values = ["missing" if is_missing(cell) else value for cell, value in zip(raw, values, strict=True)]
    selected = int(one.selected[0].sum())
    order = [int(i) for i in ranked(one.scores)[0][: one.k + RUNNERS_UP] if scores[i] > float("-inf")]
    lowest = float(scores.min()) if order else 0.0
    span = float(scores[order[0]]) - lowest if order else 0.0
    bars = [
        {
            "rank": rank + 1 if rank < selected else None,
            "name": str(one.feature_names[i]),
            "value": values[i],
            "score": float(scores[i]),
            # A bar of nothing cannot be seen.
            "share": 2 + 98 * (float(scores[i]) - lowest) / span if span else 100,
        }
        for rank, i in enumerate(order)
    ]
    others = len(one.feature_names) - len(bars)
    return _rendered("bars.html", bars=bars, others=count(others, "feature") if others else "")


@_fragment.register
def _of_text(view: TextView, one: Explanation) -> str:
    parts = [
        {"text": p.text, "about": p.about, "rank": None if p.rank is None else p.rank + 1}
        | {"shade": 0 if p.rank is None else shade(p.rank, one.k)}
        for p in pieces(one, 0)
    ]
    return _rendered("text.html", parts=parts, unit=view.unit, selected=int(one.selected[0].sum()))


@_fragment.register
def _of_image(view: Patches, one: Explanation) -> str:
    height, width = view.image_shape_[-2:]
    rectangles = patch_rectangles(view, one.indices[0][one.selected[0]].tolist())
    return _rendered(
        "image.html",
        width=width,
        height=height,
        plain=image_uri(plain(view, one.inputs[0])),
        overlay=image_uri(overlay(view, one.inputs[0], one, 0)),
        patches=[rectangle | {"rank": rank} for rank, rectangle in enumerate(rectangles, 1)],
        names=[str(name) for name in one.names[0]],
        colours=view.channels >= 3,
    )


def patch_rectangles(view: Patches, indices: list[int]) -> list[dict[str, int]]:
    """Where patches lie in the image, in pixels; those at the right and below may be cut off."""
    height, width = view.image_shape_[-2:]
    rectangles = []
    for index in indices:
        top, left = (view.size * part for part in divmod(index, view.grid_[1]))
        rectangles.append(
            {
                "x": left,
                "y": top,
                "width": min(view.size, width - left),
                "height": min(view.size, height - top),
            }
        )
    return rectangles


@cache
def _templates() -> Any:
    return environment("l2x.display", extra="plots")


def _rendered(name: str, **content: Any) -> str:
    return str(_templates().get_template(name).render(**content))
