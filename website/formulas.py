"""Formulas as MathML, written at build time: browsers need no script and no downloaded font.

A Markdown extension with the syntax of GitHub: `$x_S$` within a line, `$$...$$` as a paragraph.
"""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor

# No spaces inside the dollars and no digit after them: "$5 and $6" are prices.
INLINE = r"(?<![\\$\w])\$(?!\s)([^$\n]+?)(?<!\s)\$(?![\w$])"
DISPLAY = re.compile(r"^\$\$\s*(.+?)\s*\$\$$", flags=re.DOTALL | re.MULTILINE)


class Inline(InlineProcessor):
    """Converts formulas within a line."""

    def handleMatch(self, match: re.Match[str], data: str) -> tuple[Any, int, int]:  # noqa: N802
        """Return the place of the formula in Markdown's stash of HTML."""
        return self.md.htmlStash.store(convert(match[1])), match.start(0), match.end(0)


class Display(Preprocessor):
    """Converts paragraphs before Markdown reads them: underscores in formulas are not emphasis."""

    def run(self, lines: list[str]) -> list[str]:
        """Return the lines with formulas replaced by their places in Markdown's stash of HTML."""

        def stash(match: re.Match[str]) -> str:
            return self.md.htmlStash.store(convert(match[1], display="block"))

        return DISPLAY.sub(stash, "\n".join(lines)).split("\n")


class Formulas(Extension):
    """Both kinds of formulas."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Register both kinds."""
        # After fenced blocks and inline code (190), which keep their dollars.
        md.preprocessors.register(Display(md), "display-formulas", 20)
        md.inlinePatterns.register(Inline(INLINE, md), "inline-formulas", 185)


def makeExtension(**options: Any) -> Formulas:  # noqa: N802
    """Return the extension; Markdown looks for a function with this name."""
    return Formulas(**options)
