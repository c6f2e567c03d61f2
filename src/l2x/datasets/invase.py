"""The six synthetic sets of INVASE (Yoon, Jordon and van der Schaar 2019), with the truth of each row.

x ~ N(0, I) of 11 or 100 dimensions and P(y = 1 | x) = 1 / (1 + exp(l)), as in the authors' code. l is

    syn1   x1 x2
    syn2   x3² + x4² + x5² + x6² - 4
    syn3   variant="code"   -10 sin(0.2 x7) + |x8| + x9 + exp(-x10) - 2.4
           variant="paper"  -10 sin(2 x7) + 2|x8| + x9 + exp(-x10)
    syn4   syn1 where x11 < 0, otherwise syn2
    syn5   syn1 where x11 < 0, otherwise syn3
    syn6   syn2 where x11 < 0, otherwise syn3

In syn4 and syn5 rows have 3 or 5 truly relevant features (x11 is one). A method with one k for all rows
cannot have both a true-positive rate of 1 and a false-discovery rate of 0 there: `k` is their mean number, 4,
and the best possible rates are then 0.9 and 0.125.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from l2x.datasets.synthetic import Variant, sigmoid
from l2x.errors import InputError
from l2x.foundations.arrays import Array

if TYPE_CHECKING:
    from l2x.values import ConditionalModel

InvaseName = Literal["syn1", "syn2", "syn3", "syn4", "syn5", "syn6"]

INVASE_SETS: tuple[InvaseName, ...] = get_args(InvaseName)
SWITCH = 10
# The features of each formula, and which formulas a set switches between: (x11 < 0, otherwise).
FEATURES = {"syn1": [0, 1], "syn2": [2, 3, 4, 5], "syn3": [6, 7, 8, 9]}
BRANCHES = {"syn4": ("syn1", "syn2"), "syn5": ("syn1", "syn3"), "syn6": ("syn2", "syn3")}
# The mean number of truly relevant features.
RELEVANT: dict[InvaseName, int] = {"syn1": 2, "syn2": 4, "syn3": 4, "syn4": 4, "syn5": 4, "syn6": 5}


@dataclass(frozen=True)
class InvaseModel:
    """The true P(y|x) as a black box: (n, d) -> (n, 2)."""

    name: InvaseName
    d: int = 11
    variant: Variant = "code"

    def __call__(self, X: Array) -> Array:
        p = sigmoid(-self.logit(np.asarray(X, dtype=np.float64)))
        return np.stack([1 - p, p], axis=1)

    def logit(self, X: Array) -> Array:
        """l of the table above, (n,)."""
        if self.name not in BRANCHES:
            return _logit(self.name, X, self.variant)
        low, high = BRANCHES[self.name]
        return np.where(X[:, SWITCH] < 0, _logit(low, X, self.variant), _logit(high, X, self.variant))

    def truth(self, X: Array) -> Array:
        """(n, d) booleans: the features that the response of each row depends on."""
        truth = np.zeros((len(X), self.d), dtype=bool)
        if self.name not in BRANCHES:
            truth[:, FEATURES[self.name]] = True
            return truth
        low, high = BRANCHES[self.name]
        below = X[:, SWITCH] < 0
        truth[:, SWITCH] = True
        truth[:, FEATURES[low]] = below[:, None]
        truth[:, FEATURES[high]] = ~below[:, None]
        return truth

    def conditional(self, *, rows: int = 1000, seed: int = 0) -> ConditionalModel:
        """P(y | x_S) for any S: features are independent, so an average over many fresh rows is exact."""
        from l2x.values import ConditionalModel

        return ConditionalModel(self, invase(self.name, rows, d=self.d, variant=self.variant, seed=seed).X)


@dataclass(frozen=True)
class InvaseData:
    """Rows of one of the sets."""

    X: Array  # (n, d)
    y: Array  # (n,) labels drawn from P(y|x)
    truth: Array  # (n, d) booleans
    model: InvaseModel
    k: int


def invase(name: InvaseName, n: int, *, d: int = 11, variant: Variant = "code", seed: int = 0) -> InvaseData:
    """n rows of one of the six sets.

    >>> data = invase("syn4", 100, seed=1)
    >>> data.X.shape, data.k, sorted(set(data.truth.sum(axis=1).tolist()))
    ((100, 11), 4, [3, 5])
    """
    if name not in INVASE_SETS:
        raise InputError(f"There is no set {name!r}; choose one of {', '.join(INVASE_SETS)}.")
    if variant not in get_args(Variant):
        raise InputError(f"variant is {variant!r}; choose 'paper' or 'code'.")
    if d < 11:
        raise InputError(f"d = {d}, but the sets use 11 features; choose 11 or 100.")
    rng = np.random.default_rng(seed)
    model = InvaseModel(name, d, variant)
    X = rng.standard_normal((n, d))
    y = (rng.random(n) < model(X)[:, 1]).astype(np.int64)
    return InvaseData(X, y, model.truth(X), model, RELEVANT[name])


def _logit(name: str, X: Array, variant: Variant) -> Array:
    x = X[:, FEATURES[name]]
    if name == "syn1":
        return np.asarray(x[:, 0] * x[:, 1])
    if name == "syn2":
        return np.asarray(np.square(x).sum(axis=1) - 4)
    if variant == "paper":
        return np.asarray(-10 * np.sin(2 * x[:, 0]) + 2 * np.abs(x[:, 1]) + x[:, 2] + np.exp(-x[:, 3]))
    return np.asarray(-10 * np.sin(0.2 * x[:, 0]) + np.abs(x[:, 1]) + x[:, 2] + np.exp(-x[:, 3]) - 2.4)
