"""Figures of effects: every amount is where it belongs, and signs do not depend on colour."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from shop import CASES, FRAME, shop_explainer, shop_explanation

import l2x
from l2x.display import AGAINST, TOWARDS, readings
from l2x.display._figures import plot_bars
from l2x.display._signed import MOST, Steps, _value_colours, draw_waterfall, for_one_class
from l2x.display._style import figure_svg, new_figure
from l2x.display._texts import PAGE, pieces, typeset
from l2x.explanation import Explanation


@pytest.fixture(params=CASES)
def explained(request: pytest.FixtureRequest) -> Explanation:
    return shop_explanation(request.param)


@pytest.fixture
def table() -> Explanation:
    return shop_explanation("table")


def test_a_waterfall_goes_from_the_base_to_the_prediction(table: Explanation) -> None:
    for row in range(4):
        one = table[row]
        (axes,) = one.plot().axes
        bars = axes.patches
        assert len(bars) == one.k + 1
        assert bars[0].get_x() == pytest.approx(one.base[0])
        ends = [bar.get_x() + bar.get_width() for bar in bars]
        assert ends[-1] == pytest.approx(one.contributions.prediction[0])
        np.testing.assert_allclose([bar.get_x() for bar in bars[1:]], ends[:-1])
        np.testing.assert_allclose([bar.get_width() for bar in bars[:-1]], one.effects[0])
        # Solid or hatched: the sign is visible without colour.
        assert [bool(bar.get_hatch()) for bar in bars] == [bar.get_width() < 0 for bar in bars]
        labels = [text.get_text() for text in axes.get_yticklabels()]
        assert labels[0] == "no feature"
        assert labels[-2:] == ["all other features", "prediction"]
        assert f"colour = {FRAME['colour'][row]}" in labels


def test_a_waterfall_of_many_features_still_adds_up(table: Explanation) -> None:
    (reading,) = readings(table[0])
    many = np.linspace(-0.02, 0.03, 40)
    wide = Steps.of(type(reading)(**{**vars_of(reading), "effects": many}), [f"x{i}" for i in range(40)])
    assert len(wide.sizes) == MOST + 1
    assert sum(wide.sizes) == pytest.approx(many.sum() + reading.rest)
    assert "26 other selected features" in wide.labels


def test_a_waterfall_has_no_probabilities_above_one(table: Explanation) -> None:
    """Steps may lead beyond 100 %, although base and prediction are below."""
    (reading,) = readings(table[0])
    steep = type(reading)(**{**vars_of(reading), "base": 0.5, "effects": np.array([0.7, -0.6])})
    _, (axes,) = new_figure(2.0)
    draw_waterfall(axes, Steps.of(steep, ["a", "b"]))
    assert axes.get_xlim()[1] > 1.1
    assert 1.0 in axes.get_xticks().round(6)
    assert axes.get_xticks().max() <= 1


@pytest.mark.parametrize("scale", ["probability", "log-odds", "value"])
@pytest.mark.parametrize("size", [1e-9, 1e-4, 3e-3, 0.2])
def test_the_ticks_of_small_effects_differ(table: Explanation, scale: str, size: float) -> None:
    """A constant model has effects of 0 pp: its bars are not drawn across the whole figure."""
    (reading,) = readings(table[0])
    base = 2020.0 if scale == "value" else 0.5
    small = {"base": base, "effects": np.array([size, -size / 2]), "rest": size / 4, "scale": scale}
    _, (axes,) = new_figure(2.0)
    draw_waterfall(axes, Steps.of(type(reading)(**{**vars_of(reading), **small}), ["a", "b"]))
    axes.figure.draw_without_rendering()
    ticks = [text.get_text() for text in axes.get_xticklabels()]
    assert len(set(ticks)) == len(ticks) > 2
    if size == 1e-9 and scale != "value":
        assert max(bar.get_width() for bar in axes.patches) < 0.01 * np.ptp(axes.get_xlim())


def test_an_axis_of_effects_is_not_shorter_than_its_labels(tiny: l2x.TrainingPlan) -> None:
    X = np.random.default_rng(0).normal(size=(120, 3))
    constant = l2x.Explainer(
        lambda X: np.full((len(X), 2), 0.5), 1, training=tiny.with_steps(value=4, selector=3)
    )
    explanation = constant.fit(X).explain(X[:40])
    axis = explanation.beeswarm().axes[0].xaxis
    name = explanation.names[0][0]
    for drawn in (axis, explanation.dependence(name).axes[0].yaxis):
        drawn.axes.figure.draw_without_rendering()
        ticks = [text.get_text() for text in drawn.get_ticklabels()]
        assert len(set(ticks)) == len(ticks) > 2


def test_long_names_of_classes_leave_room_for_the_bars() -> None:
    labels = ["a feature with a rather long name"] * 2
    names = {f"{letter * 30} (11)": [0.5, 0.7] for letter in "abcd"}
    figure = plot_bars(labels, [0.5, 0.9], ["50%", "90%"], title="", remark="", parts=names)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert axes.get_position().width > 0.5
    assert axes.get_legend().get_window_extent().x1 <= figure.bbox.x1


def vars_of(reading: Any) -> dict[str, Any]:
    return {name: getattr(reading, name) for name in type(reading).__dataclass_fields__}


def test_the_two_colours_differ_in_lightness() -> None:
    """Readable in grey: the contrast of the two colours, by WCAG's formula, is at least 1.5."""

    def luminance(colour: str) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
        return float(np.dot([0.2126, 0.7152, 0.0722], linear))

    assert (luminance(AGAINST) + 0.05) / (luminance(TOWARDS) + 0.05) > 1.5


