"""What every view promises, tested on every view: ours, and the one of examples/new_view.py.

A view of one's own passes these tests if it is added to `CASES`.
"""

from __future__ import annotations

import ast
import importlib.util
import json
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
from l2x.baselines._gradients import module_input
from l2x.features._kinds import jitter
from l2x.features._masking import removals
from l2x.features._view import View
from l2x.learning._training import Phase
from l2x.learning.networks import networks_of

ROOT = Path(__file__).parents[2]
PLAN = l2x.TrainingPlan(
    value=Phase(10, 5e-3, batch_size=20),
    selector=Phase(10, 5e-3, batch_size=20),
    evaluations=2,
    progress=False,
)
# Public members of View; scikit-learn's own are not counted.
MOST_MEMBERS = 14


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
    "patches": lambda: Case(l2x.Patches(4), RNG.random((60, 8, 8)).astype(np.float32)),
    "padded colour": lambda: Case(l2x.Patches(4, padding="edge"), RNG.random((60, 3, 6, 7))),
    "new view": lambda: Case(_new_view(), RNG.normal(size=(60, 20))),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    made = CASES[request.param]()
    return Case(made.view.fit(made.X), made.X, made.numeric)


def half(view: View, n: int) -> np.ndarray:
    """A mask (n, d) with some features of each row."""
    mask = np.random.default_rng(1).random((n, view.d)) < 0.5
    mask[:, 0] = True
    return mask


def same(one: Any, other: Any) -> bool:
    if isinstance(one, pd.DataFrame):
        return one.reset_index(drop=True).equals(other.reset_index(drop=True))
    if isinstance(one, torch.Tensor):
        return bool(torch.equal(one, other))
    return one == other if isinstance(one, list) else bool(np.array_equal(one, other))


def test_a_view_has_few_members() -> None:
    members = [name for name in vars(View) if not name.startswith("_")]
    assert len(members) <= MOST_MEMBERS, members


