"""The page: forms, results and copied requests, and all of them in a real browser.

The browser tests write screenshots to the folder that L2X_SCREENSHOTS names. Those of docs/how-to/serve.md
were made while `make playground` ran, with L2X_PLAYGROUND=http://127.0.0.1:8000.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pandas as pd
import pytest
from browser import chromium, page_of, until
from golden import cases
from service import GOLDEN, KINDS, MODELS, file_of, live, name_of, rows_of, service
from starlette.testclient import TestClient

import l2x
from l2x.apps.serve import create_app
from l2x.apps.serve._catalogue import Served
from l2x.apps.serve._playground import MAX_CLASSES, Snippet, TableForm, form_for, row_result
from l2x.apps.serve._requests import ServiceError
from l2x.display import png, readings
from l2x.errors import InputError

NASTY = ["<script>alert(1)</script>", "a\"b'c & {{ 7*7 }}", "שלום עולם", "🙂 ok"]
TOWNS = ["<img src=x onerror=alert(2)>", 'Ulm\'s "best"', "مدينة", "🙂"]


def nasty_frame(n: int = 300) -> pd.DataFrame:
    """Return three columns of numbers, one with missing cells, and one of categories; with nasty names."""
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
    """Do something, and wait for the result of the final form: typing and drawing lead to several results."""
    finished: list[Any] = []

    def note(request: Any) -> None:
        if request.url.endswith("/result"):
            finished.append(parse_qs(request.post_data, keep_blank_values=True))

    page.on("requestfinished", note)
    act()
    until(page, lambda: parse_qs(page.evaluate(FORM), keep_blank_values=True) in finished[-1:])
    page.remove_listener("requestfinished", note)
    busy = page.locator(".htmx-request, .htmx-swapping, .htmx-settling")
    until(page, lambda: busy.count() == 0)


def row_of(**cells: Any) -> pd.DataFrame:
    return pd.DataFrame([{name: cells[f"c{c}"] for c, name in enumerate(NASTY)}])


@pytest.mark.slow
def test_every_field_of_a_table(browser: Any, address: str, nasty: Path) -> None:
    explainer = l2x.load(nasty, model=of_nasty)
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
        # an invalid field is reported, and the page continues to work
        changed(page, lambda: page.locator("#c2").fill(""))
        assert NASTY[2] in page.locator("#result .error").inner_text()
        changed(page, lambda: page.locator("#c2").fill("1"))
        assert len(selected_bars(page)) == 4


@pytest.mark.slow
def test_signed_bars_of_the_chosen_class(browser: Any, address: str, nasty: Path) -> None:
    """Bars to the right of the line are towards the class, to the left against it; the numbers add up."""
    row = row_of(c0=-2.0, c1=1.0, c2=0.5, c3=TOWNS[0])
    explanation = l2x.load(nasty, model=of_nasty).explain(row)
    with page_of(browser, address) as page:
        page.goto(f"{address}/playground/nasty")
        for field, value in (("c0", "-2"), ("c1", "1"), ("c2", "0.5")):
            changed(page, lambda field=field, value=value: page.locator(f"#{field}").fill(value))
        changed(page, lambda: page.locator("#c3").select_option(label=TOWNS[0]))
        for position, name in (("", None), ("0", 0), ("1", 1)):
            changed(page, lambda position=position: page.locator("#class").select_option(position))
            (expected,) = readings(explanation.for_class(name))
            assert page.locator(".prediction").inner_text() == expected.title
            assert page.locator(".bars .selected .effect").all_inner_texts() == expected.amounts
            assert page.locator(".bars .other .effect").all_inner_texts() == [expected.rest_amount]
            for bar, effect in zip(page.locator(".bars .selected rect").all(), expected.effects, strict=True):
                assert bar.get_attribute("class") == ("towards" if effect >= 0 else "against")
                box = bar.bounding_box()
                frame = bar.locator("xpath=..").bounding_box()
                middle = frame["x"] + frame["width"] / 2
                assert (box["x"] >= middle - 1) == (effect >= 0)
            assert f'"class": {position}' in page.locator("#curl").text_content() or not position
            shot(page, f"class-{position or 'predicted'}")
        numbers = page.locator("tr.winner td").all_inner_texts()
        assert len(numbers) == 3
        assert numbers[0] == f"{of_nasty(row).max():.0%}"


@pytest.mark.slow
def test_a_link_contains_the_row_and_the_request_can_be_copied(browser: Any, address: str) -> None:
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
        page.locator("summary", has_text="this request").click()
        curl = page.locator("#curl").inner_text()
        assert "1.25" in curl
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy as curl").click()
        until(page, lambda: "copied" in page.locator("#status").inner_text(), 5)
        assert page.evaluate("navigator.clipboard.readText()") == curl
        changed(page, lambda: page.locator("#c0").fill("1.5"))
        assert page.locator("#curl").is_visible()  # the open request stays open
        page.goto(f"{address}/playground/nasty#damaged")
        page.reload()
        until(page, lambda: "damaged" in page.locator("#status").inner_text())


@pytest.mark.slow
def test_a_review_is_highlighted_as_it_is_typed(browser: Any, address: str) -> None:
    explainer = l2x.load(file_of("words"), model=cases.of_texts)
    text = 'A <script>alert("x")</script> good film, שלום 🙂 not a bad plot'
    with page_of(browser, address) as page:
        page.goto(f"{address}/playground/{name_of('words')}")
        page.locator("#text").fill("")
        changed(page, lambda: page.locator("#text").press_sequentially(text, delay=1))
        until(page, lambda: page.locator("#result .text").inner_text() == text)
        marked = " ".join(page.locator("#result mark").all_inner_texts())
        assert sorted(marked.split()) == sorted(explainer.explain([text]).names[0])
        prediction = cases.of_texts([text])[0]
        assert page.locator("tr.winner td").first.inner_text() == f"{prediction.max():.0%}"
        shot(page, "text")
        # a link may contain a long text
        long = "A good film. " * 20_000
        changed(page, lambda: page.locator("#text").fill(long))
        with page_of(browser, address) as other:
            other.goto(page.url)
            until(other, lambda: other.locator("#text").input_value() == long)


@pytest.mark.slow
def test_a_drawing_is_explained_as_it_is_drawn(browser: Any, address: str) -> None:
    explainer = l2x.load(file_of("patches"), model=cases.of_images)
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
        page.locator("#canvas").focus()  # by keyboard: a pixel is painted
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
def test_nothing_is_cut_off_on_a_phone_in_dark_mode(browser: Any, address: str) -> None:
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
def test_the_playground_of_the_demo(browser: Any, window: str) -> None:
    address = os.environ["L2X_PLAYGROUND"]
    with page_of(browser, address, **WINDOWS[window]) as page:
        for name, selected in (("tumours", ".bars .selected"), ("reviews", "mark"), ("digits", "rect.patch")):
            page.goto(f"{address}/playground/{name}")
            if name == "reviews":
                text = "A wonderful story, great actors and a touching end. Only the music was a bit dull."
                changed(page, lambda text=text: page.locator("#text").fill(text))
            if name == "digits":
                changed(page, lambda: page.get_by_role("button", name="Clear").click())
                changed(page, lambda: eight(page))
                page.evaluate("scrollTo(0, 0)")
            until(page, lambda selected=selected: page.locator(f"#result {selected}").count() > 0)
            shot(page, f"playground-{name}-{window}", full_page=False)


def eight(page: Any) -> None:
    """Draw an eight in one line."""
    page.locator("#canvas").evaluate("canvas => canvas.scrollIntoView({block: 'end'})")
    box = page.locator("#canvas").bounding_box()
    angles = np.linspace(0, 2 * np.pi, 49)
    points = zip(
        box["x"] + (0.5 + 0.2 * np.sin(2 * angles)) * box["width"],
        box["y"] + (0.5 + 0.36 * np.cos(angles)) * box["height"],
        strict=True,
    )
    page.mouse.move(*next(points))
    page.mouse.down()
    for x, y in points:
        page.mouse.move(x, y)
    page.mouse.up()


def test_the_page_works_without_javascript(nasty: Path) -> None:
    with TestClient(create_app([nasty], {"nasty": of_nasty})) as client:
        fields = {"k": "1", "c0": "3", "c1": "", "m1": "on", "c2": "0", "c3": "1"}
        page = client.post("/playground/nasty", data=fields)
        assert page.status_code == 200
        assert 'class="bars' in page.text
        assert "<script>alert" not in page.text
        assert "<img src=x" not in page.text
        assert 'name="c0" step="any" value="3"' in page.text
        wrong = client.post("/playground/nasty", data=fields | {"k": "9"})
        assert "k = 9" in wrong.text
        assert client.get("/playground/nobody").status_code == 404


def served(kind: str) -> Served:
    return Served.load(kind, file_of(kind), None)


@pytest.mark.parametrize("kind", KINDS)
def test_the_initial_form_is_a_valid_row(kind: str) -> None:
    one = served(kind)
    form = form_for(one)
    fields = form.fields()
    assert form.k(fields) == one.explainer.k
    assert len(one.rows.parse([form.row(fields)])) == 1


def test_cells_of_a_form() -> None:
    form = form_for(served("frame"))
    row = form.row({"c0": "1.5", "c1": "3", "m1": "on", "c2": "", "c3": "1"})
    assert row["age"] == 1.5
    assert row["income"] is None
    assert row["town"] is None
    assert isinstance(row["owner"], bool)


@pytest.mark.parametrize(
    "fields",
    [
        {"c0": "x"},
        {"c0": ""},
        {"c3": "9"},
        {"c3": "0" * 9 + "9"},
        {"c3": "-1"},
        {"c3": "²"},
        {"c3": ""},
        {"k": "x"},
        {"k": "0"},
        {"class": "2"},
        {"class": "-1"},
    ],
)
def test_invalid_fields_are_refused(fields: dict[str, Any]) -> None:
    form = form_for(served("frame"))
    read: Any = form.k if "k" in fields else form.output if "class" in fields else form.row
    with pytest.raises((ServiceError, InputError)):
        read(form.fields() | fields)


def test_sliders_cover_the_range_in_round_steps() -> None:
    about = {"range": [-0.1234, 3.21], "whole": False}
    slider = TableForm.slider(about)
    assert slider["min"] <= -0.1234
    assert slider["max"] >= 3.21
    assert slider["step"] == 0.01
    assert TableForm.slider({"range": [1.0, 90.0], "whole": True}) == {"min": 1, "max": 90, "step": 1}
    constant = TableForm.slider({"range": [2.0, 2.0], "whole": False})
    assert constant["step"] == 1.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("with_model", [True, False])
def test_predictions_from_all_selected_and_other_features(kind: str, with_model: bool) -> None:
    model = l2x.as_black_box(MODELS[kind]) if with_model else None
    served = Served.load(kind, file_of(kind), model)
    (row,), X = rows_of(kind, 1)
    found = row_result(served, row, 1)
    assert found.source == ("the model" if with_model else "the explainer's surrogate of the model")
    assert 1 <= len(found.predictions) <= MAX_CLASSES
    assert all(len(row) == 4 for row in found.predictions)
    if kind == "regression":
        assert found.same is None
        if with_model:
            assert found.predictions[0][1] == f"{MODELS[kind](X)[0]:.4g}"
    else:
        assert found.same in (True, False)


def test_the_other_features_include_those_that_cannot_be_selected(tmp_path: Path) -> None:
    """Stop words stay, although they cannot be selected; the model reads only one of them."""

    def the_word_the(texts: list[str]) -> np.ndarray:
        p = np.array([0.9 if "the" in text.split() else 0.1 for text in texts])
        return np.stack([1 - p, p], axis=1)

    texts = ["the good film", "a good plot", "the bad plot", "a bad film"] * 10
    view = l2x.Words(length=3, stop_words="english")
    plan = l2x.TrainingPlan.quick().with_steps(value=2, selector=2)
    explainer = l2x.Explainer(the_word_the, 1, features=view, objective="surrogate", training=plan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the predictions depend on no selectable word
        explainer.fit(texts)
    served = Served.load("it", explainer.save(tmp_path / "a.l2x"), l2x.as_black_box(the_word_the))
    found = row_result(served, "the good film", 1)
    assert all(whole == others for _, whole, _, others in found.predictions)


def test_without_model_and_surrogate_there_are_no_predictions() -> None:
    served = Served.load("it", GOLDEN / "columns-model.l2x", None)
    found = row_result(served, rows_of("columns", 1)[0][0], 2)
    assert found.predictions == []
    assert found.prediction == ""
    assert 'class="bars' in found.html


def test_the_prediction_comes_first_even_without_effects() -> None:
    model = l2x.as_black_box(MODELS["columns"])
    served = Served.load("it", GOLDEN / "columns-model.l2x", model)
    found = row_result(served, rows_of("columns", 1)[0][0], 2)
    assert found.prediction == f"Prediction: {found.predictions[0][0]}, {found.predictions[0][1]}"


TEXTS = ["a good film", 'it\'s `touch /tmp/x` $(id) "quoted" \\ good\nbad 🙂 שלום']


@pytest.mark.parametrize("token", [None, "correct-horse-battery"])
def test_copied_requests_work_as_they_are(token: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("L2X_TOKEN", str(token))
    with live(service("words", models=False, token=token)) as address:
        for text in TEXTS:
            request = Snippet(address, name_of("words"), text, 2, token=token is not None)
            responses: list[Any] = []
            run = subprocess.run(
                [sys.executable, "-c", request.python()], capture_output=True, text=True, check=True
            )
            responses.append(eval(run.stdout, {}))
            if shutil.which("curl"):
                shell = ["bash", "-c", request.curl()]
                responses.append(json.loads(subprocess.run(shell, capture_output=True, text=True).stdout))
            for response in responses:
                assert response["k"] == 2
                names = [feature["name"] for feature in response["rows"][0]["features"]]
                assert "good" in names


def test_names_are_quoted_in_the_address() -> None:
    assert Snippet("http://x", "a b/ü'", "t", 1).url == "http://x/v1/explainers/a%20b%2F%C3%BC%27/explain"
