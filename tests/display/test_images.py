"""Images: selected patches are red and blue, the others unchanged; figures and HTML fragments."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

import l2x
from l2x.datasets import small_digits
from l2x.display._images import BLUE, RED, overlay, plain, plot_images, png
from l2x.display._style import figure_svg

DIGITS = small_digits((3, 8)).X[:12]


@pytest.fixture
def explanation() -> l2x.Explanation:
    return l2x.baselines.RandomK(features=l2x.Patches(size=2)).explain(DIGITS, k=3)


def test_red_where_active_blue_where_not(explanation: l2x.Explanation) -> None:
    view = explanation.view
    assert isinstance(view, l2x.Patches)
    shown, before = overlay(view, DIGITS[0], explanation, 0), plain(view, DIGITS[0])
    selected = view.pixels(explanation.mask)[0]
    assert np.array_equal(shown[~selected], before[~selected])
    brightest, darkest = DIGITS[0] == 255, DIGITS[0] == 0
    assert np.allclose(shown[selected & brightest], RED)
    assert np.allclose(shown[selected & darkest], BLUE)


def test_colour_images_fade(explanation: l2x.Explanation) -> None:
    X = np.random.default_rng(0).random((2, 3, 8, 8))
    colour = l2x.baselines.RandomK(features=l2x.Patches(size=2)).explain(X, k=3)
    view = colour.view
    assert isinstance(view, l2x.Patches)
    shown, before = overlay(view, X[1], colour, 1), plain(view, X[1])
    selected = view.pixels(colour.mask)[1, 0]
    assert np.array_equal(shown[selected], before[selected])
    assert shown[~selected].std() < before[~selected].std()
    assert "keep their colours" in colour.to_html()


def test_pixels_below_zero_are_shown_over_their_range() -> None:
    X = np.random.default_rng(0).normal(size=(1, 8, 8))
    colours = plain(l2x.Patches(size=2).fit(X), X[0])
    assert (colours.min(), colours.max()) == (0, 1)


def test_the_figure(explanation: l2x.Explanation, tmp_path: Path) -> None:
    svg = figure_svg(explanation.plot(tmp_path / "digits.png"))
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")
    assert svg.count("<image") == 20  # ten, each twice
    assert "10 of 12 images" in svg
    assert "3 of 16 patches" in svg
    few = plot_images(explanation[:2], labels=["a 3", "an 8"], title="Two")
    assert "an 8" in figure_svg(few)


def test_the_fragment(explanation: l2x.Explanation) -> None:
    html = explanation.to_html(rows=4)
    assert html.count("<img ") == 8
    assert "4 of 12 images" in html
    assert explanation.names[0][0] in html
    assert "<script" not in html
    assert "http" not in html


def test_png_can_be_read() -> None:
    from matplotlib.image import imread

    colours = np.random.default_rng(0).random((5, 7, 3))
    assert np.allclose(imread(BytesIO(png(colours)))[..., :3], colours, atol=1 / 254)


def test_without_images() -> None:
    scores = np.zeros((2, 16))
    view = l2x.Patches(size=2).fit(DIGITS)
    bare = l2x.Explanation(scores, 3, view.names_, view=view)
    assert "row 1, column 1" in bare.to_html()  # the usual table
    assert bare.plot() is not None
    with pytest.raises(l2x.errors.InputError, match="holds no images"):
        plot_images(bare)
