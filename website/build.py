"""From docs/ to a folder of pages: copy, run, generate, build. Nothing is downloaded."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from website import DOCS, ROOT, notebooks, reference, results
from website.pages import run_page

# Pages whose Python is shown with its output. Each page has its own namespace.
RUN = ("start.md", "tutorials/*.md", "how-to/audit.md", "how-to/choose-k.md", "how-to/compare.md",
       "how-to/every-row.md",
       "how-to/effects.md", "how-to/images.md", "how-to/extend.md", "how-to/report.md",
       "how-to/up-to-date.md")  # fmt: skip
FIGURE = re.compile(r"!\[([^\]]*)\]\(((?:pictures|figures)/[^)]+)\)")
# The gallery shows the figures of these folders; from each page of results at most this many, because many of
# them differ only in their data.
GALLERY = {"tutorials": None, "how-to": None, "results": 2}


def build(folder: Path, *, run: bool = True) -> Path:
    """Build the site and return its folder, `folder`/site.

    Tutorials that have a notebook show the outputs of the notebook; other pages are run now. With
    `run=False` pages show no outputs, for a quick look.
    """
    pages = folder / "docs"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, pages, ignore=shutil.ignore_patterns("*.ipynb", "screenshots"))
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, pages / name.lower())
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
    write_gallery(pages)
    shutil.copytree(ROOT / "website" / "assets", pages / "assets", dirs_exist_ok=True)
    _zensical(folder)
    return folder / "site"


def within_the_site(text: str) -> str:
    """Replace links to files of the repository by links to the pages that are made from them."""
    text = re.sub(r"\]\(\.\./results/([\w-]+)\.(?:json|html|md)\)", r"](results/\1.md)", text)
    text = re.sub(r"\]\(\.\./\.\./results/([\w-]+)\.(?:json|html|md)\)", r"](../results/\1.md)", text)
    return text.replace("](docs/", "](").replace("](CONTRIBUTING.md", "](contributing.md")


def write_gallery(pages: Path) -> None:
    """Write the page with the figures of all pages, each a link to the page with its code."""
    entries = []
    for folder, most in GALLERY.items():
        for page in sorted((pages / folder).glob("*.md")):
            for title, file in FIGURE.findall(page.read_text())[:most]:
                entries.append(f"[![{title}]({folder}/{file}) {title}]({folder}/{page.name})")
    gallery = pages / "gallery.md"
    wall = '<div class="wall" markdown>\n\n' + "\n\n".join(entries) + "\n\n</div>"
    gallery.write_text(gallery.read_text().replace("<!-- the wall -->", wall))


def _zensical(folder: Path) -> None:
    """Run zensical in a process that finds our Markdown extension and the sources."""
    config = (ROOT / "website" / "zensical.toml").read_text()
    config = config.replace('"SOURCES"', json.dumps(str(ROOT / "src")))
    listed = ["results/index.md", *(f"results/{name}.md" for name in results.names())]
    (folder / "zensical.toml").write_text(config.replace('"RESULTS"', json.dumps(listed)))
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    subprocess.run(command, cwd=folder, check=True, env=os.environ | {"PYTHONPATH": paths})
