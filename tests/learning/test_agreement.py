"""Agreement with the model: bounds, random selections, intervals."""

from __future__ import annotations

import pickle
import re
import warnings
from operator import truediv

import numpy as np
import pytest
from sklearn.metrics import r2_score
from toy_models import one_column

import l2x
from l2x.baselines import RandomK
from l2x.errors import InputError
from l2x.evaluation import Bootstrap, Estimate, posthoc_accuracy, posthoc_r2
from l2x.evaluation._metrics import overlap
from l2x.learning._agreement import (
    GROUPS,
    Score,
    masked_predictions,
    r2,
    random_selections,
    same_class,
    scored,
    squared_errors,
)
from l2x.model import as_black_box

RNG = np.random.default_rng(0)


def select(scores: np.ndarray, k: int, view: l2x.Columns | None) -> l2x.Explanation:
    return l2x.Explanation(scores, k, [f"x{i}" for i in range(scores.shape[1])], view=view)


def test_all_features_preserve_every_prediction(table: np.ndarray) -> None:
    everything = select(np.zeros(table.shape), 5, l2x.Columns().fit(table))
    assert posthoc_accuracy(one_column, table, everything) == 1.0


def test_the_right_feature_preserves_predictions_and_its_removal_does_not(table: np.ndarray) -> None:
    scores = np.zeros(table.shape)
    scores[:, 1] = 1
    for masking in ("mean", "median", "zero", "resample"):
        right = select(scores, 1, l2x.Columns(masking=masking).fit(table))
        assert posthoc_accuracy(one_column, table, right) == 1.0
        assert posthoc_accuracy(one_column, table, right, removal=True) < 0.7


def test_without_a_view_columns_are_set_to_their_means(table: np.ndarray) -> None:
    scores = RNG.random(table.shape)
    with_view = posthoc_accuracy(one_column, table, select(scores, 2, l2x.Columns().fit(table)))
    assert posthoc_accuracy(one_column, table, select(scores, 2, None)) == with_view


def test_maskings_of_tables_and_of_other_views() -> None:
    assert l2x.Columns(masking="median").reported_maskings() == ("median", "mean", "resample")
    assert l2x.Columns(masking="zero").reported_maskings() == ("zero", "mean", "median", "resample")
    assert l2x.Words(length=3).reported_maskings() == (None,)
    with pytest.raises(InputError, match="masking is 'median', but Words has 'drop' or 'replace'"):
        masked_predictions(
            as_black_box(one_column), l2x.Words(length=3), ["a"], np.ones((1, 3)), masking="median"
        )


def test_a_masking_replaces_that_of_the_view(table: np.ndarray) -> None:
    scores = RNG.random(table.shape)
    for masking in ("mean", "median"):
        own = select(scores, 2, l2x.Columns(masking=masking).fit(table))
        other = select(scores, 2, l2x.Columns(masking="zero").fit(table))
        expected = posthoc_accuracy(one_column, table, own)
        assert posthoc_accuracy(one_column, table, other, masking=masking) == expected


def test_resampling_averages_predictions_over_twenty_rows() -> None:
    """The mean of a linear model over random rows is near its value at the mean row; one draw is not."""
    X = np.random.default_rng(0).normal(size=(400, 2))
    queried: list[int] = []

    def linear(rows: np.ndarray) -> np.ndarray:
        queried.append(len(rows))
        return rows.sum(axis=1)

    black_box, view = as_black_box(linear, task="regression"), l2x.Columns(masking="resample").fit(X)
    nothing = np.zeros(X.shape, dtype=bool)
    once = masked_predictions(black_box, view, X, nothing)
    assert sum(queried) == 400
    averaged = masked_predictions(black_box, view, X, nothing, masking="resample")
    assert sum(queried) == 21 * 400
    # 400 variances of means of 20: their ratio is 20, with a standard error of about 7 %.
    assert once.var() / averaged.var() == pytest.approx(20, rel=0.3)


