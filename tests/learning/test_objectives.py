"""Objectives: four objects with one interface, and the subsets that surrogates are fitted on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_models import one_column

import l2x
from l2x.learning._rows import Categorical, Rows
from l2x.learning._surrogate import (
    BaseSurrogate,
    MixedSurrogate,
    ModelSurrogate,
    NetworkSurrogate,
    _subsets,
    random_masks,
)
from l2x.learning._training import Phase
from l2x.learning.networks import networks_of
from l2x.learning.objectives import (
    Both,
    Ingredients,
    Joint,
    Objective,
    Surrogate,
    as_objective,
    check_compatible,
)

PLAN = l2x.TrainingPlan(Phase(3, 1e-2), Phase(3, 1e-2), evaluations=2, progress=False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("both", l2x.objectives.Both()),
        ("surrogate", l2x.objectives.Surrogate()),
        ("model", l2x.objectives.Model()),
        ("joint", l2x.objectives.Joint()),
    ],
)
def test_a_short_name_stands_for_its_object(name: str, value: Objective, table: np.ndarray) -> None:
    assert as_objective(name) == value
    by_name = l2x.Explainer(one_column, 1, objective=name, training=PLAN).fit(table)
    by_object = l2x.Explainer(one_column, 1, objective=value, training=PLAN).fit(table)
    assert np.array_equal(by_name.explain(table).scores, by_object.explain(table).scores)


@pytest.mark.parametrize("given", ["suregate", None, 3])
def test_an_unknown_objective_is_refused(given: object) -> None:
    with pytest.raises(l2x.errors.InputError, match=r"^objective is .*'both', 'surrogate', 'model', 'joint'"):
        as_objective(given)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Halved(Surrogate):
    """A user's own objective."""

    share: float = 0.5


def test_a_users_own_objective_is_saved_and_loaded(table: np.ndarray, tmp_path: Path) -> None:
    explainer = l2x.Explainer(one_column, 1, objective=Halved(0.25), training=PLAN).fit(table)
    loaded = l2x.load(explainer.save(tmp_path / "e.l2x"))
    assert loaded.objective == Halved(0.25)
    assert np.array_equal(loaded.explain(table).scores, explainer.explain(table).scores)


def test_log_value_of_every_mask(table: np.ndarray) -> None:
    """(m, n, d) masks -> (m, n): each is log q of its row under its mask."""
    view = l2x.Columns().fit(table)
    target = Categorical(2).targets(one_column(table))
    rows = Rows(view, table, view.encode(table), target)
    predictor = networks_of(view, 2).predictor().requires_grad_(False)
    black_box = l2x.as_black_box(one_column)
    surrogates: list[BaseSurrogate] = [
        NetworkSurrogate(predictor, Categorical(2)),
        ModelSurrogate(black_box, Categorical(2), np.random.default_rng(0)),
    ]
    masks = (torch.rand(3, len(table), 5, generator=torch.Generator().manual_seed(0)) < 0.5).float()
    for surrogate in surrogates:
        values = surrogate.log_value(rows, masks)
        assert values.shape == (3, len(table))
        each = Categorical(2).log_likelihood(surrogate.outputs(rows, masks[1]), target)
        assert torch.allclose(values[1], each, atol=1e-6)


def test_the_joint_predictor_does_not_see_the_mask() -> None:
    given = []

    def build(sees_mask: bool) -> torch.nn.Module:
        given.append(sees_mask)
        return torch.nn.Linear(1, 1)

    for objective in (l2x.objectives.Joint(), l2x.objectives.Surrogate()):
        objective.build(Ingredients(Categorical(2), build, None, 0))
    assert given == [False, True]


class Undeclared(Surrogate):
    """An objective whose options are not declared."""

    def __init__(self, w: int = 1) -> None:
        object.__setattr__(self, "w", w)


class Bare(Surrogate):
    """An objective without options."""


def test_options_that_cannot_be_saved_are_refused(table: np.ndarray, tmp_path: Path) -> None:
    explainer = l2x.Explainer(one_column, 1, objective=Undeclared(7), training=PLAN).fit(table)
    with pytest.raises(l2x.errors.InputError, match=r"Undeclared.*@dataclass"):
        explainer.save(tmp_path / "e.l2x")
    bare = l2x.Explainer(one_column, 1, objective=Bare(), training=PLAN).fit(table)
    assert isinstance(l2x.load(bare.save(tmp_path / "b.l2x")).objective, Bare)


