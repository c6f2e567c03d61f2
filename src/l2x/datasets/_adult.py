"""Census data of 32,561 adults and whether they earn more than 50,000 dollars (Becker and Kohavi 1996).

This is the copy in the package `xai`: the training part of the UCI data without the sampling weight and the
native country, with columns named gender, ethnicity and loan (the label). 3,804 rows repeat another.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from l2x._base.arrays import Array
from l2x.datasets._fetching import DataFile, DataSet, pip_wheel

if TYPE_CHECKING:
    import pandas as pd


FILE = DataFile("census.csv", "414e56e1a7e6e333e08fd41bef1ec437")
ADULT = DataSet("adult", [FILE], [pip_wheel("xai==0.3.0")])
LABEL, RICH = "loan", ">50K"


@dataclass(frozen=True)
class AdultData:
    """People, and whether they earn more than 50,000 dollars.

    Attributes
    ----------
    X : pandas.DataFrame
        Columns of numbers and of categories, some with missing cells.
    y : array of int, (n,)
        1 for more than 50,000 dollars, otherwise 0.
    """

    X: pd.DataFrame
    y: Array

    def __len__(self) -> int:
        return len(self.X)


def adult(*, folder: str | Path | None = None, progress: bool = True) -> AdultData:
    """Return all rows: 12 columns, seven of them with categories, two of those with missing cells.

    The rows come from `folder`, from the cache, or are fetched into it; the md5 is checked.

    Parameters
    ----------
    folder : path, optional
        Folder that holds census.csv.
    progress : bool
        Show a progress bar while fetching.

    Returns
    -------
    AdultData
        The frame `.X` and the labels `.y`.

    Examples
    --------
    >>> adult().X.shape  # doctest: +SKIP
    (32561, 12)
    """
    home = ADULT.fetch(local=folder, progress=progress)
    return parse_csv((home / FILE.name).read_bytes())


def parse_csv(content: bytes) -> AdultData:
    """Parse the file, which has spaces after commas, "?" for missing cells, and a column of row numbers."""
    import pandas as pd

    frame = pd.read_csv(BytesIO(content), index_col=0, skipinitialspace=True, na_values="?")
    X = frame.drop(columns=LABEL)
    texts = [name for name in X.columns if not pd.api.types.is_numeric_dtype(X[name])]
    return AdultData(X.astype(dict.fromkeys(texts, "category")), (frame[LABEL] == RICH).to_numpy(np.int64))
