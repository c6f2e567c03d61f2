"""What every view promises, tested on every view: ours, and the one of examples/new_view.py.

A view of one's own passes these tests if it is added to `CASES`.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from torch import nn

import l2x
from l2x import baselines
from l2x.baselines._white_box import module_input
from l2x.features._view import View
from l2x.learning._training import Phase

ROOT = Path(__file__).parents[2]
PLAN = l2x.TrainingPlan(
    value=Phase(10, 5e-3, batch_size=20),
    selector=Phase(10, 5e-3, batch_size=20),
    evaluations=2,
    progress=False,
)


def _new_view() -> Any:
    spec = importlib.util.spec_from_file_location("new_view_example", ROOT / "examples" / "new_view.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.Seconds(rate=5)


def _numbers(X: Any) -> np.ndarray:
    """The first number of each input of whatever the black box reads, for a model of it."""
    if isinstance(X, pd.DataFrame):
        return np.nan_to_num(X["age"].to_numpy(float)) + (X["town"] == "Ulm").to_numpy()
    if isinstance(X, list):
        X = [text if isinstance(text, str) else " ".join(text) for text in X]
        return np.array([text.lower().count("good") - text.lower().count("bad") for text in X], dtype=float)
    return np.asarray(X, dtype=float).reshape(len(X), -1)[:, 0]


def model(X: Any) -> np.ndarray:
    """A black box of anything."""
    p = 1 / (1 + np.exp(-_numbers(X)))
    return np.stack([1 - p, p], axis=1)


RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(60, 4))
FRAME = pd.DataFrame(
    {
        "age": RNG.normal(size=60),
        "income": np.where(RNG.random(60) < 0.2, np.nan, RNG.normal(size=60)),
        "town": RNG.choice(["Ulm", "Bonn", None], 60),
    }
)
TEXTS = [
    " ".join(RNG.choice(["good", "bad", "film", "plot", "dull"], RNG.integers(1, 5))).capitalize()
    + ". It was "
    + str(RNG.choice(["good", "bad", "fine"]))
    + "!"
    for _ in range(60)
]
TEXT_OPTIONS: dict[str, Any] = {"vocabulary": 20}


@dataclass(frozen=True)
class Case:
    """A view, inputs for it, and whether they are numbers that methods can measure distances between."""

    view: View
    X: Any
    numeric: bool = True


CASES: dict[str, Callable[[], Case]] = {
    "columns": lambda: Case(l2x.Columns(), TABLE),
    "frame": lambda: Case(l2x.Columns(), FRAME, numeric=False),
    "groups": lambda: Case(l2x.ColumnGroups({"pair": [0, 2]}), TABLE),
    "groups of a frame": lambda: Case(l2x.ColumnGroups({"place": ["town", "income"]}), FRAME, numeric=False),
    "words": lambda: Case(l2x.Words(length=8, **TEXT_OPTIONS), TEXTS, numeric=False),
    "words by ids": lambda: Case(l2x.Words(length=8, reads="ids", **TEXT_OPTIONS), TEXTS, numeric=False),
    "sentences": lambda: Case(l2x.Sentences(length=3, words=4, **TEXT_OPTIONS), TEXTS, numeric=False),
    "passages": lambda: Case(
        l2x.Passages(length=3, words=4, **TEXT_OPTIONS), [text.split(". ") for text in TEXTS], numeric=False
    ),
    "patches": lambda: Case(l2x.Patches(4), RNG.random((60, 8, 8)).astype(np.float32)),
    "padded colour": lambda: Case(l2x.Patches(4, padding="edge"), RNG.random((60, 3, 6, 7))),
    "new view": lambda: Case(_new_view(), RNG.normal(size=(60, 20))),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    made = CASES[request.param]()
    return Case(made.view.fit(made.X), made.X, made.numeric)


def test_the_contract(case: Case) -> None:
    before = vars(case.view).copy()
    l2x.testing.check_view(case.view, case.X)
    assert vars(case.view) == before


@pytest.fixture
def seconds(tmp_path: Path) -> tuple[l2x.Explainer, np.ndarray, Path]:
    """An explainer with the view of the example, its inputs, and its file."""
    X = RNG.normal(size=(60, 20))
    explainer = l2x.Explainer(model, 2, features=_new_view(), training=PLAN).fit(X)
    return explainer, X, explainer.save(tmp_path / "seconds.l2x")


def test_a_new_view_is_served(seconds: tuple[l2x.Explainer, np.ndarray, Path]) -> None:
    pytest.importorskip("fastapi")
    from starlette.testclient import TestClient

    from l2x.apps.serve import create_app

    explainer, X, file = seconds
    with TestClient(create_app([file], {})) as client:
        reply = client.post("/v1/explainers/seconds/explain", json={"rows": X[:3].tolist()})
        refused = client.post("/v1/explainers/seconds/explain", json={"rows": [[1.0, 2.0]]})
        assert client.get("/").status_code == 200
    assert reply.status_code == 200, reply.text
    names = [[feature["name"] for feature in row["features"]] for row in reply.json()["rows"]]
    assert names == [list(row) for row in explainer.explain(X[:3], polish=False).names]
    assert refused.status_code == 422


def test_a_new_view_is_exported(seconds: tuple[l2x.Explainer, np.ndarray, Path], tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    explainer, X, _ = seconds
    assert explainer.export_onnx(tmp_path / "seconds.onnx", X).exists()  # which compares the selections


def test_a_new_view_is_streamed(seconds: tuple[l2x.Explainer, np.ndarray, Path], tmp_path: Path) -> None:
    from l2x.export import BatchExplainer, explain_table, match_columns
    from l2x.files import Table

    explainer, X, _ = seconds
    frame = pd.DataFrame(X).rename(columns=str).assign(id=range(60))
    frame.to_csv(tmp_path / "signals.csv", index=False)
    table = Table(tmp_path / "signals.csv")
    columns, ignored = match_columns(explainer, table, copy=["id"])
    assert (len(columns), ignored) == (20, [])
    explain_table(BatchExplainer(explainer, columns, copy=["id"]), table, tmp_path / "out.csv")
    written = pd.read_csv(tmp_path / "out.csv")
    assert written["id"].tolist() == list(range(60))
    assert written["feature_1"].tolist() == [names[0] for names in explainer.explain(X).names]


def test_a_new_view_is_studied(seconds: tuple[l2x.Explainer, np.ndarray, Path], tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    from l2x.apps import study

    explainer, X, _ = seconds
    settings = study.Settings(items=4, raters=1, per_rater=4, practice=1, checks=0)
    with study.new(tmp_path / "s.study", explainer, X, settings, against=["random"], evaluator=False) as made:
        assert made.settings.items == 4


def test_a_new_view_is_drawn_and_reported(
    seconds: tuple[l2x.Explainer, np.ndarray, Path], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    explainer, X, _ = seconds
    explanation = explainer.explain(X)
    explanation[:3].plot(tmp_path / "seconds.png")
    assert (tmp_path / "seconds.png").exists()
    assert "second" in explanation[:3].to_html()
    assert l2x.report(explainer, model, X[:30], X[30:], training=PLAN, brief=True).to_dict()


def test_a_new_view_has_few_methods_to_define() -> None:
    assert View.__abstractmethods__ == {"fit", "check", "encode", "for_model", "state", "restore"}


def test_made_up_inputs_vary_and_can_be_explained(case: Case) -> None:
    view = case.view
    X = view.check(view.sample(40, np.random.default_rng(3)))
    assert len(np.unique(view.encode(X).nan_to_num().flatten(1).numpy(), axis=0)) > 20
    assert model(view.for_model(X)).shape == (40, 2)


def test_made_up_rows_hold_every_kind_of_cell() -> None:
    frame = FRAME.assign(
        member=FRAME["age"] > 0, wave=pd.Categorical([1, 2] * 30), empty=np.nan, branch=[7, 8] * 30
    )
    view = l2x.Columns(categorical=["branch"]).fit(frame)
    X = view.sample(400, np.random.default_rng(0))
    assert X.columns.tolist() == frame.columns.tolist()
    assert set(view.unseen(view.encode(view.check(X)))) == {"town", "wave", "branch"}
    assert X["income"].isna().any()
    assert not X["age"].isna().any()
    codes = l2x.Columns(categorical=[1]).fit(np.array([[0.5, 3], [1.5, 4]] * 5))
    assert set(codes.sample(400, np.random.default_rng(0))[:, 1]) == {3, 4, 5}


def test_only_a_few_rooms_look_inside_a_view() -> None:
    """isinstance(…, Columns | …) stands only in features/, and where kinds have renderers and files."""
    views = {"View", "Columns", "ColumnGroups", "Patches", "TextView", "Words", "Sentences", "Passages"}
    found = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        if path.parts[-2] in ("features", "display", "export"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
                names = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
                # The artifact checks that a thing is a view, whatever its kind.
                if names & (views - {"View"}):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not found


def test_the_maskings_of_a_view(case: Case) -> None:
    view, ways = case.view, case.view.maskings()
    X, nothing = view.check(case.X), np.zeros((60, view.d), dtype=bool)
    for way, other in ways.items():
        assert model(other.for_model(X, nothing, rng=np.random.default_rng(0))).shape == (60, 2), way
    if hasattr(view, "masking"):
        assert next(iter(ways)) == view.masking
        assert (len(ways) == 1) == (getattr(view, "reads", "") == "ids")


def test_groups_have_all_maskings_of_columns() -> None:
    view = l2x.ColumnGroups({"pair": [0, 2]}).fit(TABLE)
    assert set(view.maskings()) == {"mean", "median", "zero", "resample"}
    nothing = np.zeros((60, view.d), dtype=bool)
    assert not view.maskings()["zero"].for_model(TABLE, nothing).any()


def test_attributions_of_another_shape_are_refused(case: Case) -> None:
    with pytest.raises((l2x.errors.InputError, RuntimeError)):
        case.view.units(torch.zeros(2, 99, 3))


@pytest.mark.parametrize("value", ["surrogate", "model", "joint"])
def test_explain_save_and_load(case: Case, value: str, tmp_path: Path) -> None:
    explainer = l2x.Explainer(model, 1, features=clone(case.view), objective=value, training=PLAN).fit(case.X)
    explanation = explainer.explain(case.X)
    assert explanation.scores.shape == (60, case.view.d)
    assert explanation[3].names == [explanation.names[3]]
    loaded = l2x.load(explainer.save(tmp_path / "e.l2x"))
    assert np.array_equal(loaded.explain(case.X).scores, explanation.scores)
    assert explanation.to_html()
    assert len(explanation.to_frame()) == 60


def methods(case: Case) -> dict[str, Any]:
    """Every baseline, on this view."""
    view = case.view
    evaluator = l2x.Explainer(model, 1, features=clone(view), training=PLAN).fit(case.X).surrogate_
    found: dict[str, Any] = {
        "random": baselines.RandomK(features=view),
        "global": baselines.GlobalTopK(evaluator, features=view, rows=20).fit(case.X, 1),
        "position": baselines.PositionLeak(model, features=view),
        "prediction": baselines.PredictionLeak(evaluator, features=view),
        "search": baselines.GreedySearch(model, features=view, progress=False),
        "lime": baselines.Lime(model, features=view, samples=50, progress=False),
        "shap": baselines.KernelShap(model, features=view, samples=30, background_rows=5, progress=False),
    }
    if case.numeric:
        found["parzen"] = baselines.Parzen(model, features=view, progress=False).fit(case.X)
        net = _module(module_input(view, view.check(case.X)))
        kinds = [baselines.Saliency, baselines.Taylor, baselines.DeepLift]
        kinds += [baselines.LRP] * isinstance(net[0], nn.Linear)  # which has no rule for nn.Flatten
        found |= {kind.name: kind(net, features=view) for kind in kinds}
    return found


def _module(x: torch.Tensor) -> nn.Sequential:
    torch.manual_seed(0)
    flat = [nn.Flatten()] if x.ndim > 2 else []
    return nn.Sequential(*flat, nn.Linear(x[0].numel(), 8), nn.ReLU(), nn.Linear(8, 2))


def test_every_baseline_explains_it(case: Case) -> None:
    few = case.view.take(case.view.check(case.X), slice(0, 3))
    for name, method in methods(case).items():
        if name == "lime" and isinstance(case.X, pd.DataFrame):
            continue  # its package takes no gaps: an error that says so, tested in test_perturbation.py
        explanation = method.explain(few, 1)
        assert explanation.scores.shape == (3, case.view.d), name
        assert (explanation.mask.sum(axis=1) == 1).all(), name


def test_distances_are_refused_where_they_mean_nothing(case: Case) -> None:
    if case.numeric:
        return
    with pytest.raises(l2x.errors.InputError, match="distances between numbers"):
        baselines.Parzen(model, features=case.view).fit(case.X)


def test_gradients_of_groups_are_sums_over_their_columns() -> None:
    """Also of groups of one column each, and of raw numbers rather than standardised ones."""
    X = 100 + 10 * TABLE
    net = _module(torch.zeros(1, 4))
    alone = l2x.ColumnGroups({name: [i] for i, name in enumerate("abcd")})
    for kind in (baselines.Saliency, baselines.Taylor, baselines.DeepLift, baselines.LRP):
        columns = kind(net).explain(X, 1).scores
        assert np.allclose(kind(net, features=alone).explain(X, 1).scores, columns), kind.name
    pair = baselines.Taylor(net, features=l2x.ColumnGroups({"pair": [0, 2]}), magnitude=False).explain(X, 1)
    each = baselines.Taylor(net, magnitude=False).explain(X, 1).scores
    assert np.allclose(pair.scores[:, 0], each[:, 0] + each[:, 2], atol=1e-3)
