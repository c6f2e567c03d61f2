"""Every view has a kind, and a word for one of its features."""

from __future__ import annotations

import pytest

import l2x
from l2x.features._kinds import kind_of, unit_of
from l2x.features._view import View


@pytest.mark.parametrize(
    ("view", "kind", "unit"),
    [
        (l2x.Columns(), "table", "column"),
        (l2x.ColumnGroups({"a": ["b"]}), "table", "column"),
        (l2x.Words(), "text", "word"),
        (l2x.Sentences(), "text", "sentence"),
        (l2x.Patches(4), "image", "patch"),
    ],
)
def test_kinds_and_units(view: View, kind: str, unit: str) -> None:
    assert (kind_of(view), unit_of(view)) == (kind, unit)
