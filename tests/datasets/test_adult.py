"""The Adult census rows: types and gaps as the file has them, and where it comes from."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

import l2x
from l2x.datasets import adult

module = sys.modules["l2x.datasets._adult"]  # the package's name `adult` is the function

CSV = b""",age,workclass,capital-gain,loan
0,39, State-gov,2174, <=50K
1,50, ?,0, >50K
2,38, Private,0, <=50K
"""


def test_types_and_gaps() -> None:
    data = module.parse_csv(CSV)
    assert list(data.X.columns) == ["age", "workclass", "capital-gain"]
    assert isinstance(data.X["workclass"].dtype, pd.CategoricalDtype)
    assert data.X["workclass"].tolist()[::2] == ["State-gov", "Private"]
    assert data.X["workclass"].isna().tolist() == [False, True, False]
    assert data.y.tolist() == [0, 1, 0]
    assert np.issubdtype(data.X["age"].dtype, np.integer)
    assert len(data) == 3


def test_adult_itself() -> None:
    """Fetched for real, into the user's cache; skipped only where no source can be reached."""
    try:
        data = adult(progress=False)
    except l2x.errors.DataError as error:
        pytest.skip(f"The census rows are neither cached nor to be had here: {error}")
    assert data.X.shape == (32_561, 12)
    assert data.y.sum() == 7_841
    assert sum(isinstance(kind, pd.CategoricalDtype) for kind in data.X.dtypes) == 7
    assert data.X.columns[data.X.isna().any()].tolist() == ["workclass", "occupation"]
