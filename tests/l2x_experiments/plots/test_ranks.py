"""Median ranks and clock times, a panel for each set."""

from __future__ import annotations

from l2x_experiments.plots.ranks import plot_ranks, plot_times


def test_ranks_have_a_box_for_each_method_and_the_optimum() -> None:
    boxes = {"l2x": ([1, 1, 1.5, 2, 3], 1.6), "LIME": ([2, 3, 4, 5, 6], 4.0)}
    figure = plot_ranks({"XOR": boxes, "Switch": boxes, "Orange skin": boxes}, dict.fromkeys(
        ("XOR", "Switch", "Orange skin"), 1.5), title="Ranks")  # fmt: skip
    assert [axes.get_title("left") for axes in figure.axes] == ["XOR", "Switch", "Orange skin"]
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["l2x", "LIME"]
    assert any(set(line.get_ydata()) == {1.5} for line in figure.axes[0].lines)


def test_times_show_training_only_where_there_was_any() -> None:
    figure = plot_times({"XOR": {"l2x": (0.01, 20.0), "Taylor": (0.2, 0.0)}}, title="Times")
    (axes,) = figure.axes
    assert axes.get_yscale() == "log"
    heights = [bar.get_height() for bar in axes.patches]
    assert heights == [20.01, 0, 0.01, 0.2]
