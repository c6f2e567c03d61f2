"""Effects: Shapley values within the selected features, which add up to the prediction."""

from __future__ import annotations

import math
from functools import cache
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import l2x
from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.learning import _effects, shapley_values, subsets_of

pytestmark = pytest.mark.filterwarnings("ignore:The selection is", "ignore:Only", "ignore:The model predicts")

TEXTS = ["a good film", "bad acting and a good plot", "bad", "so good, so very good", "dull but good"] * 8


def classes(X: Any) -> np.ndarray:
    """A model with three classes of whatever it reads."""
    if isinstance(X, list):
        first = np.array([text.count("good") - text.count("bad") for text in X], dtype=float)
    else:
        first = np.asarray(X, dtype=float).reshape(len(X), -1)[:, 0]
    logits = np.stack([first, -first, np.zeros(len(first))], axis=1)
    odds = np.exp(logits)
    return odds / odds.sum(axis=1, keepdims=True)


def values(X: Any) -> np.ndarray:
    return 100 + 30 * np.asarray(X, dtype=float).reshape(len(X), -1)[:, 0]


rng = np.random.default_rng(0)
ROWS = rng.normal(size=(60, 5))
IMAGES = rng.random((40, 8, 8)).astype(np.float32)
CASES: dict[str, tuple[Any, Any, Any, int]] = {
    "table": (classes, ROWS, None, 3),
    "regression": (values, ROWS, None, 2),
    "words": (classes, TEXTS, l2x.Words(length=8), 3),
    "sentences": (classes, TEXTS, l2x.Sentences(), 1),
    "patches": (classes, IMAGES, l2x.Patches(4), 2),
    "many": (classes, rng.normal(size=(60, 13)), None, 11),  # more than EXACT
}


@pytest.fixture(scope="module", params=CASES)
def explained(request: pytest.FixtureRequest) -> tuple[l2x.Explainer, Any]:
    model, X, view, k = CASES[request.param]
    plan = l2x.TrainingPlan.quick(view).with_steps(value=4, selector=3)
    return l2x.Explainer(model, k, features=view, training=plan).fit(X), X


def test_they_add_up_for_every_class_and_scale(explained: tuple[l2x.Explainer, Any]) -> None:
    explainer, X = explained
    explanation = explainer.explain(X)
    names = [None, *(explainer.classes_ if explainer.classes_ is not None else [0])]
    scales = ["value"] if explainer.classes_ is None else ["probability", "log-odds"]
    for name in names:
        for scale in scales:
            shown = explanation.for_class(name, scale=scale)
            whole = shown.base + shown.effects.sum(axis=1) + shown.rest
            np.testing.assert_allclose(whole, shown.contributions.prediction, atol=1e-6)
            np.testing.assert_allclose(shown.base + shown.effects.sum(axis=1), shown.contributions.alone)
            assert not shown.effects[~shown.selected].any()
    predicted = explanation.contributions
    model = l2x.as_black_box(explainer.model)(X)
    np.testing.assert_allclose(predicted.prediction, model.max(axis=1) if len(scales) > 1 else model[:, 0])


def two_values(X: Any) -> np.ndarray:
    X = np.asarray(X, dtype=float)
    return np.stack([values(X), -5 * X[:, 1]], axis=1)


OPTIONS: dict[str, dict[str, Any]] = {
    "class": {"target": "class"},
    "prediction-aware": {"uses_prediction": True},
    "surrogate": {"objective": "surrogate"},
    "model": {"objective": "model"},
    "joint": {"objective": "joint"},
    "Shapley": {"objective": "surrogate", "sampler": l2x.samplers.Shapley()},
    "sequential": {"selector": "sequential"},
    "groups": {"features": l2x.ColumnGroups({"both": ["x0", "x1"]})},
    "two values": {"model": l2x.as_black_box(two_values, task="regression")},
}


