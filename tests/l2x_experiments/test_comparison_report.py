"""The table and the words that the reports of mnist and imdb share."""

from __future__ import annotations

from pathlib import Path

import pytest

from l2x_experiments.comparison_report import Methods, with_examples
from l2x_experiments.records import NOTHING, Records

RESULTS = Path(__file__).parents[2] / "results" / "imdb-words.json"


@pytest.fixture
def records() -> Records:
    return Records.load(RESULTS).select()


def table(records: Records) -> dict[str, list[str]]:
    methods = Methods(records, inputs="reviews", features="words")
    return {row[0]: list(row[1:]) for row in methods.table({"paper-letter": 0.908}).rows}


def test_the_papers_own_numbers_stand_beside_ours(records: Records) -> None:
    rows = table(records)
    assert rows["L2X, to the letter"][1] == "0.908"
    assert rows["Taylor"][1] == NOTHING


def test_the_caption_says_what_is_measured_on_fewer_inputs(records: Records) -> None:
    caption = Methods(records, inputs="reviews", features="words").caption()
    assert "Measured on 25,000 test reviews; " in caption
    assert "LIME: 200" in caption


def test_examples_of_methods_that_have_some(records: Records) -> None:
    found = with_examples(records, ["paper-letter", "deeplift", "taylor"])
    assert [record["method"] for record in found] == ["paper-letter", "taylor"]
