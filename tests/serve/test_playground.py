"""The page in a real browser: what it shows is what `explain` says, whatever names and texts hold.

Screenshots go to the folder that L2X_SCREENSHOTS names, for people to look at; those of docs/serve.md were
made while `make playground` ran, with L2X_PLAYGROUND=http://127.0.0.1:8000.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pandas as pd
import pytest
from browser import chromium, page_of, until
from golden import cases
from service import file_of, live, name_of
from starlette.testclient import TestClient

import l2x
from l2x.apps.serve._app import create_app
from l2x.display._images import png

NASTY = ["<script>alert(1)</script>", "a\"b'c & {{ 7*7 }}", "שלום עולם", "🙂 ok"]
TOWNS = ["<img src=x onerror=alert(2)>", 'Ulm\'s "best"', "مدينة", "🙂"]


def nasty_frame(n: int = 300) -> pd.DataFrame:
    """Three columns of numbers, one of them with gaps, and one of categories; names as nasty as they come."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=NASTY[:3])
    frame[NASTY[3]] = rng.choice(TOWNS, n)
    frame.loc[rng.random(n) < 0.2, NASTY[1]] = np.nan
    frame.loc[rng.random(n) < 0.1, NASTY[3]] = None
    return frame


def of_nasty(X: pd.DataFrame) -> np.ndarray:
    town = (X[NASTY[3]] == TOWNS[0]).to_numpy() * 2.0 - 1
    p = 1 / (1 + np.exp(-(2 * town + X[NASTY[0]].to_numpy() + X[NASTY[1]].fillna(2.0).to_numpy())))
    return np.stack([1 - p, p], axis=1)


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory, tiny: l2x.TrainingPlan) -> Path:
    explainer = l2x.Explainer(of_nasty, k=2, training=tiny).fit(nasty_frame())
    return explainer.save(tmp_path_factory.mktemp("nasty") / "nasty.l2x")


