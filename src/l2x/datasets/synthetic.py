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
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from l2x.errors import InputError
from l2x.foundations.arrays import Array

if TYPE_CHECKING:
    from l2x.values import ConditionalModel

SetName = Literal["xor", "orange_skin", "nonlinear_additive", "switch"]
Variant = Literal["paper", "code"]

SETS: tuple[SetName, ...] = get_args(SetName)
DIMENSION = 10
# The number of truly relevant features, k of the experiment.
RELEVANT: dict[SetName, int] = {"xor": 2, "orange_skin": 4, "nonlinear_additive": 4, "switch": 5}


@dataclass(frozen=True)
class SyntheticModel:
    """The true P(y|x) as a black box: (n, 10) -> (n, 2)."""

    name: SetName
    variant: Variant = "code"

    def __call__(self, X: Array) -> Array:
        p = sigmoid(self.logit(np.asarray(X, dtype=np.float64)))
        return np.stack([1 - p, p], axis=1)

    def logit(self, X: Array) -> Array:
        """log P(y=1|x) - log P(y=0|x), (n,)."""
        if self.name == "switch":
            switch, orange, additive = self._branches()
            return np.where(
                X[:, switch] > 0, _orange_skin(X[:, orange]), _additive(self.variant)(X[:, additive])
            )
        logits: dict[str, Callable[[Array], Array]] = {
            "xor": lambda x: x[:, 0] * x[:, 1],
            "orange_skin": lambda x: _orange_skin(x[:, :4]),
            "nonlinear_additive": lambda x: _additive(self.variant)(x[:, :4]),
        }
        return logits[self.name](X)

    def truth(self, X: Array) -> Array:
        """(n, 10) booleans: the features that the response of each row depends on."""
        truth = np.zeros((len(X), DIMENSION), dtype=bool)
        if self.name != "switch":
            truth[:, : RELEVANT[self.name]] = True
            return truth
        switch, orange, additive = self._branches()
        up = X[:, switch] > 0
        truth[:, switch] = True
        truth[:, orange] = up[:, None]
        truth[:, additive] = ~up[:, None]
        return truth

    def conditional(self, *, rows: int = 1000, seed: int = 0) -> ConditionalModel:
        """P(y | x_S) for any S: features are independent, so an average over many fresh rows is exact."""
        from l2x.values import ConditionalModel

        return ConditionalModel(self, synthetic(self.name, rows, variant=self.variant, seed=seed).X)

    def _branches(self) -> tuple[int, list[int], list[int]]:
        """The switch feature, the orange-skin features, the additive features."""
        if self.variant == "paper":
            return 0, [1, 2, 3, 4], [5, 6, 7, 8]
        return 9, [0, 1, 2, 3], [4, 5, 6, 7]


@dataclass(frozen=True)
class SyntheticData:
    """Rows of a synthetic set."""

    X: Array  # (n, 10)
    y: Array  # (n,) labels drawn from P(y|x)
    truth: Array  # (n, 10) booleans
    model: SyntheticModel
    k: int


def synthetic(name: SetName, n: int, *, variant: Variant = "code", seed: int = 0) -> SyntheticData:
    """n rows of one of the four sets.

    >>> data = synthetic("switch", 100, seed=1)
    >>> data.X.shape, data.k, data.truth.sum(axis=1).tolist() == [5] * 100
    ((100, 10), 5, True)
    """
    if name not in SETS:
        raise InputError(f"There is no synthetic set {name!r}; choose one of {', '.join(SETS)}.")
    if variant not in get_args(Variant):
        raise InputError(f"variant is {variant!r}; choose 'paper' or 'code'.")
    rng = np.random.default_rng(seed)
    model = SyntheticModel(name, variant)
    X = rng.standard_normal((n, DIMENSION))
    if name == "switch":
        switch, _, _ = model._branches()
        X[:, switch] += rng.choice([-3.0, 3.0], size=n)
    y = (rng.random(n) < model(X)[:, 1]).astype(np.int64)
    return SyntheticData(X, y, model.truth(X), model, RELEVANT[name])


def _orange_skin(x: Array) -> Array:
    return np.asarray(np.square(x).sum(axis=1) - 4)


def _additive(variant: Variant) -> Callable[[Array], Array]:
    if variant == "paper":
        return lambda x: -100 * np.sin(2 * x[:, 0]) + 2 * np.abs(x[:, 1]) + x[:, 2] + np.exp(-x[:, 3])
    return lambda x: -100 * np.sin(0.2 * x[:, 0]) + np.abs(x[:, 1]) + x[:, 2] + np.exp(-x[:, 3]) - 2.4


def sigmoid(z: Array) -> Array:
    """1 / (1 + exp(-z))."""
    # exp of a negative number only: it cannot overflow.
    small = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0, 1, small) / (1 + small))
