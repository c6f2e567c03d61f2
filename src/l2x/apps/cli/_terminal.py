"""How the command line talks to a person: options, one-sentence errors, short warnings, highlighted text."""

from __future__ import annotations

import inspect
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from l2x._version import __version__

if TYPE_CHECKING:
    from rich.text import Text

    from l2x.display import Piece, Reading


# One style per shade, the strongest first; readable on light and dark terminals.
MARKS = ("bold white on #2f6db5", "white on #5585bd", "black on #b9d0ec")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"l2x {__version__}")
        raise typer.Exit


def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="L2X_DEBUG", help="Show the traceback if a command fails.")
    ] = False,
) -> None:
    """Find the k features that decided each prediction of a model, in real time.

    An explainer is a small neural network. Fit it once to the predictions of any model; after that, one
    forward pass explains a row, and the model is no longer needed (Learning to Explain, ICML 2018).
    """


def takes_options(run: Callable[[Any], None]) -> Callable[..., None]:
    """Turn a function of one dataclass, `options`, into a command whose parameters are the fields."""
    kind = get_type_hints(run)["options"]
    types = get_type_hints(kind, include_extras=True)

    def command(**given: Any) -> None:
        run(kind(**given))

    signature = inspect.signature(kind)
    parameters = [each.replace(annotation=types[name]) for name, each in signature.parameters.items()]
    command.__name__, command.__doc__, command.__annotations__ = run.__name__, run.__doc__, types
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return command


class Commands(TyperGroup):
    """A group whose commands fail with one sentence on standard error and an exit code, without traceback."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, with flags as `plain_flags` shows them."""
        return plain_flags(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command, with flags as `plain_flags` shows them."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _with_plain_flags(command)
        return command

    def invoke(self, ctx: Any) -> Any:
        """Run the command and report its failure."""
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
                # Usage errors and exits are typer's own and have a code; a closed pipe is not a failure.
                if hasattr(error, "exit_code") or isinstance(error, typer.Abort | BrokenPipeError):
                    raise
                if debug:
                    traceback.print_exc()
                say("error:", _sentence(error), style="bold red")
                raise typer.Exit(1) from None


def plain_flags(params: list[Any]) -> list[Any]:
    """Hide the type `<bool>` of flags such as --quiet in --help."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def _with_plain_flags(command: Any) -> None:
    """Apply `plain_flags` to a command and its subcommands, including --help, which click adds later."""
    listed = command.get_params
    command.get_params = lambda ctx: plain_flags(listed(ctx))
    for inner in getattr(command, "commands", {}).values():
        _with_plain_flags(inner)


def say(label: str, message: str, *, style: str) -> None:
    """Print one line on standard error, without markup: names of columns and files may look like it."""
    from rich.console import Console
    from rich.text import Text

    line = Text.assemble((label, style), " ", " ".join(message.split()))
    Console(stderr=True, highlight=False).print(line, soft_wrap=True)


def note_ignored(columns: Sequence[str], by: str) -> None:
    """Print which columns are ignored because `by`, the explainer or the model, does not use them."""
    if columns:
        from l2x.errors import some

        say("note:", f"ignoring columns that {by} does not use: {some(columns)}", style="bold")


def highlighted(
    pieces: Sequence[Piece], k: int, reading: Reading | None = None, *, colour: bool = True
) -> Text:
    """Return a text with its selected pieces coloured by rank, or, without colour, in «guillemets».

    With `reading`, the effects of the row follow their pieces.
    """
    from rich.text import Text

    from l2x.display import amount, shade

    line = Text()
    for piece in pieces:
        if piece.rank is None:
            line.append(piece.text)
        elif colour:
            line.append(piece.text, MARKS[shade(piece.rank, k) - 1])
        else:
            line.append(f"«{piece.text}»")
        if piece.rank is not None and reading is not None:
            line.append(f" ({amount(piece.effect, reading.scale)})")
    return line


def _sentence(error: Exception) -> str:
    from l2x.errors import L2XError

    if isinstance(error, L2XError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: '{error.filename}'" if error.filename else error.strerror
    if isinstance(error, OSError) or type(error).__module__.startswith("pyarrow"):
        return str(error)
    return f"{type(error).__name__}: {error} (unexpected; l2x --debug shows the traceback)"


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Print warnings as one line on standard error, without the source line that raised them."""

    def show(message: Warning | str, *where: object, **more: object) -> None:
        say("warning:", str(message), style="bold yellow")

    with warnings.catch_warnings():
        warnings.filterwarnings("default", module=r"l2x\.apps\.cli")  # shown, whatever the filters outside
        warnings.showwarning = show
        yield


@contextmanager
def _tidy_termination() -> Iterator[None]:
    """Turn SIGTERM into SystemExit, so that temporary files are deleted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
