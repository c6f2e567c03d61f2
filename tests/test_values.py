"""What a subset is worth: three objects of one shape, also by their short names, also of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from toy_models import one_column

import l2x
from l2x.conditional import ModelQ, NetworkQ, Q, log_value
from l2x.data import Rows
from l2x.likelihood import Categorical
from l2x.training import Phase
from l2x.values import Ingredients, Surrogate, Value, as_value

PLAN = l2x.TrainingPlan(Phase(3, 1e-2), Phase(3, 1e-2), evaluations=2, progress=False)


@pytest.mark.parametrize(
    ("name", "value"), [("surrogate", l2x.Surrogate()), ("model", l2x.Model()), ("joint", l2x.Joint())]
)
def test_a_short_name_stands_for_its_object(name: str, value: Value, table: np.ndarray) -> None:
    assert as_value(name) == value
    by_name = l2x.Explainer(one_column, 1, value=name, training=PLAN).fit(table)
    by_object = l2x.Explainer(one_column, 1, value=value, training=PLAN).fit(table)
    assert np.array_equal(by_name.explain(table).scores, by_object.explain(table).scores)


@pytest.mark.parametrize("given", ["suregate", None, 3])
def test_an_unknown_value_is_refused(given: object) -> None:
    with pytest.raises(l2x.InputError, match=r"value is .*; choose among 'surrogate', 'model', 'joint'"):
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
    predictor = view.networks(2).predictor().requires_grad_(False)
    black_box = l2x.as_black_box(one_column)
    qs: list[Q] = [
        NetworkQ(predictor, Categorical(2)),
        ModelQ(black_box, Categorical(2), np.random.default_rng(0)),
    ]
    masks = (torch.rand(3, len(table), 5, generator=torch.Generator().manual_seed(0)) < 0.5).float()
    for q in qs:
        values = log_value(q, rows, masks)
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
