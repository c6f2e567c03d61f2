"""Pages in a real browser: a whole session by keyboard, coming back, undo, the organiser, the report.

L2X_SCREENSHOTS=folder keeps pictures of the pages.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import chromium, page_of, until
from studies import served, small_study, text

import l2x
from l2x.apps.study._study import Cell, Item, Study
from l2x.display import selected_content
from l2x.explanation import Explanation

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return small_study(tmp_path / "a.study")


@pytest.fixture
def address(study: Study) -> Iterator[str]:
    with served(study) as found:
        yield found


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """A page that must not report errors."""
    with page_of(browser, address, viewport={"width": 1000, "height": 800}) as found:
        yield found


@pytest.fixture
def troubled(browser: Any) -> Iterator[Any]:
    """A page on which a test causes errors."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


def picture(page: Any, name: str) -> None:
    if folder := os.environ.get("L2X_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def begin(page: Any, address: str, study: Study) -> str:
    """Join, agree, read, by keyboard; returns the personal link."""
    page.goto(f"{address}/j/{study.join_token}")
    picture(page, "join")
    page.keyboard.press("Tab")  # the link that skips
    page.get_by_label("Nickname").focus()
    page.keyboard.type("Anna")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="I agree").wait_for()
    page.wait_for_load_state("load")  # with its script
    picture(page, "consent")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="How it works").wait_for()
    settled(page)
    picture(page, "instructions")
    page.keyboard.press("Enter")
    page.get_by_text("Practice 1 of 1").wait_for()
    settled(page)
    assert page.url.startswith(f"{address}/r/")  # to be kept, for coming back
    return str(page.url)


def task(page: Any) -> list[str] | None:
    """Position and attempt of the task that is shown, read at once; None where there is none."""
    found: list[str] | None = page.evaluate(
        "(() => { const form = document.querySelector('.choices');"
        " return form && [form.elements.position.value, form.elements.attempt.value]; })()"
    )
    return found


def position(page: Any) -> str:
    found = task(page)
    assert found is not None
    return found[0]


def answer(page: Any, key: str) -> None:
    """Press a key and wait for the next task, and for its question to be read out."""
    before = task(page)
    page.keyboard.press(key)
    until(page, lambda: task(page) != before)
    settled(page)


def settled(page: Any) -> None:
    """Keys count from when the heading has the focus."""
    until(page, lambda: bool(page.evaluate("document.activeElement.matches('[data-focus]')")))


def right_key(page: Any) -> str:
    """Return the key that an attentive rater would press."""
    shown = page.locator("#shown").inner_text()
    if "please choose" in shown:
        return "2" if "positive" in shown else "1"
    if any(word in shown for word in ("great", "lovely", "superb", "practice")):
        return "2"
    return "1" if any(word in shown for word in ("awful", "dull", "poor")) else "3"


def test_a_whole_session_by_keyboard_with_undo_and_coming_back(
    page: Any, browser: Any, address: str, study: Study
) -> None:
    link = begin(page, address, study)
    answer(page, "2")
    feedback = page.get_by_text("you chose positive; the model predicted positive")
    feedback.wait_for()
    assert page.evaluate("document.activeElement.id || document.activeElement.className") == "question"
    picture(page, "task")
    for _ in range(2):
        answer(page, right_key(page))
    assert not feedback.is_visible()

    # Undo: the previous task comes back, and another answer replaces the first.
    last = position(page)
    answer(page, "u")
    assert task(page) == [str(int(last) - 1), "1"]
    picture(page, "undone")
    assert not page.get_by_role("button", name="Undo").is_visible()
    answer(page, right_key(page))
    assert position(page) == last

    # Leaving and coming back by the same link, in another browser.
    elsewhere = browser.new_context(viewport={"width": 390, "height": 760}, is_mobile=True, has_touch=True)
    phone = elsewhere.new_page()
    phone.goto(link)
    assert position(phone) == last
    assert phone.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert all(
        box["height"] >= 44 for box in (b.bounding_box() for b in phone.locator(".choices button").all())
    )
    picture(phone, "phone")
    phone.locator(".choices button").nth(int(right_key(phone)) - 1).tap()
    phone.locator(f".choices input[name=position][value='{int(last) + 1}']").wait_for(state="attached")
    elsewhere.close()

    page.goto(link)  # waits for its script
    while task(page) is not None:
        answer(page, right_key(page))
    page.get_by_role("heading", name="Thank you").wait_for()
    picture(page, "done")
    (anna,) = study.progress()
    assert (anna.rater.nickname, anna.answered, anna.checks, anna.passed) == ("Anna", 6, 1, 1)
    found = study.answers(simulated=False)
    assert len(found) == 7
    clear = [a for a in found if a.method in (0, 2)]  # under "theirs" the words say nothing
    assert all(a.choice == a.expected for a in clear)
    assert all(a.choice is None for a in found if a.method == 1)


