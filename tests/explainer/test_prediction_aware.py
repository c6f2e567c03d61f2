"""Prediction-aware explainers: fitted, queried for, saved, streamed, cloned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from command_line import Folder
from sklearn.base import clone
from toy_models import one_column

import l2x
from l2x.learning._rows import Categorical, Gaussian
from l2x.learning._training import Phase

PLAN = l2x.TrainingPlan(
    Phase(150, 5e-3, batch_size=200, averaging=0.9), Phase(150, 1e-2, batch_size=200, averaging=0.9),
    evaluations=5, progress=False,
)  # fmt: skip


def coin(X: np.ndarray) -> np.ndarray:
    """Predict 0 or 1 by the sign of columns 0 and 1 together."""
    p = 1 / (1 + np.exp(-6 * np.asarray(X, dtype=float)[:, :2].sum(axis=1)))
    return np.stack([1 - p, p], axis=1)


@pytest.fixture(scope="module")
def aware() -> l2x.Explainer:
    X = np.random.default_rng(0).normal(size=(1500, 5))
    return l2x.Explainer(coin, 1, uses_prediction=True, target="class", training=PLAN).fit(X)


def test_the_explanation_depends_on_the_given_prediction(aware: l2x.Explainer) -> None:
    """Two columns support different classes; the one that supports the given prediction is selected."""
    X = np.zeros((400, 5))
    X[:, 0], X[:, 1] = 1.0, -1.0
    for predicted, column in ((1, 0), (0, 1)):
        predictions = np.full((400, 2), 0.02)
        predictions[:, predicted] = 0.98
        assert (aware.explain(X, predictions=predictions).indices[:, 0] == column).mean() > 0.9


def test_the_model_is_queried_unless_predictions_are_given(aware: l2x.Explainer, tmp_path: Path) -> None:
    X = np.random.default_rng(1).normal(size=(20, 5))
    queried = aware.explain(X)
    for predictions in (coin(X), coin(X)[:, 1], pd.DataFrame(coin(X)), torch.from_numpy(coin(X))):
        assert np.array_equal(aware.explain(X, predictions=predictions).scores, queried.scores)
    path = aware.save(tmp_path / "aware.l2x")
    alone = l2x.load(path)
    assert (alone.uses_prediction, alone.target) == (True, "class")
    assert np.array_equal(alone.explain(X, predictions=coin(X)).scores, queried.scores)
    with pytest.raises(l2x.errors.InputError, match=r"explain\(X, predictions=...\)"):
        alone.explain(X)
    assert np.array_equal(l2x.load(path, model=coin).explain(X).scores, queried.scores)


def test_predictions_that_do_not_fit_are_refused(aware: l2x.Explainer, fitted: l2x.Explainer) -> None:
    X = np.zeros((3, 5))
    with pytest.raises(l2x.errors.InputError, match="predictions has 2 rows, X has 3"):
        aware.explain(X, predictions=coin(X[:2]))
    with pytest.raises(
        l2x.errors.InputError, match="predictions has 3 columns; the model that was explained has 2"
    ):
        aware.explain(X, predictions=np.full((3, 3), 1 / 3))
    with pytest.raises(l2x.L2XError, match="predictions="):
        aware.explain(X, predictions=np.full((3, 2), 0.9))
    with pytest.raises(l2x.errors.InputError, match="predictions has 2 rows, X has 3"):
        fitted.explain(X, predictions=coin(X[:2]))


def test_other_explainers_select_the_same_features_and_know_the_predictions(fitted: l2x.Explainer) -> None:
    X = np.random.default_rng(0).normal(size=(3, 5))
    explanation = fitted.explain(X, predictions=coin(X))
    assert np.array_equal(explanation.scores, fitted.explain(X).scores)
    assert np.array_equal(explanation.predictions, coin(X))


def test_clones_are_prediction_aware(aware: l2x.Explainer) -> None:
    again = clone(aware).fit(np.random.default_rng(0).normal(size=(1500, 5)))
    X = np.random.default_rng(3).normal(size=(50, 5))
    assert np.array_equal(again.explain(X).scores, aware.explain(X).scores)


@pytest.mark.parametrize(
    "features", [l2x.Patches(4), l2x.Words(length=8), l2x.Sentences(length=3)], ids=["image", "words", "text"]
)
def test_every_view_can_be_prediction_aware(features: l2x.features.View) -> None:
    plan = l2x.TrainingPlan(Phase(3, 1e-2), Phase(3, 1e-2), evaluations=1, progress=False)
    rng = np.random.default_rng(0)
    images = rng.random((40, 8, 8)).astype(np.float32)
    texts = [" ".join(rng.choice(["good.", "bad.", "film", "plot"], 8)) for _ in range(40)]
    X = images if isinstance(features, l2x.Patches) else texts

    def model(X: object) -> np.ndarray:
        p = np.array([0.9 if np.mean([ord(c) for c in str(x)]) > 90 else 0.2 for x in X])  # type: ignore[attr-defined]
        return np.stack([1 - p, p], axis=1)

    explainer = l2x.Explainer(model, 1, features=features, uses_prediction=True, training=plan).fit(X)
    assert len(explainer.explain(X[:3], predictions=np.full((3, 2), 0.5))) == 3


def test_regression_can_be_prediction_aware() -> None:
    X = np.random.default_rng(0).normal(size=(300, 3))
    explainer = l2x.Explainer(lambda X: np.asarray(X)[:, 0], 1, uses_prediction=True, training=PLAN).fit(X)
    assert (explainer.explain(X, predictions=X[:, 0]).indices == 0).all()


def test_the_prediction_input_has_moderate_size() -> None:
    certain = torch.tensor([[1.0, 0.0]])
    assert Categorical(2).prediction_input(certain).abs().max() < 7
    assert torch.equal(Categorical(2).most_likely(torch.tensor([[0.4, 0.6]])), torch.tensor([[0.0, 1.0]]))
    assert torch.equal(Gaussian((0.0,), (1.0,)).prediction_input(certain), certain)


def test_an_unknown_target_is_refused(table: np.ndarray) -> None:
    with pytest.raises(l2x.errors.InputError, match="target is 'klass'"):
        l2x.Explainer(one_column, 1, target="klass", training=PLAN).fit(table)  # type: ignore[arg-type]


def test_the_command_line_takes_predictions_from_columns_or_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    user = Folder(tmp_path)
    Path("coined.py").write_text(
        "import numpy as np\n"
        "def model(X):\n"
        "    p = 1 / (1 + np.exp(-6 * np.asarray(X, dtype=float)[:, :2].sum(axis=1)))\n"
        "    return np.stack([1 - p, p], axis=1)\n"
    )
    X = np.random.default_rng(0).normal(size=(300, 3))
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame.to_csv("train.csv", index=False)
    frame.assign(p0=coin(X)[:, 0], p1=coin(X)[:, 1]).to_csv("predicted.csv", index=False)
    user.run(
        "fit",
        "coined:model",
        "train.csv",
        "--k",
        "1",
        "--uses-prediction",
        "--quick",
        "-q",
        "-o",
        "aware.l2x",
    )
    assert "--predictions p0,p1" in user.fails("explain", "aware.l2x", "train.csv")
    user.run("explain", "aware.l2x", "predicted.csv", "--predictions", "p0,p1", "-q", "-o", "by_column.csv")
    user.run("explain", "aware.l2x", "train.csv", "--model", "coined:model", "-q", "-o", "by_model.csv")
    assert Path("by_column.csv").read_text() == Path("by_model.csv").read_text()
    shown = user.run(
        "explain", "aware.l2x", "predicted.csv", "--predictions", "p0,p1", "--keep", "0.9", "--head", 3
    ).stdout
    assert "p0" not in shown
    assert "'p0'" in user.fails("explain", "aware.l2x", "train.csv", "--predictions", "p0,p9")


def test_no_rows_need_no_predictions(aware: l2x.Explainer) -> None:
    empty = np.zeros((0, 5))
    assert len(aware.explain(empty)) == len(aware.explain(empty, predictions=np.zeros((0, 2)))) == 0
    with pytest.raises(l2x.errors.InputError, match=r"predictions is one number.* 3 rows"):
        aware.explain(np.zeros((3, 5)), predictions=0.5)
    with pytest.raises(l2x.errors.InputError, match="uses_prediction is 'no'"):
        l2x.Explainer(coin, 1, uses_prediction="no", training=PLAN).fit(np.zeros((20, 5)))  # type: ignore[arg-type]


def test_columns_named_by_class_are_matched_by_name() -> None:
    from sklearn.linear_model import LogisticRegression

    X = np.random.default_rng(0).normal(size=(300, 3))
    model = LogisticRegression().fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    explainer = l2x.Explainer(model, 1, uses_prediction=True, training=PLAN).fit(X)
    predictions = pd.DataFrame(model.predict_proba(X), columns=model.classes_)
    scores = explainer.explain(X).scores
    for order in (["no", "yes"], ["yes", "no"]):
        assert np.array_equal(explainer.explain(X, predictions=predictions[order]).scores, scores)
    by_position = predictions[["yes", "no"]].rename(columns={"yes": "p0", "no": "p1"})
    assert not np.array_equal(explainer.explain(X, predictions=by_position).scores, scores)


def test_predictions_may_be_logits_like_the_models() -> None:
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = l2x.as_black_box(lambda X: np.stack([0 * X[:, 0], 3 * X[:, 0]], axis=1), logits=True)
    explainer = l2x.Explainer(model, 1, uses_prediction=True, training=PLAN).fit(X)
    predictions = np.stack([0 * X[:, 0], 3 * X[:, 0]], axis=1)
    assert np.allclose(explainer.explain(X, predictions=predictions).scores, explainer.explain(X).scores)
    with pytest.raises(
        l2x.errors.InputError, match="predictions has 1 column; the model that was explained has 3"
    ):
        l2x.Explainer(lambda X: np.full((len(X), 3), 1 / 3), 1, uses_prediction=True, training=PLAN).fit(
            X
        ).explain(X, predictions=np.full(300, 0.5))


def test_a_streamed_model_reads_frames_as_in_fit(tmp_path: Path) -> None:
    """Also if it picks columns by a list of names, which a pyarrow table does not accept."""
    from l2x.export._stream import BatchExplainer, explain_table
    from l2x.files._tables import Table

    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=list("abc"))
    frame.to_parquet(tmp_path / "rows.parquet")
    explainer = l2x.Explainer(lambda X: coin(X[["a", "b"]]), 1, uses_prediction=True, training=PLAN).fit(
        frame
    )
    stream = BatchExplainer(explainer, list("abc"))
    explain_table(stream, Table(tmp_path / "rows.parquet"), tmp_path / "why.parquet", batch_rows=50)
    found = pd.read_parquet(tmp_path / "why.parquet")["feature_1"].astype(str)
    assert found.tolist() == explainer.explain(frame).to_frame()["feature_1"].tolist()


def test_report_and_comparison_attach_the_model(aware: l2x.Explainer, tmp_path: Path) -> None:
    """Both take a model, so an explainer that was loaded without one can be used."""
    X, alone = np.random.default_rng(4).normal(size=(200, 5)), l2x.load(aware.save(tmp_path / "aware.l2x"))
    card = l2x.report(alone, coin, X[:100], X[100:], training=PLAN, brief=True)
    assert card["fidelity"]["median"].value == aware.score(X[100:])
    assert len(l2x.compare(coin, X, [alone, "random"], k=1).to_frame()) == 2
    assert alone.model is None
