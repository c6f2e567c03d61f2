"""Agreement with the model: bounds that must hold, of rows and of means."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.metrics import r2_score
from toy_models import one_column

import l2x
from l2x.baselines import RandomK
from l2x.errors import InputError
from l2x.evaluation import posthoc_accuracy, posthoc_r2
from l2x.learning._agreement import Score, r2, same_class, scored, squared_errors

RNG = np.random.default_rng(0)


def select(scores: np.ndarray, k: int, view: l2x.Columns | None) -> l2x.Explanation:
    return l2x.Explanation(scores, k, [f"x{i}" for i in range(scores.shape[1])], view=view)


def test_all_features_keep_every_answer(table: np.ndarray) -> None:
    everything = select(np.zeros(table.shape), 5, l2x.Columns().fit(table))
    assert posthoc_accuracy(one_column, table, everything) == 1.0


def test_the_right_feature_keeps_them_and_its_complement_does_not(table: np.ndarray) -> None:
    scores = np.zeros(table.shape)
    scores[:, 1] = 1
    for removal in ("mean", "zero", "resample"):
        right = select(scores, 1, l2x.Columns(removal=removal).fit(table))
        assert posthoc_accuracy(one_column, table, right) == 1.0
        assert posthoc_accuracy(one_column, table, right, complement=True) < 0.7


def test_without_a_view_columns_are_set_to_their_means(table: np.ndarray) -> None:
    scores = RNG.random(table.shape)
    with_view = posthoc_accuracy(one_column, table, select(scores, 2, l2x.Columns().fit(table)))
    assert posthoc_accuracy(one_column, table, select(scores, 2, None)) == with_view


def test_known_answers_are_not_asked_again(table: np.ndarray) -> None:
    asked: list[int] = []

    def counting(X: np.ndarray) -> np.ndarray:
        asked.append(len(X))
        return one_column(X)

    explanation = select(RNG.random(table.shape), 2, None)
    known = posthoc_accuracy(counting, table, explanation, responses=one_column(table))
    assert sum(asked) == len(table)
    assert known == posthoc_accuracy(one_column, table, explanation)


def test_regression(table: np.ndarray) -> None:
    def model(X: np.ndarray) -> np.ndarray:
        return 3 * X[:, 2]

    scores = np.zeros(table.shape)
    scores[:, 2] = 1
    right = select(scores, 1, l2x.Columns().fit(table))
    assert posthoc_r2(model, table, right) == pytest.approx(1)
    assert posthoc_r2(model, table, right, complement=True) == pytest.approx(0, abs=1e-6)
    assert posthoc_r2(model, table, right, responses=model(table)) == pytest.approx(1)
    assert np.isnan(posthoc_r2(lambda X: np.ones(len(X)), table, right))  # answers do not vary


def test_the_rows_must_be_those_explained(table: np.ndarray) -> None:
    with pytest.raises(InputError, match="X has 3 rows, the explanation has 600"):
        posthoc_accuracy(one_column, table[:3], select(table, 1, None))


def test_only_the_order_of_classes_counts() -> None:
    answers = RNG.dirichlet(np.ones(3), size=50)
    assert same_class(np.log(answers), answers).all()
    assert not same_class(-answers, answers).any()


def test_r2_is_the_usual_one() -> None:
    answers, guesses = RNG.normal(size=(50, 1)), RNG.normal(size=(50, 1))
    error, spread = squared_errors(guesses, answers)
    assert error.shape == spread.shape == (50,)
    assert r2(error.mean(), spread.mean()) == pytest.approx(r2_score(answers, guesses))


def test_r2_of_constant_answers_is_nan_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(r2(0.0, 0.0))
        assert np.isnan(r2(np.ones(2), np.array([0.0, 1.0]))).tolist() == [True, False]


def test_a_score_prints_with_chance_and_complement(fitted: l2x.Explainer, table: np.ndarray) -> None:
    score = fitted.score(table)
    assert isinstance(score, Score)
    assert score == posthoc_accuracy(one_column, table, fitted.explain(table)) > 0.9
    assert score.complement == posthoc_accuracy(one_column, table, fitted.explain(table), complement=True)
    assert 0.4 < score.chance < 0.8  # one column of five decides
    assert str(score) == (
        f"{float(score):.3f} (random features {score.chance:.3f}, all but these {score.complement:.3f})"
    )
    assert repr(pickle.loads(pickle.dumps(score))) == repr(score)  # as workers of a search hand it on


def the_word_the(texts: list[str]) -> np.ndarray:
    """A model that looks at a stop word alone."""
    p = np.array([0.9 if "the" in text.split() else 0.1 for text in texts])
    return np.stack([1 - p, p], axis=1)


def test_the_removal_test_removes_the_selected_features_and_nothing_else(tiny: l2x.TrainingPlan) -> None:
    """Stop words are never selected, so they stay: with them stays every answer of this model."""
    words = ["the", "film", "plot", "actor", "scene", "unheard"]
    texts = [" ".join(RNG.choice(words, RNG.integers(1, 6))) for _ in range(240)]
    view = l2x.Words(length=5, stop_words="english", vocabulary=["[PAD]", "[UNK]", *words[:-1]]).fit(texts)
    method = RandomK(features=view)
    explanation = method.explain(texts, 1)
    assert posthoc_accuracy(the_word_the, texts, explanation, complement=True) == 1
    assert scored(the_word_the, texts, explanation).complement == 1
    assert l2x.compare(the_word_the, texts, [method], 1, features=view).methods[0].complement == 1
    card = l2x.report_card(method, the_word_the, texts[:120], texts[120:], 1, training=tiny, brief=True)
    assert card["fidelity"]["drop_complement"].value == 1
    assert card.verdict.endswith("1.000: more than it does.")
    with pytest.warns(UserWarning, match="random feature"):
        explainer = l2x.Explainer(the_word_the, 1, features=view, value="surrogate", training=tiny).fit(texts)
    assert explainer.check_ is not None
    assert explainer.check_.by_model is not None
    assert explainer.check_.by_model.complement == 1
