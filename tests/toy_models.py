"""Models that tests explain."""

from __future__ import annotations

import numpy as np
import pandas as pd

from l2x.datasets import LabelledData


def one_column(X: np.ndarray) -> np.ndarray:
    """Looks at column 1 alone."""
    p = 1 / (1 + np.exp(-4 * np.asarray(X, dtype=float)[:, 1]))
    return np.stack([1 - p, p], axis=1)


def first_column(X: np.ndarray) -> np.ndarray:
    """Looks at column 0 alone, of a table of any width."""
    p = 1 / (1 + np.exp(-np.asarray(X, dtype=float)[:, 0]))
    return np.stack([1 - p, p], axis=1)


def people(n: int) -> LabelledData:
    """Made-up people like those of the Adult set: the married earn by education, others by gains."""
    rng = np.random.default_rng(0)
    married = rng.choice(["Married-civ-spouse", "Never-married", "Divorced"], n, p=[0.5, 0.3, 0.2])
    numbers = {
        "age": (17, 90),
        "education-num": (1, 17),
        "capital-gain": (0, 10_000),
        "hours-per-week": (1, 99),
    }
    X = pd.DataFrame(
        {name: rng.integers(low, high, n) for name, (low, high) in numbers.items()}
        | {"marital-status": married, "gender": rng.choice(["Male", "Female"], n)}
        | {"workclass": rng.choice(["Private", "State-gov"], n)}
    )
    X.loc[rng.random(n) < 0.1, "workclass"] = None
    X = X.astype({"marital-status": "category", "gender": "category", "workclass": "category"})
    rich = np.where(married == "Married-civ-spouse", X["education-num"] > 8, X["capital-gain"] > 7000)
    return LabelledData(X, rich.astype(np.int64), ("poor", "rich"))
