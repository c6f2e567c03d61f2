"""Small data and quick plans that many tests share; one thread each, the longest tests first."""

from __future__ import annotations

import os

# Tests run beside each other, one on each core: libraries that start a thread on every core make all of them
# wait. Read once, when numpy and torch are imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
import torch
from toy_models import one_column

import l2x
from l2x.learning._training import Phase


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests first: a long one that starts last would leave the other cores idle."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Tiny networks are slower with several threads, and tests run beside each other."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Networks that a test builds by itself start alike, whatever ran before in the same process."""
    torch.manual_seed(0)


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
