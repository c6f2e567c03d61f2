"""TreeSHAP: exact on trees, on raw frames with categories, for the predicted class."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from toy_models import people

import l2x
from l2x.baselines import KernelShap, Lime, TreeShap
from l2x.features import Columns

pytest.importorskip("shap")
X = np.random.default_rng(0).normal(size=(300, 4))


def test_finds_the_column_that_a_forest_looks_at() -> None:
    forest = RandomForestClassifier(10, max_depth=3, random_state=0).fit(X, X[:, 2] > 0)
    explanation = TreeShap(forest).explain(X[:50], k=1)
    assert (explanation.indices == 2).mean() > 0.9
    signed = TreeShap(forest, magnitude=False).explain(X[:50], k=1)
    assert (signed.scores[:, 2] > 0).mean() > 0.9  # it speaks for the predicted class, whichever that is
    regression = RandomForestRegressor(10, max_depth=3, random_state=0).fit(X, X[:, 1])
    assert (TreeShap(regression).explain(X[:50], k=1).indices == 1).mean() > 0.9


def test_on_a_raw_frame_beside_the_others() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    data = people(800)
    model = lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1).fit(data.X, data.y)
    view = Columns().fit(data.X)
    rows = data.X[:3]
    tree = TreeShap(model, features=view).explain(rows, k=2)
    kernel = KernelShap(model, features=view, background_rows=20, progress=False).explain(rows, k=2)
    for explanation in (tree, kernel):
        assert explanation.feature_names == list(data.X.columns)
        assert "gender" not in {name for names in explanation.names for name in names}
    with pytest.raises(l2x.InputError, match="LIME takes no missing values"):
        Lime(model, features=view, progress=False).explain(rows, k=2)
    whole = data.X.drop(columns="workclass")
    model = lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1).fit(whole, data.y)
    lime = Lime(model, background=whole, samples=300, progress=False).explain(whole[:3], k=2)
    assert "gender" not in {name for names in lime.names for name in names}


def test_only_columns() -> None:
    with pytest.raises(l2x.InputError, match="explains columns, not Patches"):
        TreeShap(None, features=l2x.Patches(2)).explain(np.zeros((2, 4, 4)), k=1)


def test_values_of_a_group_are_summed() -> None:
    forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, X[:, 2] > X[:, 0])
    columns = TreeShap(forest, magnitude=False).explain(X[:5], k=1).scores
    groups = TreeShap(forest, features=l2x.ColumnGroups({"pair": [0, 3]}), magnitude=False)
    assert np.allclose(groups.explain(X[:5], k=1).scores[:, 0], columns[:, 0] + columns[:, 3])
