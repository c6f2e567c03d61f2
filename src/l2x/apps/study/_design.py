"""Who is shown what: methods balanced within each rater by Latin squares, random orders, checks in between.

Everything here follows from the seed and the rater's number, so that a study can be planned, repeated and
audited; what was in fact shown, and in which order, is recorded in the study's file.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from l2x._base.arrays import Array
from l2x.errors import InputError

# Apart from each other, so that no two kinds of draws share a stream.
_SQUARES, _CHECKS, _ITEMS = 0, 1, 2


@dataclass(frozen=True)
class Design:
    """The plan of a study.

    Attributes
    ----------
    methods : how many ways to select are compared
    classes : how many answers there are, besides "cannot tell"
    raters : answers that each item gets under each method, its quota
    per_rater : items that one rater answers
    practice : tasks with feedback before them, not counted
    checks : tasks among them whose answer is told, so that carelessness shows
    seed : of every draw
    """

    methods: int
    classes: int
    raters: int
    per_rater: int
    practice: int
    checks: int
    seed: int

    def __post_init__(self) -> None:
        for name in ("methods", "raters", "per_rater"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; a study needs at least one.")
        if self.classes < 2:
            raise InputError("A study needs at least two classes to choose between.")
        if self.practice < 0 or self.checks < 0:
            raise InputError("practice and checks cannot be negative; 0 leaves them out.")

    @property
    def length(self) -> int:
        """Tasks of a whole session after practice: items and checks."""
        return self.per_rater + self.checks

    def method_at(self, rater: int, index: int, *, simulated: bool = False) -> int:
        """The method of the rater's item number `index`.

        Every `methods` items of a rater have each method once, and at each place, every `methods` raters
        have each method once: rows of a Latin square that is drawn for these raters and these places.
        """
        block, place = divmod(index, self.methods)
        group, row = divmod(rater, self.methods)
        rng = np.random.default_rng([self.seed, _SQUARES, simulated, group, block])
        return int(latin_square(self.methods, rng)[row, place])

    def checks_of(self, rater: int, *, simulated: bool = False) -> dict[int, int]:
        """{place in the session: the class that is to be chosen}; never the first task."""
        rng = np.random.default_rng([self.seed, _CHECKS, simulated, rater])
        places = 1 + rng.choice(self.length - 1, min(self.checks, self.length - 1), replace=False)
        return {int(place): int(rng.integers(self.classes)) for place in np.sort(places)}

    def draws(self, rater: int, position: int, *, simulated: bool = False) -> np.random.Generator:
        """By which the item at a position is drawn among those that are needed equally."""
        return np.random.default_rng([self.seed, _ITEMS, simulated, rater, position])


def latin_square(n: int, rng: np.random.Generator) -> Array:
    """(n, n), each of 0 .. n - 1 once in every row and column; rows, columns and symbols in random order.

    >>> latin_square(3, np.random.default_rng(0)).sum(axis=0).tolist()
    [3, 3, 3]
    """
    cyclic = np.add.outer(rng.permutation(n), rng.permutation(n)) % n
    return np.asarray(rng.permutation(n)[cyclic])
