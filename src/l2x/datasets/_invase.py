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

from functools import partial
from typing import Literal, get_args

from l2x.datasets._synthetic import (
    Formula,
    SyntheticData,
    SyntheticModel,
    Variant,
    additive,
    check_variant,
    orange_skin,
    product,
)
from l2x.errors import InputError

InvaseName = Literal["syn1", "syn2", "syn3", "syn4", "syn5", "syn6"]

INVASE_SETS: tuple[InvaseName, ...] = get_args(InvaseName)
SWITCH = 10
# Which formulas a set switches between: (x11 < 0, otherwise).
BRANCHES = {"syn4": ("syn1", "syn2"), "syn5": ("syn1", "syn3"), "syn6": ("syn2", "syn3")}
# The mean number of truly relevant features.
RELEVANT: dict[InvaseName, int] = {"syn1": 2, "syn2": 4, "syn3": 4, "syn4": 4, "syn5": 4, "syn6": 5}


def invase(
    name: InvaseName, n: int, *, d: int = 11, variant: Variant = "code", seed: int = 0
) -> SyntheticData:
    """n rows of one of the six sets.

    name, n : "syn1" to "syn6", and how many rows
    d : columns, of which at most 11 matter
    variant : formulas of the "code" or of the "paper"
    seed : the same seed gives the same rows

    Returns
    -------
    A `SyntheticData`: rows, their true features, k, and the true model.

    Raises
    ------
    InputError
        If there is no such set, or d is too small.

    >>> data = invase("syn4", 100, seed=1)
    >>> data.X.shape, data.k, sorted(set(data.truth.sum(axis=1).tolist()))
    ((100, 11), 4, [3, 5])
    """
    if name not in INVASE_SETS:
        raise InputError(f"There is no set {name!r}; choose one of {', '.join(INVASE_SETS)}.")
    check_variant(variant)
    if d < 11:
        raise InputError(f"d = {d}, but the sets use 11 features; choose 11 or 100.")
    return _model(name, d, variant).draw(n, seed=seed)


def _model(name: InvaseName, d: int, variant: Variant) -> SyntheticModel:
    formulas = {
        "syn1": Formula([0, 1], product),
        "syn2": Formula([2, 3, 4, 5], orange_skin),
        "syn3": Formula([6, 7, 8, 9], partial(additive, sine=10, variant=variant)),
    }
    branches = tuple(formulas[branch] for branch in BRANCHES.get(name, (name,)))
    switch = SWITCH if name in BRANCHES else None
    return SyntheticModel(d, RELEVANT[name], branches, switch, sign=-1)
