"""What a subset is worth: four objects of one shape, also by their short names, also of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
from toy_models import one_column

import l2x
from l2x.learning._likelihood import Categorical
from l2x.learning._rows import Rows
from l2x.learning._surrogate import MixedQ, ModelQ, NetworkQ, Q
from l2x.learning._training import Phase
from l2x.learning.networks import networks_of
from l2x.learning.objectives import Both, Ingredients, Joint, Surrogate, Value, as_value, check_compatible

PLAN = l2x.TrainingPlan(Phase(3, 1e-2), Phase(3, 1e-2), evaluations=2, progress=False)


@pytest.mark.parametrize(
    ("name", "value"),
    [("both", l2x.Both()), ("surrogate", l2x.Surrogate()), ("model", l2x.Model()), ("joint", l2x.Joint())],
)
def test_a_short_name_stands_for_its_object(name: str, value: Value, table: np.ndarray) -> None:
    assert as_value(name) == value
    by_name = l2x.Explainer(one_column, 1, value=name, training=PLAN).fit(table)
    by_object = l2x.Explainer(one_column, 1, value=value, training=PLAN).fit(table)
    assert np.array_equal(by_name.explain(table).scores, by_object.explain(table).scores)


@pytest.mark.parametrize("given", ["suregate", None, 3])
def test_an_unknown_value_is_refused(given: object) -> None:
    with pytest.raises(
        l2x.InputError, match=r"value is .*; choose among 'both', 'surrogate', 'model', 'joint'"
    ):
        as_value(given)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Halved(Surrogate):
    """A value of one's own: the surrogate's, with half of its steps."""

    share: float = 0.5


def test_a_value_of_ones_own_is_saved_and_loaded(table: np.ndarray, tmp_path: Path) -> None:
    explainer = l2x.Explainer(one_column, 1, value=Halved(0.25), training=PLAN).fit(table)
    loaded = l2x.load(explainer.save(tmp_path / "e.l2x"))
    assert loaded.value == Halved(0.25)
    assert np.array_equal(loaded.explain(table).scores, explainer.explain(table).scores)


def test_log_value_of_every_mask(table: np.ndarray) -> None:
    """(m, n, d) masks -> (m, n): each is log q of its row under its mask."""
    view = l2x.Columns().fit(table)
    target = Categorical(2).targets(one_column(table))
    rows = Rows(view, table, view.encode(table), target)
    predictor = networks_of(view, 2).predictor().requires_grad_(False)
    black_box = l2x.as_black_box(one_column)
    qs: list[Q] = [
        NetworkQ(predictor, Categorical(2)),
        ModelQ(black_box, Categorical(2), np.random.default_rng(0)),
    ]
    masks = (torch.rand(3, len(table), 5, generator=torch.Generator().manual_seed(0)) < 0.5).float()
    for q in qs:
        values = q.log_value(rows, masks)
        assert values.shape == (3, len(table))
        each = Categorical(2).log_likelihood(q.outputs(rows, masks[1]), target)
        assert torch.allclose(values[1], each, atol=1e-6)


def test_the_joint_predictor_does_not_see_the_mask() -> None:
    seen = []

    def build(sees_mask: bool) -> torch.nn.Module:
        seen.append(sees_mask)
        return torch.nn.Linear(1, 1)

    for value in (l2x.Joint(), l2x.Surrogate()):
        value.build(Ingredients(Categorical(2), build, None, 0))
    assert seen == [False, True]


class Undeclared(Surrogate):
    """Its options are nowhere declared."""

    def __init__(self, w: int = 1) -> None:
        object.__setattr__(self, "w", w)


class Bare(Surrogate):
    """Has none of its own."""


def test_options_that_cannot_be_saved_are_refused(table: np.ndarray, tmp_path: Path) -> None:
    explainer = l2x.Explainer(one_column, 1, value=Undeclared(7), training=PLAN).fit(table)
    with pytest.raises(l2x.InputError, match=r"Cannot save Undeclared: .* make it a @dataclass"):
        explainer.save(tmp_path / "e.l2x")
    bare = l2x.Explainer(one_column, 1, value=Bare(), training=PLAN).fit(table)
    assert isinstance(l2x.load(bare.save(tmp_path / "b.l2x")).value, Bare)


def encoded(X: np.ndarray) -> Rows:
    view = l2x.Columns().fit(X)
    return Rows(view, X, view.encode(X), Categorical(2).targets(one_column(X)), np.arange(len(X)))


def test_both_averages_the_log_values(table: np.ndarray) -> None:
    rows = encoded(table)
    network = NetworkQ(networks_of(rows.view, 2).predictor().requires_grad_(False), Categorical(2))
    model = ModelQ(l2x.as_black_box(one_column), Categorical(2), np.random.default_rng(0))
    masks = (torch.rand(3, len(table), 5, generator=torch.Generator().manual_seed(0)) < 0.5).float()
    said = [q.log_value(rows, masks) for q in (network, model)]
    for weight in (0.0, 0.3, 1.0):
        both = MixedQ(network, model, weight)
        expected = (1 - weight) * said[0] + weight * said[1]
        assert torch.allclose(both.log_value(rows, masks), expected, atol=1e-6)
        assert torch.equal(both.outputs(rows, masks[0]), network.outputs(rows, masks[0]))


def test_within_a_limit_the_first_rows_are_asked_and_the_others_are_the_surrogates(table: np.ndarray) -> None:
    rows = encoded(table)
    network = NetworkQ(networks_of(rows.view, 2).predictor().requires_grad_(False), Categorical(2))
    black_box = l2x.as_black_box(one_column)
    model = ModelQ(black_box, Categorical(2), np.random.default_rng(0), limit=32.5)
    masks = torch.ones(3, len(table), 5)
    values = MixedQ(network, model, 1.0).log_value(rows, masks)
    assert black_box.rows == 30  # ten rows under three masks
    assert torch.equal(values[:, 10:], network.log_value(rows, masks)[:, 10:])
    assert not torch.allclose(values[:, :10], network.log_value(rows, masks)[:, :10])
    assert (model.log_value(rows, masks)[:, 10:] == 0).all()


@pytest.mark.parametrize("weight", [-0.1, 1.1])
def test_a_weight_that_is_no_share_is_refused(weight: float) -> None:
    with pytest.raises(l2x.InputError, match=r"weight is .*; expected the model's share, between 0 and 1"):
        l2x.Both(weight)


def test_queries_bound_what_the_model_is_asked(table: np.ndarray) -> None:
    plan = l2x.TrainingPlan(Phase(3, 1e-2), Phase(20, 1e-2, batch_size=100), evaluations=2, progress=False)
    for value, queries in (("both", 0), ("both", 500), ("model", 500), ("both", 10**9)):
        explainer = l2x.Explainer(one_column, 1, value=value, queries=queries, training=plan).fit(table)
        assert explainer.rows_asked_ - len(table) <= queries
        assert explainer.queries_ == explainer.rows_asked_ - len(table)
        assert (explainer.rows_asked_ > len(table)) == (queries > 0)
    by_surrogate = l2x.Explainer(one_column, 1, value="surrogate", training=plan).fit(table)
    without = l2x.Explainer(one_column, 1, queries=0, training=plan).fit(table)
    assert np.array_equal(without.explain(table).scores, by_surrogate.explain(table).scores)


def test_too_few_queries_for_the_model_alone_are_refused_before_it_is_asked(table: np.ndarray) -> None:
    """Every step values four subsets of a row, or it learns nothing."""
    plan, asked = l2x.TrainingPlan(Phase(3, 1e-2), Phase(20, 1e-2), evaluations=2, progress=False), []

    def model(X: np.ndarray) -> np.ndarray:
        asked.append(len(X))
        return one_column(X)

    for queries in (3, 4 * 20 - 1):
        with pytest.raises(l2x.InputError, match=f"at least 4 in each of 20 steps.*limit is {queries}"):
            l2x.Explainer(model, 1, value="model", queries=queries, training=plan).fit(table)
    for queries in ("100", -1, 2.5, 10**400):
        with pytest.raises(l2x.InputError, match=f"queries is '?{str(queries)[:20]}"):
            l2x.Explainer(model, 1, value="surrogate", queries=queries, training=plan).fit(table)
    assert not asked


def test_the_surrogate_alone_asks_nothing(table: np.ndarray) -> None:
    alone = l2x.Explainer(one_column, 1, value=Both(weight=0), queries=10**6, training=PLAN).fit(table)
    surrogate = l2x.Explainer(one_column, 1, value="surrogate", queries=10**6, training=PLAN).fit(table)
    assert alone.rows_asked_ == surrogate.rows_asked_
    assert np.array_equal(alone.explain(table).scores, surrogate.explain(table).scores)
    for weight in ("a", None, 1.5):
        with pytest.raises(l2x.InputError, match="between 0 and 1"):
            Both(weight=weight)


def test_answers_of_another_width_than_the_models_are_refused(table: np.ndarray) -> None:
    with pytest.raises(l2x.InputError, match="answers with 2 numbers a row, and the answers that are to be"):
        l2x.Explainer(one_column, 1, queries=10**6, training=PLAN).fit(
            table, responses=one_column(table)[:, 1]
        )


def test_what_is_learned_does_not_depend_on_the_clock(
    table: np.ndarray, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One model takes a minute for each batch, by the clock: that is announced, and changes nothing."""
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
        explainer.fit_seconds_ = 0.0
    files = [explainer.save(tmp_path / "e.l2x").read_bytes() for explainer in (fast, late)]
    assert files[0] == files[1]


