"""Small data and quick plans that many tests share."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from toy_models import one_column

import l2x
from l2x.training import Phase


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Tiny networks are slower with several threads, and tests may run beside each other."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny() -> l2x.TrainingPlan:
    """Seconds of training: enough for easy problems."""
    return l2x.TrainingPlan(
        value=Phase(150, 5e-3, batch_size=200, averaging=0.9),
        selector=Phase(150, 1e-2, batch_size=200, averaging=0.9),
        evaluations=5,
        progress=False,
    )


@pytest.fixture(scope="session")
def table() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(600, 5))


@pytest.fixture(scope="session")
def fitted(table: np.ndarray, tiny: l2x.TrainingPlan) -> l2x.Explainer:
    """An explainer of `one_column`, fitted once. Do not change it."""
    return l2x.Explainer(one_column, k=1, training=tiny).fit(table)
