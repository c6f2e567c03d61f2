"""The shared figures: ranks, times, accuracies and leakage."""

from __future__ import annotations

from l2x_experiments.plots import LOOK, plot_accuracies, plot_leakage, plot_ranks, plot_times


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


def test_one_point_for_each_method_and_measure() -> None:
    methods = {"l2x": [0.99, 0.97, 0.6], "Random k": [0.7, 0.6, 0.5]}
    figure = plot_accuracies(methods, title="Accuracies", caption="", chance=0.5, inputs="images")
    (axes,) = figure.axes
    points = {drawn.get_label(): drawn.get_offsets()[:, 0].tolist() for drawn in axes.collections[2:]}
    assert points == {name: [row[i] for row in methods.values()] for i, name in enumerate(LOOK)}
    assert [label.get_text() for label in axes.get_yticklabels()] == list(methods)
    assert "images" in axes.get_xlabel()


def test_one_dot_per_seed_and_one_panel_per_set() -> None:
    seed = {"value": 0.02, "low": 0.01, "high": 0.03}
    figure = plot_leakage({"Switch": {"l2x": [seed, seed], "leaks by position": [seed]}, "Syn4": {"l2x": []}})
    switch, syn4 = figure.axes
    dots = [line for line in switch.lines if line.get_marker() == "o"]
    assert len(dots) == 3
    assert len({float(dot.get_ydata()[0]) for dot in dots}) == 3  # side by side
    assert (switch.get_title("left"), syn4.get_title("left")) == ("Switch", "Syn4")
