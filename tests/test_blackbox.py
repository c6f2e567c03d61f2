"""Black boxes: real models of every kind answer alike, and wrong answers get one clear sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import make_classification, make_regression
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import LinearSVC

import l2x
from l2x.blackbox import as_black_box

X, y = make_classification(300, 6, random_state=0)


def answer(output: object, **options: object) -> np.ndarray:
    return as_black_box(lambda _: output, **options)(np.zeros((2, 3)))  # type: ignore[arg-type]


def test_estimator_with_probabilities() -> None:
    model = LogisticRegression().fit(X, np.where(y == 1, "yes", "no"))
    black_box = as_black_box(model)
    assert np.allclose(black_box(X), model.predict_proba(X))
    assert black_box.classes is not None
    assert black_box.classes.tolist() == ["no", "yes"]
    assert (black_box.calls, black_box.rows) == (1, 300)


def test_bound_method_keeps_the_classes() -> None:
    black_box = as_black_box(LogisticRegression().fit(X, y + 5).predict_proba)
    assert black_box.classes is not None
    assert black_box.classes.tolist() == [5, 6]


def test_regressor() -> None:
    Xr, yr = make_regression(50, 3, random_state=0)
    black_box = as_black_box(LinearRegression().fit(Xr, yr))
    assert black_box(Xr).shape == (50, 1)
    assert black_box.task == "regression"


@pytest.mark.parametrize("objective", ["binary", "multiclass", "regression"])
def test_lightgbm_booster(objective: str) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    labels = np.arange(300) % 3 if objective == "multiclass" else y
    params = {"objective": objective, "verbose": -1} | ({"num_class": 3} if objective == "multiclass" else {})
    booster = lightgbm.train(params, lightgbm.Dataset(X, labels), num_boost_round=3)
    columns = {"binary": 2, "multiclass": 3, "regression": 1}[objective]
    assert as_black_box(booster)(X).shape == (300, columns)


def test_xgboost_booster_and_classifier() -> None:
    xgboost = pytest.importorskip("xgboost")
    booster = xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(X, y), num_boost_round=3)
    classifier = xgboost.XGBClassifier(n_estimators=3).fit(X, y)
    assert as_black_box(booster)(X).shape == as_black_box(classifier)(X).shape == (300, 2)


def test_torch_module_keeps_its_mode() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(6, 2), torch.nn.Dropout(0.5), torch.nn.Softmax(-1)).train()
    black_box = as_black_box(net)
    assert np.array_equal(black_box(X), black_box(X))  # dropout is off
    assert net.training


def test_onnx_file(tmp_path: Path) -> None:
    skl2onnx = pytest.importorskip("skl2onnx")
    model = LogisticRegression().fit(X, y)
    path = tmp_path / "model.onnx"
    path.write_bytes(skl2onnx.to_onnx(model, X[:1].astype(np.float32)).SerializeToString())
    assert np.allclose(as_black_box(path)(X), model.predict_proba(X), atol=1e-5)


def test_one_column_of_probabilities() -> None:
    assert answer([0.2, 1.0], task="classification").tolist() == [[0.8, 0.2], [0.0, 1.0]]


def test_logits() -> None:
    assert np.allclose(answer([[0.0, 0.0], [0.0, np.log(3)]], logits=True), [[0.5, 0.5], [0.25, 0.75]])


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ([[0.5, 0.5]], r"asked about 2 rows and returned an array of shape \(1, 2\)"),
        ([[0.5, np.nan], [0.5, 0.5]], "NaN or infinity"),
        ([[0.5, 0.5], [np.inf, 0.5]], "NaN or infinity .*row 1"),
        ([[-0.1, 1.1], [0.5, 0.5]], "not a probability distribution"),
        ([[0.2, 0.2], [0.5, 0.5]], r"\(sum 0.4\) for row 0"),
        ([[3.2, -1.0], [0.1, 4.0]], "look like logits"),
        (["a", "b"], "returned labels, such as 'a': .* Pass the estimator itself, its predict_proba"),
        (np.array(["yes", "no"], dtype=object), "returned labels, such as 'yes'"),
        ([{"a": 1}, {"b": 2}], "returned list, not an array of numbers"),
        ([[1.2, -0.2], [0.5, 0.5]], "sum to one, but some are negative: clip and normalise them"),
        (np.zeros((2, 2, 2)), "expected"),
    ],
)
def test_impossible_answers(output: object, message: str) -> None:
    with pytest.raises(l2x.BlackBoxError, match=message):
        answer(output)


def test_a_model_that_raises() -> None:
    def broken(_: object) -> None:
        raise KeyError("age")

    with pytest.raises(l2x.BlackBoxError, match=r"broken raised KeyError after 0 rows.*'age'"):
        as_black_box(broken)(X)


def test_what_cannot_predict() -> None:
    with pytest.raises(l2x.InputError, match="Cannot ask a int"):
        as_black_box(3)
    with pytest.raises(l2x.InputError, match="LinearSVC has no predict_proba"):
        as_black_box(LinearSVC().fit(X, y))
    with pytest.raises(l2x.InputError, match="There is no file"):
        as_black_box("absent.onnx")


@pytest.mark.parametrize("model", [LogisticRegression, torch.nn.Linear, dict])
def test_a_class_is_not_a_model(model: type) -> None:
    with pytest.raises(l2x.InputError, match=rf"{model.__name__} is a class, .* pass an instance"):
        l2x.as_black_box(model)


def test_a_model_of_one_class_is_certain_of_it() -> None:
    from sklearn.dummy import DummyClassifier

    black_box = as_black_box(DummyClassifier().fit(np.zeros((5, 2)), ["only"] * 5))
    assert black_box(np.zeros((2, 2))).tolist() == [[1.0, 0.0]] * 2


@pytest.mark.parametrize("name", ["detach", "texts"])
def test_a_class_may_have_the_name_of_an_attribute(name: str) -> None:
    assert answer(pd.DataFrame({"a": [0.2, 1.0], name: [0.8, 0.0]})).tolist() == [[0.2, 0.8], [1.0, 0.0]]
