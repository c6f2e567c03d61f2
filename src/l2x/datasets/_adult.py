"""Census rows of 32,561 adults and whether they earn more than 50,000 dollars (Becker and Kohavi, 1996).

The copy that the package `xai` carries: the training part of the UCI set without the sampling weight and the
native country, with columns named gender, ethnicity and loan (the label). 3,804 rows repeat another.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from l2x.datasets._fetching import DataFile, DataSet, pip_wheel
from l2x.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


FILE = DataFile("census.csv", "414e56e1a7e6e333e08fd41bef1ec437")
ADULT = DataSet("adult", [FILE], [pip_wheel("xai==0.3.0")])
LABEL, RICH = "loan", ">50K"
ROWS = 32_561


@dataclass(frozen=True)
class AdultData:
    """People as a frame: numbers, categories with missing cells; and whether they earn more than 50,000."""

    X: pd.DataFrame
    y: np.ndarray[Any, Any]  # (n,) 0 or 1

    def __len__(self) -> int:
        return len(self.X)


def adult(*, folder: str | Path | None = None, progress: bool = True) -> AdultData:
    """All rows: 12 columns, seven of them categories, two of those with missing cells.

    They come from `folder` (census.csv), from the cache, or are fetched into it, checked by md5 and by count.

    folder : where the file is, if it is here already
    progress : show a bar while fetching

    Returns
    -------
    An `AdultData`: the frame `.X` and the labels `.y`.

    Raises
    ------
    DataError
        If the file is not what it should be, or cannot be fetched.

    >>> adult().X.shape  # doctest: +SKIP
    (32561, 12)
    """
    home = ADULT.fetch(local=folder, progress=progress)
    return of_csv((home / FILE.name).read_bytes())


def of_csv(content: bytes) -> AdultData:
    """The file: spaces after commas, a question mark for a missing cell, a column of row numbers."""
    import pandas as pd

    frame = pd.read_csv(BytesIO(content), index_col=0, skipinitialspace=True, na_values="?")
    if len(frame) != ROWS or LABEL not in frame:
        raise DataError(f"census.csv has {len(frame):,} rows; expected {ROWS:,}, with a column '{LABEL}'.")
    X = frame.drop(columns=LABEL)
    texts = [name for name in X.columns if not pd.api.types.is_numeric_dtype(X[name])]
    return AdultData(X.astype(dict.fromkeys(texts, "category")), (frame[LABEL] == RICH).to_numpy(np.int64))
