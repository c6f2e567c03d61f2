"""Which views are matrices of numbers: asked by methods that were made for those."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import l2x
from l2x.features._kinds import as_columns, check_table, has_distances, unseen
from l2x.features._view import View

TABLE = np.random.default_rng(0).normal(size=(20, 3))
FRAME = pd.DataFrame({"age": np.arange(20.0), "town": ["Ulm", "Bonn"] * 10})
GAPS = pd.DataFrame({"age": [np.nan, *range(19)], "income": np.arange(20.0)})
TEXTS = ["a good film", "a bad film"] * 10

COLUMNS = l2x.Columns().fit(TABLE)
GROUPS = l2x.ColumnGroups({"pair": [0, 1]}).fit(TABLE)
CATEGORIES = l2x.Columns().fit(FRAME)
WITH_GAPS = l2x.Columns().fit(GAPS)
WORDS = l2x.Words(length=4, vocabulary=9).fit(TEXTS)
PATCHES = l2x.Patches(2).fit(np.random.default_rng(0).random((5, 4, 4)))


def test_a_feature_is_one_column_only_without_groups() -> None:
    assert as_columns(COLUMNS) is COLUMNS
    assert as_columns(CATEGORIES) is CATEGORIES
    assert [as_columns(view) for view in (GROUPS, WORDS, PATCHES)] == [None] * 3


@pytest.mark.parametrize(("view", "name"), [(WORDS, "Words"), (PATCHES, "Patches")])
def test_a_method_for_tables_takes_groups_and_refuses_the_rest(view: View, name: str) -> None:
    check_table(COLUMNS, "TreeSHAP")
    check_table(GROUPS, "TreeSHAP")
    with pytest.raises(l2x.InputError, match=f"TreeSHAP explains columns, not {name}"):
        check_table(view, "TreeSHAP")


def test_distances_mean_something_between_numbers_only() -> None:
    assert [has_distances(view) for view in (COLUMNS, GROUPS, PATCHES)] == [True] * 3
    assert [has_distances(view) for view in (CATEGORIES, WITH_GAPS, WORDS)] == [False] * 3


def test_unseen_categories_are_counted_by_column() -> None:
    new = FRAME.assign(town=["Ulm"] * 17 + ["Jena"] * 3)
    assert unseen(CATEGORIES, CATEGORIES.encode(new)) == {"town": 3}
    assert unseen(CATEGORIES, CATEGORIES.encode(FRAME)) == {}
    assert unseen(WORDS, WORDS.encode(WORDS.check(TEXTS))) == {}
