"""Scaling: mean zero and deviation one for ordinary columns, sane numbers for all others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from l2x.features._cells import LIMIT, Scaling

NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)


def scaling_of(matrix: np.ndarray, categorical: tuple[int, ...] = ()) -> Scaling:
    return Scaling.of(matrix, matrix, categorical=categorical)


def standard_of(scaling: Scaling, matrix: np.ndarray) -> np.ndarray:
    return scaling.standard(torch.from_numpy(matrix)).numpy()


def test_ordinary_columns_are_standardised() -> None:
    matrix = np.random.default_rng(0).normal([5, -3], [2, 100], size=(2000, 2))
    standard = standard_of(scaling_of(matrix), matrix)
    assert np.allclose(standard.mean(axis=0), 0)
    assert np.allclose(standard.std(axis=0), 1)


@settings(max_examples=100, deadline=None)
@given(matrix=arrays(np.float64, st.tuples(st.integers(1, 20), st.integers(1, 4)), elements=NUMBERS))
def test_whatever_the_column_the_result_is_finite_and_limited(matrix: np.ndarray) -> None:
    standard = standard_of(scaling_of(matrix), matrix)
    assert np.isfinite(standard).all()
    assert np.abs(standard).max() <= LIMIT


def test_a_constant_column_is_centred_and_not_scaled() -> None:
    matrix = np.full((50, 1), 1e9)
    scaling = scaling_of(matrix)
    assert scaling.scale.tolist() == [1.0]
    assert not standard_of(scaling, matrix).any()


def test_a_few_outliers_do_not_flatten_a_column() -> None:
    column = np.random.default_rng(0).normal(size=(1000, 1))
    column[:3] = 1e6
    scaling = scaling_of(column)
    assert scaling.scale[0] == pytest.approx(1, abs=0.1)
    assert abs(scaling.centre[0]) < 0.1
    assert scaling.mean[0] == pytest.approx(column.mean())  # what removal fills in is the mean all the same
    assert np.ptp(standard_of(scaling, column)[3:]) > 4
    assert standard_of(scaling, column)[0] == LIMIT


def test_missing_cells_do_not_count() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal([5, 0, 0], 2, size=(1000, 3))
    matrix[rng.random(1000) < 0.3, 0] = np.nan
    matrix[:, 2] = np.nan
    scaling = scaling_of(matrix)
    held = matrix[~np.isnan(matrix[:, 0]), 0]
    assert scaling.mean[0] == pytest.approx(held.mean())
    assert scaling.scale[0] == pytest.approx(held.std())
    assert (scaling.mean[2], scaling.scale[2]) == (0.0, 1.0)  # a column of gaps only
    assert np.array_equal(np.isnan(standard_of(scaling, matrix)), np.isnan(matrix))


def test_codes_of_categories_stay_as_they_are() -> None:
    matrix = np.array([[0.0, 10.0], [3.0, 20.0], [1.0, 30.0]])
    scaling = scaling_of(matrix, categorical=(0,))
    assert scaling.mean[0] == 0.0  # the most frequent category
    assert standard_of(scaling, matrix)[:, 0].tolist() == [0.0, 3.0, 1.0]