def test_nobody_looks_inside_a_view() -> None:
    """isinstance(…, Columns | Patches | …) stands only in features/ and in display/."""
    views = {"View", "Columns", "ColumnGroups", "Patches", "TextView", "Words", "Sentences"}
    found = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        if path.parts[-2] in ("features", "display"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
                names = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
                # The artifact asks whether a thing is a view at all, which says nothing about its kind.
                if names & (views - {"View"}):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not found


def test_check_gives_what_check_takes(case: Case) -> None:
    X = case.view.check(case.X)
    assert len(X) == len(case.X)
    assert torch.equal(case.view.encode(case.view.check(X)).nan_to_num(), case.view.encode(X).nan_to_num())
    assert len(case.view.names_) == case.view.d >= 2


@pytest.mark.parametrize("rows", [slice(3, 8), np.array([5, 1, 1])], ids=["slice", "indices"])
def test_taking_rows_and_encoding_commute(case: Case, rows: Any) -> None:
    X = case.view.check(case.X)
    some = case.view.encode(case.view.take(X, rows))
    assert torch.equal(some.nan_to_num(), case.view.encode(X)[rows].nan_to_num())


def test_networks_fit_the_encoding(case: Case) -> None:
    x, mask = case.view.encode(case.view.check(case.X)), torch.ones(len(case.X), case.view.d)
    networks = networks_of(case.view, 3)
    assert networks.selector()(x).shape == (60, case.view.d)
    for sees_mask in (True, False):
        predictor = networks.predictor(sees_mask=sees_mask)
        assert predictor(case.view.mask(x, mask), mask).shape == (60, 3)


def test_with_nothing_selected_all_inputs_look_alike(case: Case) -> None:
    x, nothing = case.view.encode(case.view.check(case.X)), torch.zeros(len(case.X), case.view.d)
    said = networks_of(case.view, 2).predictor().eval()(case.view.mask(x, nothing), nothing)
    assert torch.allclose(said, said[:1].expand_as(said), atol=1e-6)


def test_what_is_not_selected_has_no_influence(case: Case) -> None:
    """Other values of the features outside the mask do not change what a predictor says."""
    view, X = case.view, case.view.check(case.X)
    x = view.encode(X)
    mask = torch.from_numpy(half(view, len(x))).float()
    predictor = networks_of(view, 2).predictor().eval()
    removed = view.for_model(X, half(view, len(x)))
    if not isinstance(removed, np.ndarray):
        pytest.skip("what the black box reads of it is not encoded again")
    again = view.encode(view.check(removed))
    assert torch.allclose(
        predictor(view.mask(x, mask), mask), predictor(view.mask(again, mask), mask), atol=1e-4
    )


def test_every_removal_keeps_what_is_selected(case: Case) -> None:
    """The black box reads whole inputs, and those of which everything is selected, alike."""
    view, X = case.view, case.view.check(case.X)
    whole = model(view.for_model(X))
    assert whole.shape == (60, 2)
    everything, nothing = np.ones((60, view.d), dtype=bool), np.zeros((60, view.d), dtype=bool)
    ways = removals(view)
    for way, other in ways.items():
        assert np.allclose(model(other.for_model(X, everything)), whole), way
        assert model(other.for_model(X, nothing, rng=np.random.default_rng(0))).shape == (60, 2), way
        assert other.names_ == view.names_, way
    if hasattr(view, "removal"):
        assert next(iter(ways)) == view.removal
        assert (len(ways) == 1) == (getattr(view, "reads", "") == "ids")


def test_groups_have_all_removals_of_columns() -> None:
    view = l2x.ColumnGroups({"pair": [0, 2]}).fit(TABLE)
    assert set(removals(view)) == {"mean", "zero", "resample"}
    nothing = np.zeros((60, view.d), dtype=bool)
    assert not removals(view)["zero"].for_model(TABLE, nothing).any()


def test_state_and_restore(case: Case) -> None:
    learned, arrays = case.view.state()
    restored = clone(case.view).restore(json.loads(json.dumps(learned)), arrays)
    X = case.view.check(case.X)
    assert restored.names_ == case.view.names_
    assert torch.equal(restored.encode(restored.check(case.X)).nan_to_num(), case.view.encode(X).nan_to_num())
    mask = half(case.view, len(X))
    assert same(restored.for_model(restored.check(case.X), mask), case.view.for_model(X, mask))


def test_units_sum_what_the_module_reads(case: Case) -> None:
    if not case.numeric:
        pytest.skip("of categories and ids, gradients are taken elsewhere")
    parts = torch.rand_like(module_input(case.view, case.view.check(case.X)))
    assert case.view.units(parts).shape == (60, case.view.d)
    assert case.view.units(parts).sum().item() == pytest.approx(parts.sum().item(), rel=1e-4)
    with pytest.raises((l2x.InputError, RuntimeError)):
        case.view.units(torch.zeros(2, 99, 3))


def test_noise_gives_inputs_of_the_same_kind(case: Case) -> None:
    X = case.view.check(case.X)
    noisy = jitter(case.view, X, np.random.default_rng(0))
    if noisy is not None:
        assert case.view.encode(case.view.check(noisy)).shape == case.view.encode(X).shape


@pytest.mark.parametrize("value", ["surrogate", "model", "joint"])
def test_explain_save_and_load(case: Case, value: str, tmp_path: Path) -> None:
    explainer = l2x.Explainer(model, 1, features=clone(case.view), value=value, training=PLAN).fit(case.X)
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
    judge = l2x.Explainer(model, 1, features=clone(view), training=PLAN).fit(case.X).q_
    found: dict[str, Any] = {
        "random": baselines.RandomK(features=view),
        "global": baselines.GlobalTopK(judge, features=view, rows=20).fit(case.X, 1),
        "position": baselines.ByPosition(model, features=view),
        "prediction": baselines.ByPrediction(judge, features=view),
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
    with pytest.raises(l2x.InputError, match="distances between numbers"):
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
