"""The evaluator sees the selected features and nothing else; a random model has the shape of the real one."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from toy_models import one_column

import l2x
from l2x.errors import InputError
from l2x.evaluation import FittedSurrogate, fit_evaluator, random_model
from l2x.learning._training import Run


def test_the_evaluator_knows_the_column(evaluator: FittedSurrogate, table: np.ndarray) -> None:
    mask = np.zeros(table.shape, dtype=bool)
    blind = evaluator.predict(table, mask)
    mask[:, 1] = True
    seeing = evaluator.predict(table, mask)
    labels = one_column(table).argmax(axis=1)
    assert (seeing.argmax(axis=1) == labels).mean() > 0.9
    assert np.ptp(blind[:, 0]) < 1e-5  # with nothing selected every row looks the same


def test_a_fitted_view_is_taken_as_it_is(table: np.ndarray, short: l2x.TrainingPlan) -> None:
    view = l2x.Columns().fit(table)
    assert fit_evaluator(one_column, 100 + table, 1, features=view, training=short).view is view
    new = l2x.Columns()
    assert fit_evaluator(one_column, table, 1, features=new, training=short).view is not new
    assert not hasattr(new, "names_")


def test_the_seed_decides_and_the_global_generator_is_left_alone(
    table: np.ndarray, short: l2x.TrainingPlan
) -> None:
    def outputs(seed: int) -> np.ndarray:
        evaluator = fit_evaluator(one_column, table, 1, training=short, seed=seed)
        return evaluator.outputs(table[:5], np.ones((5, 5), dtype=bool))

    state = torch.get_rng_state()
    first = outputs(1)
    assert (torch.get_rng_state() == state).all()
    np.testing.assert_array_equal(first, outputs(1))
    assert not np.allclose(first, outputs(2))


def test_predictions_that_are_passed_are_not_queried(table: np.ndarray, short: l2x.TrainingPlan) -> None:
    def never(X: np.ndarray) -> np.ndarray:
        raise AssertionError("queried")

    model = l2x.as_black_box(never, task="classification")
    evaluator = fit_evaluator(model, table, 1, predictions=one_column(table), training=short)
    assert evaluator.predict(table[:3], np.ones((3, 5), dtype=bool)).shape == (3, 2)


def test_a_random_model_predicts_like_the_model_in_shape_and_scale(table: np.ndarray) -> None:
    model = random_model(one_column, table)
    predictions = model(table)
    assert model.task == "classification"
    assert predictions.shape == (600, 2)
    assert predictions.std(axis=0).min() > 0.2  # as sure as a model that has learned something
    assert abs(np.corrcoef(predictions[:, 1], one_column(table)[:, 1])[0, 1]) < 0.9


def test_a_random_regression(table: np.ndarray) -> None:
    model = random_model(lambda X: 100 * X[:, 0], table)
    assert model.task == "regression"
    predictions = model(table)
    assert predictions.shape == (600, 1)
    assert (predictions.mean(), predictions.std()) == pytest.approx((0, 2), abs=1e-3)


def test_the_seed_decides_the_random_weights(table: np.ndarray) -> None:
    state = torch.get_rng_state()
    first, again, other = (random_model(one_column, table, seed=seed)(table[:9]) for seed in (1, 1, 2))
    assert (torch.get_rng_state() == state).all()
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


def test_a_random_model_leaves_a_fitted_view_alone(table: np.ndarray) -> None:
    view = l2x.Columns().fit(table)
    state = view.state()[1]
    random_model(one_column, 5 + table[:100], features=view)
    for name, array in view.state()[1].items():
        np.testing.assert_array_equal(array, state[name])


def test_networks_that_read_ids_are_refused() -> None:
    view = l2x.Words(reads="ids")
    with pytest.raises(InputError, match="reads ids"):
        random_model(one_column, ["a b"], features=view)


def test_it_waits_for_training_that_draws_from_the_same_generator(table: np.ndarray) -> None:
    made: list[l2x.BlackBox] = []
    thread = threading.Thread(target=lambda: made.append(random_model(one_column, table, seed=1)))
    with Run.begin(l2x.TrainingPlan(), 0).seeded():
        thread.start()
        thread.join(timeout=1)
        assert thread.is_alive()
    thread.join(timeout=60)
    np.testing.assert_array_equal(made[0](table[:9]), random_model(one_column, table, seed=1)(table[:9]))
