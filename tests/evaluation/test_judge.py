"""The judge: it reads what is selected and nothing else, as the explainer's view reads it."""

from __future__ import annotations

import numpy as np
import torch
from toy_models import one_column

import l2x
from l2x.evaluation import FittedQ, fit_judge


def test_judge_knows_the_column(judge: FittedQ, table: np.ndarray) -> None:
    mask = np.zeros(table.shape, dtype=bool)
    blind = judge.predict(table, mask)
    mask[:, 1] = True
    seeing = judge.predict(table, mask)
    labels = one_column(table).argmax(axis=1)
    assert (seeing.argmax(axis=1) == labels).mean() > 0.9
    assert np.ptp(blind[:, 0]) < 1e-5  # with nothing selected every row looks the same


def test_a_fitted_view_is_taken_as_it_is(table: np.ndarray, short: l2x.TrainingPlan) -> None:
    view = l2x.Columns().fit(table)
    assert fit_judge(one_column, 100 + table, 1, features=view, training=short).view is view
    new = l2x.Columns()
    assert fit_judge(one_column, table, 1, features=new, training=short).view is not new
    assert not hasattr(new, "names_")


def test_the_seed_decides_and_the_global_generator_is_left_alone(
    table: np.ndarray, short: l2x.TrainingPlan
) -> None:
    def outputs(seed: int) -> np.ndarray:
        judge = fit_judge(one_column, table, 1, training=short, seed=seed)
        return judge.outputs(table[:5], np.ones((5, 5), dtype=bool))

    state = torch.get_rng_state()
    first = outputs(1)
    assert (torch.get_rng_state() == state).all()
    np.testing.assert_array_equal(first, outputs(1))
    assert not np.allclose(first, outputs(2))


def test_known_answers_are_not_asked_again(table: np.ndarray, short: l2x.TrainingPlan) -> None:
    def never(X: np.ndarray) -> np.ndarray:
        raise AssertionError("asked")

    model = l2x.as_black_box(never, task="classification")
    judge = fit_judge(model, table, 1, responses=one_column(table), training=short)
    assert judge.predict(table[:3], np.ones((3, 5), dtype=bool)).shape == (3, 2)
