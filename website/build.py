"""From docs/ to a folder of pages: copy, run, generate, build; nothing is fetched."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from website import DOCS, ROOT, gallery, reference, results
from website.pages import run_page

# Pages whose Python runs, in one namespace each, with its output below each block.
RUN = ("start.md", "tutorials/*.md", "how-to/choose-k.md", "how-to/compare.md", "how-to/extend.md",
       "how-to/report-card.md")  # fmt: skip


def build(folder: Path, *, run: bool = True) -> Path:
    """The site in `folder`/site; `run=False` leaves the pages' Python as it is, for a quick look."""
    pages = folder / "docs"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, pages, ignore=shutil.ignore_patterns("*.ipynb", "screenshots"))
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, pages / name.lower())
    for page in pages.rglob("*.md"):
        page.write_text(within_the_site(page.read_text()))
    if run:
        for page in sorted(page for pattern in RUN for page in pages.glob(pattern)):
            print(f"running {page.relative_to(pages)}", flush=True)
            run_page(page)
    results.write(pages)
    reference.write(pages)
    gallery.write(pages)
    shutil.copytree(ROOT / "website" / "assets", pages / "assets", dirs_exist_ok=True)
    _zensical(folder)
    return folder / "site"


def within_the_site(text: str) -> str:
    """Links to files of the repository, as the pages that are made of them."""
    text = re.sub(r"\]\(\.\./results/([\w-]+)\.(?:json|html|md)\)", r"](results/\1.md)", text)
    return text.replace("](docs/", "](").replace("](CONTRIBUTING.md", "](contributing.md")


def _zensical(folder: Path) -> None:
    """Build in a process of its own, which finds the formulas' extension and the sources."""
    config = (ROOT / "website" / "zensical.toml").read_text()
    config = config.replace('"SOURCES"', json.dumps(str(ROOT / "src")))
    listed = ["results/index.md", *(f"results/{name}.md" for name in results.names())]
    (folder / "zensical.toml").write_text(config.replace('"RESULTS"', json.dumps(listed)))
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    subprocess.run(command, cwd=folder, check=True, env=os.environ | {"PYTHONPATH": paths})
