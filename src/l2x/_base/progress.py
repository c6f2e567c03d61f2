"""The one progress bar of the house, on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn
from rich.progress import TimeRemainingColumn as TimeLeft

# Columns that a line with the whole bar takes.
WIDE = 100

Advance = Callable[[float, str], None]


def say(line: str, *, visible: bool = True) -> None:
    """One line beside the progress bars."""
    if visible:
        Console(stderr=True, highlight=False).print(line, markup=False)


@contextmanager
def progress_bar(label: str, total: float, *, done: float = 0, visible: bool = True) -> Iterator[Advance]:
    """`with progress_bar("querying the model", 100) as advance: advance(10, "note")`.

    A whole `total` is shown as "10/100", any other as a percentage. What was `done` before does not count for
    the time left.
    """
    share = MofNCompleteColumn() if isinstance(total, int) else TaskProgressColumn()
    console = Console(stderr=True)
    progress = Progress(
        TextColumn("{task.description:<22}"),
        # The note is worth more than the bar where a line has no room for both.
        BarColumn(bar_width=24 if console.width >= WIDE else 8),
        share,
        TimeLeft(elapsed_when_finished=True),
        TextColumn("{task.fields[note]}"),
        console=console,
        disable=not visible,
    )
    begun: Any = done  # rich says int, and takes any number
    task = progress.add_task(label, total=total, completed=begun, note="")
    with progress:
        yield lambda completed, note: progress.update(task, completed=completed, note=note)
