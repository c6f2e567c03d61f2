"""What any view must have to be served."""

from __future__ import annotations

import pytest
from service import KINDS, file_of

import l2x
from l2x.apps.serve.rows._reader import kind_of, reader_of
from l2x.features._view import View


@pytest.mark.parametrize("kind", KINDS)
def test_every_view_describes_rows_that_it_takes(kind: str) -> None:
    reader = reader_of(l2x.load(file_of(kind)).features_)
    rows = reader.parse([reader.example()])
    assert reader.takes()["kind"] in ("table", "text", "image")
    assert len(reader.for_model(rows.cells)) == 1


def test_a_view_that_says_nothing_about_json_cannot_be_served() -> None:
    with pytest.raises(l2x.InputError, match="cannot be served"):
        reader_of.dispatch(View)(l2x.Columns())


def test_what_was_given_is_shown_in_part() -> None:
    assert kind_of("x" * 500) == f"the text '{'x' * 24}…'"
    assert kind_of(10**400) == "a number too large"
    assert kind_of(True) == "true"
    assert kind_of([1, 2]) == "a list of 2"
