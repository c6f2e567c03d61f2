"""Images: selected patches keep their colours, outlined and numbered; all others are dimmed."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

import l2x
from l2x.datasets import small_digits
from l2x.display._images import FADED, GREY, dimmed, plain, plot_images, png
from l2x.display._style import figure_svg

DIGITS = small_digits((3, 8)).X[:12]


@pytest.fixture
def explanation() -> l2x.Explanation:
    return l2x.baselines.RandomK(features=l2x.Patches(size=2)).explain(DIGITS, k=3)


def test_only_selected_patches_keep_their_colours(explanation: l2x.Explanation) -> None:
    colours = l2x.baselines.RandomK(features=l2x.Patches(size=2)).explain(
        np.random.default_rng(0).random((2, 3, 8, 8)), k=3
    )
    for shown_of in (explanation[0], colours[1]):  # grey and colour images alike
        view, image, mask = shown_of.view, shown_of.inputs[0], shown_of.mask
        assert isinstance(view, l2x.Patches)
        shown, before = dimmed(view, image, mask[0]), plain(view, image)
        selected = view.pixels(mask).reshape(8, 8)
        assert np.array_equal(shown[selected], before[selected])
        assert np.ptp(shown[~selected]) <= FADED
        assert np.allclose(shown[~selected] - GREY, FADED * (before[~selected] - GREY))


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
