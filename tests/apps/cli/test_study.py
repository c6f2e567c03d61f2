"""`l2x study`: from an explainer to a study, simulated raters and the report; its error messages."""

from __future__ import annotations

import csv
import http.client
import os
import re
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from command_line import Folder

from l2x.apps.study._study import Study

NEW = (
    "--explainer",
    "tree.l2x",
    "--model",
    "cli_models:tree",
    "--data",
    "test.csv",
    "--items",
    20,
    "--raters",
    2,
)


def made(folder: Folder, *more: object) -> str:
    return folder.run("study", "new", "a.study", *NEW, *more).stdout


def test_new_simulate_report(folder: Folder) -> None:
    said = made(
        folder, "--against", "random", "--against", "tree_shap", "--against", "whole", "--quick", "-q"
    )
    assert said == ""
    with Study("a.study") as study:
        assert study.settings.methods == ("l2x", "random", "tree_shap", "whole")
        assert (study.settings.classes, study.settings.kind) == (("0", "1"), "table")
        assert {cell.evaluator for item in study.items() for cell in item.cells} <= {0, 1}
    said = folder.run("study", "simulate", "a.study", "--raters", 0, "--careless", 4).stdout
    assert "80 answers by 4 simulated raters" in said
    said = folder.run("study", "report", "a.study", "-o", "report.html", "--csv", "answers.csv").stdout
    assert said == "report     report.html\nanswers    answers.csv\n"
    page = Path("report.html").read_text()
    assert "No human was asked" in page
    lines = list(csv.DictReader(StringIO(Path("answers.csv").read_text())))
    assert {line["simulated"] for line in lines} == {"1"}
    assert sum(line["kind"] == "item" for line in lines) == 80
    assert folder.files() >= {"a.study", "report.html", "answers.csv"}


def test_texts_classes_question_and_consent(folder: Folder) -> None:
    words = ["good", "bad"]
    lines = [f"a {words[i % 2]} film number {i} with people" for i in range(80)]
    Path("reviews.txt").write_text("\n".join(lines))
    Path("consent.txt").write_text("I take part.\n\nFreely.\n")
    folder.run("fit", "cli_models:mood", "reviews.txt", "--features", "words", "--k", 2, "-o", "words.l2x",
               "--quick", "-q")  # fmt: skip
    said = folder.run(
        "study", "new", "a.study", "--explainer", "words.l2x", "--model", "cli_models:mood",
        "--data", "reviews.txt", "--items", 30, "--against", "whole", "--classes", "negative, positive",
        "--question", "Good or bad?", "--consent", "consent.txt", "--no-evaluator", "--title", "Films",
    ).stdout  # fmt: skip
    assert "30 items, 2 methods, 300 answers" in said
    assert "10 people with 30 items each" in said
    with Study("a.study") as study:
        settings = study.settings
    assert settings.classes == ("negative", "positive")
    assert (settings.question, settings.consent, settings.title) == (
        "Good or bad?",
        "I take part.\n\nFreely.",
        "Films",
    )
    assert "answers by 3 simulated raters" in folder.run("study", "simulate", "a.study", "--raters", 2).stdout


def test_power(folder: Folder) -> None:
    said = folder.run("study", "power", "--difference", 10).stdout
    assert "difference of 10 points" in said
    assert re.search(r"^5 .*%", said, re.MULTILINE)


def test_one_sentence_when_something_is_wrong(folder: Folder) -> None:
    made(folder, "--no-evaluator", "-q")
    for arguments, said in (
        (("new", "a.study", *NEW), "never overwritten"),
        (("new", "b.study", *NEW, "--against", "tayler"), "no method 'tayler'"),
        (("new", "b.study", *NEW, "--consent", "none.txt"), "Cannot read 'none.txt'"),
        (("new", "b.study", *NEW[:-3], 500), "The data have 200 rows; 500 items"),
        (("report", "none.study", "-o", "r.html"), "There is no study 'none.study'"),
        (("report", "test.csv", "-o", "r.html"), "'test.csv' is not a study"),
        (("report", "a.study", "-o", "a.study"), "is STUDY:"),
        (("simulate", "a.study"), "tables with 2 classes"),
        (("power", "--difference", 90), "difference (0.9)"),
    ):
        assert said in folder.fails("study", *arguments), arguments


@pytest.mark.slow
def test_serve_until_terminated(folder: Folder) -> None:
    made(folder, "--no-evaluator", "-q")
    command = [sys.executable, "-m", "l2x.apps.cli", "study", "serve", "a.study", "--port", "0"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        raters, organiser = (process.stdout.readline().split() for _ in range(2))
        assert (raters[0], organiser[0]) == ("raters", "organiser")
        host, path = re.fullmatch(r"http://([^/]+)(/.*)", organiser[1]).groups()
        connection = http.client.HTTPConnection(host, timeout=30)
        connection.request("GET", path)
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert "a.study-wal" not in folder.files()  # one file is the whole study


def test_backup(folder: Folder) -> None:
    made(folder, "-q")
    folder.run("study", "simulate", "a.study", "--raters", 0, "--careless", 1, "-q")
    assert folder.run("study", "backup", "a.study", "b.study").stdout == (
        "backup     b.study: 0 answers of people\n"
    )
    with Study("b.study") as copy:
        assert sum(given for _, given, _ in copy.quotas(simulated=True)) > 0
    assert "b.study" in folder.fails("study", "backup", "a.study", "b.study")
    Path("b.study").write_bytes(Path("a.study").read_bytes()[:5000])
    assert "b.study' is truncated" in folder.fails("study", "report", "b.study", "-o", "r.html")
