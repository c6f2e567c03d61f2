"""Pages that run: each block of Python is executed, and what it prints, shows and draws is put below it."""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```python\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def blocks(text: str) -> list[str]:
    """The Python of a page, block by block."""
    return BLOCK.findall(text)


def run_page(page: Path) -> dict[str, Any]:
    """Run a page's blocks in a folder of their own and write their outputs into it; returns their names."""
    space: dict[str, Any] = {"__name__": f"page_{page.stem}"}
    pictures = page.parent / "pictures"
    drawn: list[Path] = []

    def with_output(block: re.Match[str]) -> str:
        said, shown = run_block(block[1], space, str(page))
        parts = [block[0]]
        if said.strip():
            parts.append(f"``` {{ .text .output }}\n{said.rstrip()}\n```")
        if shown is not None:
            parts.append(output_of(shown, pictures / f"{page.stem}-{len(drawn) + 1}.svg", drawn))
        return "\n\n".join(parts)

    with working_folder():
        page.write_text(BLOCK.sub(with_output, page.read_text()))
    return space


def run_block(code: str, space: dict[str, Any], page: str) -> tuple[str, Any]:
    """What a block prints, and the value of its last line if that is an expression."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    said, shown = io.StringIO(), None
    with contextlib.redirect_stdout(said):
        # dont_inherit: the page's Python is not to have this module's `annotations`.
        exec(compile(tree, page, "exec", dont_inherit=True), space)
        if isinstance(last, ast.Expr):
            shown = eval(compile(ast.Expression(last.value), page, "eval", dont_inherit=True), space)
    return said.getvalue(), shown


def output_of(shown: Any, picture: Path, drawn: list[Path]) -> str:
    """A figure as a picture with its title for those who cannot see it, HTML as it is, all else as text."""
    if hasattr(shown, "savefig"):
        from l2x.display._style import save_figure

        drawn.append(save_figure(shown, picture))
        return f"![{shown.get_suptitle()}](pictures/{picture.name}){{ .figure }}"
    if hasattr(shown, "_repr_html_"):
        # On one line: Markdown ends a block of HTML at an empty one.
        html = re.sub(r"\s*\n\s*", " ", shown._repr_html_())
        return f'<div class="output">{html}</div>'
    return f"``` {{ .text .output }}\n{shown!r}\n```"


def plain_output(shown: Any) -> str:
    """The same for the README, which is text."""
    return escape(repr(shown), quote=False)


@contextlib.contextmanager
def working_folder() -> Iterator[None]:
    """A new folder for what a page saves; the old one is back afterwards."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
