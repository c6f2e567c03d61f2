"""Methods side by side by how much of the model's answer their selections keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from l2x.display import ACCENT, GRID, INK, MUTED, SECOND, SOFT, new_figure, note, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# In the order of drawing: what the model, the judge and the index set alone say.
LOOK = {"post-hoc": (ACCENT, "o", 62), "judge": (SECOND, "D", 34), "index set alone": (SOFT, "s", 30)}


def plot_fidelity(
    methods: Mapping[str, Sequence[float]], *, title: str, caption: str, chance: float, inputs: str
) -> Figure:
    """{method: its accuracies, in the order of LOOK}, the first on top; `inputs` in the plural."""
    with style():
        figure, (axes,) = new_figure(1.3 + 0.27 * len(methods), title=title)
        positions = range(len(methods))
        for position, values in enumerate(methods.values()):
            axes.hlines(position, min(values), max(values), color=GRID, linewidth=2, zorder=1)
        for i, (name, (colour, marker, size)) in enumerate(LOOK.items()):
            values = [accuracies[i] for accuracies in methods.values()]
            axes.scatter(values, positions, color=colour, marker=marker, s=size, zorder=3, label=name)
        axes.axvline(chance, color=MUTED, linewidth=1, linestyle=(0, (2, 2)), zorder=0)
        axes.set_yticks(positions, list(methods))
        axes.set_ylim(len(methods) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.spines["left"].set_visible(False)
        axes.grid(visible=True, axis="x", linewidth=0.8)
        axes.set_xlim(right=1.02)
        axes.set_xlabel(f"share of {inputs} with the model's own answer", loc="left")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=3, borderaxespad=0, handletextpad=0.1)
        note(figure, caption)
    return figure
