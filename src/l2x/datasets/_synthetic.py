"""The four synthetic sets of section 4.1, with the true P(y|x) and the truly relevant features of each row.

The paper's text and its authors' released code differ; both are here:

              variant="paper"                               variant="code"
    additive  -100 sin(2 x1) + 2|x2| + x3 + exp(-x4)        -100 sin(0.2 x1) + |x2| + x3 + exp(-x4) - 2.4
    switch    x1 decides: orange skin on x2..x5,            x10 decides: orange skin on x1..x4,
              additive on x6..x9                            additive on x5..x8

Two notes. The paper's list and its discussion name opposite branches for the switch; we follow the list
(centre +3: orange skin). The authors' code swaps two array views, which leaves columns 1-4 and 5-8
identical copies, so that its truth is ambiguous; that bug is not reproduced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from l2x._base.arrays import Array
from l2x.errors import InputError

if TYPE_CHECKING:
    from l2x.learning import ConditionalModel


SetName = Literal["xor", "orange_skin", "nonlinear_additive", "switch"]
Variant = Literal["paper", "code"]
Function = Callable[[Array], Array]  # (n, features) -> (n,)

SETS: tuple[SetName, ...] = get_args(SetName)
DIMENSION = 10
# The number of truly relevant features, k of the experiment.
RELEVANT: dict[SetName, int] = {"xor": 2, "orange_skin": 4, "nonlinear_additive": 4, "switch": 5}


class Formula(NamedTuple):
    """A function of some of the features."""

    features: slice | list[int]
    function: Function


@dataclass(frozen=True)
class SyntheticModel:
    """The true P(y|x) of a set as a black box: (n, d) -> (n, 2).

    >>> data = synthetic("xor", 3, seed=0)
    >>> data.model(data.X).shape
    (3, 2)
    """

    d: int
    k: int  # the number of truly relevant features, on average
    formulas: tuple[Formula, ...]  # one; or two: the first where sign * x[switch] > 0, otherwise the second
    switch: int | None = None
    centre: float = 0.0  # the switch feature is drawn around plus and minus this
    sign: int = 1  # -1: the formulas are the log-odds of class 0

    def __call__(self, X: Array) -> Array:
        p = sigmoid(self.sign * self.logit(np.asarray(X, dtype=np.float64)))
        return np.stack([1 - p, p], axis=1)

    def logit(self, X: Array) -> Array:
        """The formula's value, (n,): the log-odds of class 1 (of class 0 if `sign` is -1)."""
        values = [function(X[:, features]) for features, function in self.formulas]
        return np.where(self._first(X), values[0], values[-1])

    def truth(self, X: Array) -> Array:
        """(n, d) booleans: the features that the response of each row depends on."""
        truth = np.zeros((len(X), self.d), dtype=bool)
        first = self._first(X)[:, None]
        truth[:, self.formulas[-1].features] = ~first
        truth[:, self.formulas[0].features] = first
        if self.switch is not None:
            truth[:, self.switch] = True
        return truth

    def draw(self, n: int, *, seed: int) -> SyntheticData:
        """n rows and their labels."""
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n, self.d))
        if self.switch is not None and self.centre:
            X[:, self.switch] += rng.choice([-self.centre, self.centre], size=n)
        y = (rng.random(n) < self(X)[:, 1]).astype(np.int64)
        return SyntheticData(X, y, self.truth(X), self, self.k)

    def conditional(self, *, rows: int = 1000, seed: int = 0) -> ConditionalModel:
        """P(y | x_S) for any S: features are independent, so an average over many fresh rows is exact."""
        from l2x.learning import ConditionalModel

        return ConditionalModel(self, self.draw(rows, seed=seed).X)

    def _first(self, X: Array) -> Array:
        """(n,) booleans: where the first formula holds."""
        if self.switch is None:
            return np.ones(len(X), dtype=bool)
        return np.asarray(self.sign * X[:, self.switch] > 0)


@dataclass(frozen=True)
class SyntheticData:
    """Rows of a synthetic set.

    >>> data = synthetic("switch", 4, seed=0)
    >>> data.X.shape, data.truth.shape, data.k
    ((4, 10), (4, 10), 5)
    """

    X: Array  # (n, d)
    y: Array  # (n,) labels drawn from P(y|x)
    truth: Array  # (n, d) booleans
    model: SyntheticModel
    k: int


def synthetic(name: SetName, n: int, *, variant: Variant = "code", seed: int = 0) -> SyntheticData:
    """n rows of one of the four sets.

    name, n : one of `SETS`, and how many rows
    variant : formulas of the "code" or of the "paper"
    seed : the same seed gives the same rows

    Returns
    -------
    A `SyntheticData`: rows, their true features, k, and the true model.

    Raises
    ------
    InputError
        If there is no such set.

    >>> data = synthetic("switch", 100, seed=1)
    >>> data.X.shape, data.k, data.truth.sum(axis=1).tolist() == [5] * 100
    ((100, 10), 5, True)
    """
    if name not in SETS:
        raise InputError(f"There is no synthetic set {name!r}; choose one of {', '.join(SETS)}.")
    check_variant(variant)
    return _model(name, variant).draw(n, seed=seed)


def _model(name: SetName, variant: Variant) -> SyntheticModel:
    four_terms = partial(additive, sine=100, variant=variant)
    functions: dict[str, Function] = {
        "xor": product,
        "orange_skin": orange_skin,
        "nonlinear_additive": four_terms,
    }
    k = RELEVANT[name]
    if name in functions:
        return SyntheticModel(DIMENSION, k, (Formula(slice(k), functions[name]),))
    switch, orange, others = (
        (0, [1, 2, 3, 4], [5, 6, 7, 8]) if variant == "paper" else (9, [0, 1, 2, 3], [4, 5, 6, 7])
    )
    formulas = Formula(orange, orange_skin), Formula(others, four_terms)
    return SyntheticModel(DIMENSION, k, formulas, switch, centre=3.0)


def check_variant(variant: str) -> None:
    if variant not in get_args(Variant):
        raise InputError(f"variant is {variant!r}; choose 'paper' or 'code'.")


def product(x: Array) -> Array:
    return np.asarray(x[:, 0] * x[:, 1])


def orange_skin(x: Array) -> Array:
    return np.asarray(np.square(x).sum(axis=1) - 4)


def additive(x: Array, *, sine: float, variant: Variant) -> Array:
    """Four features, one term each. `sine` is the sine's factor: 100 in section 4.1, 10 in INVASE."""
    if variant == "paper":
        return np.asarray(-sine * np.sin(2 * x[:, 0]) + 2 * np.abs(x[:, 1]) + x[:, 2] + np.exp(-x[:, 3]))
    return np.asarray(-sine * np.sin(0.2 * x[:, 0]) + np.abs(x[:, 1]) + x[:, 2] + np.exp(-x[:, 3]) - 2.4)


def sigmoid(z: Array) -> Array:
    """1 / (1 + exp(-z))."""
    # exp of a negative number only: it cannot overflow.
    small = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0, 1, small) / (1 + small))