def test_known_predictions_are_not_queried_again(table: np.ndarray) -> None:
    queried: list[int] = []

    def counting(X: np.ndarray) -> np.ndarray:
        queried.append(len(X))
        return one_column(X)

    explanation = select(RNG.random(table.shape), 2, None)
    known = posthoc_accuracy(counting, table, explanation, predictions=one_column(table))
    assert sum(queried) == len(table)
    assert known == posthoc_accuracy(one_column, table, explanation)


def test_regression(table: np.ndarray) -> None:
    def model(X: np.ndarray) -> np.ndarray:
        return 3 * X[:, 2]

    scores = np.zeros(table.shape)
    scores[:, 2] = 1
    right = select(scores, 1, l2x.Columns().fit(table))
    assert posthoc_r2(model, table, right) == pytest.approx(1)
    assert posthoc_r2(model, table, right, removal=True) == pytest.approx(0, abs=1e-6)
    assert posthoc_r2(model, table, right, predictions=model(table)) == pytest.approx(1)
    assert np.isnan(posthoc_r2(lambda X: np.ones(len(X)), table, right))  # predictions do not vary


def test_the_rows_must_be_those_explained(table: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"\b3 rows.*\b600\b"):
        posthoc_accuracy(one_column, table[:3], select(table, 1, None))


def test_only_the_order_of_classes_counts() -> None:
    predictions = RNG.dirichlet(np.ones(3), size=50)
    assert same_class(np.log(predictions), predictions).all()
    assert not same_class(-predictions, predictions).any()


def test_r2_is_the_usual_one() -> None:
    predictions, guesses = RNG.normal(size=(50, 1)), RNG.normal(size=(50, 1))
    error, spread = squared_errors(guesses, predictions)
    assert error.shape == spread.shape == (50,)
    assert r2(error.mean(), spread.mean()) == pytest.approx(r2_score(predictions, guesses))


def test_r2_of_constant_predictions_is_nan_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(r2(0.0, 0.0))
        assert np.isnan(r2(np.ones(2), np.array([0.0, 1.0]))).tolist() == [True, False]


def test_a_score_prints_with_random_features_and_removal(fitted: l2x.Explainer, table: np.ndarray) -> None:
    score = fitted.score(table)
    assert isinstance(score, Score)
    assert score == posthoc_accuracy(one_column, table, fitted.explain(table)) > 0.9
    assert score.removal == posthoc_accuracy(one_column, table, fitted.explain(table), removal=True)
    assert 0.4 < score.random < 0.8  # one column of five decides
    numbers = [f"{number:.3f}" for number in (float(score), score.random, score.removal)]
    assert re.findall(r"\d\.\d+", str(score)) == numbers
    assert repr(pickle.loads(pickle.dumps(score))) == repr(score)  # as parallel searches do


def the_word_the(texts: list[str]) -> np.ndarray:
    """A model that reads one stop word."""
    p = np.array([0.9 if "the" in text.split() else 0.1 for text in texts])
    return np.stack([1 - p, p], axis=1)


def test_the_removal_test_masks_the_selected_features_and_nothing_else(tiny: l2x.TrainingPlan) -> None:
    """Stop words are never selected, so they stay, and with them every prediction of this model."""
    words = ["the", "film", "plot", "actor", "scene", "unheard"]
    texts = [" ".join(RNG.choice(words, RNG.integers(1, 6))) for _ in range(240)]
    view = l2x.Words(length=5, stop_words="english", vocabulary=["[PAD]", "[UNK]", *words[:-1]]).fit(texts)
    method = RandomK(features=view)
    explanation = method.explain(texts, 1)
    assert posthoc_accuracy(the_word_the, texts, explanation, removal=True) == 1
    assert scored(the_word_the, texts, explanation).removal == 1
    assert l2x.compare(the_word_the, texts, [method], 1, features=view).methods[0].removal == 1
    card = l2x.report(method, the_word_the, texts[:120], texts[120:], 1, training=tiny, brief=True)
    assert card["fidelity"]["drop_removal"].value == 1
    assert "1.000" in card.verdict
    with pytest.warns(UserWarning, match="random feature"):
        explainer = l2x.Explainer(the_word_the, 1, features=view, objective="surrogate", training=tiny).fit(
            texts
        )
    assert explainer.check_ is not None
    assert explainer.check_.by_model is not None
    assert explainer.check_.by_model.removal == 1


