"""Formulas as MathML, written at build time: browsers show them without a script or a font from elsewhere.

A Markdown extension: `$x_S$` within a line, `$$...$$` as a paragraph, as GitHub has them.
"""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor

# Neither spaces inside the dollars nor a digit after them: "$5 and $6" are prices.
INLINE = r"(?<![\\$\w])\$(?!\s)([^$\n]+?)(?<!\s)\$(?![\w$])"
DISPLAY = re.compile(r"^\$\$\s*(.+?)\s*\$\$$", flags=re.DOTALL | re.MULTILINE)


class Inline(InlineProcessor):
    def handleMatch(self, found: re.Match[str], data: str) -> tuple[Any, int, int]:  # noqa: N802
        return self.md.htmlStash.store(convert(found[1])), found.start(0), found.end(0)


class Display(Preprocessor):
    """Before anything else reads the lines: a formula's underscores are no emphasis."""

    def run(self, lines: list[str]) -> list[str]:
        def stash(found: re.Match[str]) -> str:
            return self.md.htmlStash.store(convert(found[1], display="block"))

        return DISPLAY.sub(stash, "\n".join(lines)).split("\n")


class Formulas(Extension):
    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        # After fenced blocks and code in a line (190), which keep their dollars.
        md.preprocessors.register(Display(md), "display-formulas", 20)
        md.inlinePatterns.register(Inline(INLINE, md), "inline-formulas", 185)


def makeExtension(**options: Any) -> Formulas:  # noqa: N802
    """The name by which Markdown finds an extension."""
    return Formulas(**options)
