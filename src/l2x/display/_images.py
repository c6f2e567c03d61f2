"""Images with their selected patches, as the paper's figure has them: red where a pixel is active, blue where
it is not."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from l2x._base.arrays import Array
from l2x.display._labels import how_many
from l2x.display._style import INK, new_grid, note, saved, style
from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.features import Patches

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Images side by side in a figure, as in the paper.
MOST = 10
# Colours of pixels in selected patches: (inactive, active), in between in proportion.
BLUE, RED = np.array([0.16, 0.38, 0.78]), np.array([0.93, 0.20, 0.16])
# How much of an unselected pixel's colour is left in colour images.
FADED = 0.22

_FRAME = "display:flex;flex-wrap:wrap;gap:10px;font-family:inherit;font-size:13px;line-height:1.35"
_CARD = "margin:0;text-align:center"
_PICTURE = "width:84px;height:auto;display:block;image-rendering:pixelated;margin-bottom:3px"
_NOTE = "flex-basis:100%;opacity:.65"


def plot_images(
    explanation: Explanation,
    path: str | Path | None = None,
    *,
    labels: Sequence[object] | None = None,
    title: str = "",
) -> Figure:
    """The first ten images and, below them, what was selected in each; `labels` are written above them."""
    view, X = _with_images(explanation)
    shown = min(MOST, len(explanation))
    height, width = view.image_shape_[-2:]
    with style():
        figure, grid = new_grid(
            # Ten square images fill the usual width; fewer are not drawn larger.
            rows=2,
            columns=MOST,
            height=0.66 * height / width + 0.24,
            title=title or f"The {how_many(explanation)} of {view.d} patches that decided",
        )
        for axes in grid:
            axes.set_axis_off()
        for i in range(shown):
            grid[i].imshow(plain(view, X[i]), interpolation="nearest")
            grid[MOST + i].imshow(overlay(view, X[i], explanation, i), interpolation="nearest")
            if labels is not None:
                grid[i].set_title(str(labels[i]), loc="center", color=INK)
        note(figure, _legend(view, shown, len(explanation)))
    return saved(figure, path)


def images_html(explanation: Explanation, rows: int = 20) -> str:
    """An HTML fragment of the first images, each above the same with its selected patches; no script."""
    first = explanation[: max(0, rows)]
    view, X = _with_images(first)
    shown, names = len(first), first.names
    cards = "".join(_card(view, X[i], first, i, "; ".join(names[i])) for i in range(shown))
    return (
        f'<div class="l2x-explanation" style="{_FRAME}">{cards}'
        f'<div style="{_NOTE}">{escape(_legend(view, shown, len(explanation)))}</div></div>'
    )


def plain(view: Patches, image: Array) -> Array:
    """The image in colours, (h, w, 3) in 0 .. 1; a grey one has three equal channels."""
    channels = image.reshape(view.channels, *view.image_shape_[-2:]).astype(np.float64) / view.scale_
    if channels.min() < 0:  # standardised pixels: show their range
        channels = (channels - channels.min()) / max(float(np.ptp(channels)), 1e-12)
    channels = channels.clip(0, 1)
    rgb = channels[:3] if view.channels >= 3 else channels[[0, 0, 0]]
    return np.moveaxis(rgb, 0, -1)


def overlay(view: Patches, image: Array, explanation: Explanation, row: int) -> Array:
    """The image of a row, (h, w, 3), with selected patches in red and blue, or the others faded if it has
    colours of its own."""
    colours = plain(view, image)
    height, width = view.image_shape_[-2:]
    selected = view.pixels(explanation.mask[row : row + 1]).reshape(height, width, 1)
    if view.channels >= 3:
        return np.where(selected, colours, FADED * colours + (1 - FADED) * 0.5)
    return np.where(selected, BLUE + colours * (RED - BLUE), colours)


def _with_images(explanation: Explanation) -> tuple[Patches, Array]:
    if not isinstance(explanation.view, Patches) or explanation.inputs is None:
        raise InputError("This explanation holds no images: fit with features=l2x.Patches().")
    return explanation.view, explanation.inputs


def _legend(view: Patches, shown: int, n: int) -> str:
    count = f"{shown:,} of {n:,} images. " if shown < n else ""
    if view.channels >= 3:
        return f"{count}Selected patches keep their colours."
    return f"{count}Selected patches: red where a pixel is active, blue where it is not."


def _card(view: Patches, image: Array, explanation: Explanation, row: int, names: str) -> str:
    names = escape(names)
    pictures = "".join(
        f'<img src="data:image/png;base64,{b64encode(png(pixels)).decode()}" alt="{alt}" title="{names}" '
        f'style="{_PICTURE}">'
        for pixels, alt in (
            (plain(view, image), f"image {row}"),
            (overlay(view, image, explanation, row), f"selected: {names}"),
        )
    )
    return f'<figure style="{_CARD}">{pictures}<figcaption>{row}</figcaption></figure>'


def png(colours: Array) -> bytes:
    """(h, w, 3) colours in 0 .. 1 as a PNG file, so that notebooks need no package for it."""
    rgb = np.rint(colours * 255).astype(np.uint8)
    height, width, _ = rgb.shape
    lines = b"".join(b"\0" + line.tobytes() for line in rgb)  # 0: this line is not filtered
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits a channel, 2: red, green, blue
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    )
