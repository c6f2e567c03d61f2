"""The selector: how it and its text encoder are trained, and its scores for raw inputs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from toy_models import one_column

import l2x
from l2x.learning._rows import Labels, Problem, TrainingRows, prepare
from l2x.learning._selector import fit_selector, fit_text_encoder, input_scores
from l2x.learning._surrogate import NetworkSurrogate, fit_surrogate
from l2x.learning._training import Phase, Run
from l2x.learning.networks import networks_of
from l2x.learning.networks._columns import ColumnSelector
from l2x.learning.networks._recipes import HasTextEncoder
from l2x.learning.samplers import PlackettLuce

PLAN = l2x.TrainingPlan(Phase(30, 1e-2), Phase(3, 1e-2), evaluations=2, progress=False)


@pytest.fixture
def view() -> l2x.Columns:
    rng = np.random.default_rng(0)
    return l2x.Columns().fit(pd.DataFrame({"a": rng.normal(size=30), "b": rng.choice(["x", "y"], 30)}))


@pytest.fixture
def selector(view: l2x.Columns) -> ColumnSelector:
    torch.manual_seed(0)
    selector = ColumnSelector(2, inputs=view.inputs_, prediction_size=2)
    torch.nn.init.normal_(selector.layers[-1].weight)
    return selector


ROWS = pd.DataFrame({"a": [0.5, -1.0, 2.0, 0.1, 0.0], "b": ["x", "z", "y", "z", "x"]})
PREDICTIONS = torch.tensor([[0.0, -2.0], [-1.0, -0.5], [-3.0, 0.0], [-0.1, -2.5], [0.0, 0.0]])


def test_batches_give_the_same_scores_as_one_pass(
    view: l2x.Columns, selector: ColumnSelector, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, unseen = input_scores(view, selector, ROWS, PREDICTIONS)
    assert unseen == {"b": 2}
    with torch.inference_mode():
        expected = selector(view.encode(ROWS), PREDICTIONS)
    np.testing.assert_array_equal(whole, expected.numpy())
    monkeypatch.setattr(type(view), "rows_at_once", 2)
    parts, unseen = input_scores(view, selector, ROWS, PREDICTIONS)
    assert unseen == {"b": 2}
    np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-5)


def test_a_subclass_of_the_selector_uses_its_own_forward(view: l2x.Columns, selector: ColumnSelector) -> None:
    class Doubled(ColumnSelector):
        def forward(self, x: torch.Tensor, prediction: torch.Tensor | None = None) -> torch.Tensor:
            return 2 * super().forward(x, prediction)

    doubled = Doubled(2, inputs=view.inputs_, prediction_size=2)
    doubled.load_state_dict(selector.state_dict())
    once, _ = input_scores(view, selector, ROWS, PREDICTIONS)
    twice, _ = input_scores(view, doubled, ROWS, PREDICTIONS)
    np.testing.assert_allclose(twice, 2 * once, rtol=1e-6)


def test_no_rows(view: l2x.Columns, selector: ColumnSelector) -> None:
    scores, unseen = input_scores(view, selector, ROWS[:0], PREDICTIONS[:0])
    assert scores.shape == (0, 2)
    assert not unseen


def problem(run: Run) -> TrainingRows:
    X = np.random.default_rng(0).normal(size=(300, 4))
    view = l2x.Columns().fit(X)
    return prepare(l2x.as_black_box(one_column), view, X, Labels(), Problem(1), run=run)


def test_a_surrogate_learns_and_is_frozen() -> None:
    run = Run.begin(PLAN, seed=0)
    data = problem(run)
    with run.seeded():  # the initial weights: with some seeds too little is learned in so few steps
        surrogate = NetworkSurrogate(networks_of(data.view, 2).predictor(), data.likelihood)
    fit_surrogate(surrogate, data, run)
    assert not any(p.requires_grad for p in surrogate.predictor.parameters())
    losses = [line["validation_loss"] for line in run.history]
    assert losses[-1] < losses[0]
    before = {name: p.clone() for name, p in surrogate.predictor.named_parameters()}
    fit_selector(networks_of(data.view, 2).selector(), surrogate, data, PlackettLuce(), run)
    assert all(torch.equal(p, before[name]) for name, p in surrogate.predictor.named_parameters())


class Unrelated(nn.Module):
    """A user's selector that happens to have an attribute of this name."""

    def __init__(self) -> None:
        super().__init__()
        self.text_encoder = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.text_encoder(x)


class Encoding(HasTextEncoder):
    def __init__(self) -> None:
        super().__init__()
        self.text_encoder = nn.Bilinear(4, 4, 2)


def test_only_a_selector_that_declares_it_has_a_text_encoder() -> None:
    run = Run.begin(PLAN, seed=0)
    data = problem(run)
    predictor = networks_of(data.view, 2).predictor().requires_grad_(False)
    surrogate = NetworkSurrogate(predictor, data.likelihood)
    unrelated = Unrelated()
    fit_text_encoder(unrelated, surrogate, data, run)
    assert not run.history
    assert unrelated.text_encoder.weight.requires_grad
    encoding = Encoding()
    fit_text_encoder(encoding, surrogate, data, run)
    assert [line["phase"] for line in run.history] == ["fitting the text encoder"] * len(run.history) != []
    assert not encoding.text_encoder.weight.requires_grad


@pytest.mark.parametrize("limit", [None, 4000])
def test_subsets_for_several_updates_are_queried_together(limit: int | None) -> None:
    """With fewer calls of the model, the same column is found, and a limit of queries is shared evenly."""
    X, calls = np.random.default_rng(0).normal(size=(300, 4)), []

    def model(rows: np.ndarray) -> np.ndarray:
        calls.append(len(rows))
        return one_column(rows)

    used = {}
    for ahead in (1, 4):
        calls.clear()
        phase = Phase(30, 2e-2, batch_size=50, ahead=ahead)
        plan = l2x.TrainingPlan(Phase(1, 1e-2), phase, evaluations=2, progress=False)
        explainer = l2x.Explainer(
            model,
            1,
            objective="model",
            features=l2x.Columns(masking="resample"),
            training=plan,
            queries=limit,
        ).fit(X)
        assert (explainer.explain(X).mask.mean(axis=0) > 0.9).sum() == 1
        assert explainer.queries_ <= (limit or 10**9)
        used[ahead] = len(calls), explainer.queries_
    assert used[4][0] <= used[1][0] - 20
    assert used[4][1] == pytest.approx(used[1][1], rel=0.3)