def test_a_beeswarm_has_one_dot_per_selection(explained: Explanation, tmp_path: Path) -> None:
    figure = explained.beeswarm(tmp_path / "swarm.png")
    axes = figure.axes[0]
    assert "of leave" in figure.get_suptitle()  # the second of two classes
    dots = sum(len(swarm.get_offsets()) for swarm in axes.collections)
    assert dots == explained.selected.sum()
    x = np.concatenate([swarm.get_offsets()[:, 0] for swarm in axes.collections])
    effects = explained.for_class("leave").effects[explained.selected]
    np.testing.assert_allclose(np.sort(x), np.sort(effects), atol=1e-6)
    assert len(figure.axes) == 1 + (explained.view is not None and explained.view.kind == "table")
    assert ("Grey: category" in figure.get_supxlabel()) == (len(figure.axes) == 2)
    assert (tmp_path / "swarm.png").stat().st_size > 10_000


def test_the_label_of_the_colour_bar_is_inside_the_figure(table: Explanation) -> None:
    figure = table.beeswarm()
    figure.draw_without_rendering()
    box = figure.axes[1].yaxis.label.get_window_extent()
    assert box.height > 5
    assert 0 <= box.y0 < box.y1 <= figure.bbox.height


def test_a_beeswarm_of_a_class_of_ones_own(table: Explanation) -> None:
    assert "of keep" in table.for_class("keep").beeswarm().get_suptitle()


def test_a_beeswarm_draws_a_sample_of_many_rows() -> None:
    explainer = shop_explainer("table")
    frame = pd.concat([FRAME] * 8, ignore_index=True)
    model, many = explainer.black_box(), explainer.explain(frame, polish=False)
    before = model.rows
    figure = many.beeswarm()
    assert "1,000 of 1,600 rows" in figure.get_supxlabel().replace("\n", " ")
    assert model.rows == before + 1000


def test_values_are_coloured_by_their_position_in_the_column(table: Explanation) -> None:
    colours = _value_colours(table)
    assert colours is not None
    assert np.isnan(colours[:, 0]).all()  # a category
    assert np.isnan(colours[:, 2]).all()  # a constant
    order = np.argsort(FRAME["size"])
    assert (np.diff(colours[order, 1]) >= 0).all()
    # Nearly all values are equal: they have one colour, the others another.
    rare = pd.DataFrame({"gain": np.r_[np.zeros(196), np.full(4, 5000.0)], "size": FRAME["size"]})
    view = l2x.Columns().fit(rare)
    gains = _value_colours(Explanation(np.zeros((200, 2)), 1, view.names_, inputs=rare, view=view))
    assert gains is not None
    assert set(gains[:, 0]) == {0.0, 1.0}


