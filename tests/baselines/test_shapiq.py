"""shapiq behind `explain`: exact values of linear models, seeds, errors."""

from __future__ import annotations

import numpy as np
import pytest
from toy_models import one_column

import l2x
from l2x.baselines import ShapIQ
from l2x.errors import InputError

X = np.random.default_rng(0).normal(size=(30, 5))
WEIGHTS = np.array([1.0, -3.0, 0.5, 2.0, 0.1])


@pytest.mark.parametrize("approximator", ["KernelSHAP", "kADDSHAP"])
def test_shapley_values_of_a_linear_model_are_exact(approximator: str) -> None:
    """They are w_i (x_i - the mean of the background), with all 32 subsets."""
    model = l2x.as_black_box(lambda X: X @ WEIGHTS, task="regression")
    method = ShapIQ(model, background=X[:20], samples=32, approximator=approximator, progress=False)
    scores = method.explain(X[20:], k=2).scores
    assert scores == pytest.approx(np.abs(WEIGHTS * (X[20:] - X[:20].mean(axis=0))), abs=1e-6)


def test_the_number_of_queries() -> None:
    black_box = l2x.as_black_box(one_column)
    wide = np.random.default_rng(0).normal(size=(30, 12))
    ShapIQ(black_box, background=wide, background_rows=4, samples=50, progress=False).explain(wide[:2], k=1)
    # One query per row for its prediction; shapiq evaluates at most `samples` subsets.
    assert black_box.rows <= 2 * (1 + 4 * 50)


def test_a_row_is_explained_alone_as_among_others() -> None:
    wide = np.random.default_rng(0).normal(size=(30, 12))
    method = ShapIQ(one_column, background=wide, background_rows=4, samples=30, progress=False)
    together, alone = method.explain(wide[:3], k=1), method.explain(wide[2:3], k=1)
    assert together.scores[2] == pytest.approx(alone.scores[0])
    assert together.names == [["x1"]] * 3


def test_patches_are_present_or_masked() -> None:
    images = np.random.default_rng(0).random((3, 4, 4))

    def corner(images: np.ndarray) -> np.ndarray:
        p = images[:, 2:, 2:].mean(axis=(1, 2))
        return np.stack([1 - p, p], axis=1)

    view = l2x.Patches(size=2).fit(images)
    assert ShapIQ(corner, features=view, progress=False).explain(images, k=1).indices.tolist() == [[3]] * 3


def test_a_single_column() -> None:
    found = ShapIQ(lambda X: np.hstack([1 - X, X]), background=np.full((3, 1), 0.2), progress=False)
    assert found.explain(np.array([[0.9]]), k=1).scores == pytest.approx(0.7)


def test_an_unknown_approximator() -> None:
    with pytest.raises(InputError, match="approximator is 'SVARM'"):
        ShapIQ(one_column, background=X, approximator="SVARM", progress=False).explain(X[:1], k=1)
