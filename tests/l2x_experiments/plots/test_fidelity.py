"""Methods by how much of the model's answer they keep."""

from __future__ import annotations

from l2x_experiments.plots.fidelity import LOOK, plot_fidelity


def test_one_point_for_each_method_and_measure() -> None:
    methods = {"l2x": [0.99, 0.97, 0.6], "Random k": [0.7, 0.6, 0.5]}
    figure = plot_fidelity(methods, title="Kept", caption="", chance=0.5, inputs="images")
    (axes,) = figure.axes
    points = {drawn.get_label(): drawn.get_offsets()[:, 0].tolist() for drawn in axes.collections[2:]}
    assert points == {name: [row[i] for row in methods.values()] for i, name in enumerate(LOOK)}
    assert [label.get_text() for label in axes.get_yticklabels()] == list(methods)
    assert "images" in axes.get_xlabel()
