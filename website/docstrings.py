"""Docstrings as the house writes them, as the reference's parser expects them (numpydoc).

X : the rows                  a name, and its description below; types come from the signature
k : int                       below a heading, what follows the name is a type, which ends with a full stop
a list without a heading      Attributes of a class, Parameters of a function
Returns, then a sentence      the annotated type, and the sentence below
an example after a list       gets the heading Examples
"""

from __future__ import annotations

import re
from itertools import pairwise
from textwrap import indent
from typing import Any

from griffe import Extension

ENTRY = re.compile(r"^(\*{0,2}[a-z]\w*(?:, \*{0,2}[a-z]\w*)*) : (.+)$", flags=re.IGNORECASE)
LISTS = ("Parameters", "Attributes")
# Types that the signature shows in the same words.
PLAIN = ("bool", "float", "int", "str")


class HouseStyle(Extension):
    def on_instance(self, *, obj: Any, **_: Any) -> None:
        if not obj.is_alias and obj.docstring is not None:
            returns = str(obj.returns or "") if obj.is_function else ""
            obj.docstring.value = tidy(obj.docstring.value, in_class=obj.is_class, returns=returns)


def tidy(text: str, *, in_class: bool, returns: str = "") -> str:
    """A docstring with the headings and indents of numpydoc."""
    lines = text.split("\n")
    found: list[str] = []
    section, with_types = "", False
    for line, after in pairwise([*lines, ""]):
        if after and set(after) == {"-"}:
            section, with_types = line, True
        elif line.startswith(">>>") and section != "Examples":
            found += headed("Examples")
            section = "Examples"
        elif not section and ENTRY.match(line):
            section = "Attributes" if in_class else "Parameters"
            found += headed(section)
        elif section in LISTS and line and not line.startswith(" ") and not is_entry(line, after):
            # A paragraph after the list: back to plain text.
            section = "text"
            found.append("Notes\n-----")
        if section in LISTS and (entry := ENTRY.match(line)):
            typed = with_types and after.startswith("    ")
            found += [entry[1], *([] if typed and entry[2] in PLAIN else [f"    {entry[2]}{'.' * typed}"])]
        else:
            found.append(line)
    return with_returns("\n".join(found), returns)


def is_entry(line: str, after: str) -> bool:
    """An entry, with or without a colon, or part of a heading."""
    return bool(ENTRY.match(line)) or set(line) == {"-"} or after.startswith("    ")


def headed(section: str) -> list[str]:
    return [section, "-" * len(section)]


def with_returns(text: str, type_name: str) -> str:
    """The type in the line where the parser expects it, and the sentences below."""

    def section(found: re.Match[str]) -> str:
        return f"{found[1]}{type_name or 'result'}\n{indent(found[2], '    ')}"

    return re.sub(r"^(Returns\n-+\n)((?:[^\n]+\n?)+)", section, text, flags=re.MULTILINE)
