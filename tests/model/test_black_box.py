"""Every kind of model is queried alike, and what cannot be P_m(y|x) is refused."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import l2x
from l2x.model._black_box import as_black_box, evaluating

X, y = make_classification(300, 6, random_state=0)


def predicted(output: object, **options: object) -> np.ndarray:
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


def mixed_network() -> torch.nn.Sequential:
    """In training mode, but for a part of it that is not."""
    net = torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.Dropout(0.5), torch.nn.Linear(32, 2)).train()
    net[2].eval()
    return net


def test_threads_that_ask_one_module_at_a_time() -> None:
    """The first to enter turns dropout off, and only the last to leave turns it on again."""
    net, rows = mixed_network(), torch.randn(8, 6)
    inside, leave = threading.Barrier(2), threading.Event()

    def first() -> None:
        with evaluating(net):
            inside.wait(10)
            leave.wait(10)

    def second() -> None:
        inside.wait(10)
        with evaluating(net[1]):  # a part of it, entered later and left first
            pass
        with evaluating(net):
            leave.set()
            thread.join(10)
            assert not net[1].training
            assert torch.equal(net(rows), net(rows))

    thread = threading.Thread(target=first)
    thread.start()
    second()
    assert [part.training for part in net.modules()] == [True, True, True, False]


def test_dropout_stays_off_in_every_thread() -> None:
    net = mixed_network()
    black_box = as_black_box(net, logits=True)
    expected = black_box(X)

    def same(_: int) -> bool:
        return all(np.array_equal(black_box.request(X), black_box.request(X)) for _ in range(50))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(same, range(8)))
    finally:
        sys.setswitchinterval(before)
    assert np.array_equal(black_box(X), expected)
    assert [part.training for part in net.modules()] == [True, True, True, False]


def test_a_model_that_raises_gets_its_mode_back() -> None:
    net = mixed_network()
    with pytest.raises(l2x.errors.BlackBoxError, match="RuntimeError"):
        as_black_box(net)(np.zeros((2, 5)))
    assert [part.training for part in net.modules()] == [True, True, True, False]


def test_onnx_file(tmp_path: Path) -> None:
    skl2onnx = pytest.importorskip("skl2onnx")
    model = LogisticRegression().fit(X, y)
    path = tmp_path / "model.onnx"
    path.write_bytes(skl2onnx.to_onnx(model, X[:1].astype(np.float32)).SerializeToString())
    assert np.allclose(as_black_box(path)(X), model.predict_proba(X), atol=1e-5)


def test_one_column_of_probabilities() -> None:
    assert predicted([0.2, 1.0], task="classification").tolist() == [[0.8, 0.2], [0.0, 1.0]]


def test_logits() -> None:
    assert np.allclose(predicted([[0.0, 0.0], [0.0, np.log(3)]], logits=True), [[0.5, 0.5], [0.25, 0.75]])


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ([[0.5, 0.5]], r"for 2 rows and returned an array of shape \(1, 2\)"),
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
def test_impossible_predictions(output: object, message: str) -> None:
    with pytest.raises(l2x.errors.BlackBoxError, match=message):
        predicted(output)


def test_a_model_that_raises() -> None:
    def broken(_: object) -> None:
        raise KeyError("age")

    with pytest.raises(l2x.errors.BlackBoxError, match=r"broken raised KeyError after 0 rows.*'age'"):
        as_black_box(broken)(X)


def test_what_cannot_predict() -> None:
    with pytest.raises(l2x.errors.InputError, match="Cannot query a int"):
        as_black_box(3)
    with pytest.raises(l2x.errors.InputError, match="LinearSVC has no predict_proba"):
        as_black_box(LinearSVC().fit(X, y))
    with pytest.raises(l2x.errors.InputError, match="There is no file"):
        as_black_box("absent.onnx")


@pytest.mark.parametrize("model", [LogisticRegression, torch.nn.Linear, dict])
def test_a_class_is_not_a_model(model: type) -> None:
    with pytest.raises(l2x.errors.InputError, match=rf"{model.__name__} is a class, .* pass an instance"):
        l2x.as_black_box(model)


def test_a_model_of_one_class_is_certain_of_it() -> None:
    from sklearn.dummy import DummyClassifier

    black_box = as_black_box(DummyClassifier().fit(np.zeros((5, 2)), ["only"] * 5))
    assert black_box(np.zeros((2, 2))).tolist() == [[1.0, 0.0]] * 2


@pytest.mark.parametrize("name", ["detach", "texts"])
def test_a_class_may_have_the_name_of_an_attribute(name: str) -> None:
    assert predicted(pd.DataFrame({"a": [0.2, 1.0], name: [0.8, 0.0]})).tolist() == [[0.2, 0.8], [1.0, 0.0]]


class Predicts:
    """An object with `predict` alone, as Keras models and wrappers have it."""

    def __init__(self, output: object) -> None:
        self.output = output

    def predict(self, X: object) -> object:
        return self.output


class SaysClassifier(Predicts):
    """A classifier that does not give probabilities."""

    _estimator_type = "classifier"


class HasClasses(Predicts):
    """It names classes, without saying what `predict` returns."""

    classes_ = np.array(["no", "yes"])


class Probable(Predicts):
    """A model with probabilities and predictions that does not declare to be a classifier."""

    def predict_proba(self, X: object) -> object:
        return [[0.5, 0.5], [0.5, 0.5]]


ROWS = np.zeros((2, 3))


def test_task_and_logits_of_an_object_that_predicts() -> None:
    black_box = as_black_box(Predicts([0.2, 1.0]), task="classification")
    assert black_box(ROWS).tolist() == [[0.8, 0.2], [0.0, 1.0]]
    assert np.allclose(
        as_black_box(Predicts([0.0, np.log(3)]), logits=True)(ROWS), [[0.5, 0.5], [0.25, 0.75]]
    )
    means = as_black_box(Predicts([[0.5, 0.5], [0.2, 0.8]]), task="regression")
    assert means(ROWS).tolist() == [[0.5, 0.5], [0.2, 0.8]]
    assert means.task == "regression"
    labelled = as_black_box(HasClasses([0.2, 1.0]), task="classification")
    assert labelled.classes is not None
    assert labelled.classes.tolist() == ["no", "yes"]
    assert as_black_box(HasClasses([0.0, 0.0]), logits=True)(ROWS).tolist() == [[0.5, 0.5]] * 2


@pytest.mark.parametrize(
    ("output", "task"), [([[0.2, 0.8], [1, 0]], "classification"), ([1.5, 2.5], "regression")]
)
def test_an_object_that_predicts_is_known_by_its_first_prediction(output: object, task: str) -> None:
    black_box = as_black_box(Predicts(output))
    black_box(ROWS)
    assert black_box.task == task


def test_several_means_of_an_object_that_does_not_say_so() -> None:
    with pytest.raises(l2x.errors.BlackBoxError, match=r"task='regression'"):
        as_black_box(Predicts([[0.5, 0.9], [0.2, 0.7]]))(ROWS)


def test_regressors_of_several_outputs() -> None:
    Xr, yr = make_regression(50, 3, n_targets=2, random_state=0)
    assert as_black_box(LinearRegression().fit(Xr, yr))(Xr).shape == (50, 2)


def test_a_regressor_of_probabilities() -> None:
    model = LinearRegression().fit(X, np.full(300, 0.25))
    assert np.allclose(as_black_box(model, task="classification")(X), [0.75, 0.25])


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (LogisticRegression().fit(X, y), {"task": "regression"}, "LogisticRegression.*task='regression'"),
        (LogisticRegression().fit(X, y), {"logits": True}, "LogisticRegression.*logits=True"),
        (LogisticRegression().fit(X, y).predict_proba, {"logits": True}, "predict_proba.*logits=True"),
        (LinearSVC().fit(X, y), {"task": "classification"}, "LinearSVC has no predict_proba"),
        (LinearSVC().fit(X, y), {"logits": True}, "LinearSVC has no predict_proba"),
        (LinearSVC().fit(X, y), {"task": "regression"}, "LinearSVC.*task='regression'"),
        (SaysClassifier([0, 1]), {"task": "classification"}, "SaysClassifier has no predict_proba"),
        (HasClasses([0, 1]), {}, "HasClasses has no predict_proba"),
        (len, {"task": "regression", "logits": True}, "task='regression'.*logits=True"),
        (len, {"task": "classify"}, "task is 'classify'"),
        (as_black_box(len, task="regression"), {"task": "classification"}, "task='classification'"),
        (as_black_box(len), {"logits": True}, "logits=True"),
    ],
)
def test_options_that_contradict_the_model(model: object, options: dict[str, object], message: str) -> None:
    with pytest.raises(l2x.errors.InputError, match=message):
        as_black_box(model, **options)  # type: ignore[arg-type]


def test_a_task_chooses_between_predictions_and_probabilities() -> None:
    assert as_black_box(Probable([1.5, 2.5]), task="regression")(ROWS).tolist() == [[1.5], [2.5]]
    assert as_black_box(Probable([1.5, 2.5]))(ROWS).tolist() == [[0.5, 0.5]] * 2


def test_one_column_of_logits() -> None:
    assert np.allclose(predicted([[0.0], [np.log(3)]], logits=True), [[0.5, 0.5], [0.25, 0.75]])


def test_boosters_that_return_logits() -> None:
    xgboost = pytest.importorskip("xgboost")
    raw = xgboost.train({"objective": "binary:logitraw"}, xgboost.DMatrix(X, y), num_boost_round=3)
    for black_box in (as_black_box(raw), as_black_box(raw, logits=True)):
        assert np.allclose(black_box(X)[:, 1], 1 / (1 + np.exp(-raw.predict(xgboost.DMatrix(X)))))
    assert as_black_box(raw, task="regression")(X).shape == (300, 1)
    booster = xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(X, y), num_boost_round=3)
    with pytest.raises(l2x.errors.InputError, match=r"binary:logistic.*logits=True"):
        as_black_box(booster, logits=True)


def test_a_booster_with_an_objective_of_its_own() -> None:
    lightgbm = pytest.importorskip("lightgbm")

    def objective(scores: np.ndarray, data: object) -> tuple[np.ndarray, np.ndarray]:
        p = 1 / (1 + np.exp(-scores))
        return p - y, p * (1 - p)

    params = {"objective": objective, "verbose": -1}
    booster = lightgbm.train(params, lightgbm.Dataset(X, y), num_boost_round=3)
    assert as_black_box(booster)(X).shape == (300, 1)
    assert np.allclose(as_black_box(booster, logits=True)(X)[:, 1], 1 / (1 + np.exp(-booster.predict(X))))


@pytest.mark.parametrize("objective", ["softmax", "xentropy", "binary", "l1", "none"])
def test_the_objective_of_a_booster_is_known_without_a_dump(
    objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dump as JSON is slow. The names of columns and the parameters may hold any text."""
    lightgbm = pytest.importorskip("lightgbm")
    params = {"objective": objective, "verbose": -1} | ({"num_class": 2} if objective == "softmax" else {})
    data = lightgbm.Dataset(pd.DataFrame(X, columns=[f"objective=multi{i}" for i in range(X.shape[1])]), y)
    if objective == "none":
        params["objective"] = lambda scores, data: (scores - data.get_label(), np.ones_like(scores))
    booster = lightgbm.train(params, data, num_boost_round=20)
    loaded = lightgbm.Booster(model_str=booster.model_to_string())

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("dumped")

    monkeypatch.setattr(lightgbm.Booster, "dump_model", refuse)
    for model in (booster, loaded):
        black_box = as_black_box(model)
        assert black_box.task == ("regression" if objective in ("l1", "none") else "classification")
        assert black_box.columns == booster.feature_name()


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
    assert explainer.rows_queried_ >= 500
    assert explainer.features_.names_ == [*FRAME.columns, "target"]  # a function knows no columns
    explainer = l2x.Explainer(lightgbm(), k=2, training=tiny).fit(str(tmp_path / "train.parquet"))
    assert explainer.features_.names_ == list(FRAME.columns)
    assert explainer.rows_queried_ >= N


def test_catboost_regressors_are_no_classifiers() -> None:
    module = pytest.importorskip("catboost")
    model = module.CatBoostRegressor(iterations=5, verbose=False, thread_count=1, allow_writing_files=False)
    numbers = FRAME[["age", "income"]]
    assert l2x.as_black_box(model.fit(numbers, numbers["age"])).task == "regression"
