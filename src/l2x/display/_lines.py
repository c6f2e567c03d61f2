"""Lines: how a metric changes with k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from l2x.display._style import ACCENT, MUTED, SECOND, SOFT, THIRD, grid_lines, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# The first series is accented; the last, the baseline, is grey (SOFT).
COLOURS = (ACCENT, SECOND, THIRD, MUTED)


def plot_lines(
    x: Sequence[float],
    series: Mapping[str, Any],
    *,
    title: str,
    x_label: str,
    y_label: str,
) -> Figure:
    """One line per series: (points,) values, or (draws, points), shown as their mean and a band from the
    lowest to the highest draw. Names stand at the lines' ends, in place of a legend."""
    with style():
        figure, (axes,) = new_figure(3.3, title=title)
        ends = {}
        colours = (*(COLOURS * len(series))[: max(1, len(series) - 1)], SOFT)
        for name, colour in zip(series, colours, strict=False):
            values = np.atleast_2d(np.asarray(series[name], dtype=float))
            mean = values.mean(axis=0)
            if len(values) > 1:
                axes.fill_between(
                    x, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.15, linewidth=0
                )
            axes.plot(x, mean, color=colour, linewidth=2, marker="o", markersize=4)
            ends[name] = (float(mean[-1]), colour)
        _name_ends(axes, x[-1], ends)
        grid_lines(axes)
        if len(x) <= 12 and all(float(value).is_integer() for value in x):
            axes.set_xticks(list(x))
        axes.set_xlabel(x_label, loc="left")
        axes.set_ylabel(y_label)
    return figure


def _name_ends(axes: Axes, x: float, ends: Mapping[str, tuple[float, str]]) -> None:
    """Names at the right of the lines, moved apart where lines end close together."""
    low, high = axes.get_ylim()
    gap, previous = 0.075 * (high - low), float("-inf")
    for name, (y, colour) in sorted(ends.items(), key=lambda item: item[1][0]):
        previous = max(y, previous + gap)
        axes.annotate(
            name,
            (x, previous),
            (9, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            annotation_clip=False,
        )