@pytest.mark.parametrize("case", OPTIONS)
@pytest.mark.parametrize("ask", [{}, {"k": 1}, {"k": 3}, {"keep": 0.8}])
def test_they_add_up_however_features_are_selected(case: str, ask: dict[str, Any], tmp_path: Path) -> None:
    """With the model, with predictions that are passed in, and without the model, for every class."""
    explainer = _fitted(case)
    if "keep" in ask and explainer.sizes_ is None:
        pytest.skip("sizes were not learned")
    model = l2x.as_black_box(explainer.model)(ROWS)
    cases: list[tuple[Explanation, Any]] = [(explainer.explain(ROWS, **ask), model)]
    if case != "model":  # its effects need the model
        alone = l2x.load(explainer.save(tmp_path / "e.l2x"))
        passed = {"predictions": model} if explainer.uses_prediction else {}
        cases.append((alone.explain(ROWS, predictions=model, **ask), model))
        cases.append((alone.explain(ROWS, **passed, **ask), model if passed else None))
    for explanation, predictions in cases:
        for output in [None, *range(model.shape[1])]:
            found = explanation.for_class(output).contributions
            whole = found.base + found.effects.sum(axis=1) + found.rest
            np.testing.assert_allclose(whole, found.prediction, rtol=1e-6, atol=1e-6)
            assert not found.effects[~explanation.selected].any()
            if predictions is not None and output is not None:
                np.testing.assert_allclose(found.prediction, predictions[:, output], rtol=1e-6)


@cache
def _fitted(case: str) -> l2x.Explainer:
    options = {"model": classes, **OPTIONS[case]}
    plan = l2x.TrainingPlan.quick().with_steps(value=4, selector=3)
    rows = pd.DataFrame(ROWS, columns=[f"x{i}" for i in range(5)]) if case == "groups" else ROWS
    return l2x.Explainer(options.pop("model"), 2, training=plan, **options).fit(rows)


def test_they_do_not_depend_on_other_rows_and_survive_a_file(
    explained: tuple[l2x.Explainer, Any], tmp_path: Path
) -> None:
    explainer, X = explained
    explanation = explainer.explain(X)
    part = explanation[3:9]  # before the effects of all rows are known
    np.testing.assert_allclose(part.effects, explanation.effects[3:9], atol=1e-5)
    np.testing.assert_array_equal(explanation[3:9].effects, explanation.effects[3:9])
    loaded = l2x.load(explainer.save(tmp_path / "e.l2x"))
    assert loaded.explain(X).predicted_by == "surrogate"
    again = loaded.explain(X, predictions=explanation.predictions)
    assert again.predicted_by == "model"
    np.testing.assert_allclose(again.effects, explanation.effects, atol=1e-6)


def test_frames_and_json_have_them_on_request(explained: tuple[l2x.Explainer, Any]) -> None:
    explainer, X = explained
    explanation = explainer.explain(X)[:6]
    plain, frame = explanation.to_frame(), explanation.to_frame(effects=True)
    k = explanation.k
    assert list(frame)[: 2 * k] == list(plain)
    effects = frame[[f"effect_{rank}" for rank in range(1, k + 1)]]
    assert (effects.isna() == ~explanation.selected).all(axis=None)
    whole = frame["base"] + effects.sum(axis=1) + frame["rest"]
    np.testing.assert_allclose(whole, frame["prediction"], atol=1e-6)
    for row, expected in zip(explanation.to_dict(effects=True), frame["prediction"], strict=True):
        whole = row["base"] + sum(feature["effect"] for feature in row["features"]) + row["rest"]
        assert whole == pytest.approx(row["prediction"], abs=1e-6)
        assert row["prediction"] == expected
    assert "effect" not in explanation.to_dict()[0]["features"][0]


def test_the_model_is_queried_once_and_only_for_predictions() -> None:
    model, X, _, k = CASES["table"]
    explainer = l2x.Explainer(model, k, training=l2x.TrainingPlan.quick().with_steps(value=4, selector=3))
    explainer.fit(X)
    explanation, black_box = explainer.explain(X, polish=False), explainer.black_box()
    before = black_box.rows
    _ = explanation.effects, explanation.rest, explanation.predictions, explanation[:5].effects
    _ = explanation.for_class(1).effects, explanation.for_class("2", scale="log-odds").effects
    assert black_box.rows == before + len(X)
    _ = explainer.explain(X, predictions=model(X)).effects
    assert black_box.rows == before + len(X)