def test_random_selections_have_as_many_selectable_features() -> None:
    selectable = RNG.random((200, 10)) < 0.6
    selectable[:, 0] = True
    mask = selectable & (RNG.random((200, 10)) < 0.5)
    drawn = random_selections(mask, selectable, seed=0)
    assert (drawn.sum(axis=1) == mask.sum(axis=1)).all()
    assert not (drawn & ~selectable).any()


def test_all_features_are_equally_likely() -> None:
    mask = np.tile(np.arange(5) < 2, (4000, 1))
    assert random_selections(mask, np.ones_like(mask), seed=1).mean(axis=0) == pytest.approx(0.4, abs=0.04)


def test_a_random_method_with_the_same_seed_makes_other_selections() -> None:
    method = RandomK(seed=7).explain(np.zeros((1000, 5)), 1).mask
    drawn = random_selections(method, np.ones_like(method), seed=7)
    assert overlap(method, drawn).mean() == pytest.approx(0.2, abs=0.05)
    assert (drawn == random_selections(method, np.ones_like(method), seed=7)).all()


@pytest.mark.parametrize("n", [400, 5000, 50_000])  # fewer and more rows than groups
def test_the_interval_of_a_mean_is_two_standard_errors_wide(n: int) -> None:
    rows = RNG.normal(size=n)
    found = Bootstrap(n).mean(rows)
    assert found.value == pytest.approx(rows.mean())
    assert found.high - found.low == pytest.approx(2 * 1.96 * rows.std() / n**0.5, rel=0.15)
    assert Bootstrap(n).counts.shape[1] <= GROUPS


def test_a_ratio_of_the_same_rows_has_no_spread() -> None:
    rows = RNG.random(1000)
    found = Bootstrap(1000).of_means(truediv, 2 * rows, rows)
    assert (found.value, found.low, found.high) == pytest.approx((2, 2, 2))
    assert Bootstrap(1000).of_means(r2, rows, rows).value == pytest.approx(0)
    assert np.isnan(Bootstrap(1000).of_means(r2, rows, np.zeros(1000)).value)


def test_draws_without_a_spread_give_no_interval() -> None:
    spread = np.zeros(20)
    spread[0] = 1.0  # a third of all draws miss this row
    found = Bootstrap(20).of_means(r2, np.zeros(20), spread)
    assert found.value == 1
    assert np.isnan([found.low, found.high]).all()


def test_the_same_seed_gives_the_same_interval() -> None:
    rows = RNG.random(100)
    assert Bootstrap(100, seed=3).mean(rows) == Bootstrap(100, seed=3).mean(rows)
    assert Bootstrap(100, seed=3).mean(rows) != Bootstrap(100, seed=4).mean(rows)


def test_no_interval_is_none_in_json() -> None:
    assert Estimate(0.5).to_dict() == {"value": 0.5, "low": None, "high": None}
    assert Estimate(float("inf"), 1, np.float32(0.5)).to_dict() == {"value": None, "low": 1.0, "high": 0.5}


def test_an_estimate_as_printed() -> None:
    assert str(Estimate(0.5)) == "0.500"
    assert str(Estimate(0.5, 0.4, 0.6)) == "0.500 [0.400, 0.600]"
    assert Estimate(1234.5).text(0) == "1,234"
    assert str(Estimate(float("nan"))) == "–"


def test_other_units() -> None:
    assert Estimate(1.0, 0.5, 2.0).scaled(2) == Estimate(2.0, 1.0, 4.0)