@pytest.fixture(scope="module")
def address(nasty: Path) -> Iterator[str]:
    models = {
        "nasty": of_nasty,
        name_of("words"): cases.of_texts,
        name_of("patches"): cases.of_images,
    }
    files = [nasty, file_of("words"), file_of("patches"), file_of("regression")]
    with live(create_app(files, models)) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def shot(page: Any, name: str, *, full_page: bool = True) -> None:
    if folder := os.environ.get("L2X_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=full_page)


def selected_bars(page: Any) -> list[str]:
    return [name.inner_text() for name in page.locator(".bars .selected .name").all()]


FORM = "new URLSearchParams(new FormData(document.getElementById('form'))).toString()"


def changed(page: Any, act: Any) -> None:
    """Do something, and wait for the result that it leads to: that of the form as it then is, as typing and
    drawing lead to several."""
    answered: list[Any] = []

    def note(request: Any) -> None:
        if request.url.endswith("/result"):
            answered.append(parse_qs(request.post_data, keep_blank_values=True))

    page.on("requestfinished", note)
    act()
    until(page, lambda: parse_qs(page.evaluate(FORM), keep_blank_values=True) in answered[-1:])
    page.remove_listener("requestfinished", note)
    busy = page.locator(".htmx-request, .htmx-swapping, .htmx-settling")
    until(page, lambda: busy.count() == 0)


def row_of(**cells: Any) -> pd.DataFrame:
    return pd.DataFrame([{name: cells[f"c{c}"] for c, name in enumerate(NASTY)}])


@pytest.mark.slow
def test_sliders_selects_missing_and_k(browser: Any, address: str, nasty: Path) -> None:
    explainer = l2x.load(nasty)
    with page_of(browser, address) as page:
        page.goto(f"{address}/playground/nasty")
        assert page.locator("label[for=c0]").inner_text() == NASTY[0]
        options = page.locator("#c3 option").all_inner_texts()
        assert sorted(options) == sorted([*TOWNS, "– missing –"])
        changed(page, lambda: page.locator("#c0-slider").fill("2"))
        assert page.locator("#c0").input_value() == "2"
        changed(page, lambda: page.locator("#c3").select_option(label=TOWNS[1]))
        changed(page, lambda: page.locator("#c2").fill("0.5"))
        assert page.locator("#c2-slider").input_value() == "0.5"
        changed(page, lambda: page.locator("#c1").fill("-1"))
        row = row_of(c0=2.0, c1=-1.0, c2=0.5, c3=TOWNS[1])
        assert selected_bars(page) == explainer.explain(row).names[0]
        changed(page, lambda: page.get_by_label("missing").check())
        row[NASTY[1]] = np.nan
        assert selected_bars(page) == explainer.explain(row).names[0]
        changed(page, lambda: page.locator("#k-slider").fill("4"))
        assert selected_bars(page) == explainer.explain(row, k=4).names[0]
        values = dict(zip(selected_bars(page), page.locator(".bars .value").all_inner_texts(), strict=True))
        assert values[NASTY[3]] == TOWNS[1]
        assert page.locator("tr.winner td").first.inner_text() == f"{of_nasty(row).max():.0%}"
        shot(page, "table")
        # by keyboard
        page.locator("#c0-slider").focus()
        before = float(page.locator("#c0").input_value())
        changed(page, lambda: page.keyboard.press("ArrowLeft"))
        assert float(page.locator("#c0").input_value()) < before
        # nonsense is told, and the page works on
        changed(page, lambda: page.locator("#c2").fill(""))
        assert NASTY[2] in page.locator("#result .error").inner_text()
        changed(page, lambda: page.locator("#c2").fill("1"))
        assert len(selected_bars(page)) == 4


@pytest.mark.slow
def test_a_link_carries_the_row_and_the_request_can_be_copied(browser: Any, address: str) -> None:
    with page_of(browser, address) as page:
        page.goto(f"{address}/playground/nasty")
        changed(page, lambda: page.locator("#c0").fill("1.25"))
        changed(page, lambda: page.locator("#c3").select_option(label=TOWNS[2]))
        changed(page, lambda: page.get_by_label("missing").check())
        link, bars = page.url, selected_bars(page)
        values = page.locator(".bars .value").all_inner_texts()
        assert "#" in link
        with page_of(browser, address) as other:
            other.goto(link)
            until(other, lambda: other.locator(".bars .value").all_inner_texts() == values)
            assert other.locator("#c0").input_value() == "1.25"
            assert selected_bars(other) == bars
            assert other.get_by_label("missing").is_checked()
            assert other.locator("#c3 option:checked").inner_text() == TOWNS[2]
        page.locator("summary", has_text="This request").click()
        curl = page.locator("#curl").inner_text()
        assert "1.25" in curl
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy as curl").click()
        until(page, lambda: "copied" in page.locator("#said").inner_text(), 5)
        assert page.evaluate("navigator.clipboard.readText()") == curl
        changed(page, lambda: page.locator("#c0").fill("1.5"))
        assert page.locator("#curl").is_visible()  # what was opened stays open
        page.goto(f"{address}/playground/nasty#damaged")
        page.reload()
        until(page, lambda: "damaged" in page.locator("#said").inner_text())


@pytest.mark.slow
def test_a_review_is_highlighted_as_it_is_typed(browser: Any, address: str) -> None:
    explainer = l2x.load(file_of("words"))
    text = 'A <script>alert("x")</script> good film, שלום 🙂 not a bad plot'
    with page_of(browser, address) as page:
        page.goto(f"{address}/playground/{name_of('words')}")
        page.locator("#text").fill("")
        changed(page, lambda: page.locator("#text").press_sequentially(text, delay=1))
        until(page, lambda: page.locator("#result .text").inner_text() == text)
        marked = " ".join(page.locator("#result mark").all_inner_texts())
        assert sorted(marked.split()) == sorted(explainer.explain([text]).names[0])
        said = cases.of_texts([text])[0]
        assert page.locator("tr.winner td").first.inner_text() == f"{said.max():.0%}"
        shot(page, "text")
        # a link carries as much as there is
        long = "A good film. " * 20_000
        changed(page, lambda: page.locator("#text").fill(long))
        with page_of(browser, address) as other:
            other.goto(page.url)
            until(other, lambda: other.locator("#text").input_value() == long)


@pytest.mark.slow
def test_a_drawing_is_explained_as_it_is_drawn(browser: Any, address: str) -> None:
    explainer = l2x.load(file_of("patches"))
    view = explainer.features_
    with page_of(browser, address) as page:
        page.goto(f"{address}/playground/{name_of('patches')}")
        changed(page, lambda: page.get_by_role("button", name="Clear").click())
        box = page.locator("#canvas").bounding_box()

        def draw() -> None:
            page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 0.2 * box["height"])
            page.mouse.down()
            page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 0.7 * box["height"], steps=6)
            page.mouse.up()

        changed(page, draw)
        changed(page, lambda: page.locator("#k-slider").fill("2"))

        def shown() -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
            drawn = base64.b64decode(page.locator("#pixels").input_value())
            pixels = np.frombuffer(drawn, dtype=np.uint8).reshape(8, 8, 3)[..., 0]
            image = (pixels / 255 * view.scale_).astype(np.float32)
            assert image.max() > 0.9 * view.scale_
            wanted = explainer.explain(image[None], k=2).indices[0]
            frames = page.locator("#result rect.patch").all()
            found = [(float(f.get_attribute("x")), float(f.get_attribute("y"))) for f in frames]
            return found, [(4.0 * (i % 2), 4.0 * (i // 2)) for i in wanted]

        found, wanted = shown()
        assert found == wanted
        shot(page, "image")
        page.locator("#canvas").focus()  # by keyboard: a pixel is painted, and erased
        before = page.locator("#pixels").input_value()
        for key in ("ArrowUp", "ArrowUp", "ArrowUp", "ArrowRight", "ArrowRight"):
            page.keyboard.press(key)
        changed(page, lambda: page.keyboard.press(" "))
        assert page.locator("#pixels").input_value() != before
        found, wanted = shown()
        assert found == wanted
        picture = {"name": "x.png", "mimeType": "image/png", "buffer": png(np.ones((8, 8, 3)))}
        changed(page, lambda: page.locator("#file").set_input_files(picture))
        assert set(base64.b64decode(page.locator("#pixels").input_value())) == {255}


@pytest.mark.slow
def test_on_a_phone_in_the_dark_nothing_is_cut_off(browser: Any, address: str) -> None:
    options = {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"}
    with page_of(browser, address, **options) as page:
        for name in ("nasty", name_of("words"), name_of("patches"), name_of("regression")):
            page.goto(f"{address}/playground/{name}")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 360, name
            shot(page, f"phone-{name}")
        page.goto(f"{address}/docs")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        shot(page, "phone-docs")


WINDOWS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1000, "height": 640}},
    "dark": {"viewport": {"width": 1000, "height": 640}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 740}},
}