def encoded(X: np.ndarray) -> Rows:
    view = l2x.Columns().fit(X)
    return Rows(view, X, view.encode(X), Categorical(2).targets(one_column(X)), np.arange(len(X)))


def test_both_averages_the_log_values(table: np.ndarray) -> None:
    rows = encoded(table)
    network = NetworkSurrogate(networks_of(rows.view, 2).predictor().requires_grad_(False), Categorical(2))
    model = ModelSurrogate(l2x.as_black_box(one_column), Categorical(2), np.random.default_rng(0))
    masks = (torch.rand(3, len(table), 5, generator=torch.Generator().manual_seed(0)) < 0.5).float()
    values = [surrogate.log_value(rows, masks) for surrogate in (network, model)]
    for weight in (0.0, 0.3, 1.0):
        both = MixedSurrogate(network, model, weight)
        expected = (1 - weight) * values[0] + weight * values[1]
        assert torch.allclose(both.log_value(rows, masks), expected, atol=1e-6)
        assert torch.equal(both.outputs(rows, masks[0]), network.outputs(rows, masks[0]))


def test_within_a_limit_the_model_is_queried_for_the_first_rows(table: np.ndarray) -> None:
    rows = encoded(table)
    network = NetworkSurrogate(networks_of(rows.view, 2).predictor().requires_grad_(False), Categorical(2))
    black_box = l2x.as_black_box(one_column)
    model = ModelSurrogate(black_box, Categorical(2), np.random.default_rng(0), limit=32.5)
    masks = torch.ones(3, len(table), 5)
    values = MixedSurrogate(network, model, 1.0).log_value(rows, masks)
    assert black_box.rows == 30  # ten rows under three masks
    assert torch.equal(values[:, 10:], network.log_value(rows, masks)[:, 10:])
    assert not torch.allclose(values[:, :10], network.log_value(rows, masks)[:, :10])
    assert (model.log_value(rows, masks)[:, 10:] == 0).all()


@pytest.mark.parametrize("weight", [-0.1, 1.1])
def test_an_invalid_weight_is_refused(weight: float) -> None:
    with pytest.raises(l2x.errors.InputError, match=f"weight is {weight}"):
        l2x.objectives.Both(weight)


def test_queries_limit_the_masked_rows(table: np.ndarray) -> None:
    plan = l2x.TrainingPlan(Phase(3, 1e-2), Phase(20, 1e-2, batch_size=100), evaluations=2, progress=False)
    for objective, queries in (("both", 0), ("both", 500), ("model", 500), ("both", 10**9)):
        explainer = l2x.Explainer(one_column, 1, objective=objective, queries=queries, training=plan).fit(
            table
        )
        assert explainer.rows_queried_ - len(table) <= queries
        assert explainer.queries_ == explainer.rows_queried_ - len(table)
        assert (explainer.rows_queried_ > len(table)) == (queries > 0)
    by_surrogate = l2x.Explainer(one_column, 1, objective="surrogate", training=plan).fit(table)
    without = l2x.Explainer(one_column, 1, queries=0, training=plan).fit(table)
    assert np.array_equal(without.explain(table).scores, by_surrogate.explain(table).scores)


def test_too_few_queries_for_the_model_alone_are_refused_before_it_is_queried(table: np.ndarray) -> None:
    """Every step evaluates four subsets of a row, or it learns nothing."""
    plan, queried = l2x.TrainingPlan(Phase(3, 1e-2), Phase(20, 1e-2), evaluations=2, progress=False), []

    def model(X: np.ndarray) -> np.ndarray:
        queried.append(len(X))
        return one_column(X)

    for queries in (3, 4 * 20 - 1):
        with pytest.raises(l2x.errors.InputError, match=rf"\b4\b.*\b20\b.*limit is {queries}\b"):
            l2x.Explainer(model, 1, objective="model", queries=queries, training=plan).fit(table)
    for queries in ("100", -1, 2.5, 10**400):
        with pytest.raises(l2x.errors.InputError, match=f"queries is '?{str(queries)[:20]}"):
            l2x.Explainer(model, 1, objective="surrogate", queries=queries, training=plan).fit(table)
    assert not queried


