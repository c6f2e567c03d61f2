"""Methods side by side by how much of the model's answer their selections keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from l2x.plots.style import ACCENT, GRID, INK, MUTED, SECOND, SOFT, new_figure, note, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Measures in the order of drawing: what the model, the judge and the places alone say.
LOOK = {"post-hoc": (ACCENT, "o", 62), "judge": (SECOND, "D", 34), "places alone": (SOFT, "s", 30)}


def plot_fidelity(
    methods: Mapping[str, Mapping[str, float]],
    *,
    title: str,
    caption: str = "",
    chance: float | None = None,
    inputs: str = "inputs",
) -> Figure:
    """{method: {"post-hoc": accuracy, "judge": accuracy, "places alone": accuracy}}, the first on top."""
    with style():
        figure, (axes,) = new_figure(1.3 + 0.27 * len(methods), title=title)
        for place, measures in enumerate(methods.values()):
            known = [measures[name] for name in LOOK if name in measures]
            axes.hlines(place, min(known), max(known), color=GRID, linewidth=2, zorder=1)
        for name, (colour, marker, size) in LOOK.items():
            points = [(m[name], place) for place, m in enumerate(methods.values()) if name in m]
            if points:
                x, y = zip(*points, strict=True)
                axes.scatter(x, y, color=colour, marker=marker, s=size, zorder=3, label=name)
        if chance is not None:
            axes.axvline(chance, color=MUTED, linewidth=1, linestyle=(0, (2, 2)), zorder=0)
        axes.set_yticks(range(len(methods)), list(methods))
        axes.set_ylim(len(methods) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.spines["left"].set_visible(False)
        axes.grid(visible=True, axis="x", linewidth=0.8)
        axes.set_xlim(right=1.02)
        axes.set_xlabel(f"share of {inputs} with the model's own answer", loc="left")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=3, borderaxespad=0, handletextpad=0.1)
        note(figure, caption)
    return figure