@pytest.mark.skipif("L2X_PLAYGROUND" not in os.environ, reason="L2X_PLAYGROUND names no running playground")
@pytest.mark.parametrize("window", WINDOWS)
def test_the_demos_playground_shows_all_three(browser: Any, window: str) -> None:
    address = os.environ["L2X_PLAYGROUND"]
    with page_of(browser, address, **WINDOWS[window]) as page:
        for name, selected in (("tumours", ".bars .selected"), ("reviews", "mark"), ("digits", "rect.patch")):
            page.goto(f"{address}/playground/{name}")
            if name == "reviews":
                text = "A wonderful story, great actors and a touching end. Only the music was a bit dull."
                changed(page, lambda text=text: page.locator("#text").fill(text))
            if name == "digits":
                changed(page, lambda: page.get_by_role("button", name="Clear").click())
                changed(page, lambda: ring(page))
                page.evaluate("scrollTo(0, 0)")
            until(page, lambda selected=selected: page.locator(f"#result {selected}").count() > 0)
            shot(page, f"playground-{name}-{window}", full_page=False)


def ring(page: Any) -> None:
    """Draw a zero."""
    page.locator("#canvas").evaluate("canvas => canvas.scrollIntoView({block: 'end'})")
    box = page.locator("#canvas").bounding_box()
    angles = np.linspace(0, 2 * np.pi, 25)
    points = zip(
        box["x"] + (0.5 + 0.25 * np.sin(angles)) * box["width"],
        box["y"] + (0.5 + 0.38 * np.cos(angles)) * box["height"],
        strict=True,
    )
    page.mouse.move(*next(points))
    page.mouse.down()
    for x, y in points:
        page.mouse.move(x, y)
    page.mouse.up()


def test_the_page_works_without_a_script(nasty: Path) -> None:
    with TestClient(create_app([nasty], {"nasty": of_nasty})) as client:
        fields = {"k": "1", "c0": "3", "c1": "", "m1": "on", "c2": "0", "c3": "1"}
        page = client.post("/playground/nasty", data=fields)
        assert page.status_code == 200
        assert 'class="bars"' in page.text
        assert "<script>alert" not in page.text
        assert "<img src=x" not in page.text
        assert 'name="c0" step="any" value="3"' in page.text
        wrong = client.post("/playground/nasty", data=fields | {"k": "9"})
        assert "choose a whole number" in wrong.text
        assert client.get("/playground/nobody").status_code == 404
