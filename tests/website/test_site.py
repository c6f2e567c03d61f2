"""The built site: no broken links, nothing from another host, no picture without an alternative text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

pytestmark = pytest.mark.slow

# Elements that make a browser load something, and the attribute with its address.
FETCHES = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


PARTS = """gallery tutorials/start tutorials/census tutorials/reviews tutorials/digits tutorials/photos
tutorials/service how-to/choose-k how-to/check how-to/compare how-to/extend how-to/hugging-face
how-to/regression how-to/remote-models concepts/how-it-works concepts/meaning concepts/trust
concepts/which-method concepts/costs concepts/limits benchmarks/reproduce benchmarks/synthetic
benchmarks/mnist reference/l2x reference/features reference/evaluation reference/command-line
reference/http reference/files reference/metrics reference/glossary project/changelog
project/contributing project/citation notebook"""


class Page(HTMLParser):
    """Links, fetched addresses, anchors and pictures of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.silent: list[str] = []  # pictures without an alternative text
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        for name in ("id", "name"):
            if given.get(name):
                self.anchors.add(str(given[name]))
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if (
            tag in FETCHES
            and given.get(FETCHES[tag])
            and given.get("rel") not in ("canonical", "next", "prev")
        ):
            self.fetched.append(str(given[FETCHES[tag]]))
        if tag == "img" and not (given.get("alt") or "").strip():
            self.silent.append(str(given.get("src")))


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_part_is_there(site: Path) -> None:
    for page in PARTS.split():
        assert (site / f"{page}.html").exists(), page


def test_links_lead_somewhere(pages: dict[Path, Page]) -> None:
    broken = [f"{page.path.name}: {link}" for page in pages.values() for link in missing(page, pages)]
    assert not broken


def missing(page: Page, pages: dict[Path, Page]) -> Iterator[str]:
    if page.path.name == "404.html":  # its links are absolute: it is shown for any address
        return
    for link in page.links:
        target, anchor = urldefrag(link)
        if re.match(r"[a-z]+:", target):
            continue
        path = (page.path.parent / unquote(target)).resolve() if target else page.path
        if path.is_dir():
            path /= "index.html"
        if not path.exists() or (anchor and path in pages and unquote(anchor) not in pages[path].anchors):
            yield link


def test_nothing_comes_from_another_host(pages: dict[Path, Page]) -> None:
    away = [f"{p.path.name}: {address}" for p in pages.values() for address in p.fetched
            if re.match(r"(https?:)?//", address)]  # fmt: skip
    assert not away


def test_pictures_have_alternative_texts(pages: dict[Path, Page]) -> None:
    silent = [f"{page.path.name}: {picture}" for page in pages.values() for picture in page.silent]
    assert not silent


def test_fetched_files_exist(pages: dict[Path, Page]) -> None:
    gone = [
        f"{page.path.name}: {address}"
        for page in pages.values()
        for address in page.fetched
        if page.path.name != "404.html"
        and not address.startswith("data:")
        and not (page.path.parent / file(address)).exists()
    ]
    assert not gone


def file(address: str) -> str:
    return unquote(urldefrag(address)[0]).partition("?")[0]


def test_tutorials_show_what_they_did(site: Path) -> None:
    """An error would have ended the build; outputs follow their code."""
    for page in sorted((site / "tutorials").glob("*.html")):
        if page.name != "index.html":
            assert 'class="output"' in page.read_text() or "output highlight" in page.read_text(), page.name


def test_formulas_are_mathml(site: Path) -> None:
    page = (site / "concepts" / "how-it-works.html").read_text()
    assert page.count("<math") > 20
    assert "\\mathcal" not in page
    assert "$" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def test_the_gallery_is_a_wall_of_links(site: Path) -> None:
    wall = (site / "gallery.html").read_text()
    assert len(re.findall(r'<a href="[^"]+"><img', wall)) >= 12


# Page, colours and width of docs/screenshots.
SHOTS = (
    ("tutorials/start", "light", 1280),
    ("tutorials/census", "dark", 1280),
    ("tutorials/digits", "light", 390),
    ("concepts/how-it-works", "light", 1280),
    ("gallery", "dark", 1280),
    ("reference/l2x", "dark", 390),
)


@pytest.mark.parametrize(("name", "scheme", "width"), SHOTS)
def test_pages_fit_in_a_browser(site: Path, name: str, scheme: str, width: int) -> None:
    """Set L2X_SCREENSHOTS=folder to save screenshots."""
    from browser import chromium, page_of

    view = {"width": width, "height": 800}
    with chromium() as browser, page_of(browser, "file://", color_scheme=scheme, viewport=view) as page:
        page.goto(f"file://{site}/{name}.html")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        if folder := os.environ.get("L2X_SCREENSHOTS"):
            page.wait_for_timeout(500)
            page.screenshot(path=Path(folder) / f"{name.replace('/', '-')}-{scheme}-{width}.png")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_pages_are_legible_on_a_phone(site: Path, scheme: str) -> None:
    """No page is wider than a phone, and the contrast of all texts is that of WCAG AA."""
    from browser import chromium, page_of

    contrast = (Path(__file__).parent / "contrast.js").read_text()
    view = {"width": 390, "height": 800}
    wide, faint = [], {}
    with chromium() as browser, page_of(browser, "file://", color_scheme=scheme, viewport=view) as page:
        for path in sorted(site.rglob("*.html")):
            if path.name == "404.html":  # it loads its styles by absolute paths, from a server only
                continue
            page.goto(f"file://{path}")
            if page.evaluate("document.documentElement.scrollWidth - innerWidth") > 0:
                wide.append(path.name)
            faint |= {f"{path.name} {text}": ratio for text, ratio in page.evaluate(contrast).items()}
    assert not wide
    assert not faint


def test_search_works_from_a_folder(site: Path) -> None:
    from browser import chromium, page_of, until

    view = {"width": 1280, "height": 900}
    with chromium() as browser, page_of(browser, "file://", viewport=view) as page:
        page.goto(f"file://{site}/index.html")
        found = page.locator("text=/^[1-9][0-9]* results?$/")  # also inside shadow roots
        page.wait_for_timeout(1000)  # the index is read
        page.keyboard.press("Control+k")
        page.wait_for_timeout(1000)
        page.keyboard.type("leakage", delay=50)
        until(page, lambda: found.count() > 0)
