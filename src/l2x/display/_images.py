"""Images with their selected patches outlined and numbered, and everything else dimmed."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from l2x._base.arrays import Array
from l2x.display._readings import Reading, has_effects, readings, readings_if_affordable
from l2x.display._signed import Steps, draw_waterfall, how_to_read, with_effects
from l2x.display._style import (
    AGAINST,
    INK,
    TOWARDS,
    WIDTH,
    how_many,
    new_figure,
    note,
    saved,
    shortened,
    style,
)
from l2x.errors import InputError, require
from l2x.explanation import Explanation
from l2x.features import Patches, Superpixels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Pictures = Patches | Superpixels

# Images in a figure, as in the paper, and in a line of it
MOST = 10
COLUMNS = 5
LARGE = 224  # pixels of the longer side of a picture that browsers scale up
# How much of an unselected pixel's colour remains; the rest is grey.
FADED = 0.3
GREY = 0.5  # unselected pixels, if they are hidden


def plot_images(
    explanation: Explanation,
    path: str | Path | None = None,
    *,
    labels: Sequence[object] | None = None,
    title: str = "",
) -> Figure:
    """Draw the first ten images and, below each, its outlined patches; a single image is drawn large.

    `labels` are written above the images, by default the predictions, if they are known.
    """
    if len(explanation) == 1 and labels is None and not title:
        return saved(_plot_one(explanation), path)
    view, X = with_images(explanation)
    shown = min(MOST, len(explanation))
    first = explanation[:shown]
    known = readings_if_affordable(first)
    above = [reading.predicted if reading else "" for reading in known] if labels is None else labels
    height, width = view.sides
    with style():
        figure, grid = new_figure(
            # Five images fill the usual width; fewer are not drawn larger.
            WIDTH / COLUMNS * height / width + 0.12,
            rows=2 * -(-shown // COLUMNS),
            columns=COLUMNS,
            title=title or f"{how_many(explanation).capitalize()} of {view.d} patches selected in each image",
        )
        for axes in grid:
            axes.set_axis_off()
        for i in range(shown):
            place = 2 * COLUMNS * (i // COLUMNS) + i % COLUMNS
            grid[place].imshow(plain(view, X[i]), interpolation="nearest")
            grid[place].set_title(shortened(above[i], 20), loc="center", color=INK, fontsize=9)
            draw_patches(grid[place + COLUMNS], first[i], known[i], width=72 * WIDTH / COLUMNS)
        note(figure, legend(shown, len(explanation), known))
    return saved(figure, path)


def _plot_one(one: Explanation) -> Figure:
    """Draw one image with its outlined patches and, next to it, the waterfall of their effects."""
    view, _ = with_images(one)
    height, width = view.sides
    reading = readings(with_effects(one))[0] if has_effects(one) else None
    title = reading.title if reading else f"{how_many(one).capitalize()} of {view.d} patches selected"
    with style():
        figure, (left, right) = new_figure(
            min(5.0, max(2.6, 3.2 * height / width)) + 0.7, columns=2, title=title
        )
        left.set_axis_off()
        right.set_axis_off()
        if reading is None:
            left.imshow(plain(view, with_images(one)[1][0]), interpolation="nearest")
            draw_patches(right, one, None, width=36 * WIDTH)
            note(figure, legend(1, 1, [None]))
            return figure
        draw_patches(left, one, reading, width=36 * WIDTH)
        right.set_axis_on()
        draw_waterfall(
            right, Steps.of(reading, [f"patch {rank + 1}" for rank in range(len(reading.effects))])
        )
        note(
            figure,
            f"{how_to_read(reading)} Outlines alike; all other patches are dimmed.",
        )
    return figure


def draw_patches(axes: Axes, one: Explanation, reading: Reading | None, *, width: float) -> None:
    """Draw an image, `width` points wide, with patches outlined and numbered, and all others dimmed."""
    patches: Any = require("matplotlib.patches", extra="plots")
    effects: Any = require("matplotlib.patheffects", extra="plots")
    view, X = with_images(one)
    axes.imshow(dimmed(view, X[0], one.mask[0]), interpolation="nearest")
    places = outlined(view, X[:1], one.indices[0][one.selected[0]].tolist())
    font = min(8.5, 0.5 * width * min((at["width"] for at in places), default=1) / view.sides[1])
    for rank, at in enumerate(places):
        corner = (at["x"] - 0.5, at["y"] - 0.5)  # imshow centres pixels on whole numbers
        against = reading is not None and reading.effects[rank] < 0
        colour = INK if reading is None else AGAINST if against else TOWARDS
        for edge, thick, line in (("white", 3.0, "-"), (colour, 1.6, (0, (3, 1.5)) if against else "-")):
            axes.add_patch(
                patches.Rectangle(
                    corner, at["width"], at["height"], fill=False, edgecolor=edge, linewidth=thick,
                    linestyle=line, clip_on=False,
                )
            )  # fmt: skip
        axes.text(
            corner[0] + 0.1 * at["width"], corner[1] + 0.08 * at["height"], str(rank + 1), va="top",
            color="white", weight="bold", fontsize=font,
            path_effects=[effects.withStroke(linewidth=2, foreground="black")],
        )  # fmt: skip


def plain(view: Pictures, image: Array) -> Array:
    """Return the image as colours, (h, w, 3) in 0 .. 1; a grey image has three equal channels."""
    channels = view.planes(np.asarray(image))[0].astype(np.float64) / view.scale_
    if channels.min() < 0:  # standardised pixels: show their range
        channels = (channels - channels.min()) / max(float(np.ptp(channels)), 1e-12)
    channels = channels.clip(0, 1)
    rgb = channels[:3] if view.channels >= 3 else channels[[0, 0, 0]]
    return np.moveaxis(rgb, 0, -1)


def dimmed(view: Pictures, image: Array, selected: Array) -> Array:
    """Return the image as colours, (h, w, 3); only the patches in `selected`, (d,), keep theirs."""
    colours = plain(view, image)
    height, width = view.sides
    kept = view.plane(selected[None], image[None]).reshape(height, width, 1)
    return np.where(kept, colours, FADED * colours + (1 - FADED) * GREY)


def outlines(one: Explanation, reading: Reading | None) -> str:
    """Return SVG that outlines and numbers the selected patches of a single image.

    Lines are solid or, for patches with a negative effect, dashed; l2x.css has the same look in its classes.
    """
    view, X = with_images(one)
    places = outlined(view, X[:1], one.indices[0][one.selected[0]].tolist())
    marks = ""
    for rank, at in enumerate(places):
        sign = "" if reading is None else " towards" if reading.effects[rank] >= 0 else " against"
        size = 0.3 * min(at["width"], at["height"])
        about = "" if reading is None else f"<title>{rank + 1}: {reading.amounts[rank]}</title>"
        frame = f'x="{at["x"]}" y="{at["y"]}" width="{at["width"]}" height="{at["height"]}"'
        marks += (
            f'<rect class="patch-edge" {frame}/><rect class="patch{sign}" data-rank="{rank + 1}" {frame}>'
            f'{about}</rect><text class="patch-rank" x="{at["x"] + 0.3 * size:g}" '
            f'y="{at["y"] + 1.1 * size:g}" font-size="{size:g}">{rank + 1}</text>'
        )
    return marks


# For pictures outside pages, which have no stylesheet.
_LOOK = (
    "rect{fill:none;vector-effect:non-scaling-stroke}.patch-edge{stroke:#fff;stroke-width:4}"
    f".patch{{stroke:{INK};stroke-width:2}}.towards{{stroke:{TOWARDS}}}"
    f".against{{stroke:{AGAINST};stroke-dasharray:4 2}}"
    "text{fill:#fff;stroke:#000;stroke-width:3;vector-effect:non-scaling-stroke;paint-order:stroke;"
    "font-family:sans-serif;font-weight:700}"
)


def outlined_svg(one: Explanation, reading: Reading | None) -> str:
    """Return a single image as an SVG file: dimmed, with outlined and numbered patches."""
    view, X = with_images(one)
    height, width = view.sides
    scale = max(1.0, LARGE / max(height, width))
    picture = image_uri(dimmed(view, X[0], one.mask[0]))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{scale * width:g}" height="{scale * height:g}"><style>{_LOOK}</style>'
        f'<image href="{picture}" width="{width}" height="{height}" style="image-rendering:pixelated"/>'
        f"{outlines(one, reading)}</svg>"
    )


def image_content(one: Explanation, features: Sequence[int] | None) -> dict[str, Any]:
    """Return a single image with all but these patches grey; None for the whole image."""
    view, X = with_images(one)
    height, width = view.sides
    colours = plain(view, X[0])
    if features is not None:
        mask = np.isin(np.arange(view.d), features)[None]
        colours = np.where(view.plane(mask, X[:1]).reshape(height, width, 1), colours, GREY)
    return {"kind": "image", "source": image_uri(colours), "width": int(width), "height": int(height)}


def with_images(explanation: Explanation) -> tuple[Pictures, Array]:
    """Return the view and its images; raise an InputError if the explanation has none."""
    if not isinstance(explanation.view, Patches | Superpixels) or explanation.inputs is None:
        raise InputError("This explanation holds no images: fit with features=l2x.Patches().")
    return explanation.view, explanation.inputs


def legend(shown: int, n: int, known: Sequence[Reading | None]) -> str:
    """Return how to read outlined patches, and how many of n images are shown."""
    first = f"{shown:,} of {n:,} images. " if shown < n else ""
    text = f"{first}Selected patches are outlined and numbered, most important first; all others are dimmed."
    reading = next((reading for reading in known if reading is not None), None)
    if reading is None:
        return text
    towards, against = reading.directions
    return f"{text} Solid outline: {towards}; dashed: {against}."


def outlined(view: Pictures, X: Any, indices: Sequence[int]) -> list[dict[str, int]]:
    """Return position and size of features of one image (1, ...): patches, or rectangles of segments."""
    if isinstance(view, Patches):
        return patch_rectangles(view, indices)
    labels = view.labels(X)[0]
    rectangles = []
    for index in indices:
        down, across = np.nonzero(labels == index)
        top, left = int(down.min()), int(across.min())
        size = {"width": int(across.max()) - left + 1, "height": int(down.max()) - top + 1}
        rectangles.append({"x": left, "y": top, **size})
    return rectangles


def patch_rectangles(view: Patches, indices: Sequence[int]) -> list[dict[str, int]]:
    """Return the position and size of patches in pixels; patches at the right and lower edge may be cut."""
    height, width = view.sides
    corners = [tuple(view.size * part for part in divmod(index, view.grid_[1])) for index in indices]
    return [
        {"x": left, "y": top, "width": min(view.size, width - left), "height": min(view.size, height - top)}
        for top, left in corners
    ]


def svg_uri(svg: str) -> str:
    """Return an SVG file as a data URI."""
    return f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"


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