def test_pages_are_plain_forms_where_there_is_no_script(browser: Any, address: str, study: Study) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/j/{study.join_token}")
    page.get_by_label("Nickname").fill("Bert")
    for name in ("Begin", "I agree", "Begin", "positive", "cannot tell"):
        page.get_by_role("button", name=name).click()
    assert page.locator(".choices input[name=position]").input_value() == "2"
    context.close()
    (bert,) = study.progress()
    assert bert.rater.nickname == "Bert"


def test_without_connection_a_message_appears_and_the_answer_can_be_repeated(
    troubled: Any, address: str, study: Study
) -> None:
    begin(troubled, address, study)
    answer(troubled, "2")
    here = position(troubled)
    troubled.context.set_offline(True)
    troubled.keyboard.press("2")
    troubled.get_by_text("Not stored: there is no connection").wait_for()
    assert position(troubled) == here
    troubled.context.set_offline(False)
    answer(troubled, "2")
    assert position(troubled) != here


def test_a_refusal_is_shown(troubled: Any, address: str, study: Study) -> None:
    begin(troubled, address, study)
    study.set_closed(True)
    troubled.keyboard.press("2")
    troubled.get_by_text("This study is closed").wait_for()


def test_the_organiser_watches_progress_and_reads_the_report(
    page: Any, browser: Any, address: str, study: Study
) -> None:
    page.goto(f"{address}/o/{study.organiser_token}")
    page.get_by_role("row", name="ours 0 12").wait_for()
    other = browser.new_context().new_page()
    begin(other, address, study)
    for _ in range(4):
        answer(other, right_key(other))
    page.get_by_role("row", name="Anna").wait_for()  # without loading the page again
    until(page, lambda: "3 of 6" in page.get_by_role("row", name="1 Anna").inner_text())
    picture(page, "organiser")
    page.get_by_role("button", name="Create").click()
    assert page.locator(".link").count() == 1 + 6
    other.context.close()

    page.get_by_role("link", name="Report").click()
    page.get_by_role("heading", name="People: what they see").wait_for()
    assert page.locator("svg").count() >= 1
    assert page.evaluate("getComputedStyle(document.body).fontFamily") != ""
    picture(page, "report")


def test_images_and_tables(browser: Any, tmp_path: Path, study: Study) -> None:
    """Images and tables, in dark mode."""
    images = np.random.default_rng(0).random((1, 28, 28))
    view = l2x.Patches(size=4).fit(images)
    grey = selected_content(Explanation(np.arange(49.0)[None], 4, view.names_, inputs=images, view=view), 0)
    cells = {"kind": "table", "cells": [["age", "42"], ["<script>x</script>", "a & b"]]}
    contents = [grey, cells, text("<script>alert(1)</script>", "שלום", "😀 film")]
    settings = replace(study.settings, methods=("ours",), practice=0, checks=0, classes=tuple("0123456789"))
    items = [Item(i, 0, [Cell(content)]) for i, content in enumerate(contents)]
    with (
        Study.create(tmp_path / "b.study", settings, items) as other,
        served(other) as address,
        page_of(browser, address, color_scheme="dark") as page,
    ):
        page.goto(f"{address}/j/{other.join_token}")
        page.get_by_label("Nickname").fill("Cleo")
        page.get_by_role("button", name="Begin").click()
        page.get_by_role("button", name="I agree").click()
        page.get_by_role("heading", name="How it works").wait_for()
        settled(page)
        page.get_by_role("button", name="Begin").click()
        seen = set()
        for number in range(3):
            page.locator(f".choices input[name=position][value='{number}']").wait_for(state="attached")
            settled(page)
            shown = page.locator("#shown .shown")
            kind = shown.get_attribute("class").split()[-1]
            seen.add(kind)
            picture(page, f"dark-{kind}")
            if kind == "words":
                assert "<script>alert(1)</script>" in shown.inner_text()
            elif kind == "cells":
                assert "<script>x</script>" in shown.inner_text()
            page.keyboard.press(str(number))
        page.get_by_role("heading", name="Thank you").wait_for()
        assert seen == {"image", "cells", "words"}
        assert {a.choice for a in other.answers(simulated=False)} == {0, 1, 2}
