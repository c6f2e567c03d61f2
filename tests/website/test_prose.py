"""Plain prose: in README and concepts no sentence has more than 30 words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md", *sorted((ROOT / "docs" / "concepts").glob("*.md"))]
MOST_WORDS = 30
# Not prose: generated parts, code, formulas, pictures, HTML, tables and headings.
LEFT_OUT = (
    r"<!-- ([\w -]+): make table -->.*?<!-- /\1 -->",
    r"```.*?```",
    r"\$\$.*?\$\$",
    r"<!--.*?-->",
    r"<[^>\n]+>",
    r"!\[[^\]]*\]\([^)]*\)",
    r"^\|.*$",
    r"^#.*$",
)


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page; a list entry ends one, and a link counts as its text."""
    for pattern in LEFT_OUT:
        text = re.sub(
            pattern, "", text, flags=re.DOTALL | re.MULTILINE if "^" not in pattern else re.MULTILINE
        )
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\b(?:e\.g|i\.e|et al|vs)\.", "", text)
    for paragraph in re.split(r"\n\s*\n|^(?:[-*]|\d+\.) ", text, flags=re.MULTILINE):
        yield from re.split(r"(?<=[.!?])(?:\*\*|[\")])*\s+", " ".join(paragraph.split()))


def words(sentence: str) -> int:
    """Count words; code counts as one word, numbers and signs alone as none."""
    return len(
        [
            word
            for word in re.sub(r"`[^`]*`|\$[^$]*\$", "code", sentence).split()
            if re.search(r"[^\W\d]", word)
        ]
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_are_short(page: Path) -> None:
    long = [
        f"{words(each)} words: {each}" for each in sentences(page.read_text()) if words(each) > MOST_WORDS
    ]
    assert not long, "\n".join(long)


def test_sentences_are_found() -> None:
    text = "# A title\n\nOne two. [Three](x.md) `four five`!\n\n| a | b |\n|---|---|\n\n- six\n- seven\n"
    assert [words(each) for each in sentences(text) if each] == [2, 2, 1, 1]
