"""Bits: everything captures all there are, noise none."""

from __future__ import annotations

import numpy as np
import pytest
from toy_models import one_column

import l2x
from l2x.datasets import synthetic
from l2x.errors import InputError
from l2x.evaluation import ConditionalModel, Information, information
from l2x.evaluation._information import log_informed, log_uninformed

NAMES = [f"x{i}" for i in range(10)]


def test_information_of_everything_is_all_there_is() -> None:
    data = synthetic("orange_skin", 400, seed=0)
    q = data.model.conditional(rows=50)
    everything = l2x.Explanation(np.zeros((400, 10)), 10, NAMES)
    bits = information(q, data.X, everything)
    assert bits.captured == pytest.approx(bits.available, abs=1e-9)
    assert 0 < bits.available < 1
    assert bits.share == pytest.approx(1)


def test_a_true_subset_carries_more_than_noise() -> None:
    data = synthetic("orange_skin", 400, seed=0)
    q = data.model.conditional(rows=200)
    true = l2x.Explanation(data.truth.astype(float), 4, NAMES)
    noise = l2x.Explanation(-data.truth.astype(float), 4, NAMES)
    good, bad = information(q, data.X, true), information(q, data.X, noise)
    assert good.captured == pytest.approx(good.available, abs=1e-9)
    # Noise says nothing: about 0 bits, within the error of 200 background rows.
    assert bad.captured == pytest.approx(0, abs=0.02)


def test_no_information_has_no_share() -> None:
    assert np.isnan(Information(captured=0.0, available=0.0).share)


def test_certain_answers_of_single_precision(table: np.ndarray) -> None:
    """log(0) times 0 is 0: two classes, each certain in half of the rows, are one bit."""
    answers = np.eye(2, dtype=np.float32)[np.arange(600) % 2]
    everything = l2x.Explanation(np.zeros(table.shape), 5, list("abcde"))
    assert (
        information(ConditionalModel(one_column, table), table, everything, responses=answers).available == 1
    )


def test_regression_has_no_bits(table: np.ndarray) -> None:
    explanation = l2x.Explanation(table, 1, list("abcde"))
    q = ConditionalModel(lambda X: X[:, :1], table[:5])
    with pytest.raises(InputError, match="for regression use"):
        information(q, table, explanation)


def test_of_standardised_means_half_the_variance_is_available() -> None:
    target = np.random.default_rng(0).normal(size=(1000, 2))
    available = log_informed(target, classes=False) - log_uninformed(target, classes=False)
    assert available.mean() == pytest.approx(target.var(axis=0).sum() / 2)
