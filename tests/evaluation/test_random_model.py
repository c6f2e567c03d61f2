"""A random model: of the same shape as the real one, sure of itself, and the seed's alone."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from toy_models import one_column

import l2x
from l2x.errors import InputError
from l2x.evaluation import random_model
from l2x.learning._training import Run


def test_it_answers_like_the_model_in_shape_and_scale(table: np.ndarray) -> None:
    model = random_model(one_column, table)
    answers = model(table)
    assert model.task == "classification"
    assert answers.shape == (600, 2)
    assert answers.std(axis=0).min() > 0.2  # as sure as a model that has learned something
    assert abs(np.corrcoef(answers[:, 1], one_column(table)[:, 1])[0, 1]) < 0.9


def test_regression(table: np.ndarray) -> None:
    model = random_model(lambda X: 100 * X[:, 0], table)
    assert model.task == "regression"
    answers = model(table)
    assert answers.shape == (600, 1)
    assert (answers.mean(), answers.std()) == pytest.approx((0, 2), abs=1e-3)


def test_the_seed_decides_and_the_global_generator_is_left_alone(table: np.ndarray) -> None:
    state = torch.get_rng_state()
    first, again, other = (random_model(one_column, table, seed=seed)(table[:9]) for seed in (1, 1, 2))
    assert (torch.get_rng_state() == state).all()
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


def test_a_fitted_view_is_taken_as_it_is(table: np.ndarray) -> None:
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
