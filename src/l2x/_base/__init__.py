"""Helpers without a subject of their own: here a registry of classes and the progress bar.

`_base.arrays` has arrays, rows and ranking; `_base.atomic` has files that are written whole or not at all.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from l2x.errors import ArtifactError, InputError

# Terminals with at least this many columns show the long progress bar.
WIDE = 100

Advance = Callable[[float, str], None]


class Registered:
    """A base whose concrete subclasses can be looked up by name; a saved explainer names them.

    Each direct subclass of `Registered` is a family of its own. Classes of other packages are registered when
    their module is imported, so that a view, a sampler or an objective of your own is saved and loaded like
    the built-in ones.

    >>> class Shape(Registered): ...
    >>> class Circle(Shape): ...
    >>> Shape.by_name("Circle")
    <class 'l2x._base.Circle'>
    """

    _known: ClassVar[dict[str, type[Any]]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if Registered in cls.__bases__:
            cls._known = {}
        elif not inspect.isabstract(cls):
            known = cls._known.get(cls.__name__, cls)
            if known.__module__.startswith("l2x.") and not cls.__module__.startswith("l2x."):
                raise InputError(
                    f"{known.__module__} already has a class {cls.__name__}, and saved explainers look it up "
                    "by that name: give yours another name."
                )
            cls._known[cls.__name__] = cls

    @classmethod
    def by_name(cls, name: str) -> type[Any]:
        """Return the class of this name; raise an ArtifactError if no imported module defines it."""
        if name not in cls._known:
            raise ArtifactError(
                f"This explainer uses the {cls.__name__.lower()} '{name}', which is not known: import its "
                f"module first. Known: {', '.join(sorted(cls._known))}."
            )
        return cls._known[name]


def say(line: str, *, visible: bool = True) -> None:
    """Print one line to standard error, without breaking a progress bar."""
    from rich.console import Console

    if visible:
        Console(stderr=True, highlight=False).print(line, markup=False)


@contextmanager
def progress_bar(label: str, total: float, *, done: float = 0, visible: bool = True) -> Iterator[Advance]:
    """Show progress on standard error: `with progress_bar("training", 100) as advance: advance(10, "note")`.

    An integer `total` is shown as "10/100", any other as a percentage. Work that was `done` before does not
    count for the remaining time.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    progress = Progress(
        TextColumn("{task.description:<22}"),
        # On a narrow terminal the note is worth more than the bar.
        BarColumn(bar_width=24 if console.width >= WIDE else 8),
        MofNCompleteColumn() if isinstance(total, int) else TaskProgressColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[note]}"),
        console=console,
        disable=not visible,
    )
    completed: Any = done  # rich declares int, and accepts any number
    task = progress.add_task(label, total=total, completed=completed, note="")
    with progress:
        yield lambda completed, note: progress.update(task, completed=completed, note=note)