def test_the_surrogate_alone_queries_nothing(table: np.ndarray) -> None:
    alone = l2x.Explainer(one_column, 1, objective=Both(weight=0), queries=10**6, training=PLAN).fit(table)
    surrogate = l2x.Explainer(one_column, 1, objective="surrogate", queries=10**6, training=PLAN).fit(table)
    assert alone.rows_queried_ == surrogate.rows_queried_
    assert np.array_equal(alone.explain(table).scores, surrogate.explain(table).scores)
    for weight in ("a", None, 1.5):
        with pytest.raises(l2x.errors.InputError, match="between 0 and 1"):
            Both(weight=weight)


def test_predictions_of_another_width_than_the_models_are_refused(table: np.ndarray) -> None:
    with pytest.raises(l2x.errors.InputError, match="returns 2 numbers per row, but predictions= has 1"):
        l2x.Explainer(one_column, 1, queries=10**6, training=PLAN).fit(
            table, predictions=one_column(table)[:, 1]
        )


def test_the_result_does_not_depend_on_the_clock(
    table: np.ndarray, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One model takes a minute for each batch, by the clock: this is announced, and changes nothing."""
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def slow(X: np.ndarray) -> np.ndarray:
        now[0] += 60.0
        return one_column(X)

    plan = l2x.TrainingPlan(Phase(3, 1e-2), Phase(3, 1e-2), evaluations=2)
    fast = l2x.Explainer(one_column, 1, training=plan).fit(table)
    assert "min" not in capsys.readouterr().err
    late = l2x.Explainer(slow, 1, training=plan).fit(table)
    assert "min; queries=" in " ".join(capsys.readouterr().err.split())
    assert now[0] > 600
    assert late.queries_ == fast.queries_ > 0
    assert late.check_ == fast.check_
    assert late.history_ == fast.history_
    for explainer in (fast, late):
        explainer.fit_seconds_, explainer.fitted_at_ = 0.0, None
    files = [explainer.save(tmp_path / "e.l2x").read_bytes() for explainer in (fast, late)]
    assert files[0] == files[1]


def test_a_time_limit(table: np.ndarray, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A model takes a second for each row, by the clock; also if predictions are passed."""
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def slow(X: np.ndarray) -> np.ndarray:
        now[0] += len(X)
        return one_column(X)

    for limit, predictions in ((200, None), (0, None), (200, one_column(table))):
        explainer = l2x.Explainer(slow, 1, queries=timedelta(seconds=limit), training=PLAN)
        explainer.fit(table, predictions=predictions)
        assert explainer.queries_ <= limit
        assert (explainer.queries_ > 0) == (limit > 0)
    assert l2x.load(explainer.save(tmp_path / "e.l2x")).queries == timedelta(seconds=200)


def test_with_known_predictions_the_model_is_not_queried(table: np.ndarray) -> None:
    explainer = l2x.Explainer(one_column, 1, training=PLAN).fit(table, predictions=one_column(table))
    assert explainer.queries_ == explainer.rows_queried_ == 0
    with pytest.raises(l2x.errors.InputError, match="limit is 0"):
        l2x.Explainer(one_column, 1, objective="model", training=PLAN).fit(
            table, predictions=one_column(table)
        )


def test_fit_prints_how_many_rows_it_queried(table: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    plan = l2x.TrainingPlan(Phase(3, 1e-2), Phase(3, 1e-2), evaluations=2)
    explainer = l2x.Explainer(one_column, 1, queries=600, training=plan).fit(table)
    printed = " ".join(capsys.readouterr().err.split())
    assert f"600 rows and {explainer.queries_:,} masked rows (limit 600)" in printed


def test_the_number_of_queries_includes_the_self_check(
    table: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    queried = []

    def model(X: np.ndarray) -> np.ndarray:
        queried.append(len(X))
        return one_column(X)

    plan = l2x.TrainingPlan(Phase(3, 1e-2), Phase(3, 1e-2), evaluations=2)
    explainer = l2x.Explainer(model, 1, queries=5000, training=plan).fit(table)
    assert explainer.rows_queried_ == sum(queried)
    printed = " ".join(capsys.readouterr().err.split())
    assert f"600 rows and {sum(queried) - 600:,} masked rows (limit 5,000)" in printed


def test_evidence_needs_a_fixed_surrogate() -> None:
    with pytest.raises(l2x.errors.InputError, match=r"Evidence .* Joint\(\)"):
        check_compatible(Joint(), l2x.learning.samplers.Evidence())
    check_compatible(Both(), l2x.learning.samplers.Evidence())


class SomeSelectable(l2x.Columns):
    """Only columns above zero are selectable."""

    def selectable(self, x: torch.Tensor) -> torch.Tensor:
        return x > 0


@settings(max_examples=25, deadline=None)
@given(d=st.integers(2, 9), k=st.integers(1, 9), seed=st.integers(0, 99))
def test_random_masks_have_size_k_or_any_size(d: int, k: int, seed: int) -> None:
    k = min(k, d)
    X = np.random.default_rng(seed).normal(size=(400, d))
    view = l2x.Columns().fit(X)
    rows = Rows(view, None, view.encode(X), torch.zeros(400, 1))
    masks = random_masks(rows, k, torch.Generator().manual_seed(seed))
    sizes = masks.sum(dim=1)
    assert set(masks.unique().tolist()) <= {0.0, 1.0}
    # Half of the rows, and a share 1 / (d + 1) of the other half: six standard deviations around that.
    assert abs((sizes == k).float().mean().item() - (0.5 + 0.5 / (d + 1))) < 6 * 0.5 / 20
    assert sizes.max() <= d


@pytest.mark.parametrize(("progress", "whole"), [(0.0, 1.0), (0.05, 0.5), (0.5, 0.0)])
def test_random_masks_of_many_features_start_with_whole_rows(progress: float, whole: float) -> None:
    X = np.random.default_rng(0).normal(size=(2000, 100))
    view = l2x.Columns().fit(X)
    rows = Rows(view, None, view.encode(X), torch.zeros(2000, 1))
    masks = random_masks(rows, 3, torch.Generator().manual_seed(0), progress)
    sizes = masks.sum(dim=1)
    # Half of the others have a size from 1 to 3; so do a few more by chance.
    assert (sizes == 100).float().mean().item() == pytest.approx(whole, abs=0.03)
    for size in (1, 2, 3):
        assert (sizes == size).float().mean().item() == pytest.approx((1 - whole) / 6, abs=0.03)
    if not whole:
        assert masks.mean(dim=0).std() < 0.03  # no feature is preferred


def test_sizes_of_many_features() -> None:
    """Half have up to k; the others any size up to d, equally likely up to 2 k and then ever less."""
    X = np.random.default_rng(0).normal(size=(8000, 400))
    view = l2x.Columns().fit(X)
    rows = Rows(view, None, view.encode(X), torch.zeros(8000, 1))
    sizes = random_masks(rows, 32, torch.Generator().manual_seed(0)).sum(dim=1)
    low, high, large, whole = (
        ((sizes >= a) & (sizes < b)).float().mean().item()
        for a, b in [(0, 33), (33, 65), (129, 257), (257, 401)]
    )
    assert low - 0.5 == pytest.approx(high, abs=0.03)
    assert high > large > whole > 0


@given(st.integers(1, 12), st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_subsets_of_given_sizes_are_equally_likely(d: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, d + 1, (1000, 1), generator=generator)
    masks = _subsets(sizes, d, generator)
    assert torch.equal(masks.sum(dim=1, keepdim=True), sizes)
    # Every feature is equally likely: within six standard errors, which are below 0.016.
    assert torch.allclose(masks.float().mean(dim=0), sizes.float().mean() / d, atol=0.1)


def test_unselectable_features_are_in_no_mask() -> None:
    X = np.random.default_rng(0).normal(size=(200, 6))
    view = SomeSelectable(standardize=False).fit(X)
    x = view.encode(X)
    masks = random_masks(Rows(view, None, x, torch.zeros(200, 1)), 2, torch.Generator().manual_seed(0))
    assert not (masks.bool() & (x <= 0)).any()
    assert (masks.sum(dim=1) == (x > 0).sum(dim=1)).any()  # sizes go up to the number of selectable features
