"""A figure of small panels, two in a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from l2x.display import new_grid, note, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

T = TypeVar("T")


@contextmanager
def panels(
    content: Mapping[str, T], *, height: float, title: str, caption: str
) -> Iterator[tuple[Figure, list[tuple[Axes, str, T]]]]:
    """The figure, and the axes, name and content of each panel, to be drawn inside the block."""
    with style():
        rows = max(1, (len(content) + 1) // 2)
        figure, grid = new_grid(rows=rows, columns=2, height=height, title=title)
        for axes in grid[len(content) :]:
            axes.remove()
        named = [(axes, name, some) for axes, (name, some) in zip(grid, content.items(), strict=False)]
        for axes, name, _ in named:
            axes.set_title(name)
        yield figure, named
        note(figure, caption)
