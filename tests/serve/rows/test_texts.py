"""Texts: strings, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from service import file_of

import l2x
from l2x.apps.serve._refusals import ServiceError
from l2x.apps.serve.rows._reader import reader_of


def test_spans_count_characters_whatever_they_are() -> None:
    reader = reader_of(l2x.load(file_of("words")).features_)
    text = "🙂 שלום a GOOD film"
    inputs = reader.inputs([text])
    found = [reader.shown(inputs, [text], 0, index) for index in range(5)]
    assert [text[slice(*feature["span"])] for feature in found] == [feature["name"] for feature in found]
    assert found[2]["name"] == "GOOD"


@pytest.mark.parametrize("row", [None, 1, ["a"], {"text": "a"}])
def test_what_is_no_text(row: Any) -> None:
    with pytest.raises(ServiceError) as error:
        reader_of(l2x.load(file_of("words")).features_).parse(["fine", row])
    assert error.value.details == [
        {"row": 1, "column": None, "given": error.value.details[0]["given"], "expected": "a text"}
    ]


def test_the_example_has_known_words() -> None:
    reader = reader_of(l2x.load(file_of("words")).features_)
    assert len(reader.example().split()) == 8


def test_texts_that_would_hold_up_everybody_else_are_refused() -> None:
    reader = reader_of(l2x.load(file_of("words")).features_)
    many = ["a good film " * 10_000] * 16
    assert len(reader.parse(many)) == 16
    with pytest.raises(ServiceError, match="2,040,000 characters") as refused:
        reader.parse([*many, many[0]])
    assert refused.value.status == 413
