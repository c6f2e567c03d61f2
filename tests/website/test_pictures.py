"""The pictures of docs/pictures: light and dark, well-formed, without scripts, and legible."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from l2x.display import new_figure, style

pictures = pytest.importorskip("website.pictures", reason="the group docs is not installed")
FOLDER = Path(__file__).parents[2] / "docs" / "pictures"


def luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("mode", [0, 1])
def test_text_has_contrast_in_both_modes(mode: int) -> None:
    page = luminance(pictures.COLOURS["page"][mode])
    for name, least in {"ink": 4.5, "muted": 4.5, "towards": 3.0, "against": 3.0, "accent": 3.0}.items():
        dark, light = sorted((page, luminance(pictures.COLOURS[name][mode])))
        assert (light + 0.05) / (dark + 0.05) >= least, name


def test_a_figure_follows_the_mode() -> None:
    with style():
        figure, (axes,) = new_figure(1.0, title="Effects")
        axes.text(0.5, 0.5, "age = 25")
    svg = pictures.figure_file(figure)
    assert "prefers-color-scheme: dark" in svg
    assert "#ffffff" not in svg.partition("</style>")[2]  # the background
    assert "var(--l2x-ink)" in svg
    assert "<text" not in svg  # outlines do not depend on the reader's fonts


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.svg")), ids=lambda file: file.stem)
def test_committed_pictures(file: Path) -> None:
    svg = file.read_text(encoding="utf-8")
    root = ElementTree.fromstring(svg)
    assert "prefers-color-scheme: dark" in svg
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))
    assert file.stat().st_size < 300_000


def test_the_picture_of_the_idea_is_current() -> None:
    assert (FOLDER / "idea.svg").read_text(encoding="utf-8") == pictures.idea_file(), "run: make readme"
