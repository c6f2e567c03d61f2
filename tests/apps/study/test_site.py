"""The site: what each link may do, how errors are shown, and what pages do not reveal."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from studies import answer_all, joined, served, small_study, text

from l2x.apps.study._session import next_task
from l2x.apps.study._site import answer_keys, site
from l2x.apps.study._study import Cell, Item, Study

ATTACK = "<script>alert(1)</script>\"'&"


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return small_study(tmp_path / "a.study")


@pytest.fixture
def client(study: Study) -> TestClient:
    return TestClient(site(study), follow_redirects=False, raise_server_exceptions=False)


def hidden(page: str) -> dict[str, str]:
    """Return the hidden fields of the form for answers."""
    form = page[page.index("/answer") :]
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="(\d+)">', form)[:2])


def test_a_whole_session(client: TestClient, study: Study) -> None:
    link = client.post(f"/j/{study.join_token}", data={"nickname": "Anna"}).headers["location"]
    assert "You may stop at any time." in client.get(link).text
    assert client.post(f"{link}/consent").status_code == 303
    instructions = client.get(link).text
    assert "a wonderful film" in instructions
    assert "a boring film" in instructions
    client.post(f"{link}/start")
    seen = []
    while "Thank you" not in (page := client.get(link).text):
        named = re.search(r"please choose <strong>(\w+)</strong>", page)
        choice = "1" if named is None else str(study.settings.classes.index(named[1]))
        answer = hidden(page) | {"choice": choice if len(seen) != 3 else "neutral"}
        assert client.post(f"{link}/answer", data=answer).headers["location"] == link
        seen.append(page)
    assert len(seen) == 8
    assert "Practice 1 of 1" in seen[0]
    assert "you chose <strong>positive</strong>; the model predicted <strong>positive</strong>" in seen[1]
    assert "7 answers are stored" in page
    (anna,) = study.progress()
    assert (anna.rater.nickname, anna.answered) == ("Anna", 6)


def test_pages_reveal_neither_method_nor_prediction(client: TestClient, study: Study) -> None:
    """Apart from what is shown, pages of raters who see different methods and items are the same."""
    pages: dict[int, set[str]] = {}
    for rater in [joined(study) for _ in range(3)]:
        for _ in range(8):
            page = client.get(f"/r/{rater.token}").text
            for secret in (*study.settings.methods, "posthoc", "evaluator", study.organiser_token):
                assert secret not in page
            fields = hidden(page)
            around = re.sub(r'<div class="card".*?</div>', "", page.replace(rater.token, ""), flags=re.DOTALL)
            pages.setdefault(int(fields["position"]), set()).add(around)
            client.post(f"/r/{rater.token}/answer", data=fields | {"choice": "1"})
    assert len(pages) == 8
    assert all(len(different) == 1 for different in pages.values())


def test_texts_with_script_tags_are_text(tmp_path: Path) -> None:
    with small_study(tmp_path / "other.study") as other:
        settings = other.settings
    settings = replace(
        settings, title=ATTACK, question=ATTACK, classes=(ATTACK, "b"), neutral=ATTACK + "?", consent=ATTACK,
        methods=(ATTACK,), practice=0, checks=0,
    )  # fmt: skip
    contents = [text(ATTACK), {"kind": "table", "cells": [[ATTACK, ATTACK]]}]
    items = [Item(i, 0, [Cell(content)]) for i, content in enumerate(contents)]
    with Study.create(tmp_path / "a.study", settings, items) as study:
        client = TestClient(site(study))
        client.post(f"/j/{study.join_token}", data={"nickname": "<script>x"})
        rater = joined(study, "<script>y")
        pages = [client.get(path).text for path in ("/", f"/o/{study.organiser_token}", f"/r/{rater.token}")]
        answer_all(study, rater)
        pages += [client.get(f"/o/{study.organiser_token}/report").text]
    for page in pages:
        assert "<script>alert" not in page
        assert "<script>x" not in page
        assert "<script>y" not in page
        assert "&lt;script&gt;" in page


def test_every_answer_keeps_other_hosts_out(client: TestClient, study: Study) -> None:
    for path in ("/", f"/o/{study.organiser_token}", "/r/unknown", "/static/study.js", "/nowhere"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["referrer-policy"] == "no-referrer"
    assert "no-store" in client.get("/").headers["cache-control"]
    pages = [client.get(path).text for path in ("/", f"/o/{study.organiser_token}")]
    assert all(not re.search(r'(?:src|href|action)="(?:https?:)?//', page) for page in pages)


def test_unknown_links(client: TestClient, study: Study) -> None:
    rater = joined(study)
    wrong = [
        "/r/", "/r/unknown", f"/r/{study.organiser_token}", f"/r/{study.join_token}", f"/o/{rater.token}",
        f"/o/{study.join_token}", f"/o/{rater.token}/report", f"/o/{rater.token}/answers.csv",
        f"/o/{rater.token}/progress", f"/j/{rater.token}", "/j/x", "/static/../site.py", "/static/none.css",
        "/docs", "/openapi.json",
    ]  # fmt: skip
    for path in wrong:
        answer = client.get(path)
        assert answer.status_code == 404, path
        assert study.organiser_token not in answer.text
    for path in (f"/o/{rater.token}/close", f"/o/{rater.token}/invite", f"/j/{rater.token}"):
        assert client.post(path, data={"closed": "yes", "number": "3", "nickname": "x"}).status_code == 404
    assert not study.closed
    assert len(study.progress()) == 1


def test_a_rater_cannot_change_the_answers_of_another(client: TestClient, study: Study) -> None:
    one, other = joined(study), joined(study)
    page = client.get(f"/r/{one.token}").text
    client.post(f"/r/{one.token}/answer", data=hidden(page) | {"choice": "1"})
    # The other has not been shown a task yet: neither answering nor undoing at the same place does anything.
    for path in ("answer", "undo"):
        answer = client.post(f"/r/{other.token}/{path}", data=hidden(page) | {"choice": "0"})
        assert answer.status_code == 400
        assert "There is no task" in answer.text
    with study.store.reading() as db:
        found = db.execute("SELECT rater, choice, undone FROM answers").fetchall()
    assert [tuple(row) for row in found] == [(one.rater, 1, None)]


def test_simulated_raters_have_no_page(client: TestClient, study: Study) -> None:
    rater = study.invite("lexicon", simulated=True)
    assert client.get(f"/r/{rater.token}").status_code == 404


def test_invalid_input_gets_a_sentence(client: TestClient, study: Study) -> None:
    rater = joined(study)
    link = f"/r/{rater.token}"
    fields = hidden(client.get(link).text)
    for wrong, said in (
        ({}, "&#39;choice&#39; is &#39;&#39;"),
        ({"choice": "7"}, "There is no answer 7"),
        ({"choice": "-1"}, "expected a whole number"),
        ({"choice": "1", "position": "99"}, "There is no task 99"),
        ({"choice": "1", "position": "9" * 30}, "expected a whole number"),
        ({"choice": "1", "attempt": "²"}, "expected a whole number"),
    ):
        answer = client.post(f"{link}/answer", data=fields | wrong)
        assert answer.status_code == 400, wrong
        assert said in answer.text
    assert client.post(f"{link}/answer", content=b"\xff=1").status_code == 400
    assert client.post(f"{link}/answer", content=b"a" * 20_000).status_code == 413
    assert client.post(link).status_code == 405
    assert study.answers(simulated=False) == []
    new = study.invite()
    refused = client.post(f"/r/{new.token}/answer", data=fields | {"choice": "1"})
    assert refused.status_code == 409
    assert "Read the instructions first" in refused.text


def test_repeated_and_contradicting_answers(client: TestClient, study: Study) -> None:
    link = f"/r/{joined(study).token}"
    fields = hidden(client.get(link).text)
    codes = [client.post(f"{link}/answer", data=fields | {"choice": c}).status_code for c in "1110"]
    assert codes == [303, 303, 303, 409]


def test_a_closed_study_accepts_no_answers(client: TestClient, study: Study) -> None:
    rater, here = joined(study), f"/o/{study.organiser_token}"
    page = client.get(f"/r/{rater.token}").text
    assert client.post(f"{here}/close", data={"closed": "yes"}).status_code == 303
    refused = client.post(f"/r/{rater.token}/answer", data=hidden(page) | {"choice": "1"})
    assert (refused.status_code, "closed" in refused.text) == (409, True)
    assert "closed" in client.get(f"/r/{rater.token}").text
    assert client.post(f"/j/{study.join_token}", data={}).status_code == 409
    client.post(f"{here}/close", data={"closed": "no"})
    assert client.post(f"/r/{rater.token}/answer", data=hidden(page) | {"choice": "1"}).status_code == 303


def test_people_join_by_a_link_under_a_nickname(client: TestClient, study: Study) -> None:
    join = f"/j/{study.join_token}"
    assert "Nickname" in client.get(join).text
    assert client.post(join, data={"nickname": "x" * 50}).status_code == 400
    link = client.post(join, data={"nickname": "Bert"}).headers["location"]
    assert client.get(link).status_code == 200
    assert "Open the link that you were sent" in client.get("/").text


def test_the_organiser_sees_progress_links_report_and_answers(client: TestClient, study: Study) -> None:
    here = f"/o/{study.organiser_token}"
    assert client.post(f"{here}/invite", data={"number": "3"}).status_code == 303
    assert client.post(f"{here}/invite", data={"number": "1000"}).status_code == 400
    page = client.get(here).text
    assert page.count("/r/") == 3
    assert f"/j/{study.join_token}" in page
    answer_all(study, joined(study))
    assert "6 of 6" in client.get(here).text
    assert "human accuracy" in client.get(f"{here}/report").text
    answers = client.get(f"{here}/answers.csv")
    assert answers.headers["content-type"].startswith("text/csv")
    assert len(answers.text.splitlines()) == 1 + 7


def test_undo_over_http(client: TestClient, study: Study) -> None:
    rater = joined(study)
    link = f"/r/{rater.token}"
    fields = hidden(client.get(link).text)
    client.post(f"{link}/answer", data=fields | {"choice": "1"})
    assert "Undo the last answer" in client.get(link).text
    for _ in range(2):
        assert client.post(f"{link}/undo", data=fields).status_code == 303
    task = next_task(study, rater)
    assert task is not None
    assert (task.position, task.attempt) == (0, 1)


def test_fifty_raters_request_tasks_over_http_at_once(tmp_path: Path) -> None:
    with small_study(tmp_path / "b.study", items=7, practice=0, checks=0) as study, served(study) as address:
        links = [f"/r/{joined(study).token}" for _ in range(50)]

        def ask(link: str) -> str:
            connection = HTTPConnection(address.removeprefix("http://"), timeout=60)
            connection.request("GET", link)
            page = connection.getresponse().read().decode()
            connection.close()
            return page

        with ThreadPoolExecutor(50) as pool:
            pages = list(pool.map(ask, links))
        assert (
            sum("What did the model predict?" in page for page in pages) == 7 * 3 * 2
        )  # the quotas, exactly
        assert sum("Thank you" in page for page in pages) == 50 - 7 * 3 * 2


@pytest.mark.parametrize(
    ("classes", "keys"),
    [
        ([*"0123456789"], [*"0123456789x"]),
        (["x", "y"], ["x", "y", "z"]),
        (["x", "y", "z"], ["x", "y", "z", "1"]),
        (["a", "A"], ["1", "2", "3"]),  # one key
        (["u", "v"], ["1", "2", "3"]),  # u is undo
        ([*"123456789abcdefghijklmnopqrstvwxyz"], [*"123456789abcdefghijklmnopqrstvwxyz0"]),
        ([*"0123456789abcdefghijklmnopqrstvwxyz"], [*"1234567890abcdefghijklmnopqrstvwxy", "", "z"]),
    ],
)
def test_keys(classes: list[str], keys: list[str]) -> None:
    assert answer_keys(classes) == keys


@pytest.mark.parametrize("number", [2, 12, 29, 34, 35, 100])
def test_keys_of_any_number_of_classes(number: int) -> None:
    keys = answer_keys([f"class {i}" for i in range(number)])
    given = [key for key in keys if key]
    assert len(keys) == number + 1
    assert len(given) == len(set(given)) == min(number + 1, 35)
    assert keys[-1]  # "cannot tell" always has one
    assert "u" not in given


def test_a_task_with_more_classes_than_keys(tmp_path: Path) -> None:
    classes = tuple(f"class {i}" for i in range(40))
    with small_study(tmp_path / "many.study", classes=classes, practice=0, checks=0) as study:
        page = TestClient(site(study)).get(f"/r/{joined(study).token}")
    assert page.status_code == 200
    assert page.text.count('name="choice"') == 41
    assert page.text.count("<kbd>") == 35
    assert 'data-key=""' not in page.text
