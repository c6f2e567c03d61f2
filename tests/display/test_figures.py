"""Figures show names and values, whatever these hold, and are saved as a whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import l2x
from l2x.display import plot_lines, save_figure
from l2x.display._style import figure_svg, shortened

NAMES = ["<script>alert(1)</script>", "$x^2$", "radius", "two\nlines"]


@pytest.fixture
def explanation() -> l2x.Explanation:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(30, 4)).round(3), columns=NAMES)
    scores = rng.normal(loc=[0, 0, 4, 0], size=(30, 4))
    return l2x.Explanation(scores, 2, NAMES, inputs=frame, view=l2x.Columns().fit(frame))


def test_many_rows_show_how_often_each_feature_is_selected(explanation: l2x.Explanation) -> None:
    svg = figure_svg(explanation.plot())
    share = explanation.mask[:, 2].mean()
    assert "radius" in svg
    assert f"{share:.0%}" in svg or "&gt;99%" in svg
    assert "30 rows" in svg


def test_one_row_shows_values_next_to_names(explanation: l2x.Explanation) -> None:
    svg = figure_svg(explanation[3].plot())
    assert f"radius = {explanation.inputs['radius'].iloc[3]:.4g}" in svg
    assert "The 2 most important features of this row" in svg


def test_names_are_texts_not_markup_or_formulas(explanation: l2x.Explanation) -> None:
    svg = figure_svg(explanation.plot())
    assert "<script" not in svg
    assert "&lt;script&gt;" in svg
    assert "$x^2$" in svg
    assert "two lines" in svg


def test_features_left_out_are_summarised() -> None:
    scores = np.random.default_rng(0).normal(size=(200, 40))
    svg = figure_svg(l2x.Explanation(scores, 3, [f"x{i}" for i in range(40)]).plot())
    assert "25 more features" in svg


@pytest.mark.parametrize("d", [1, 2, 60])
def test_any_number_of_features_selected(d: int) -> None:
    scores = np.zeros((3, d))
    explanation = l2x.Explanation(scores, d, [f"x{i}" for i in range(d)])
    for part in (explanation, explanation[0]):
        assert "x0" in figure_svg(part.plot())


@pytest.mark.parametrize(
    ("name", "start"), [("a.svg", b"<?xml"), ("a.PNG", b"\x89PNG"), ("new/a.pdf", b"%PDF")]
)
def test_saved_by_extension(explanation: l2x.Explanation, tmp_path: Path, name: str, start: bytes) -> None:
    explanation.plot(tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)
    assert [file.name for file in (tmp_path / name).parent.iterdir()] == [
        Path(name).name
    ]  # nothing left over


def test_the_same_figure_gives_the_same_bytes(explanation: l2x.Explanation, tmp_path: Path) -> None:
    explanation.plot(tmp_path / "a.svg")
    explanation.plot(tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_unknown_format_is_refused_and_the_older_file_kept(
    explanation: l2x.Explanation, tmp_path: Path
) -> None:
    (tmp_path / "a.xyz").write_text("older")
    with pytest.raises(l2x.errors.InputError, match=r"\.svg, \.png or \.pdf"):
        explanation.plot(tmp_path / "a.xyz")
    assert (tmp_path / "a.xyz").read_text() == "older"


def test_the_users_settings_are_left_alone_and_do_not_matter(explanation: l2x.Explanation) -> None:
    import matplotlib

    plain = figure_svg(explanation.plot())
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black"}):
        assert figure_svg(explanation.plot()) == plain
        assert matplotlib.rcParams["font.size"] == 30


def test_figures_are_not_pyplots(explanation: l2x.Explanation) -> None:
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    explanation.plot()
    assert pyplot.get_fignums() == before


def test_notebooks_show_the_figure(explanation: l2x.Explanation) -> None:
    assert "radius" in explanation.plot()._repr_svg_()


def test_inline_svg_follows_the_page(explanation: l2x.Explanation) -> None:
    svg = figure_svg(explanation.plot())
    assert svg.startswith('<svg role="img"')
    assert "var(--l2x-accent, #2f6db5)" in svg
    assert "<metadata" not in svg
    assert "<style" not in svg


def test_lines_name_each_series(tmp_path: Path) -> None:
    draws = np.random.default_rng(0).random((5, 3))
    figure = plot_lines(
        [1, 2, 3], {"ours": [1, 2, 3], "random": draws}, title="T", x_label="k", y_label="share"
    )
    svg = figure_svg(figure)
    assert all(text in svg for text in ("ours", "random", "T", "share"))
    assert save_figure(figure, tmp_path / "lines.png").stat().st_size > 1000


@pytest.mark.parametrize("text", ["short", "x" * 500, "a\tb\x00c", ""])
def test_labels_fit_on_one_line(text: str) -> None:
    assert len(shortened(text, 20)) <= 20
    assert shortened(text).isprintable()


def test_one_row_with_padding_is_drawn() -> None:
    scores = np.array([[1.0, 0.5, -np.inf]])
    (axes,) = l2x.Explanation(scores, 1, ["a", "b", "c"]).plot().axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b"]


def test_every_series_has_its_own_colour_and_mark() -> None:
    """Seven methods of one figure must be distinguishable, also without colour."""
    lines = {f"method {i}": [float(i), float(i)] for i in range(9)}
    (axes,) = plot_lines([1, 2], lines, title="T", x_label="k", y_label="share").axes
    colours, marks = zip(*[(line.get_color(), line.get_marker()) for line in axes.lines], strict=True)
    assert len(set(colours)) == 9
    assert len(set(marks[:-1])) == 8  # the last line, the baseline, is grey
