"""The sampler Shapley: signed values of all features that add up, for any view and any class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import l2x
from l2x.errors import InputError
from l2x.learning import shapley_values, subsets_of
from l2x.learning.samplers import NEVER, Shapley, efficient

pytestmark = pytest.mark.filterwarnings("ignore:The selection is", "ignore:Only", "ignore:The model predicts")

TEXTS = ["a good film", "bad acting and a good plot", "bad", "so good, so very good", "dull but good"] * 8
rng = np.random.default_rng(0)
ROWS = rng.normal(size=(60, 5))


def classes(X: Any) -> np.ndarray:
    """A model with three classes of whatever it reads."""
    if isinstance(X, list):
        first = np.array([text.count("good") - text.count("bad") for text in X], dtype=float)
    else:
        first = np.asarray(X, dtype=float).reshape(len(X), -1)[:, 0]
    odds = np.exp(np.stack([first, -first, np.zeros(len(first))], axis=1))
    return odds / odds.sum(axis=1, keepdims=True)


def values(X: Any) -> np.ndarray:
    first = np.asarray(X, dtype=float)[:, 0]
    return np.stack([100 + 30 * first, -first], axis=1)


CASES: dict[str, tuple[Any, Any, Any, int]] = {
    "table": (classes, ROWS, None, 3),
    "regression": (l2x.as_black_box(values, task="regression"), ROWS, None, 2),
    "words": (classes, TEXTS, l2x.Words(length=8), 3),
    "sentences": (classes, TEXTS, l2x.Sentences(), 1),
    "patches": (classes, rng.random((40, 8, 8)).astype(np.float32), l2x.Patches(4), 2),
    "wide": (classes, rng.normal(size=(60, 70)), None, 4),
}


@pytest.fixture(scope="module", params=CASES)
def explained(request: pytest.FixtureRequest) -> tuple[l2x.Explainer, Any]:
    model, X, view, k = CASES[request.param]
    plan = l2x.TrainingPlan.quick(view).with_steps(value=4, selector=3)
    return l2x.Explainer(model, k, features=view, training=plan, sampler=Shapley()).fit(X), X


@settings(max_examples=40, deadline=None)
@given(d=st.integers(1, 9), pairs=st.integers(1, 4), seed=st.integers(0, 99))
def test_draws_are_pairs_of_complements(d: int, pairs: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    selectable = torch.rand(6, d, generator=generator) < 0.7
    drawn = Shapley(pairs).draw(selectable, generator)
    assert drawn.shape == (Shapley(pairs).subsets_of(d), 6, d)
    assert not (drawn & ~selectable).any()
    none, everything, subsets, complements = drawn[0], drawn[1], drawn[2 : 2 + pairs], drawn[2 + pairs :]
    assert not none.any()
    assert (everything == selectable).all()
    assert ((subsets ^ complements) == selectable).all()
    several = selectable.sum(dim=1) > 1
    assert subsets[:, several].any(dim=-1).all()
    assert complements[:, several].any(dim=-1).all()


def test_sizes_have_the_probabilities_of_the_kernel() -> None:
    """20,000 draws: the standard error of each share is at most 0.0036."""
    drawn = Shapley(4).draw(torch.ones(5000, 6, dtype=torch.bool), torch.Generator().manual_seed(0))
    shares = torch.bincount(drawn[2:6].sum(dim=-1).flatten(), minlength=7)[1:6] / 20_000
    kernel = torch.tensor([1 / (s * (6 - s)) for s in range(1, 6)])
    torch.testing.assert_close(shares, kernel / kernel.sum(), atol=0.015, rtol=0)


def test_the_best_scores_are_shapley_values() -> None:
    """Free scores of one game with five players; 400 steps leave noise of about 0.01."""
    d, generator = 5, torch.Generator().manual_seed(0)
    game = torch.rand(1 << d, generator=generator)
    exact = shapley_values(game.double().numpy()[:, None], d)
    codes = 2 ** torch.arange(d)
    scores = torch.zeros(64, d, requires_grad=True)  # 64 copies of the row: more draws per step
    optimizer = torch.optim.Adam([scores], lr=0.03)
    for step in range(400):
        for group in optimizer.param_groups:
            group["lr"] = 0.03 * (1 - step / 400)
        optimizer.zero_grad()
        shared = scores.mean(dim=0).expand(64, d)
        (-Shapley(4).objective(shared, 2, lambda m: game[(m @ codes.float()).long()], generator)).backward()
        optimizer.step()
    found = efficient(scores.mean(dim=0)[None], game[-1:] - game[:1]).detach().numpy()
    np.testing.assert_allclose(found, exact, atol=0.03)


def test_efficient_scores_add_up_without_unselectable_features() -> None:
    scores = torch.tensor([[1.0, 2.0, NEVER], [NEVER, NEVER, NEVER]])
    assert efficient(scores, torch.tensor([5.0, 0.0])).tolist() == [[2.0, 3.0, 0.0], [0.0, 0.0, 0.0]]


def test_values_add_up_for_every_class(explained: tuple[l2x.Explainer, Any]) -> None:
    explainer, X = explained
    explanation = explainer.explain(X)
    everything = np.isfinite(explanation.scores)
    whole = explainer.surrogate_.predict(X, everything)
    outputs = range(whole.shape[1]) if explainer.classes_ is None else explainer.classes_
    for column, name in enumerate(outputs):
        shown = explanation.for_class(name)
        assert shown.values.shape == explanation.scores.shape
        assert not shown.values[~everything].any()
        scale = abs(whole).max()
        np.testing.assert_allclose(shown.base + shown.values.sum(axis=1), whole[:, column], atol=2e-6 * scale)
        np.testing.assert_allclose(
            shown.base + shown.effects.sum(axis=1) + shown.rest, shown.predictions[:, column], atol=1e-6
        )
        own = np.take_along_axis(shown.values, shown.indices, axis=1)
        np.testing.assert_array_equal(shown.effects, np.where(shown.selected, own, 0.0))


def test_features_are_ranked_by_absolute_value(explained: tuple[l2x.Explainer, Any]) -> None:
    explainer, X = explained
    predictions = l2x.as_black_box(explainer.model)(X)
    explanation = explainer.explain(X, predictions=predictions)  # ranked for the model's own class
    size = np.where(np.isfinite(explanation.scores), abs(explanation.values), -np.inf)
    np.testing.assert_allclose(explanation.scores, size, rtol=1e-4, atol=1e-6)


def test_values_survive_a_file_and_do_not_depend_on_other_rows(
    explained: tuple[l2x.Explainer, Any], tmp_path: Path
) -> None:
    explainer, X = explained
    loaded = l2x.load(explainer.save(tmp_path / "e.l2x"))
    assert loaded.sampler == Shapley()
    explanation = loaded.explain(X)
    assert explanation.predicted_by == "surrogate"
    scale = abs(explanation.values).max() + 1e-9
    np.testing.assert_allclose(explanation[3:9].values, explanation.values[3:9], atol=1e-5 * scale)
    assert len(loaded.explain(X[:0])) == 0


def test_learned_values_are_close_to_exact_ones() -> None:
    """A linear game in log-odds: 100 steps reach a correlation above 0.95 on training rows."""
    X = rng.normal(size=(1000, 4))

    def model(X: np.ndarray) -> np.ndarray:
        p = 1 / (1 + np.exp(-2 * X[:, 0] + X[:, 1]))
        return np.stack([1 - p, p], axis=1)

    plan = l2x.TrainingPlan.quick().with_steps(value=100, selector=100)
    explainer = l2x.Explainer(model, 2, training=plan, sampler=Shapley()).fit(X)
    subsets = subsets_of(4)
    game = [explainer.surrogate_.predict(X, np.tile(s, (len(X), 1)))[:, 1] for s in subsets]
    exact = shapley_values(np.stack(game), 4)
    found = explainer.explain(X).for_class(1).values
    assert np.corrcoef(found.ravel(), exact.ravel())[0, 1] > 0.95


def test_what_it_cannot_do_is_named(explained: tuple[l2x.Explainer, Any]) -> None:
    explainer, X = explained
    if explainer.classes_ is not None:
        with pytest.raises(InputError, match="log-odds"):
            _ = explainer.explain(X).for_class(scale="log-odds").effects
    for options in ({"objective": "joint"}, {"objective": "model"}, {"uses_prediction": True}):
        with pytest.raises(InputError, match="Shapley"):
            l2x.Explainer(classes, 2, sampler=Shapley(), **options).fit(ROWS)
    plan = l2x.TrainingPlan.quick().with_steps(value=2, selector=2)
    with pytest.raises(InputError, match="Shapley"):
        _ = l2x.Explainer(classes, 2, training=plan).fit(ROWS).explain(ROWS).values


def test_compare_knows_it_by_name() -> None:
    plan = l2x.TrainingPlan.quick().with_steps(value=4, selector=3)
    found = l2x.compare(classes, ROWS, ["fastshap", "random"], k=2, rows=10, training=plan)
    assert found.explanations["fastshap"].values.shape == (10, 5)
