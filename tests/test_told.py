"""Explainers that are told the model's answer: learned, asked for, saved, streamed, cloned."""

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
from l2x.learning._likelihood import Categorical, Gaussian
from l2x.learning._training import Phase

PLAN = l2x.TrainingPlan(
    Phase(150, 5e-3, batch_size=200, averaging=0.9), Phase(150, 1e-2, batch_size=200, averaging=0.9),
    evaluations=5, progress=False,
)  # fmt: skip


def coin(X: np.ndarray) -> np.ndarray:
    """Answers 0 or 1 by the sign of columns 0 and 1 together."""
    p = 1 / (1 + np.exp(-6 * np.asarray(X, dtype=float)[:, :2].sum(axis=1)))
    return np.stack([1 - p, p], axis=1)


@pytest.fixture(scope="module")
def told() -> l2x.Explainer:
    X = np.random.default_rng(0).normal(size=(1500, 5))
    return l2x.Explainer(coin, 1, sees_answer=True, answer="class", training=PLAN).fit(X)


def test_the_explanation_argues_for_the_answer_given(told: l2x.Explainer) -> None:
    """Of two columns that speak for different answers, the one for the answer told is selected."""
    X = np.zeros((400, 5))
    X[:, 0], X[:, 1] = 1.0, -1.0
    for answer, column in ((1, 0), (0, 1)):
        answers = np.full((400, 2), 0.02)
        answers[:, answer] = 0.98
        assert (told.explain(X, answers=answers).indices[:, 0] == column).mean() > 0.9


def test_the_model_is_asked_unless_answers_are_given(told: l2x.Explainer, tmp_path: Path) -> None:
    X = np.random.default_rng(1).normal(size=(20, 5))
    asked = told.explain(X)
    for answers in (coin(X), coin(X)[:, 1], pd.DataFrame(coin(X)), torch.from_numpy(coin(X))):
        assert np.array_equal(told.explain(X, answers=answers).scores, asked.scores)
    path = told.save(tmp_path / "told.l2x")
    alone = l2x.load(path)
    assert (alone.sees_answer, alone.answer) == (True, "class")
    assert np.array_equal(alone.explain(X, answers=coin(X)).scores, asked.scores)
    with pytest.raises(
        l2x.InputError, match=r"pass them, explain\(X, answers=...\), or load it with its model"
    ):
        alone.explain(X)
    assert np.array_equal(l2x.load(path, model=coin).explain(X).scores, asked.scores)


def test_answers_that_do_not_fit_are_refused(told: l2x.Explainer, fitted: l2x.Explainer) -> None:
    X = np.zeros((3, 5))
    with pytest.raises(l2x.InputError, match="answers has 2 rows, X has 3"):
        told.explain(X, answers=coin(X[:2]))
    with pytest.raises(l2x.InputError, match="answers has 3 columns; the model that was explained has 2"):
        told.explain(X, answers=np.full((3, 3), 1 / 3))
    with pytest.raises(l2x.L2XError, match="not a probability distribution"):
        told.explain(X, answers=np.full((3, 2), 0.9))
    with pytest.raises(l2x.InputError, match="this one reads X alone"):
        fitted.explain(X, answers=coin(X))


def test_clones_are_told_too(told: l2x.Explainer) -> None:
    again = clone(told).fit(np.random.default_rng(0).normal(size=(1500, 5)))
    X = np.random.default_rng(3).normal(size=(50, 5))
    assert np.array_equal(again.explain(X).scores, told.explain(X).scores)


@pytest.mark.parametrize(
    "features", [l2x.Patches(4), l2x.Words(length=8), l2x.Sentences(length=3)], ids=["image", "words", "text"]
)
def test_every_view_can_be_told(features: l2x.features.View) -> None:
    plan = l2x.TrainingPlan(Phase(3, 1e-2), Phase(3, 1e-2), evaluations=1, progress=False)
    rng = np.random.default_rng(0)
    images = rng.random((40, 8, 8)).astype(np.float32)
    texts = [" ".join(rng.choice(["good.", "bad.", "film", "plot"], 8)) for _ in range(40)]
    X = images if isinstance(features, l2x.Patches) else texts

    def model(X: object) -> np.ndarray:
        p = np.array([0.9 if np.mean([ord(c) for c in str(x)]) > 90 else 0.2 for x in X])  # type: ignore[attr-defined]
        return np.stack([1 - p, p], axis=1)

    explainer = l2x.Explainer(model, 1, features=features, sees_answer=True, training=plan).fit(X)
    assert len(explainer.explain(X[:3], answers=np.full((3, 2), 0.5))) == 3


def test_regression_is_told_the_mean() -> None:
    X = np.random.default_rng(0).normal(size=(300, 3))
    explainer = l2x.Explainer(lambda X: np.asarray(X)[:, 0], 1, sees_answer=True, training=PLAN).fit(X)
    assert (explainer.explain(X, answers=X[:, 0]).indices == 0).all()


def test_what_is_told_is_of_moderate_size() -> None:
    certain = torch.tensor([[1.0, 0.0]])
    assert Categorical(2).told(certain).abs().max() < 7
    assert torch.equal(Categorical(2).most_likely(torch.tensor([[0.4, 0.6]])), torch.tensor([[0.0, 1.0]]))
    assert torch.equal(Gaussian((0.0,), (1.0,)).told(certain), certain)


