"""The page of the command line: every command with its arguments and options, from the program itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from website.results import markdown_table


def write(pages: Path) -> None:
    """Write the commands into their page."""
    file = pages / "reference" / "command-line.md"
    file.write_text(file.read_text().replace("<!-- the commands -->", commands()))


def commands() -> str:
    """Return all commands as Markdown."""
    from typer.main import get_command

    from l2x.apps.cli import app

    return "\n\n".join(sections("l2x", get_command(app)))


def sections(name: str, command: Any) -> Iterator[str]:
    """Yield a section for each command below a group of commands."""
    for word, each in command.commands.items():
        full = f"{name} {word}"
        yield f"## {full}\n\n{inspect.cleandoc(each.help or '')}"
        if hasattr(each, "commands"):
            yield from (section.replace("## ", "### ", 1) for section in sections(full, each))
        else:
            yield table(each)


def table(command: Any) -> str:
    """Return the arguments and options of a command as a table."""
    rows = [
        [f"`{usage(parameter)}`", described(parameter)]
        for parameter in command.params
        if not parameter.hidden and parameter.name != "help"
    ]
    return markdown_table(["argument or option", "meaning"], rows) if rows else ""


def usage(parameter: Any) -> str:
    """Return how a parameter is written: an argument by its placeholder, an option by all of its names."""
    if not parameter.opts[0].startswith("-"):
        return parameter.metavar or parameter.name.upper()
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} {placeholder(parameter)}"


def placeholder(parameter: Any) -> str:
    """Return what stands for the value of an option: its choices, its own placeholder, or its type."""
    kind = parameter.type_descriptor.annotation
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    return parameter.metavar or f"<{getattr(kind, '__name__', 'value').lower()}>"


def described(parameter: Any) -> str:
    """Return the help of a parameter, with its default if it has one."""
    default = parameter.default
    shown = default not in (None, False, ()) and not parameter.required and not callable(default)
    ending = f" Default: `{default}`." if shown else " Required." if parameter.required else ""
    return f"{(parameter.help or '').strip()}{ending}"
