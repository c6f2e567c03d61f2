"""Training rows: each is labelled once, some are held out, and predictions become targets."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from toy_models import one_column

import l2x
from l2x.learning._rows import (
    Categorical,
    Gaussian,
    Labels,
    Likelihood,
    Problem,
    Rows,
    check_known_columns,
    likelihood_of,
    mixed_rows,
    prepare,
    split,
    training_predictions,
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


def test_one_row_is_too_few() -> None:
    with pytest.raises(l2x.errors.InputError, match=r"only 1 sample \(row\)"):
        split(1, 0.1, 5, np.random.default_rng(0))


@pytest.mark.parametrize("share", [0, 1, 2, -0.1, float("nan"), "a", None])
def test_an_invalid_share_is_refused(share: object) -> None:
    with pytest.raises(l2x.errors.InputError, match=r"^validation is "):
        split(60, share, 10_000, np.random.default_rng(0))


def test_a_share_that_leaves_nothing_to_learn_from() -> None:
    with pytest.raises(l2x.errors.InputError, match=r"validation is 0\.9999.* 1 of 60 rows"):
        split(60, 0.9999, 10_000, np.random.default_rng(0))
    learn, _ = split(60, 0.9999, 20, np.random.default_rng(0))  # at most 20 are held out
    assert len(learn) == 40


def test_the_model_is_not_queried_without_rows() -> None:
    with pytest.raises(l2x.errors.InputError, match="no rows"):
        query(l2x.as_black_box(one_column), VIEW, X[:0])


def rows(*, raw: bool) -> Rows:
    target = Categorical(2).targets(one_column(X))
    return Rows(VIEW, X if raw else None, VIEW.encode(X), target)


@pytest.mark.parametrize("raw", [True, False])
def test_indices_and_copies_keep_inputs_and_targets_together(raw: bool) -> None:
    chosen = rows(raw=raw)[torch.tensor([5, 1, 5])]
    assert torch.allclose(chosen.x, VIEW.encode(X)[[5, 1, 5]])
    assert np.allclose(chosen.target, one_column(X)[[5, 1, 5]])
    if raw:
        assert np.array_equal(chosen.raw(np.array([1, 2])), X[[1, 5]])
    else:
        assert chosen.source is None
    twice = chosen.repeat(2)
    assert len(twice) == 6
    assert torch.equal(twice.x[3:], chosen.x)
    assert chosen.repeat(1) is chosen


def test_rows_at_once_bounds_a_query() -> None:
    class Small(l2x.Columns):
        rows_at_once = 10

    queried: list[int] = []

    def model(part: np.ndarray) -> np.ndarray:
        queried.append(len(part))
        if len(queried) == 3:
            raise ConnectionError("gone")
        return one_column(part)

    view = Small().fit(X)
    with pytest.raises(l2x.errors.BlackBoxError, match=r"Rows 10 to 19: .*gone"):
        query(l2x.as_black_box(model), view, X)
    assert queried == [8, 2, 10]  # a few rows first, and never more than the view's ten
    assert np.allclose(query(l2x.as_black_box(model), view, X), one_column(X))


def test_predictions_that_the_user_passes_are_checked_like_a_models() -> None:
    black_box = l2x.as_black_box(one_column)
    assert np.allclose(training_predictions(one_column(X), 40, black_box), one_column(X))
    with pytest.raises(l2x.errors.InputError, match="predictions has 3 rows, X has 40"):
        training_predictions(one_column(X)[:3], 40, black_box)
    with pytest.raises(l2x.errors.BlackBoxError, match="predictions= returned labels, such as 'yes'"):
        training_predictions(["yes", "no"] * 20, 40, black_box)
    with pytest.raises(l2x.errors.BlackBoxError, match="predictions="):
        training_predictions(np.full((40, 2), 3.0), 40, l2x.as_black_box(one_column, task="classification"))


def test_prepared_rows_are_labelled_once_and_refer_to_the_raw_inputs() -> None:
    black_box = l2x.as_black_box(one_column)
    data = prepare(black_box, VIEW, X, Labels(), Problem(2), validation=0.25, run=RUN)
    assert (len(data.train), len(data.held), data.queried, data.queried_masked) == (30, 10, 40, 0)
    assert isinstance(data.likelihood, Categorical)
    given = prepare(black_box, VIEW, X, Labels(one_column(X)), Problem(2), validation=0.25, run=RUN)
    assert (given.queried, given.seconds_per_row) == (0, None)
    assert np.allclose(one_column(given.held.raw(np.arange(10))), given.held.target, atol=1e-6)
    assert torch.equal(given.train.x, data.train.x)  # the same rows, by the seed


def test_mixed_rows_take_each_column_from_one_of_two_training_rows() -> None:
    black_box = l2x.as_black_box(one_column)
    plain = prepare(black_box, VIEW, X, Labels(), Problem(2), validation=0.25, run=RUN)
    data = prepare(black_box, VIEW, X, Labels(), Problem(2), validation=0.25, run=RUN, fill=100)
    assert (len(data.train), data.mixed, data.labelled) == (100, 70, 40 + 70)
    assert torch.equal(data.held.x, plain.held.x)
    assert torch.equal(data.given.x, plain.train.x)
    training, mixed = plain.train.raw(np.arange(30)), data.train.raw(np.arange(30, 100))
    same = mixed[:, None] == training[None]  # (mixed, training, columns)
    assert same.any(axis=1).all()  # held-out rows give no cells
    pairs = (same[:, :, None] | same[:, None]).all(axis=-1)  # (mixed, training, training)
    assert pairs.any(axis=(1, 2)).all()
    assert np.allclose(one_column(mixed), data.train.target[30:], atol=1e-6)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_mixed_rows_keep_the_types_of_a_frame(kind: str) -> None:
    import polars as pl

    frame = pd.DataFrame({"a": np.arange(40), "b": pd.Categorical(list("xyzx") * 10), "c": [None, "u"] * 20})
    given = frame if kind == "pandas" else pl.from_pandas(frame)
    dtypes = []

    def model(rows: Any) -> np.ndarray:
        dtypes.append(list(rows.dtypes))
        p = np.asarray(rows["a"], dtype=float) / 40
        return np.stack([p, 1 - p], axis=1)

    explainer = l2x.Explainer(model, 1, mixed=200, training=l2x.TrainingPlan.quick()).fit(given)
    assert all(each == list(given.dtypes) for each in dtypes)
    assert explainer.rows_queried_ == 4 + 200 + explainer.queries_


def test_rows_are_mixed_only_where_the_model_may_be_queried() -> None:
    table = np.random.default_rng(0).normal(size=(40, 3))
    plan = l2x.TrainingPlan(progress=False).with_steps(value=5, selector=5)
    options: list[dict[str, Any]] = [{"queries": 500}, {"objective": "surrogate"}, {"mixed": 0}]
    for option in options:
        explainer = l2x.Explainer(one_column, 1, training=plan, **option).fit(table)
        assert explainer.rows_queried_ == 40 + explainer.queries_
    known = l2x.Explainer(one_column, 1, training=plan).fit(table, predictions=one_column(table))
    assert known.rows_queried_ == 0
    asked = l2x.Explainer(one_column, 1, mixed=50, queries=0, training=plan).fit(table)
    assert asked.rows_queried_ == 4 + 50
    with pytest.raises(l2x.errors.InputError, match="mixed is -1"):
        l2x.Explainer(one_column, 1, mixed=-1).fit(table)


def test_texts_are_not_mixed() -> None:
    view, texts = l2x.Words(), ["a good film", "a bad film", "good", "bad"]
    assert mixed_rows(view.fit(texts), view.check(texts), 10, 0) is None


def test_a_regression_is_scaled_by_its_spread() -> None:
    predictions = X[:, :1] * 5
    black_box = l2x.as_black_box(lambda part: part[:, 0] * 5, task="regression")
    likelihood = likelihood_of(black_box, predictions)
    assert isinstance(likelihood, Gaussian)
    assert likelihood.scale == pytest.approx(predictions.std(axis=0))


def test_predictions_of_a_model_with_logits_may_be_probabilities() -> None:
    """Probabilities are recognised, and logits are converted."""
    logits = np.array([[0.0, 2.0], [1.0, -1.0]])
    black_box = l2x.as_black_box(lambda X: logits, logits=True)
    p = black_box(np.zeros((2, 1)))
    for predictions in (p, logits):
        assert np.allclose(training_predictions(predictions, 2, black_box), p)


def test_a_column_that_the_model_was_not_fitted_on_is_refused() -> None:
    """The target is still in the frame; it would explain everything."""
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"])
    y = (frame["a"] > 0).astype(int)
    model = make_pipeline(ColumnTransformer([("keep", "passthrough", ["a", "b"])]), LogisticRegression())
    model.fit(frame, y)
    with pytest.raises(l2x.errors.InputError, match=r"without the column y\b"):
        l2x.Explainer(model, k=1).fit(frame.assign(y=y))
    unnamed = LogisticRegression().fit(frame.to_numpy(), y)  # it has no column names to compare with
    check_known_columns(l2x.Columns().fit(frame.assign(y=y)), as_black_box(unnamed))


def test_predictions_that_look_like_class_labels_raise_a_warning() -> None:
    plan = l2x.TrainingPlan(progress=False).with_steps(value=2, selector=2)

    def positive(X: np.ndarray) -> np.ndarray:
        return (X[:, 0] > 0).astype(int)

    def warned(model: object) -> list[str]:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            l2x.Explainer(model, k=1, training=plan).fit(X)
        return [str(each.message) for each in found if "only 0, 1" in str(each.message)]

    (message,) = warned(positive)
    assert "predict_proba" in message
    assert not warned(as_black_box(positive, task="regression"))
    assert not warned(lambda X: X[:, 0])


LOGITS = st.lists(st.lists(st.floats(-5, 5), min_size=3, max_size=3), min_size=1, max_size=5)


def distributions(logits: list[list[float]]) -> torch.Tensor:
    return torch.softmax(torch.tensor(logits), dim=-1)


@settings(deadline=None)
@given(model=LOGITS, other=LOGITS)
def test_the_model_itself_has_the_highest_likelihood(
    model: list[list[float]], other: list[list[float]]
) -> None:
    """Gibbs: E_p log q is largest at q = p; it falls by KL(p || q)."""
    n = min(len(model), len(other))
    p, q, likelihood = torch.tensor(model[:n]), torch.tensor(other[:n]), Categorical(3)
    target = distributions(model[:n])
    lost = likelihood.log_likelihood(p, target) - likelihood.log_likelihood(q, target)
    assert torch.allclose(lost, likelihood.divergence(p, q), atol=1e-4)
    assert (lost >= -1e-5).all()


def test_the_likelihood_of_a_certain_prediction_is_its_log_probability() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0]])
    value = Categorical(3).log_likelihood(logits, torch.tensor([[0.0, 0.0, 1.0]]))
    assert value.item() == pytest.approx(torch.softmax(logits, dim=-1)[0, 2].log().item())


def test_a_model_that_is_certain_and_wrong_does_not_weigh_infinitely() -> None:
    outputs = Categorical(2).from_targets(torch.tensor([[1.0, 0.0]]))
    value = Categorical(2).log_likelihood(outputs, torch.tensor([[0.0, 1.0]])).item()
    assert value == pytest.approx(np.log(1e-6))


def test_predicted_values_are_standardised_and_the_loss_is_half_the_squared_error() -> None:
    predictions = np.random.default_rng(0).normal([5, -2], [3, 0.1], size=(100, 2))
    likelihood = Gaussian.of(predictions)
    target = likelihood.targets(predictions)
    assert likelihood.outputs == 2
    assert torch.allclose(target.mean(dim=0), torch.zeros(2), atol=1e-5)
    assert torch.allclose(target.std(dim=0, unbiased=False), torch.ones(2), atol=1e-5)
    assert torch.allclose(likelihood.log_likelihood(target + 1, target), torch.tensor(-1.0))
    assert torch.allclose(likelihood.divergence(target + 1, target), torch.tensor(1.0))


@settings(deadline=None)
@given(
    mean=st.floats(-1e9, 1e9).filter(lambda mean: abs(mean) > 1e-9),
    ulps=st.lists(st.integers(-2, 2), min_size=2, max_size=50),
    precision=st.sampled_from([np.float32, np.float64]),
)
def test_rounding_noise_around_a_constant_is_not_standardised(
    mean: float, ulps: list[int], precision: type[np.floating]
) -> None:
    """A regression that predicts one value, up to a few units in the last place, has nothing to explain."""
    constant = precision(mean)
    predictions = (constant + np.array(ulps, precision) * np.spacing(constant)).astype(np.float64)[:, None]
    assert np.ptp(Gaussian.of(predictions).targets(predictions).numpy()) <= 1e-6


def test_a_small_spread_around_a_large_mean_is_a_signal() -> None:
    """Times in seconds since 1970, within a minute: far above the rounding of float64."""
    predictions = 1.7e9 + np.random.default_rng(0).uniform(0, 60, size=(200, 1))
    likelihood = Gaussian.of(predictions)
    assert likelihood.scale[0] == predictions.std()
    assert likelihood.targets(predictions).std(unbiased=False).item() == pytest.approx(1, abs=1e-5)


def test_a_constant_prediction_can_be_learned() -> None:
    for mean in (0.0, 0.1, 7.0, 1e-200):
        predictions = np.full((10, 1), mean)
        likelihood = Gaussian.of(predictions)
        assert likelihood.scale[0] >= 1
        assert abs(likelihood.targets(predictions)).max() < 1e-6


PREDICTIONS = np.random.default_rng(1).dirichlet([1, 1, 1], size=20)


@pytest.mark.parametrize("likelihood", [Categorical(3), Gaussian.of(PREDICTIONS)], ids=["classes", "values"])
def test_predictions_survive_the_way_to_outputs_and_back(likelihood: Likelihood) -> None:
    target = likelihood.targets(PREDICTIONS)
    assert target.dtype == torch.float32
    outputs = likelihood.from_targets(target)
    assert outputs.shape == (20, likelihood.outputs)
    assert torch.allclose(likelihood.to_targets(outputs), target, atol=1e-5)
    assert np.allclose(likelihood.predictions(outputs.numpy()), PREDICTIONS, atol=1e-5)


def test_both_are_found_by_name() -> None:
    assert Likelihood.by_name("Categorical") is Categorical
    assert Likelihood.by_name("Gaussian") is Gaussian


def test_evidence_of_a_class_is_its_log_odds() -> None:
    odds = torch.tensor([-3.0, 0.0, 5.0])
    log_p = torch.nn.functional.logsigmoid(odds)
    torch.testing.assert_close(Categorical(2).evidence(log_p), odds, rtol=1e-4, atol=1e-4)
    assert Categorical(2).evidence(torch.zeros(1)).isfinite().all()  # a certain prediction
    assert Gaussian((0.0,), (1.0,)).evidence(odds).equal(odds)
