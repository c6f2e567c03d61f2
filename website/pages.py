"""Pages that run: each block of Python is executed, and its output, result and figure follow below it."""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from website.pictures import both_modes

BLOCK = re.compile(r"^```python\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def blocks(text: str) -> list[str]:
    """Return the Python of a page, block by block."""
    return BLOCK.findall(text)


def run_page(page: Path) -> dict[str, Any]:
    """Run a page's blocks in a temporary folder, write their outputs into the page, return their names."""
    names: dict[str, Any] = {"__name__": f"page_{page.stem}"}

    def outputs(code: str) -> list[str]:
        printed, result = run_block(code, names, str(page))
        return [text_output(printed), "" if result is None else result_output(result, page)]

    with working_folder():
        write_outputs(page, outputs)
    return names


def write_outputs(page: Path, outputs: Callable[[str], list[str]]) -> None:
    """Write below each block of a page what `outputs` returns for its code; empty parts are left out."""

    def with_outputs(block: re.Match[str]) -> str:
        return "\n\n".join([block[0], *filter(None, outputs(block[1]))])

    page.write_text(BLOCK.sub(with_outputs, page.read_text()))


def run_block(code: str, names: dict[str, Any], page: str) -> tuple[str, Any]:
    """Return what a block prints, and the value of its last line if that is an expression."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, result = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        # dont_inherit: the page must not inherit this module's `from __future__ import annotations`.
        exec(compile(tree, page, "exec", dont_inherit=True), names)
        if isinstance(last, ast.Expr):
            result = eval(compile(ast.Expression(last.value), page, "eval", dont_inherit=True), names)
    return printed.getvalue(), result


def result_output(result: Any, page: Path) -> str:
    """Return a figure as a picture, HTML as it is, and everything else as text."""
    if hasattr(result, "_repr_svg_"):
        return figure_output(result._repr_svg_(), result.get_suptitle(), page)
    if hasattr(result, "_repr_html_"):
        return html_output(result._repr_html_())
    return text_output(repr(result))


def text_output(text: str) -> str:
    """Return a block of text, or nothing for nothing."""
    return f"``` {{ .text .output }}\n{text.rstrip()}\n```" if text.strip() else ""


def html_output(html: str) -> str:
    """Return HTML on one line: Markdown ends a block of HTML at an empty one."""
    one_line = re.sub(r"\s*\n\s*", " ", html)
    return f'<div class="output">{one_line}</div>'


def figure_output(svg: str, title: str, page: Path) -> str:
    """Save a figure, for light and dark mode, in the folder `pictures`; return its Markdown with `title`."""
    folder = page.parent / "pictures"
    folder.mkdir(exist_ok=True)
    file = folder / f"{page.stem}-{len(list(folder.glob(f'{page.stem}-*.svg'))) + 1}.svg"
    file.write_text(both_modes(svg))
    return f"![{title}](pictures/{file.name}){{ .figure }}"


@contextlib.contextmanager
def working_folder() -> Iterator[None]:
    """Work in a temporary folder, for the files that a page saves."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
