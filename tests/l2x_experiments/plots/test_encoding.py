"""What the index set tells, one dot per seed."""

from __future__ import annotations

from l2x_experiments.plots.encoding import plot_encoding


def test_one_dot_per_seed_and_one_panel_per_set() -> None:
    seed = {"value": 0.02, "low": 0.01, "high": 0.03}
    figure = plot_encoding(
        {"Switch": {"l2x": [seed, seed], "cheats by position": [seed]}, "Syn4": {"l2x": []}}
    )
    switch, syn4 = figure.axes
    dots = [line for line in switch.lines if line.get_marker() == "o"]
    assert len(dots) == 3
    assert len({float(dot.get_ydata()[0]) for dot in dots}) == 3  # beside each other
    assert (switch.get_title("left"), syn4.get_title("left")) == ("Switch", "Syn4")
