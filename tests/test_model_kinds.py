"""Every kind of model on a table as people have it: categories, missing cells, classes, regression."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import l2x

N = 1500
NUMBERS = ["income", "age", "noise"]


def make_frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "colour": pd.Categorical(rng.choice(["red", "green", "blue"], N)),
            "member": rng.random(N) < 0.5,
            "income": rng.lognormal(size=N),
            "age": rng.integers(18, 80, N),
            "noise": rng.normal(size=N),
        }
    )
    frame.loc[rng.random(N) < 0.1, "noise"] = np.nan
    return frame


FRAME = make_frame()
WHOLE = FRAME.assign(noise=FRAME["noise"].fillna(0.0))
# Red: it hangs on the age. Otherwise: on the income.
LABEL = np.where(FRAME["colour"] == "red", FRAME["age"] > 50, FRAME["income"] > 1).astype(int)
THREE = np.where(FRAME["colour"] == "red", 2, LABEL)


def pipeline() -> Any:
    """On the raw frame: one-hot columns and scaling are the model's own business."""
    prepare = make_column_transformer(
        (OneHotEncoder(), ["colour", "member"]),
        (make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS),
    )
    return make_pipeline(prepare, LogisticRegression()).fit(FRAME, THREE)


def lightgbm() -> Any:
    module = pytest.importorskip("lightgbm")
    return module.LGBMClassifier(n_estimators=30, verbose=-1, n_jobs=1).fit(FRAME, LABEL)


def xgboost() -> Any:
    module = pytest.importorskip("xgboost")
    model = module.XGBClassifier(n_estimators=30, n_jobs=1, enable_categorical=True)
    return model.fit(FRAME, THREE)


def catboost() -> Any:
    module = pytest.importorskip("catboost")
    model = module.CatBoostClassifier(iterations=60, verbose=False, thread_count=1, allow_writing_files=False)
    return model.fit(FRAME, LABEL, cat_features=["colour", "member"])


def function() -> Any:
    def model(frame: pd.DataFrame) -> np.ndarray:
        red, old = frame["colour"] == "red", frame["age"] > 50
        p = np.where(np.where(red, old, frame["income"] > 1), 0.95, 0.05)
        return np.stack([1 - p, p], axis=1)

    return model


@pytest.mark.parametrize("make", [pipeline, lightgbm, xgboost, catboost, function], ids=lambda f: f.__name__)
def test_classifiers_on_the_raw_frame(make: Any, tiny: l2x.TrainingPlan) -> None:
    model = make()
    explainer = l2x.Explainer(model, k=2, training=tiny).fit(FRAME)
    explanation = explainer.explain(FRAME)
    assert "noise" not in explanation.names[0]
    assert explanation.mask[:, 0].mean() > 0.5  # the colour
    classes = 3 if make in (pipeline, xgboost) else 2
    assert len(explainer.classes_) == classes
    # Two of five columns; the classes' shares alone would give about a half.
    assert explainer.score(FRAME) > 0.75


def test_regression_on_the_raw_frame(tiny: l2x.TrainingPlan) -> None:
    target = np.where(FRAME["colour"] == "red", FRAME["age"] / 10, FRAME["income"])
    model = HistGradientBoostingRegressor(categorical_features="from_dtype", max_iter=50).fit(FRAME, target)
    explainer = l2x.Explainer(model, k=2, training=tiny).fit(FRAME)
    assert explainer.classes_ is None
    assert explainer.score(FRAME) > 0.5


def test_torch_on_a_frame_of_numbers(tiny: l2x.TrainingPlan) -> None:
    net = torch.nn.Linear(3, 2)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]]))
        net.bias.copy_(torch.tensor([0.0, -2.0]))
    black_box = l2x.as_black_box(net, logits=True)
    explainer = l2x.Explainer(black_box, k=1, training=tiny).fit(WHOLE[NUMBERS])
    assert explainer.explain(WHOLE[NUMBERS]).mask[:, 0].mean() > 0.9


def test_onnx_on_a_frame_of_numbers(tiny: l2x.TrainingPlan, tmp_path: Path) -> None:
    skl2onnx = pytest.importorskip("skl2onnx")
    from skl2onnx.common.data_types import FloatTensorType

    model = LogisticRegression().fit(WHOLE[NUMBERS].to_numpy(np.float32), WHOLE["income"] > 1)
    exported = skl2onnx.to_onnx(model, initial_types=[("X", FloatTensorType([None, 3]))])
    (tmp_path / "model.onnx").write_bytes(exported.SerializeToString())
    explainer = l2x.Explainer(tmp_path / "model.onnx", k=1, training=tiny).fit(WHOLE[NUMBERS])
    assert explainer.explain(WHOLE[NUMBERS]).mask[:, 0].mean() > 0.9


def test_a_table_on_disk(tiny: l2x.TrainingPlan, tmp_path: Path) -> None:
    """So many rows at random, the columns that the model knows; LightGBM takes text for its categories."""
    FRAME.assign(target=LABEL, colour=FRAME["colour"].astype(str)).to_parquet(tmp_path / "train.parquet")
    explainer = l2x.Explainer(function(), k=2, training=tiny).fit(tmp_path / "train.parquet", rows=500)
    assert explainer.rows_asked_ >= 500
    assert explainer.features_.names_ == [*FRAME.columns, "target"]  # a function knows no columns
    explainer = l2x.Explainer(lightgbm(), k=2, training=tiny).fit(str(tmp_path / "train.parquet"))
    assert explainer.features_.names_ == list(FRAME.columns)
    assert explainer.rows_asked_ >= N


def test_catboost_regressors_are_no_classifiers() -> None:
    module = pytest.importorskip("catboost")
    model = module.CatBoostRegressor(iterations=5, verbose=False, thread_count=1, allow_writing_files=False)
    numbers = FRAME[["age", "income"]]
    assert l2x.as_black_box(model.fit(numbers, numbers["age"])).task == "regression"
