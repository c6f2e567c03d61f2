"""The eight tables: both halves are fixed, and each has every kind of task."""

from __future__ import annotations

import numpy as np
import pandas as pd

from l2x.model import as_black_box
from l2x_experiments.tables import DEVELOPMENT, FINAL, TABLES, network


def test_the_halves_are_fixed() -> None:
    """A table must never move to the other half after results are known."""
    assert DEVELOPMENT == ["titanic", "anes96", "fifa", "loanapp"]
    assert FINAL == ["german", "happiness", "digits", "star98"]


def test_digits_come_with_scikit_learn() -> None:
    rows = TABLES["digits"].load()
    assert rows.X.shape == (1797, 64)
    assert set(rows.y) == set(range(10))


def test_models_read_categories_and_numbers() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=60), "b": pd.Categorical(rng.choice(["x", "y"], 60))})
    y = (X["a"] > 0).to_numpy(dtype=int)
    model = network().set_params(mlpclassifier__max_iter=2).fit(X, y)
    assert as_black_box(model)(X).shape == (60, 2)
