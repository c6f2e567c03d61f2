"""Synthetic data with the true P(y|x) and the truly relevant features of each row.

The four sets of section 4.1 differ between the paper's text and its authors' released code:

              variant="paper"                               variant="code"
    additive  -100 sin(2 x1) + 2|x2| + x3 + exp(-x4)        -100 sin(0.2 x1) + |x2| + x3 + exp(-x4) - 2.4
    switch    x1 decides: orange skin on x2..x5,            x10 decides: orange skin on x1..x4,
              additive on x6..x9                            additive on x5..x8

The paper's list and its discussion name opposite branches for the switch; this code follows the list (centre
+3: orange skin). The authors' code swaps two array views, which makes columns 1-4 and 5-8 identical copies
and its truth ambiguous; that bug is not reproduced.

The six sets of INVASE (Yoon, Jordon and van der Schaar 2019) have x ~ N(0, I) with 11 or 100 dimensions and
P(y = 1 | x) = 1 / (1 + exp(l)), as in the authors' code. l is

    syn1   x1 x2
    syn2   x3² + x4² + x5² + x6² - 4
    syn3   variant="code"   -10 sin(0.2 x7) + |x8| + x9 + exp(-x10) - 2.4
           variant="paper"  -10 sin(2 x7) + 2|x8| + x9 + exp(-x10)
    syn4   syn1 where x11 < 0, otherwise syn2
    syn5   syn1 where x11 < 0, otherwise syn3
    syn6   syn2 where x11 < 0, otherwise syn3

In syn4 and syn5 rows have 3 or 5 truly relevant features (x11 is one of them). With one k for all rows no
method can reach both a true-positive rate of 1 and a false-discovery rate of 0 there: `k` is their mean
number, 4, and the best possible rates are then 0.9 and 0.125.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
from scipy.special import expit

from l2x._base.arrays import Array
from l2x.errors import InputError

if TYPE_CHECKING:
    from l2x.learning import ConditionalModel


SetName = Literal[
    "xor", "orange_skin", "nonlinear_additive", "switch", "syn1", "syn2", "syn3", "syn4", "syn5", "syn6"
]
Variant = Literal["paper", "code"]
Function = Callable[[Array], Array]  # (n, features) -> (n,)

SETS: tuple[SetName, ...] = get_args(SetName)[:4]
INVASE_SETS: tuple[SetName, ...] = get_args(SetName)[4:]
# The mean number of truly relevant features in a row, k of the experiments.
RELEVANT: dict[str, int] = {
    "xor": 2, "orange_skin": 4, "nonlinear_additive": 4, "switch": 5,
    "syn1": 2, "syn2": 4, "syn3": 4, "syn4": 4, "syn5": 4, "syn6": 5,
}  # fmt: skip
INVASE_SWITCH = 10
# The formulas that a set of INVASE switches between: (x11 < 0, otherwise).
INVASE_BRANCHES = {"syn4": ("syn1", "syn2"), "syn5": ("syn1", "syn3"), "syn6": ("syn2", "syn3")}


class Formula(NamedTuple):
    """A function of some of the features."""

    features: list[int]
    function: Function


@dataclass(frozen=True)
class SyntheticModel:
    """The true P(y|x) of a set as a black box: (n, d) -> (n, 2).

    Attributes
    ----------
    d, k : int
        Number of features, and of truly relevant features on average.
    formulas : tuple of Formula
        One formula; or two, the first where sign * x[switch] > 0, otherwise the second.
    switch : int, optional
        The feature that decides between two formulas.
    centre : float
        The switch feature is drawn around plus and minus this number.
    sign : int
        -1 if the formulas are the log-odds of class 0, otherwise 1.

    Examples
    --------
    >>> data = synthetic("xor", 3, seed=0)
    >>> data.model(data.X).sum(axis=1).round(6).tolist()  # class probabilities
    [1.0, 1.0, 1.0]
    """

    d: int
    k: int
    formulas: tuple[Formula, ...]
    switch: int | None = None
    centre: float = 0.0
    sign: int = 1

    def __call__(self, X: Array) -> Array:
        """Return P(y|x), (n, 2)."""
        p = expit(self.sign * self.logit(np.asarray(X, dtype=np.float64)))
        return np.stack([1 - p, p], axis=1)

    def logit(self, X: Array) -> Array:
        """Return the log-odds of class 1 (of class 0 if `sign` is -1) for rows X, (n,)."""
        values = [function(X[:, features]) for features, function in self.formulas]
        return np.where(self._first(X), values[0], values[-1])

    def truth(self, X: Array) -> Array:
        """Return the features that the prediction for each row of X depends on, (n, d) booleans."""
        truth = np.zeros((len(X), self.d), dtype=bool)
        first = self._first(X)[:, None]
        truth[:, self.formulas[-1].features] = ~first
        truth[:, self.formulas[0].features] = first
        if self.switch is not None:
            truth[:, self.switch] = True
        return truth

    def draw(self, n: int, *, seed: int) -> SyntheticData:
        """Draw n rows and their labels with this seed."""
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n, self.d))
        if self.switch is not None and self.centre:
            X[:, self.switch] += rng.choice([-self.centre, self.centre], size=n)
        y = (rng.random(n) < self(X)[:, 1]).astype(np.int64)
        return SyntheticData(X, y, self.truth(X), self, self.k)

    def conditional(self, *, rows: int = 1000, seed: int = 0) -> ConditionalModel:
        """Return P(y | x_S) for any S, exact up to an average over `rows` that are drawn with `seed`."""
        from l2x.learning import ConditionalModel

        return ConditionalModel(self, self.draw(rows, seed=seed).X)

    def _first(self, X: Array) -> Array:
        """Return where the first formula holds, (n,) booleans."""
        if self.switch is None:
            return np.ones(len(X), dtype=bool)
        return np.asarray(self.sign * X[:, self.switch] > 0)


@dataclass(frozen=True)
class SyntheticData:
    """Rows of a synthetic set.

    Attributes
    ----------
    X : array, (n, d)
        The rows.
    y : array of int, (n,)
        Labels drawn from P(y|x).
    truth : array of bool, (n, d)
        The truly relevant features.
    model : SyntheticModel
        The true P(y|x).
    k : int
        The number of truly relevant features, on average.

    Examples
    --------
    >>> data = synthetic("xor", 3, seed=0)
    >>> data.X.shape, data.truth[0].nonzero()[0].tolist(), data.k
    ((3, 10), [0, 1], 2)
    """

    X: Array
    y: Array
    truth: Array
    model: SyntheticModel
    k: int


def synthetic(
    name: SetName, n: int, *, d: int | None = None, variant: Variant = "code", seed: int = 0
) -> SyntheticData:
    """Draw n rows of one of the four sets of section 4.1, or of the six sets of INVASE.

    Parameters
    ----------
    name : str
        One of `SETS` or `INVASE_SETS`.
    n : int
        Number of rows.
    d : int, optional
        Number of columns, by default 10 in section 4.1 and 11 in INVASE; further columns are noise.
    variant : "code" or "paper"
        Whether to use the formulas of the authors' code or of the paper's text.
    seed : int
        The same seed gives the same rows.

    Returns
    -------
    SyntheticData
        Rows, their truly relevant features, k, and the true model.

    Examples
    --------
    >>> data = synthetic("switch", 100, seed=1)
    >>> data.X.shape, data.k, data.truth.sum(axis=1).tolist() == [5] * 100
    ((100, 10), 5, True)
    >>> data.model(data.X).shape
    (100, 2)
    >>> data = synthetic("syn4", 100, d=30)
    >>> data.X.shape, data.k, sorted(set(data.truth.sum(axis=1).tolist()))
    ((100, 30), 4, [3, 5])
    """
    return _model(name, d, variant).draw(n, seed=seed)


def _model(name: SetName, d: int | None, variant: Variant) -> SyntheticModel:
    if name not in RELEVANT:
        raise InputError(f"There is no set {name!r}; choose one of {', '.join(RELEVANT)}.")
    if variant not in get_args(Variant):
        raise InputError(f"variant is {variant!r}; choose 'paper' or 'code'.")
    least, sine, sign = (10, 100, 1) if name in SETS else (11, 10, -1)
    d, k = least if d is None else d, RELEVANT[name]
    if d < least:
        raise InputError(f"d = {d}, but this set uses {least} features; choose at least {least}.")
    four_terms = partial(additive, sine=sine, variant=variant)
    if name == "switch":
        switch, first, second = (
            (0, [1, 2, 3, 4], [5, 6, 7, 8]) if variant == "paper" else (9, [0, 1, 2, 3], [4, 5, 6, 7])
        )
        formulas = Formula(first, orange_skin), Formula(second, four_terms)
        return SyntheticModel(d, k, formulas, switch, centre=3.0)
    formula = {
        "xor": Formula([0, 1], product),
        "orange_skin": Formula([0, 1, 2, 3], orange_skin),
        "nonlinear_additive": Formula([0, 1, 2, 3], four_terms),
        "syn1": Formula([0, 1], product),
        "syn2": Formula([2, 3, 4, 5], orange_skin),
        "syn3": Formula([6, 7, 8, 9], four_terms),
    }
    if name in INVASE_BRANCHES:
        branches = tuple(formula[branch] for branch in INVASE_BRANCHES[name])
        return SyntheticModel(d, k, branches, INVASE_SWITCH, sign=sign)
    return SyntheticModel(d, k, (formula[name],), sign=sign)


def product(x: Array) -> Array:
    """Return x1 x2, (n,)."""
    return np.asarray(x[:, 0] * x[:, 1])


def orange_skin(x: Array) -> Array:
    """Return the sum of squares minus 4, (n,)."""
    return np.asarray(np.square(x).sum(axis=1) - 4)


def additive(x: Array, *, sine: float, variant: Variant) -> Array:
    """Return a sum of four terms, (n,); `sine` is the sine's factor, 100 in section 4.1 and 10 in INVASE."""
    if variant == "paper":
        return np.asarray(-sine * np.sin(2 * x[:, 0]) + 2 * np.abs(x[:, 1]) + x[:, 2] + np.exp(-x[:, 3]))
    return np.asarray(-sine * np.sin(0.2 * x[:, 0]) + np.abs(x[:, 1]) + x[:, 2] + np.exp(-x[:, 3]) - 2.4)
