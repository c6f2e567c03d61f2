"""A figure that notebooks show by themselves, though it is not pyplot's."""

from __future__ import annotations

from matplotlib.figure import Figure

from l2x.plots.style import render


class NotebookFigure(Figure):
    """Drawn without pyplot: no window, no global list of figures that keeps it in memory."""

    def _repr_svg_(self) -> str:
        return render(self, "svg").decode()
