"""Groups of columns, given by hand or traced through a transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from toy_models import one_column

import l2x
from l2x.features import ColumnGroups
from l2x.features._columns import transformed_groups

FRAME = pd.DataFrame(
    {
        "colour": ["red", "green", "blue", "red"] * 50,
        "size": ["s", "m"] * 100,
        "age": np.arange(200.0),
        "weight": np.arange(200.0)[::-1],
    }
)


def test_groups_are_units(table: np.ndarray, tiny: l2x.TrainingPlan) -> None:
    features = ColumnGroups({"pair": [1, 3]}, masking="zero")
    explainer = l2x.Explainer(one_column, k=1, features=features, training=tiny).fit(table)
    explanation = explainer.explain(table)
    assert explanation.feature_names == ["x0", "pair", "x2", "x4"]
    assert explanation.mask[:, 1].mean() > 0.95
    assert explainer.score(table) > 0.95
    view = explainer.features_
    masked = view.for_model(table, np.array([[False, True, False, False]] * 600))
    assert np.array_equal(masked[:, [1, 3]], table[:, [1, 3]])
    assert (masked[:, [0, 2, 4]] == 0).all()
    assert (view.mask(view.encode(table), torch.zeros(600, 4)) == 0).all()
    spread = explainer.attribute(torch.from_numpy(table))
    assert torch.equal(spread[:, 1], spread[:, 3])


def test_groups_survive_a_file(table: np.ndarray, tmp_path: object) -> None:
    plan = l2x.TrainingPlan(l2x.Phase(3, 1e-2), l2x.Phase(3, 1e-2), evaluations=2, progress=False)
    features = ColumnGroups({"pair": [1, 3]}, masking="resample")
    explainer = l2x.Explainer(one_column, k=1, features=features, training=plan).fit(table)
    loaded = l2x.load(explainer.save(tmp_path / "groups.l2x"))
    assert loaded.features.masking == "resample"
    assert np.array_equal(loaded.explain(table).scores, explainer.explain(table).scores)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"body": ["age", "height"]}, "group 'body' names the column 'height'; .* colour, size"),
        ({"a": ["age"], "b": ["age"]}, "Column 'age' is in two groups, 'a' and 'b'"),
        ({"a": []}, "group 'a' has no columns"),
        ({"age": ["size"]}, "'age' is the name of a group and of a column outside"),
    ],
)
def test_bad_groups(groups: dict[str, list[str]], message: str) -> None:
    with pytest.raises(l2x.errors.InputError, match=message):
        ColumnGroups(groups).fit(FRAME)


def test_one_hot_columns_are_found() -> None:
    encoder = OneHotEncoder(drop="first")
    transformer = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="most_frequent"), encoder), ["colour", "size"]),
        (StandardScaler(), slice(2, 3)),
        remainder="passthrough",
    )
    pipe = make_pipeline(transformer, StandardScaler(with_mean=False), LogisticRegression())
    pipe.fit(FRAME, np.arange(200) % 2)
    assert ColumnGroups.from_transformer(pipe).groups == {
        "colour": [0, 1],
        "size": [2],
        "age": [3],
        "weight": [4],
    }
    X = pipe[:-1].transform(FRAME)
    assert ColumnGroups.from_transformer(pipe).fit(X).names_ == ["colour", "size", "age", "weight"]


def test_infrequent_categories_and_plain_encoders() -> None:
    rare = pd.DataFrame({"c": ["a"] * 50 + ["b"] * 40 + ["x", "y", "z"], "d": [0, 1, 2] * 31})
    encoder = OneHotEncoder(min_frequency=5, sparse_output=False).fit(rare)
    groups = ColumnGroups.from_transformer(encoder).groups
    assert groups == {"c": [0, 1, 2], "d": [3, 4, 5]}
    assert sum(map(len, groups.values())) == encoder.transform(rare).shape[1]
    assert ColumnGroups.from_transformer(OneHotEncoder().fit(rare.to_numpy())).groups["x0"] == [0, 1, 2, 3, 4]


def test_what_cannot_be_followed_is_one_group() -> None:
    transformer = ColumnTransformer([("hot", OneHotEncoder(), ["size"]), ("pca", PCA(1), ["age", "weight"])])
    transformer.fit(FRAME)
    assert ColumnGroups.from_transformer(transformer).groups == {"size": [0, 1], "pca": [2]}
    with pytest.raises(l2x.errors.InputError, match="StandardScaler has no fitted one-hot encoder"):
        ColumnGroups.from_transformer(StandardScaler().fit(FRAME[["age"]]))


@pytest.mark.parametrize(
    "members", [np.array([2, 3]), FRAME.columns[2:], range(2, 4), [np.int64(2), np.int64(3)]], ids=repr
)
def test_members_of_any_kind_survive_a_file(members: object, tmp_path: object) -> None:
    plan = l2x.TrainingPlan(l2x.Phase(2, 1e-2), l2x.Phase(2, 1e-2), evaluations=2, progress=False)

    def model(X: pd.DataFrame) -> np.ndarray:
        p = np.where(X["age"] > 100, 0.9, 0.1)
        return np.stack([1 - p, p], axis=1)

    explainer = l2x.Explainer(model, 1, features=ColumnGroups({7: members}), training=plan).fit(FRAME)
    assert explainer.features_.names_ == ["colour", "size", "7"]
    loaded = l2x.load(explainer.save(tmp_path / "e.l2x"))
    assert loaded.features_.names_ == explainer.features_.names_
    assert np.array_equal(loaded.explain(FRAME).scores, explainer.explain(FRAME).scores)


ONE_HOT = pd.DataFrame(
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
    encoder = OneHotEncoder(sparse_output=False, **options).fit(ONE_HOT[TEXTS])
    assert_groups_are_right(encoder, ONE_HOT[TEXTS], transformed_groups(encoder))


def test_an_encoder_of_an_array_names_columns_by_number() -> None:
    encoder = OneHotEncoder().fit(ONE_HOT[TEXTS].to_numpy())
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
    transformer = make_column_transformer(*parts).fit(ONE_HOT)
    groups = transformed_groups(transformer)
    assert groups == {"colour": [0, 1, 2], "member": [3, 4], "age": [5], "income": [6]}
    assert_groups_are_right(transformer, ONE_HOT, groups)


def test_what_is_left_over_or_cannot_be_followed() -> None:
    """Passed through: a column each. Mixed by a part: one group of the part's name."""
    passing = make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough")
    assert transformed_groups(passing.fit(ONE_HOT)) == {
        "colour": [0, 1, 2], "member": [3], "age": [4], "income": [5],
    }  # fmt: skip
    mixing = make_column_transformer((OneHotEncoder(), ["colour"]), (PCA(1), NUMBERS)).fit(ONE_HOT)
    assert transformed_groups(mixing) == {"colour": [0, 1, 2], "pca": [3]}


def test_inside_a_pipeline() -> None:
    encode = make_column_transformer((OneHotEncoder(), TEXTS), (StandardScaler(), NUMBERS))
    pipeline = make_pipeline(encode, LogisticRegression()).fit(ONE_HOT, [0, 1] * 3)
    assert transformed_groups(pipeline) == transformed_groups(pipeline[0])


@pytest.mark.parametrize("other", [StandardScaler(), OneHotEncoder(), LogisticRegression()], ids=repr)
def test_others_are_refused(other: Any) -> None:
    fitted = other.fit(ONE_HOT[NUMBERS]) if isinstance(other, StandardScaler) else other
    with pytest.raises(l2x.errors.InputError, match=r"has no fitted one-hot encoder"):
        transformed_groups(fitted)
