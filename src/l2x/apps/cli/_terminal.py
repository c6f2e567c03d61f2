"""How the command line talks to a person: errors in one sentence, short warnings, progress."""

from __future__ import annotations

import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from rich.text import Text

    from l2x.display import Piece


# From the most important to the least; readable on light and dark terminals.
MARKS = ("bold white on #2f6db5", "white on #5585bd", "black on #b9d0ec")


class Commands(TyperGroup):
    """Turns every command's failure into one sentence on standard error and an exit code, no traceback."""

    def get_params(self, ctx: Any) -> list[Any]:
        return plain_flags(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _with_plain_flags(command)
        return command

    def invoke(self, ctx: Any) -> Any:
        debug = bool(ctx.params.get("debug"))
        with _short_warnings(), _tidy_termination():
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt as stop:
                if debug:
                    traceback.print_exc()
                say("interrupted:", str(stop) or "nothing was written.", style="bold yellow")
                raise typer.Exit(130) from None
            except Exception as error:
                # typer's own: usage errors and exits carry their code; a closed pipe is not a failure.
                if hasattr(error, "exit_code") or isinstance(error, typer.Abort | BrokenPipeError):
                    raise
                if debug:
                    traceback.print_exc()
                say("error:", _sentence(error), style="bold red")
                raise typer.Exit(1) from None


def plain_flags(params: list[Any]) -> list[Any]:
    """Options without a value, such as --quiet, are not "<bool>" to a reader of --help."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def _with_plain_flags(command: Any) -> None:
    """For a command and all below it; also for --help, which is not among its own parameters."""
    listed = command.get_params
    command.get_params = lambda ctx: plain_flags(listed(ctx))
    for inner in getattr(command, "commands", {}).values():
        _with_plain_flags(inner)


def say(label: str, message: str, *, style: str) -> None:
    """Print one line on standard error, without markup: users' names may look like it."""
    from rich.console import Console
    from rich.text import Text

    line = Text.assemble((label, style), " ", " ".join(message.split()))
    Console(stderr=True, highlight=False).print(line, soft_wrap=True)


def note_ignored(columns: Sequence[str], by: str) -> None:
    """Say which columns `by`, the explainer or the model, does not know."""
    if columns:
        from l2x.errors import some

        say("note:", f"columns that {by} does not know are ignored: {some(columns)}", style="bold")


def highlighted(pieces: Sequence[Piece], k: int, *, colour: bool = True) -> Text:
    """A text with its selected pieces in colours by rank; without colours, in «guillemets»."""
    from rich.text import Text

    line = Text()
    for piece in pieces:
        if piece.rank is None:
            line.append(piece.text)
        elif colour:
            line.append(piece.text, MARKS[piece.rank * len(MARKS) // k])
        else:
            line.append(f"«{piece.text}»")
    return line


def _sentence(error: Exception) -> str:
    from l2x.errors import L2XError

    if isinstance(error, L2XError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: '{error.filename}'" if error.filename else error.strerror
    if isinstance(error, OSError) or type(error).__module__.startswith("pyarrow"):
        return str(error)
    return f"{type(error).__name__}: {error} (unexpected; l2x --debug shows where)"


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Print warnings as one line on standard error, without the line of code that raised them."""

    def show(message: Warning | str, *where: object, **more: object) -> None:
        say("warning:", str(message), style="bold yellow")

    with warnings.catch_warnings():
        warnings.filterwarnings("default", module=r"l2x\.cli")  # addressed to whoever runs the command
        warnings.showwarning = show
        yield


@contextmanager
def _tidy_termination() -> Iterator[None]:
    """Turn SIGTERM into SystemExit, so that temporary files are deleted on the way out."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
