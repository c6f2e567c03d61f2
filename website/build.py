"""From docs/ to a folder of pages: copy, run, generate, build. Nothing is downloaded."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from website import DOCS, ROOT, command_line, notebooks, pictures, reference, results
from website.pages import blocks, run_page

# Pages whose Python is shown with its output. Each page has its own namespace.
HOW_TO = (
    "audit", "check", "choose-k", "compare", "effects", "every-row", "extend", "hugging-face", "images",
    "regression", "remote-models", "up-to-date",
)  # fmt: skip
RUN = ("tutorials/*.md", *(f"how-to/{name}.md" for name in HOW_TO))
FIGURE = re.compile(r"!\[([^\]]*)\]\(((?:pictures|figures)/[^)]+)\)")
# The gallery shows the figures of these folders; from each page of benchmarks at most this many, because many
# of them differ only in their data.
GALLERY = {"tutorials": None, "how-to": None, "benchmarks": 2}


def build(folder: Path, *, run: bool = True) -> Path:
    """Build the site and return its folder, `folder`/site.

    Tutorials that have a notebook show the outputs of the notebook; other pages are run now. With
    `run=False` pages show no outputs, for a quick look.
    """
    pages = folder / "docs"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, pages, ignore=shutil.ignore_patterns("*.ipynb", "screenshots"))
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        page = pages / "project" / name.lower()
        page.write_text(within_the_folder((ROOT / name).read_text()))
    for page in sorted(page for pattern in RUN for page in pages.glob(pattern)) if run else ():
        if notebook := notebooks.notebook_of(page):
            notebooks.show_outputs(page, notebook)
        else:
            print(f"running {page.relative_to(pages)}", flush=True)
            run_page(page)
    for page in pages.rglob("*.md"):
        page.write_text(within_the_site(page.read_text()))
    results.write(pages)
    reference.write(pages)
    command_line.write(pages)
    write_gallery(pages)
    shutil.copytree(ROOT / "website" / "assets", pages / "assets", dirs_exist_ok=True)
    _zensical(folder)
    return folder / "site"


def within_the_site(text: str) -> str:
    """Replace links to files of the repository by links to the pages that are made from them."""
    text = re.sub(r"\]\(\.\./results/([\w-]+)\.(?:json|html|md)\)", r"](benchmarks/\1.md)", text)
    text = re.sub(r"\]\(\.\./\.\./results/([\w-]+)\.(?:json|html|md)\)", r"](../benchmarks/\1.md)", text)
    return re.sub(
        r"\]\(\.\./\.\./(CHANGELOG|CONTRIBUTING)\.md", lambda m: f"](../project/{m[1].lower()}.md", text
    )


def within_the_folder(text: str) -> str:
    """Return a page of the repository's root with its links as seen from the folder project/ of the site."""
    text = re.sub(r"\]\(results/", "](../../results/", text).replace("](docs/", "](../")
    return text.replace("](CONTRIBUTING.md", "](contributing.md").replace("](CHANGELOG.md", "](changelog.md")


def write_gallery(pages: Path) -> None:
    """Write the page with the figures of all pages, each a link to the page with its code."""
    entries = []
    for folder, most in GALLERY.items():
        for page in sorted((pages / folder).glob("*.md")):
            for title, file in FIGURE.findall(page.read_text())[:most]:
                entries.append(f"[![{title}]({folder}/{file}) {title}]({folder}/{page.name})")
    gallery = pages / "gallery.md"
    wall = '<div class="wall" markdown>\n\n' + "\n\n".join(entries) + "\n\n</div>"
    text = gallery.read_text().replace("<!-- the wall -->", wall)
    gallery.write_text(text.replace("<!-- the pictures -->", drawn_by_code()))


def drawn_by_code() -> str:
    """Return the pictures of docs/pictures, each above the code that draws it."""
    parts = []
    for name, (title, source) in pictures.SOURCES.items():
        text = (ROOT / source).read_text()
        code = blocks(text)[0] if source.endswith(".md") else text
        parts.append(
            f"## {title}\n\n![{title}](pictures/{name}.svg){{ .figure }}\n\n"
            f'<details markdown="1"><summary>Code: <code>{source}</code></summary>\n\n'
            f"```python\n{code}```\n\n</details>"
        )
    return "\n\n".join(parts)


def _zensical(folder: Path) -> None:
    """Run zensical in a process that finds our Markdown extension and the sources."""
    config = (ROOT / "website" / "zensical.toml").read_text()
    config = config.replace('"SOURCES"', json.dumps(str(ROOT / "src")))
    listed = ["benchmarks/index.md", "benchmarks/reproduce.md"]
    listed += [f"benchmarks/{name}.md" for name in results.names()]
    (folder / "zensical.toml").write_text(config.replace('"BENCHMARKS"', json.dumps(listed)))
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    subprocess.run(command, cwd=folder, check=True, env=os.environ | {"PYTHONPATH": paths})
