"""Post-hoc accuracy and information: bounds that must hold."""

from __future__ import annotations

import numpy as np
import pytest
from models import one_column

import l2x
from l2x.datasets import synthetic
from l2x.evaluation import fit_judge, information, posthoc_accuracy, posthoc_r2


def select(scores: np.ndarray, k: int, view: l2x.Columns) -> l2x.Explanation:
    return l2x.Explanation(scores, k, view.names_, view=view)


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


def test_regression(table: np.ndarray) -> None:
    def model(X: np.ndarray) -> np.ndarray:
        return 3 * X[:, 2]

    scores = np.zeros(table.shape)
    scores[:, 2] = 1
    right = select(scores, 1, l2x.Columns().fit(table))
    assert posthoc_r2(model, table, right) == pytest.approx(1)
    assert posthoc_r2(model, table, right, complement=True) == pytest.approx(0, abs=1e-6)


def test_information_of_everything_is_all_there_is() -> None:
    data = synthetic("orange_skin", 400, seed=0)
    q = data.model.conditional(rows=50)
    everything = l2x.Explanation(np.zeros((400, 10)), 10, [f"x{i}" for i in range(10)])
    bits = information(q, data.X, everything)
    assert bits.captured == pytest.approx(bits.available, abs=1e-9)
    assert 0 < bits.available < 1
    assert bits.share == pytest.approx(1)


def test_a_true_subset_carries_more_than_noise() -> None:
    data = synthetic("orange_skin", 400, seed=0)
    q = data.model.conditional(rows=200)
    true = l2x.Explanation(data.truth.astype(float), 4, [f"x{i}" for i in range(10)])
    noise = l2x.Explanation(-data.truth.astype(float), 4, [f"x{i}" for i in range(10)])
    good, bad = information(q, data.X, true), information(q, data.X, noise)
    assert good.captured == pytest.approx(good.available, abs=1e-9)
    # Noise says nothing: about 0 bits, within the error of 200 background rows.
    assert bad.captured == pytest.approx(0, abs=0.02)


def test_judge_knows_the_column(table: np.ndarray, tiny: l2x.TrainingPlan) -> None:
    judge = fit_judge(one_column, table, 1, training=tiny)
    mask = np.zeros(table.shape, dtype=bool)
    blind = judge.probabilities(table, mask)
    mask[:, 1] = True
    seeing = judge.probabilities(table, mask)
    labels = one_column(table).argmax(axis=1)
    assert (seeing.argmax(axis=1) == labels).mean() > 0.9
    assert np.ptp(blind[:, 0]) < 1e-5  # with nothing selected every row looks the same
