"""Census data of 32,561 adults and whether they earn more than 50,000 dollars (Becker and Kohavi 1996).

This is the copy in the package `xai`: the training part of the UCI data without the sampling weight and the
native country, with columns named gender, ethnicity and loan (the label). 3,804 rows repeat another.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np

from l2x.datasets._fetching import DataFile, DataSet, LabelledData, pip_wheel

FILE = DataFile("census.csv", "414e56e1a7e6e333e08fd41bef1ec437")
ADULT = DataSet("adult", [FILE], [pip_wheel("xai==0.3.0")])
LABEL, CLASSES = "loan", ("<=50K", ">50K")


def adult(*, folder: str | Path | None = None, progress: bool = True) -> LabelledData:
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
    LabelledData
        The frame `.X` and the labels `.y`: 1 for more than 50,000 dollars, otherwise 0.

    Examples
    --------
    >>> adult().X.shape  # doctest: +SKIP
    (32561, 12)
    """
    home = ADULT.fetch(local=folder, progress=progress)
    return parse_csv((home / FILE.name).read_bytes())


def parse_csv(content: bytes) -> LabelledData:
    """Parse the file, which has spaces after commas, "?" for missing cells, and a column of row numbers."""
    import pandas as pd

    frame = pd.read_csv(BytesIO(content), index_col=0, skipinitialspace=True, na_values="?")
    X = frame.drop(columns=LABEL)
    texts = [name for name in X.columns if not pd.api.types.is_numeric_dtype(X[name])]
    y = (frame[LABEL] == CLASSES[1]).to_numpy(np.int64)
    return LabelledData(X.astype(dict.fromkeys(texts, "category")), y, CLASSES)
