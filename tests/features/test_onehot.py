"""One-hot columns: every output of a transformer belongs to exactly one input column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import l2x
from l2x.features._cells import transformed_groups

FRAME = pd.DataFrame(
    {
        "colour": ["red", "green", "blue", "red", "red", "green"],
        "member": ["yes", "no", "yes", "no", "no", "no"],
        "age": [20.0, 30, 40, 50, 60, 70],
        "income": [1.0, 3, 2, 5, 4, 6],
    }
)
TEXTS, NUMBERS = ["colour", "member"], ["age", "income"]


def assert_groups_are_right(transformer: Any, X: pd.DataFrame, groups: dict[str, list[int]]) -> None:
    """Changing one input column changes no output but those of its group."""
    before = np.asarray(transformer.transform(X))
    covered = sorted(i for indices in groups.values() for i in indices)
    assert covered == list(range(before.shape[1]))
    for name in X.columns:
        shifted = X.assign(**{name: np.roll(X[name].to_numpy(), 1)})
        changed = np.flatnonzero((np.asarray(transformer.transform(shifted)) != before).any(axis=0))
        assert set(changed) <= set(groups.get(name, []))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"drop": "first"},
        {"drop": "if_binary"},
        {"min_frequency": 2},
        {"min_frequency": 2, "drop": "first"},
    ],
    ids=str,
)
def test_an_encoder(options: dict[str, Any]) -> None:
    encoder = OneHotEncoder(sparse_output=False, **options).fit(FRAME[TEXTS])
    assert_groups_are_right(encoder, FRAME[TEXTS], transformed_groups(encoder))


def test_an_encoder_of_an_array_names_columns_by_number() -> None:
    encoder = OneHotEncoder().fit(FRAME[TEXTS].to_numpy())
    assert transformed_groups(encoder) == {"x0": [0, 1, 2], "x1": [3, 4]}


COLUMNS = {
    "by name": (TEXTS, NUMBERS),
    "by position": ([0, 1], [2, 3]),
    "by slice": (slice(0, 2), slice(2, 4)),
    "by mask": ([True, True, False, False], [False, False, True, True]),
}


@pytest.mark.parametrize("columns", COLUMNS.values(), ids=COLUMNS)
def test_a_column_transformer(columns: tuple[Any, Any]) -> None:
    parts = (OneHotEncoder(sparse_output=False), columns[0]), (StandardScaler(), columns[1])
    transformer = make_column_transformer(*parts).fit(FRAME)
    groups = transformed_groups(transformer)
    assert groups == {"colour": [0, 1, 2], "member": [3, 4], "age": [5], "income": [6]}
    assert_groups_are_right(transformer, FRAME, groups)


def test_what_is_left_over_or_cannot_be_followed() -> None:
    """Passed through: a column each. Mixed by a part: one group of the part's name."""
    passing = make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough")
    assert transformed_groups(passing.fit(FRAME)) == {
        "colour": [0, 1, 2], "member": [3], "age": [4], "income": [5],
    }  # fmt: skip
    mixing = make_column_transformer((OneHotEncoder(), ["colour"]), (PCA(1), NUMBERS)).fit(FRAME)
    assert transformed_groups(mixing) == {"colour": [0, 1, 2], "pca": [3]}


def test_inside_a_pipeline() -> None:
    encode = make_column_transformer((OneHotEncoder(), TEXTS), (StandardScaler(), NUMBERS))
    pipeline = make_pipeline(encode, LogisticRegression()).fit(FRAME, [0, 1] * 3)
    assert transformed_groups(pipeline) == transformed_groups(pipeline[0])


@pytest.mark.parametrize("other", [StandardScaler(), OneHotEncoder(), LogisticRegression()], ids=repr)
def test_others_are_refused(other: Any) -> None:
    fitted = other.fit(FRAME[NUMBERS]) if isinstance(other, StandardScaler) else other
    with pytest.raises(l2x.InputError, match=r"has no fitted one-hot encoder .* name the groups"):
        transformed_groups(fitted)
