"""One easy problem for all tests of evaluation: `one_column`, its evaluator, and an explainer's report."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from toy_models import one_column

import l2x
from l2x.evaluation import ConditionalModel, FittedSurrogate, Reference, Report, fit_evaluator, random_model
from l2x.learning._training import Phase


@dataclass(frozen=True)
class Tables:
    """Rows for explainers, for the evaluator, and to measure on: (600, 5), (3000, 5), (1000, 5)."""

    fit: np.ndarray
    evaluator: np.ndarray
    test: np.ndarray


@pytest.fixture(scope="session")
def tables() -> Tables:
    sizes = (600, 3000, 1000)
    return Tables(*(np.random.default_rng(seed).normal(size=(n, 5)) for seed, n in enumerate(sizes)))


@pytest.fixture(scope="session")
def plan() -> l2x.TrainingPlan:
    """Enough for an evaluator that knows its column."""
    return l2x.TrainingPlan(
        value=Phase(400, 5e-3, batch_size=200, averaging=0.9),
        selector=Phase(150, 1e-2, batch_size=200, averaging=0.9),
        evaluations=5,
        progress=False,
    )


@pytest.fixture(scope="session")
def short() -> l2x.TrainingPlan:
    """Enough to run."""
    return l2x.TrainingPlan(value=Phase(20, 3e-3), selector=Phase(10, 3e-3), evaluations=1, progress=False)


@pytest.fixture(scope="session")
def evaluator(tables: Tables, plan: l2x.TrainingPlan) -> FittedSurrogate:
    """Of `one_column`, for one feature."""
    return fit_evaluator(one_column, tables.evaluator, 1, training=plan)


@pytest.fixture(scope="session")
def found(
    evaluator: FittedSurrogate, fitted: l2x.Explainer, tables: Tables, plan: l2x.TrainingPlan
) -> Report:
    """Of an explainer of `one_column`, with all parts that a report can have."""
    other = l2x.Explainer(one_column, 1, training=plan, seed=5).fit(tables.fit)
    lost = l2x.Explainer(random_model(one_column, tables.fit), 1, training=plan).fit(tables.fit)
    return l2x.report(
        [fitted, other],
        one_column,
        tables.evaluator,
        tables.test,
        reference=Reference(
            truth=np.tile(np.arange(5) == 1, (1000, 1)),
            exact=ConditionalModel(one_column, tables.evaluator[:50]),
            randomised=lost,
        ),
        evaluator=evaluator,
        training=plan,
    )