def test_a_time_limit(table: np.ndarray, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A model that takes a second for each row, by the clock; also if its predictions are brought."""
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def slow(X: np.ndarray) -> np.ndarray:
        now[0] += len(X)
        return one_column(X)

    for limit, responses in ((200, None), (0, None), (200, one_column(table))):
        explainer = l2x.Explainer(slow, 1, queries=timedelta(seconds=limit), training=PLAN)
        explainer.fit(table, responses=responses)
        assert explainer.queries_ <= limit
        assert (explainer.queries_ > 0) == (limit > 0)
    assert l2x.load(explainer.save(tmp_path / "e.l2x")).queries == timedelta(seconds=200)


def test_predictions_that_are_brought_spare_the_model(table: np.ndarray) -> None:
    explainer = l2x.Explainer(one_column, 1, training=PLAN).fit(table, responses=one_column(table))
    assert explainer.queries_ == explainer.rows_asked_ == 0
    with pytest.raises(l2x.InputError, match="limit is 0"):
        l2x.Explainer(one_column, 1, value="model", training=PLAN).fit(table, responses=one_column(table))


def test_fit_prints_how_many_rows_it_queried(table: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    plan = l2x.TrainingPlan(Phase(3, 1e-2), Phase(3, 1e-2), evaluations=2)
    explainer = l2x.Explainer(one_column, 1, queries=600, training=plan).fit(table)
    said = " ".join(capsys.readouterr().err.split())
    assert f"600 rows and {explainer.queries_:,} masked rows (limit 600)" in said


def test_what_was_asked_includes_the_look_at_the_result(
    table: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def model(X: np.ndarray) -> np.ndarray:
        asked.append(len(X))
        return one_column(X)

    plan = l2x.TrainingPlan(Phase(3, 1e-2), Phase(3, 1e-2), evaluations=2)
    explainer = l2x.Explainer(model, 1, queries=5000, training=plan).fit(table)
    assert explainer.rows_asked_ == sum(asked)
    said = " ".join(capsys.readouterr().err.split())
    assert f"600 rows and {sum(asked) - 600:,} masked rows (limit 5,000)" in said


def test_evidence_wants_a_q_that_has_learned() -> None:
    with pytest.raises(l2x.InputError, match=r"Evidence does not teach q, and Joint\(\) has to learn"):
        check_compatible(Joint(), l2x.learning.samplers.Evidence())
    check_compatible(Both(), l2x.learning.samplers.Evidence())