@settings(max_examples=30, deadline=None)
@given(k=st.integers(1, 6), seed=st.integers(0, 99))
def test_exact_effects_are_means_over_all_orders(k: int, seed: int) -> None:
    game = np.random.default_rng(seed).normal(size=(1 << k, 2))
    expected = np.zeros((2, k))
    for order in permutations(range(k)):
        subset = 0
        for player in order:
            expected[:, player] += game[subset | 1 << player] - game[subset]
            subset |= 1 << player
    found = shapley_values(game, k)
    np.testing.assert_allclose(found, expected / math.factorial(k), atol=1e-12)


def test_orders_are_exact_for_additive_games_and_within_their_errors_otherwise() -> None:
    """An additive game has no variance. For random games of 10 players, about 97 % of estimates are within
    2.5 standard errors, which 32 pairs estimate with 31 degrees of freedom; 90 % is required."""
    k, rng = 10, np.random.default_rng(0)
    subsets = _effects._orders(k)
    weights = rng.normal(size=(k, 5))
    effects, errors = _effects._by_orders(subsets @ weights, k)
    np.testing.assert_allclose(effects, weights.T, atol=1e-12)
    assert errors.max() < 1e-12
    pairwise = (
        rng.normal(size=(200, k, k, k)) / k
    )  # interactions of three: antithetic pairs do not cancel them
    every = subsets_of(k).astype(float)
    game = np.einsum("mi,mj,ml,nijl->mn", every, every, every, pairwise, optimize=True)
    exact = shapley_values(game, k)
    codes = subsets @ (1 << np.arange(k))
    effects, errors = _effects._by_orders(game[codes], k)
    assert (abs(effects - exact) < 2.5 * errors + 1e-9).mean() > 0.9


def test_an_unknown_class_or_scale_is_named(explained: tuple[l2x.Explainer, Any]) -> None:
    explainer, X = explained
    explanation = explainer.explain(X)
    with pytest.raises(InputError, match="'venus'"):
        explanation.for_class("venus")
    with pytest.raises(InputError, match=r"array\(\[0, 1\]\)"):
        explanation.for_class(np.array([0, 1]))
    with pytest.raises(InputError, match="'logit'"):
        explanation.for_class(scale="logit")  # type: ignore[arg-type]
    wrong = "probability" if explainer.classes_ is None else "value"
    with pytest.raises(InputError, match=wrong):
        _ = explanation.for_class(scale=wrong).effects


def test_a_baseline_has_no_effects_and_no_rows_have_none() -> None:
    explanation = l2x.baselines.RandomK(features=l2x.Columns()).explain(ROWS, k=2)
    with pytest.raises(InputError, match="surrogate"):
        _ = explanation.effects
    with pytest.raises(InputError, match="surrogate"):
        _ = Explanation(np.zeros((1, 2)), 1, ["a", "b"]).predictions


def test_a_model_with_other_outputs_is_refused() -> None:
    plan = l2x.TrainingPlan.quick().with_steps(value=4, selector=3)
    explainer = l2x.Explainer(classes, 2, training=plan).fit(ROWS)
    other = explainer.with_model(lambda X: classes(X)[:, :2] / classes(X)[:, :2].sum(axis=1, keepdims=True))
    with pytest.raises(InputError, match=r"2 outputs.*fitted to 3 classes"):
        _ = other.explain(ROWS, polish=False).effects


def test_classes_are_found_by_value_before_text() -> None:
    source = SimpleNamespace(classes=[1, "1"])
    explanation = Explanation(np.zeros((2, 2)), 1, ["a", "b"], inputs=ROWS[:2], source=source)  # type: ignore[arg-type]
    assert [explanation._outputs_for(name)[0] for name in (1, "1", 1.0)] == [0, 1, 0]
