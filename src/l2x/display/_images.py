"""Images with their selected patches, as in the paper's figure: bright pixels red, dark pixels blue."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from l2x._base.arrays import Array
from l2x.display._style import INK, how_many, new_figure, note, saved, style
from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.features import Patches

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Images side by side in a figure, as in the paper.
MOST = 10
# Colours of pixels in selected patches: (inactive, active), in between in proportion.
BLUE, RED = np.array([0.16, 0.38, 0.78]), np.array([0.93, 0.20, 0.16])
# How much of an unselected pixel's colour remains in colour images.
FADED = 0.22
GREY = 0.5  # unselected pixels, if they are hidden


def plot_images(
    explanation: Explanation,
    path: str | Path | None = None,
    *,
    labels: Sequence[object] | None = None,
    title: str = "",
) -> Figure:
    """Draw the first ten images and, below each, its selected patches; `labels` are written above them."""
    view, X = with_images(explanation)
    shown = min(MOST, len(explanation))
    height, width = view.image_shape_[-2:]
    with style():
        figure, grid = new_figure(
            # Ten square images fill the usual width; fewer are not drawn larger.
            0.66 * height / width + 0.24,
            rows=2,
            columns=MOST,
            title=title or f"{how_many(explanation).capitalize()} of {view.d} patches selected in each image",
        )
        for axes in grid:
            axes.set_axis_off()
        for i in range(shown):
            grid[i].imshow(plain(view, X[i]), interpolation="nearest")
            grid[MOST + i].imshow(overlay(view, X[i], explanation, i), interpolation="nearest")
            if labels is not None:
                grid[i].set_title(str(labels[i]), loc="center", color=INK)
        note(figure, legend(view, shown, len(explanation)))
    return saved(figure, path)


def plain(view: Patches, image: Array) -> Array:
    """Return the image as colours, (h, w, 3) in 0 .. 1; a grey image has three equal channels."""
    channels = image.reshape(view.channels, *view.image_shape_[-2:]).astype(np.float64) / view.scale_
    if channels.min() < 0:  # standardised pixels: show their range
        channels = (channels - channels.min()) / max(float(np.ptp(channels)), 1e-12)
    channels = channels.clip(0, 1)
    rgb = channels[:3] if view.channels >= 3 else channels[[0, 0, 0]]
    return np.moveaxis(rgb, 0, -1)


def overlay(view: Patches, image: Array, explanation: Explanation, row: int) -> Array:
    """Return the image of a row, (h, w, 3), with its selected patches in red and blue.

    In colour images, selected patches keep their colours and the others fade.
    """
    colours = plain(view, image)
    height, width = view.image_shape_[-2:]
    selected = view.pixels(explanation.mask[row : row + 1]).reshape(height, width, 1)
    if view.channels >= 3:
        return np.where(selected, colours, FADED * colours + (1 - FADED) * 0.5)
    return np.where(selected, BLUE + colours * (RED - BLUE), colours)


def image_content(one: Explanation, features: Sequence[int] | None) -> dict[str, Any]:
    """Return a single image with all but these patches grey; None for the whole image."""
    view, X = with_images(one)
    height, width = view.image_shape_[-2:]
    colours = plain(view, X[0])
    if features is not None:
        mask = np.isin(np.arange(view.d), features)[None]
        colours = np.where(view.pixels(mask).reshape(height, width, 1), colours, GREY)
    return {"kind": "image", "source": image_uri(colours), "width": int(width), "height": int(height)}


def with_images(explanation: Explanation) -> tuple[Patches, Array]:
    """Return the view and its images; raise an InputError if the explanation has none."""
    if not isinstance(explanation.view, Patches) or explanation.inputs is None:
        raise InputError("This explanation holds no images: fit with features=l2x.Patches().")
    return explanation.view, explanation.inputs


def legend(view: Patches, shown: int, n: int) -> str:
    """Return a sentence on what the colours mean, and how many of n images are shown."""
    first = f"{shown:,} of {n:,} images. " if shown < n else ""
    if view.channels >= 3:
        return f"{first}Selected patches keep their colours."
    return f"{first}In selected patches, bright pixels are red and dark pixels blue."


def patch_rectangles(view: Patches, indices: Sequence[int]) -> list[dict[str, int]]:
    """Return the position and size of patches in pixels; patches at the right and lower edge may be cut."""
    height, width = view.image_shape_[-2:]
    corners = [tuple(view.size * part for part in divmod(index, view.grid_[1])) for index in indices]
    return [
        {"x": left, "y": top, "width": min(view.size, width - left), "height": min(view.size, height - top)}
        for top, left in corners
    ]


def image_uri(colours: Array) -> str:
    """Return (h, w, 3) colours in 0 .. 1 as a data URI for `src` and `href`."""
    return f"data:image/png;base64,{b64encode(png(colours)).decode()}"


def png(colours: Array) -> bytes:
    """Return (h, w, 3) colours in 0 .. 1 as a PNG file; written here, so that notebooks need no package."""
    rgb = np.rint(colours * 255).astype(np.uint8)
    height, width, _ = rgb.shape
    lines = b"".join(b"\0" + line.tobytes() for line in rgb)  # 0: this line is not filtered
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits a channel, 2: red, green, blue
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    )
