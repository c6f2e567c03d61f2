"""What sections 4.2 and 4.3 have in common: the jobs, the table and its captions."""

from __future__ import annotations

from pathlib import Path

import pytest

import l2x
from l2x_experiments import comparison, imdb, mnist
from l2x_experiments.comparison import COMPARED, SEEDED, Page, with_examples
from l2x_experiments.records import NOTHING, Records


def test_what_is_run() -> None:
    jobs = mnist.experiment(seeds=3).jobs
    assert len(jobs) == 2 * (3 * len(SEEDED) + len(COMPARED) - len(SEEDED))
    assert len({job.group for job in jobs}) == len(jobs)  # each may run in another process
    assert {job["seed"] for job in jobs if job["method"] not in SEEDED} == {0}
    assert {job["method"] for job in mnist.experiment(seeds=2, only=["lime"]).jobs} == {"lime"}
    assert "deeplift" not in {job["method"] for job in imdb.experiment("words").jobs}
    with pytest.raises(l2x.L2XError, match="no method 'lim'; choose among l2x"):
        mnist.experiment(only=["lim"])


def test_ours_are_compared() -> None:
    assert set(comparison.OURS) <= set(COMPARED)


RESULTS = Path(__file__).parents[2] / "results" / "imdb-words.json"


@pytest.fixture
def records() -> Records:
    return Records.load(RESULTS).select()


def table(records: Records) -> dict[str, list[str]]:
    methods = Page(records, inputs="reviews", features="words")
    return {row[0]: list(row[1:]) for row in methods.table({"paper-letter": 0.908}).rows}


def test_the_table_holds_the_papers_own_numbers(records: Records) -> None:
    rows = table(records)
    assert rows["L2X as published"][1] == "0.908"
    assert rows["Taylor"][1] == NOTHING


def test_the_caption_names_methods_measured_on_fewer_inputs(records: Records) -> None:
    caption = Page(records, inputs="reviews", features="words").caption()
    assert "Measured on 25,000 test reviews; " in caption
    assert "LIME: 200" in caption


def test_examples_of_methods_that_have_some(records: Records) -> None:
    found = with_examples(records, ["paper-letter", "deeplift", "taylor"])
    assert [record["method"] for record in found] == ["paper-letter", "taylor"]
