"""What can be copied from the page runs as it is, whatever the row holds."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import Any

import pytest
from service import live, name_of, service

from l2x.apps.serve import _snippets as snippets

TEXTS = ["a good film", 'it\'s `touch /tmp/x` $(id) "quoted" \\ good\nbad 🙂 שלום']


@pytest.mark.parametrize("token", [None, "correct-horse-battery"])
def test_curl_and_python_do_what_the_page_does(token: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("L2X_TOKEN", str(token))
    with live(service("words", models=False, token=token)) as address:
        for text in TEXTS:
            request = snippets.Request(address, name_of("words"), text, 2, token=token is not None)
            answers: list[Any] = []
            run = subprocess.run(
                [sys.executable, "-c", snippets.python(request)], capture_output=True, text=True, check=True
            )
            answers.append(eval(run.stdout, {}))
            if shutil.which("curl"):
                shell = ["bash", "-c", snippets.curl(request)]
                answers.append(json.loads(subprocess.run(shell, capture_output=True, text=True).stdout))
            for answer in answers:
                assert answer["k"] == 2
                names = [feature["name"] for feature in answer["rows"][0]["features"]]
                assert "good" in names


def test_names_are_quoted_in_the_address() -> None:
    assert (
        snippets.Request("http://x", "a b/ü'", "t", 1).url
        == "http://x/v1/explainers/a%20b%2F%C3%BC%27/explain"
    )