def test_an_unknown_answer_is_refused(table: np.ndarray) -> None:
    with pytest.raises(l2x.InputError, match=r"answer is 'klass'; choose 'distribution' or 'class'"):
        l2x.Explainer(one_column, 1, answer="klass", training=PLAN).fit(table)  # type: ignore[arg-type]


def test_the_command_line_tells_answers_from_columns_or_the_model(
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
    frame.assign(p0=coin(X)[:, 0], p1=coin(X)[:, 1]).to_csv("answered.csv", index=False)
    user.run(
        "fit", "coined:model", "train.csv", "--k", "1", "--sees-answer", "--quick", "-q", "-o", "told.l2x"
    )
    assert "name the columns of DATA" in user.fails("explain", "told.l2x", "train.csv")
    user.run("explain", "told.l2x", "answered.csv", "--answers", "p0,p1", "-q", "-o", "by_column.csv")
    user.run("explain", "told.l2x", "train.csv", "--model", "coined:model", "-q", "-o", "by_model.csv")
    assert Path("by_column.csv").read_text() == Path("by_model.csv").read_text()
    shown = user.run(
        "explain", "told.l2x", "answered.csv", "--answers", "p0,p1", "--keep", "0.9", "--head", 3
    ).stdout
    assert "p0" not in shown
    assert "Cannot read answers from" in user.fails("explain", "told.l2x", "train.csv", "--answers", "p0,p9")


def test_no_rows_need_no_answers(told: l2x.Explainer) -> None:
    empty = np.zeros((0, 5))
    assert len(told.explain(empty)) == len(told.explain(empty, answers=np.zeros((0, 2)))) == 0
    with pytest.raises(l2x.InputError, match="answers is one number; expected one answer for each of 3 rows"):
        told.explain(np.zeros((3, 5)), answers=0.5)
    with pytest.raises(l2x.InputError, match="sees_answer is 'no'; expected True or False"):
        l2x.Explainer(coin, 1, sees_answer="no", training=PLAN).fit(np.zeros((20, 5)))  # type: ignore[arg-type]


def test_answers_named_by_class_are_taken_by_name() -> None:
    from sklearn.linear_model import LogisticRegression

    X = np.random.default_rng(0).normal(size=(300, 3))
    model = LogisticRegression().fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    explainer = l2x.Explainer(model, 1, sees_answer=True, training=PLAN).fit(X)
    answers = pd.DataFrame(model.predict_proba(X), columns=model.classes_)
    scores = explainer.explain(X).scores
    for order in (["no", "yes"], ["yes", "no"]):
        assert np.array_equal(explainer.explain(X, answers=answers[order]).scores, scores)
    by_position = answers[["yes", "no"]].rename(columns={"yes": "p0", "no": "p1"})
    assert not np.array_equal(explainer.explain(X, answers=by_position).scores, scores)


def test_answers_may_be_logits_as_the_models_are() -> None:
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = l2x.as_black_box(lambda X: np.stack([0 * X[:, 0], 3 * X[:, 0]], axis=1), logits=True)
    explainer = l2x.Explainer(model, 1, sees_answer=True, training=PLAN).fit(X)
    answers = np.stack([0 * X[:, 0], 3 * X[:, 0]], axis=1)
    assert np.allclose(explainer.explain(X, answers=answers).scores, explainer.explain(X).scores)
    with pytest.raises(l2x.InputError, match="answers has 1 column; the model that was explained has 3"):
        l2x.Explainer(lambda X: np.full((len(X), 3), 1 / 3), 1, sees_answer=True, training=PLAN).fit(
            X
        ).explain(X, answers=np.full(300, 0.5))


def test_a_streamed_model_reads_frames_as_in_fit(tmp_path: Path) -> None:
    """Also where it picks columns by a list of names, which a pyarrow table does not know."""
    from l2x.export._stream import BatchExplainer, explain_table
    from l2x.files._tables import Table

    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=list("abc"))
    frame.to_parquet(tmp_path / "rows.parquet")
    explainer = l2x.Explainer(lambda X: coin(X[["a", "b"]]), 1, sees_answer=True, training=PLAN).fit(frame)
    stream = BatchExplainer(explainer, list("abc"))
    explain_table(stream, Table(tmp_path / "rows.parquet"), tmp_path / "why.parquet", batch_rows=50)
    found = pd.read_parquet(tmp_path / "why.parquet")["feature_1"].astype(str)
    assert found.tolist() == explainer.explain(frame).to_frame()["feature_1"].tolist()


def test_those_who_have_the_model_lend_it(told: l2x.Explainer, tmp_path: Path) -> None:
    """A card and a comparison are about a model: an explainer that was loaded without it needs no other."""
    X, alone = np.random.default_rng(4).normal(size=(200, 5)), l2x.load(told.save(tmp_path / "told.l2x"))
    card = l2x.report_card(alone, coin, X[:100], X[100:], training=PLAN, brief=True)
    assert card["fidelity"]["mean"].value == told.score(X[100:])
    assert len(l2x.compare(coin, X, [alone, "random"], k=1).to_frame()) == 2
    assert alone.model is None
