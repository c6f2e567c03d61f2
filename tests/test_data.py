"""Training rows: the model is asked once about each, and some are held out."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from toy_models import one_column

import l2x
from l2x.learning._likelihood import Categorical, Gaussian
from l2x.learning._rows import (
    Rows,
    check_known_columns,
    checked_responses,
    likelihood_of,
    prepare,
    split,
)
from l2x.learning._training import Run
from l2x.model import query
from l2x.model._black_box import as_black_box

X = np.random.default_rng(0).normal(size=(40, 3))
VIEW = l2x.Columns().fit(X)
RUN = Run.begin(l2x.TrainingPlan(progress=False), seed=0)


@given(n=st.integers(2, 300), share=st.floats(0.01, 0.8), most=st.integers(1, 50))
def test_every_row_is_learned_from_or_held_out(n: int, share: float, most: int) -> None:
    learn, hold = split(n, share, most, np.random.default_rng(0))
    assert sorted([*learn, *hold]) == list(range(n))
    assert 1 <= len(hold) <= most
    assert len(learn) >= 1


@pytest.mark.parametrize("share", [0, 1, -0.1, 2])
def test_a_share_that_is_none(share: float) -> None:
    with pytest.raises(l2x.InputError, match="expected a share of the rows between 0 and 1"):
        split(10, share, 5, np.random.default_rng(0))


def test_one_row_is_too_few() -> None:
    with pytest.raises(l2x.InputError, match=r"only 1 sample \(row\), too few"):
        split(1, 0.1, 5, np.random.default_rng(0))


@pytest.mark.parametrize("share", [0, 1, -0.1, float("nan"), "a", None])
def test_what_is_no_share(share: object) -> None:
    with pytest.raises(l2x.InputError, match=r"validation is .*; expected a share of the rows"):
        split(60, share, 10_000, np.random.default_rng(0))


def test_a_share_that_leaves_nothing_to_learn_from() -> None:
    with pytest.raises(
        l2x.InputError, match=r"validation is 0.9999, which leaves 1 of 60 rows to learn from"
    ):
        split(60, 0.9999, 10_000, np.random.default_rng(0))
    learn, _ = split(60, 0.9999, 20, np.random.default_rng(0))  # at most 20 are held out
    assert len(learn) == 40


def test_no_rows_are_nothing_to_ask_about() -> None:
    with pytest.raises(l2x.InputError, match="no rows to query the model for"):
        query(l2x.as_black_box(one_column), VIEW, X[:0])


def rows(*, raw: bool) -> Rows:
    target = Categorical(2).targets(one_column(X))
    return Rows(VIEW, X if raw else None, VIEW.encode(X), target)


@pytest.mark.parametrize("raw", [True, False])
def test_indices_and_copies_keep_inputs_and_answers_together(raw: bool) -> None:
    some = rows(raw=raw)[torch.tensor([5, 1, 5])]
    assert torch.allclose(some.x, VIEW.encode(X)[[5, 1, 5]])
    assert np.allclose(some.target, one_column(X)[[5, 1, 5]])
    if raw:
        assert np.array_equal(some.raw(np.array([1, 2])), X[[1, 5]])
    else:
        assert some.source is None
    twice = some.repeat(2)
    assert len(twice) == 6
    assert torch.equal(twice.x[3:], some.x)
    assert some.repeat(1) is some


def test_rows_at_once_bounds_what_the_model_gets() -> None:
    class Small(l2x.Columns):
        rows_at_once = 10

    asked: list[int] = []

    def model(part: np.ndarray) -> np.ndarray:
        asked.append(len(part))
        if len(asked) == 3:
            raise ConnectionError("gone")
        return one_column(part)

    view = Small().fit(X)
    with pytest.raises(l2x.BlackBoxError, match=r"Rows 10 to 19: .*gone"):
        query(l2x.as_black_box(model), view, X)
    assert asked == [8, 2, 10]  # a few rows first, and never more than the view's ten
    assert np.allclose(query(l2x.as_black_box(model), view, X), one_column(X))


def test_answers_that_the_user_brings_are_checked_as_a_models() -> None:
    black_box = l2x.as_black_box(one_column)
    assert np.allclose(checked_responses(one_column(X), 40, black_box), one_column(X))
    with pytest.raises(l2x.InputError, match="responses has 3 rows, X has 40"):
        checked_responses(one_column(X)[:3], 40, black_box)
    with pytest.raises(l2x.BlackBoxError, match="responses= returned labels, such as 'yes'"):
        checked_responses(["yes", "no"] * 20, 40, black_box)
    with pytest.raises(l2x.BlackBoxError, match="responses="):
        checked_responses(np.full((40, 2), 3.0), 40, l2x.as_black_box(one_column, task="classification"))


def test_prepared_rows_ask_once_and_keep_raw_inputs_on_request() -> None:
    black_box = l2x.as_black_box(one_column)
    data = prepare(black_box, VIEW, X, None, k=2, validation=0.25, run=RUN)
    assert (len(data.train), len(data.held), data.asked) == (30, 10, 40)
    assert data.train.source is None
    assert isinstance(data.likelihood, Categorical)
    given = prepare(black_box, VIEW, X, one_column(X), k=2, validation=0.25, run=RUN, keep_raw=True)
    assert (given.asked, given.seconds_per_row) == (0, None)
    assert np.allclose(one_column(given.held.raw(np.arange(10))), given.held.target, atol=1e-6)
    assert torch.equal(given.train.x, data.train.x)  # the same rows, by the seed


def test_numbers_are_means_with_their_spread() -> None:
    answers = X[:, :1] * 5
    black_box = l2x.as_black_box(lambda part: part[:, 0] * 5, task="regression")
    likelihood = likelihood_of(black_box, answers)
    assert isinstance(likelihood, Gaussian)
    assert likelihood.scale == pytest.approx(answers.std(axis=0))


def test_responses_of_a_model_of_logits_may_be_probabilities() -> None:
    """They are not taken for logits, and logits are."""
    logits = np.array([[0.0, 2.0], [1.0, -1.0]])
    black_box = l2x.as_black_box(lambda X: logits, logits=True)
    p = black_box(np.zeros((2, 1)))
    for responses in (p, logits):
        assert np.allclose(checked_responses(responses, 2, black_box), p)


def test_a_column_that_the_model_was_not_fitted_on_is_refused() -> None:
    """The target left in the frame, which would explain everything."""
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"])
    y = (frame["a"] > 0).astype(int)
    model = make_pipeline(ColumnTransformer([("keep", "passthrough", ["a", "b"])]), LogisticRegression())
    model.fit(frame, y)
    with pytest.raises(l2x.InputError, match=r"fitted without the column y: .* Drop from X"):
        l2x.Explainer(model, k=1).fit(frame.assign(y=y))
    unnamed = LogisticRegression().fit(frame.to_numpy(), y)  # it knows no names: anything goes
    check_known_columns(l2x.Columns().fit(frame.assign(y=y)), as_black_box(unnamed))


def test_answers_that_look_like_labels_are_asked_about() -> None:
    plan = l2x.TrainingPlan(progress=False).with_steps(value=2, selector=2)

    def positive(X: np.ndarray) -> np.ndarray:
        return (X[:, 0] > 0).astype(int)

    def warned(model: object) -> list[str]:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            l2x.Explainer(model, k=1, training=plan).fit(X)
        return [str(each.message) for each in found if "says only" in str(each.message)]

    (said,) = warned(positive)
    assert "says only 0, 1, and is explained as a regression. If these are classes, pass" in said
    assert not warned(as_black_box(positive, task="regression"))
    assert not warned(lambda X: X[:, 0])
