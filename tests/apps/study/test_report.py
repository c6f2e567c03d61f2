"""The page and the CSV: complete, escaped, and clear about who answered."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path

from studies import answer_all, joined, small_study

from l2x.apps.study._planning import simulate
from l2x.apps.study._report import SIMULATED, answers_csv, render, write_answers, write_report
from l2x.apps.study._session import give_answer, next_task


def test_every_part_is_there_and_names_are_escaped(tmp_path: Path) -> None:
    with small_study(
        tmp_path / "a.study", raters=3, methods=("<b>ours", "random"), title="<i>Films"
    ) as study:
        for choice in (1, 1, 0):
            answer_all(study, joined(study), choice)
        page = write_report(study, tmp_path / "report.html").read_text()
    parts = ["human accuracy", "careful raters only", "neutral", "alpha", "median s", "post-hoc", "evaluator"]
    for part in [*parts, "Differences", "Confusion", "Learning during", "Attention checks"]:
        assert part in page
    assert "&lt;b&gt;ours" in page
    assert "<b>ours" not in page
    assert "<i>Films" not in page
    assert SIMULATED not in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_simulated_raters_are_reported_apart_and_by_name(tmp_path: Path) -> None:
    with small_study(tmp_path / "a.study") as study:
        assert "There are no answers yet." in render(study)
        simulate(study, raters=2)
        page = render(study)
        assert SIMULATED in page
        assert "People: what they see" not in page
        answer_all(study, joined(study))
        page = render(study)
        assert page.index("People: what they see") < page.index("Simulated raters: what they see")


def test_the_csv_has_every_answer_marked_and_nobodys_name(tmp_path: Path) -> None:
    with small_study(tmp_path / "a.study") as study:
        rater = joined(study, "Anna")
        answer_all(study, rater, None)
        simulate(study, raters=2)
        content = write_answers(study, tmp_path / "answers.csv").read_text()
        assert content == answers_csv(study).replace("\r\n", "\n")
    assert "Anna" not in content
    assert rater.token not in content
    lines = list(csv.DictReader(StringIO(content)))
    assert len(lines) == 3 * 7
    people = [line for line in lines if line["simulated"] == "0"]
    assert len(people) == 7
    items = [line for line in people if line["kind"] == "item"]
    assert {line["answer"] for line in items} == {"cannot tell"}
    assert {line["method"] for line in items} == {"ours", "theirs", "whole"}
    assert {line["agrees"] for line in items} == {"0"}
    assert all(float(line["seconds"]) >= 0 for line in items)
    assert {line["seconds"] for line in lines if line["simulated"] == "1"} == {""}


def test_names_that_look_like_formulas_are_texts_in_the_csv(tmp_path: Path) -> None:
    names = ("=cmd()", " @SUM(1)", "-1", "+x")
    with small_study(tmp_path / "a.study", practice=0, classes=names, methods=("=ours", "theirs")) as study:
        rater = joined(study)
        for choice in range(4):
            task = next_task(study, rater)
            assert task is not None
            give_answer(study, rater, task.position, task.attempt, choice)
        lines = list(csv.DictReader(StringIO(answers_csv(study))))
    assert {line["answer"] for line in lines} == {"'=cmd()", "' @SUM(1)", "-1", "'+x"}
    cells = [cell for line in lines for cell in line.values()]
    assert not [cell for cell in cells if cell.lstrip().startswith(("=", "@", "+"))]
