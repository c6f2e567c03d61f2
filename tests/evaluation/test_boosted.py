"""The boosted evaluator: what it learns from subsets, categories, gaps, and its errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import l2x
from l2x.errors import InputError
from l2x.evaluation import fit_boosted_evaluator
from l2x.evaluation._boosted import random_subsets
from l2x.learning import same_class


def table(n: int = 200, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "colour": pd.Categorical(rng.choice(["red", "green", "blue"], n)),
            "size": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "noise": rng.normal(size=n),
        }
    )


def by_colour(X: pd.DataFrame) -> np.ndarray:
    return 0.02 + 0.94 * np.stack([X["colour"] == name for name in ("red", "green", "blue")], axis=1)


def test_it_predicts_from_the_columns_in_the_mask_only() -> None:
    evaluator, X = fit_boosted_evaluator(by_colour, table(), 1), table(400, seed=1)
    colour, others = (np.tile(mask, (len(X), 1)) for mask in ([True, False, False], [False, True, True]))
    assert same_class(evaluator.predict(X, colour), by_colour(X)).mean() > 0.99
    assert same_class(evaluator.predict(X, others), by_colour(X)).mean() < 0.6
    assert evaluator.predict(X, others).sum(axis=1) == pytest.approx(1)


def test_a_missing_cell_is_not_a_masked_cell() -> None:
    X = table(400, seed=1)

    def missing(X: pd.DataFrame) -> np.ndarray:
        return np.asarray(X["size"].isna(), dtype=float)

    evaluator = fit_boosted_evaluator(l2x.as_black_box(missing, task="regression"), table(), 1)
    size, nothing = (np.tile(mask, (len(X), 1)) for mask in ([False, True, False], [False] * 3))
    assert evaluator.predict(X, size)[:, 0] == pytest.approx(missing(X), abs=0.1)
    assert evaluator.predict(X, nothing)[:, 0] == pytest.approx(missing(X).mean(), abs=0.1)


def test_half_of_the_subsets_have_k_columns() -> None:
    sizes = random_subsets(1000, 9, 3, np.random.default_rng(0)).sum(axis=1)
    # 500 of size 3, and a tenth of the other 500: 550, with a standard deviation of 7
    assert (sizes == 3).sum() == pytest.approx(550, abs=35)
    assert set(sizes) == set(range(10))


def test_errors() -> None:
    X = table()
    with pytest.raises(InputError, match="single columns, not ColumnGroups"):
        fit_boosted_evaluator(by_colour, X, 1, features=l2x.ColumnGroups({"both": ["size", "noise"]}))
    evaluator = fit_boosted_evaluator(by_colour, X[:50], 1)
    with pytest.raises(InputError, match=r"shape \(2, 2\); expected \(50, 3\)"):
        evaluator.predict(X[:50], np.ones((2, 2), dtype=bool))
