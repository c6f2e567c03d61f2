"""A wall of pictures: every figure that a page of the site draws, each a link to the code that drew it."""

from __future__ import annotations

import re
from pathlib import Path

FIGURE = re.compile(r"!\[([^\]]*)\]\(((?:pictures|figures)/[^)]+)\)")
FOLDERS = ("tutorials", "how-to", "results")
# Of the results, where many figures differ only in their data, one or two of each page.
MOST_OF_RESULTS = 2


def pictures(pages: Path) -> list[tuple[str, str, str]]:
    """(title, picture, page) of each, in the order of the pages."""
    found = []
    for folder in FOLDERS:
        for page in sorted((pages / folder).glob("*.md")):
            here = [(title, f"{folder}/{file}", f"{folder}/{page.name}")
                    for title, file in FIGURE.findall(page.read_text())]  # fmt: skip
            found += here[:MOST_OF_RESULTS] if folder == "results" else here
    return found


def write(pages: Path) -> None:
    cards = [f"[![{title}]({file}) {title}]({page})" for title, file, page in pictures(pages)]
    gallery = pages / "gallery.md"
    wall = '<div class="wall" markdown>\n\n' + "\n\n".join(cards) + "\n\n</div>"
    gallery.write_text(gallery.read_text().replace("<!-- the wall -->", wall))
