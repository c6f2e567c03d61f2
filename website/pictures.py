"""The pictures of docs/pictures: SVG that follows the reader's light or dark mode, without a script."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from html import escape
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from l2x.display import ACCENT, AGAINST, GRID, INK, MUTED, SECOND, SOFT, THIRD, TOWARDS, plot_images, readings
from l2x.errors import MissingExtraError
from website import ROOT, idea

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Names, colours in light mode, colours in dark mode: those of src/l2x/display/static/l2x.css.
COLOURS: Mapping[str, tuple[str, str]] = {
    "page": ("#ffffff", "#14181d"),
    "ink": (INK, "#e5e9ed"),
    "muted": (MUTED, "#a3afbb"),
    "grid": (GRID, "#37424d"),
    "soft": (SOFT, "#536170"),
    "accent": (ACCENT, "#6aa5e3"),
    "second": (SECOND, "#e6a35c"),
    "third": (THIRD, "#6fc39c"),
    "towards": (TOWARDS, "#ef7d45"),
    "against": (AGAINST, "#5fa3e6"),
}


def both_modes(svg: str) -> str:
    """Return a figure's SVG file with colours that follow the light or dark mode.

    The background belongs to the picture, so that it is legible on any page.
    """
    svg = re.sub(r'(id="patch_1">\s*<path[^>]*style="fill: )#ffffff', r"\1var(--l2x-page)", svg, count=1)
    for name, (colour, _) in COLOURS.items():
        if name != "page":
            svg = svg.replace(f": {colour}", f": var(--l2x-{name})")
    return re.sub(r"(<svg [^>]*>)", lambda tag: f"{tag[1]}\n<style>{palettes()}</style>", svg, count=1)


def palettes() -> str:
    """Return the colours of both modes as variables."""
    light, dark = (
        " ".join(f"--l2x-{name}: {colours[mode]};" for name, colours in COLOURS.items()) for mode in (0, 1)
    )
    return f"\nsvg {{ {light} }}\n@media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}\n"


def figure_file(figure: Figure) -> str:
    """Return a figure for a page: text as outlines, so that it looks alike with the fonts of any machine."""
    import matplotlib as mpl

    content = StringIO()
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "l2x"}):
        figure.savefig(content, format="svg", metadata={"Date": None})
    return both_modes(content.getvalue())


def idea_file() -> str:
    """Return the picture of the idea."""
    title = "A small network learns from the predictions of a model, then selects three columns of each row"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {idea.WIDTH} {idea.HEIGHT}" '
        f'width="{idea.WIDTH}" height="{idea.HEIGHT}" role="img" aria-label="{escape(title)}">\n'
        f"<style>{palettes()}{idea.LOOK}\n</style>\n"
        f'<rect width="100%" height="100%" fill="var(--l2x-page)"/>\n{idea.idea()}\n</svg>\n'
    )


def draw(folder: Path, table: Figure) -> None:
    """Write all pictures of the README; `table` is the figure that its code draws."""
    (folder / "idea.svg").write_text(idea_file())
    (folder / "readme-table.svg").write_text(figure_file(table))
    for name, make in EXAMPLES.items():
        print(f"drawing {name}.svg", flush=True)
        try:
            (folder / f"{name}.svg").write_text(figure_file(make()))
        except MissingExtraError as error:
            print(f"{name}.svg stays as it is: {error}")


def review() -> Figure:
    """Return a short test review."""
    reviews = _example("reviews")
    return reviews.short_review(reviews.explain_reviews().explanation).plot()


def digits() -> Figure:
    """Return the first five test digits, with predictions and effects, for which the model is queried."""
    images = _example("images")
    shown = images.explain_digits(*images.digit_images())[1][:5]
    return plot_images(shown, labels=[reading.predicted for reading in readings(shown)])


def photograph() -> Figure:
    """Return a photograph of a cat; its effects are measured with the model, which takes minutes."""
    return _example("photo").explain_cat()[1].plot()


def _example(name: str) -> Any:
    """Import a file of examples/."""
    if str(ROOT / "examples") not in sys.path:
        sys.path.insert(0, str(ROOT / "examples"))
    return import_module(name)


# Pictures that the files in examples/ draw.
EXAMPLES: Mapping[str, Callable[[], Figure]] = {
    "readme-text": review,
    "readme-image": photograph,
    "digits": digits,
}


# Pictures of docs/pictures: their titles, and the file with the code that draws them.
SOURCES = {
    "readme-table": ("A row of a table: prediction, signed effects", "README.md"),
    "readme-text": ("A review with highlighted words", "examples/reviews.py"),
    "readme-image": ("A photograph with outlined patches", "examples/photo.py"),
    "digits": ("Digits with outlined patches", "examples/images.py"),
    "idea": ("The idea, animated", "website/idea.py"),
}