def test_dependence_draws_the_effect_against_the_value(table: Explanation, tmp_path: Path) -> None:
    effects = for_one_class(table)
    for name, index in (("colour", 0), ("size", 1)):
        rows, ranks = np.nonzero(table.selected & (table.indices == index))
        if not len(rows):
            continue
        (axes,) = table.dependence(name, tmp_path / f"{name}.png").axes
        dots = np.concatenate([part.get_offsets() for part in axes.collections])
        np.testing.assert_allclose(np.sort(dots[:, 1]), np.sort(effects.effects[rows, ranks]), atol=1e-6)
        if name == "size":
            np.testing.assert_allclose(np.sort(dots[:, 0]), np.sort(FRAME["size"].to_numpy()[rows]))
    assert (tmp_path / "colour.png").exists()
    labels = [text.get_text() for text in table.dependence(0).axes[0].get_xticklabels()]
    assert set(labels) == {"red", "blue"}


def test_features_that_cannot_be_drawn_are_refused(table: Explanation) -> None:
    with pytest.raises(l2x.errors.InputError, match="no feature 'weight'"):
        table.dependence("weight")
    texts = shop_explanation("words")
    with pytest.raises(l2x.errors.InputError, match="columns"):
        texts.dependence(0)
    baseline = l2x.baselines.RandomK().explain(FRAME, k=1)
    for draw in (baseline.beeswarm, lambda: baseline.dependence("size")):
        with pytest.raises(l2x.errors.InputError, match="surrogate"):
            draw()


def test_frequencies_are_shown_by_predicted_class(table: Explanation) -> None:
    (axes,) = table.plot().axes
    predicted = table.predictions.argmax(axis=1)
    labels = [text.get_text() for text in axes.get_yticklabels()]
    for marks in axes.collections:
        c = int(str(marks.get_label()).startswith("leave"))
        rows = predicted == c
        assert str(marks.get_label()).endswith(f"({rows.sum()})")
        for name, (x, _) in zip(labels, marks.get_offsets(), strict=True):
            assert x == pytest.approx(table.mask[rows, list(FRAME).index(name)].mean())


def test_words_stay_on_their_lines_and_do_not_overlap() -> None:
    texts = ["good " * 60 + "x" * 400 + " bad film", "סרט good film טוב", "bad"]
    explanation = shop_explainer("words").explain(texts)
    for row in range(3):
        one = explanation[row]
        (reading,) = readings(one)
        parts = pieces(one, 0, reading=reading)
        words = typeset(parts, reading.scale)
        assert "".join(word.text for word in words) == "".join("".join(p.text.split()) for p in parts)
        for word, after in pairwise(words):
            assert word.x >= -1
            assert word.x + word.width <= PAGE + 1
            assert word.line <= after.line
        svg = figure_svg(one.plot())
        assert reading.predicted in svg.replace("&gt;", ">")


def test_opposite_words_are_not_joined() -> None:
    one = shop_explainer("words").explain(["good bad"])
    (reading,) = readings(one)
    signs = {float(np.sign(effect)) for effect in reading.effects}
    marked = [piece for piece in pieces(one, 0, reading=reading) if piece.rank is not None]
    assert len(marked) == len(signs)
    assert sum(piece.effect for piece in marked) == pytest.approx(reading.effects.sum())


def test_one_image_is_drawn_with_its_waterfall() -> None:
    images = shop_explanation("patches")
    left, right = images[0].plot().axes
    assert len(left.patches) == 2 * images.k  # an edge and an outline each
    assert [text.get_text() for text in left.texts] == ["1", "2"]
    assert len(right.patches) == images.k + 1
    dashed = [patch.get_linestyle() not in ("solid", "-") for patch in left.patches[1::2]]
    assert dashed == (images[0].effects[0] < 0).tolist()
