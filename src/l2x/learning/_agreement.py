"""Chance: random selections that have as many features as the real ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Generic, Self, TypeVar

import numpy as np

from l2x._base.arrays import Array, batches
from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.features import View, fitted_view, selectable_units
from l2x.model import BlackBox, as_black_box, query

# The word as a number: it names a random stream of its own. With `default_rng(seed)` alone, a random method
# with the same seed would look exactly like chance, or like its opposite.
CHANCE = int.from_bytes(b"chance", "big")


def random_selections(mask: Array, selectable: Array | None, *, seed: int) -> Array:
    """Return (n, d) booleans: in each row as many features as `mask` has, drawn among the `selectable` ones;
    among all of them where that is None.

    >>> mask = np.array([[True, True, False, False]] * 3)
    >>> random_selections(mask, None, seed=0).sum(axis=1).tolist()
    [2, 2, 2]
    """
    noise = np.asarray(np.random.default_rng((seed, CHANCE)).random(mask.shape))
    if selectable is not None:
        noise = np.where(selectable, noise, 2.0)
    ranks = noise.argsort(axis=1).argsort(axis=1)
    return np.asarray(ranks < mask.sum(axis=1, keepdims=True))


# Rows are put at random into at most this many groups, which are resampled: memory does not grow with the
# rows, and the spread of a mean stays the same.
GROUPS = 2000
DRAWS = 1000
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval; both ends are NaN where rows say nothing about the spread.

    >>> print(Estimate(0.5, 0.4, 0.6))
    0.500 [0.400, 0.600]
    """

    value: float
    low: float = float("nan")
    high: float = float("nan")

    def __str__(self) -> str:
        return self.text()

    def text(self, digits: int = 3) -> str:
        """As it is printed: "0.500 [0.469, 0.532]", without the interval if there is none, "–" for NaN."""
        if np.isnan(self.value):
            return "–"
        value, low, high = (f"{x:,.{digits}f}" for x in (self.value, self.low, self.high))
        return value if np.isnan(self.low) else f"{value} [{low}, {high}]"

    def scaled(self, factor: float) -> Estimate:
        """In other units."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)

    def to_dict(self) -> dict[str, float | None]:
        """For JSON, which has neither NaN nor infinity: value, low and high, each a number or None."""
        return {name: float(x) if np.isfinite(x) else None for name, x in asdict(self).items()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, float | None]) -> Estimate:
        """The inverse of `to_dict`; what was not finite is NaN.

        >>> Estimate.from_dict({"value": 0.5, "low": None, "high": None})
        Estimate(value=0.5, low=nan, high=nan)
        """
        return cls(**{name: float("nan") if x is None else x for name, x in saved.items()})


class Bootstrap:
    """Percentile intervals of what can be computed from means over n rows.

    All intervals of one bootstrap share their draws, so that differences between numbers are paired.

    Parameters
    ----------
    n : how many rows
    draws : how many resamples an interval is read from
    seed : the same seed gives the same resamples

    >>> rows = np.tile([0.0, 1.0], 500)
    >>> print(Bootstrap(1000).mean(rows))
    0.500 [0.469, 0.532]
    """

    def __init__(self, n: int, *, draws: int = DRAWS, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        groups = min(n, GROUPS)
        self.group = rng.permutation(np.arange(n) % groups)  # (n,) the group of each row
        counts = rng.multinomial(groups, np.full(groups, 1 / groups), size=draws)
        self.counts = counts.astype(np.float32)  # (draws, groups)
        self.sizes = np.bincount(self.group, minlength=groups).astype(float)

    def mean(self, rows: Array) -> Estimate:
        """The mean of (n,) values."""
        return self.of_means(lambda mean: mean, rows)

    def of_means(self, statistic: Callable[..., Any], *rows: Array) -> Estimate:
        """`statistic(a, b, ...)` of the means a, b, ... of several (n,) arrays, such as their ratio. It is
        called with numbers, then with arrays of the means in all draws."""
        value = float(statistic(*(np.mean(values) for values in rows)))
        drawn = statistic(*(self._means(values) for values in rows))
        low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return Estimate(value, float(low), float(high))

    def _means(self, rows: Array) -> Array:
        """The mean of each draw, (draws,)."""
        sums = np.bincount(self.group, weights=np.asarray(rows, dtype=float), minlength=len(self.sizes))
        return np.asarray((self.counts @ sums) / (self.counts @ self.sizes))


T = TypeVar("T")
U = TypeVar("U")


def same_class(guesses: Array, answers: Array) -> Array:
    """(n,) booleans: the likeliest class is the same in both (n, classes) arrays. Logits do as well as
    probabilities: only their order counts."""
    return np.asarray(guesses.argmax(axis=1) == answers.argmax(axis=1))


def squared_errors(guesses: Array, answers: Array) -> tuple[Array, Array]:
    """(n,) squared errors, and (n,) squared distances from the mean answer, of (n, outputs) arrays: `r2` of
    their means is R²."""
    error = np.square(guesses - answers).sum(axis=1)
    return np.asarray(error), np.asarray(np.square(answers - answers.mean(axis=0)).sum(axis=1))


def losses(guesses: Array, answers: Array, *, classes: bool) -> Array:
    """(n,) numbers whose mean is one minus the accuracy, or one minus R²; NaN where answers do not vary."""
    if classes:
        return 1.0 - same_class(guesses, answers)
    error, spread = squared_errors(guesses, answers)
    return np.asarray(1 - r2(error, spread.mean()))


def distances(guesses: Array, answers: Array) -> Array:
    """(n,) total variation between the probabilities of two (n, classes) arrays, from 0 to 1."""
    return np.asarray(np.abs(guesses - answers).sum(axis=1) / 2)


def r2(error: Any, spread: Any) -> Any:
    """1 - error / spread, of numbers or arrays; NaN where answers do not vary."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.greater(spread, 0), 1 - np.divide(error, spread), np.nan)


def agreement(guesses: Array, answers: Array, boot: Bootstrap, *, classes: bool) -> Estimate:
    """Return the share of rows with the same class, or R², with its interval."""
    if classes:
        return boot.mean(same_class(guesses, answers))
    return boot.of_means(r2, *squared_errors(guesses, answers))


@dataclass(frozen=True, eq=False)
class RemovalTest(Generic[T]):
    """Three kinds of masks, or whatever was measured under them: `masks.map(predict).map(measure)`.

    Attributes
    ----------
    selection : the selected features alone
    random : as many random features, one element per draw
    complement : everything but the selected features
    """

    selection: T
    random: tuple[T, ...]
    complement: T

    def map(self, function: Callable[[T], U]) -> RemovalTest[U]:
        """Apply a function to each element, once."""
        return RemovalTest(
            function(self.selection), tuple(map(function, self.random)), function(self.complement)
        )


def removal_test(mask: Array, selectable: Array | None, *, seed: int, draws: int = 1) -> RemovalTest[Array]:
    """Return the masks, (n, d) each, under which a selection is compared with chance and with its complement.

    Parameters
    ----------
    mask : (n, d) booleans, the selection
    selectable : (n, d) booleans, the features that random selections may have; None for all
    seed : of the first random selection; the next draws have the next seeds
    draws : how many random selections

    >>> masks = removal_test(np.array([[True, False, False]]), np.array([[True, True, False]]), seed=0)
    >>> masks.map(lambda mask: mask.astype(int).tolist()).complement
    [[0, 1, 1]]
    """
    random = (random_selections(mask, selectable, seed=seed + draw) for draw in range(draws))
    return RemovalTest(mask, tuple(random), complement_of(mask))


def complement_of(mask: Array) -> Array:
    """Return the masks of the removal test: exactly the selected features are masked. Everything else stays,
    also features that can never be selected, such as stop words."""
    return ~mask


def posthoc_accuracy(
    model: Any, X: Any, explanation: Explanation, *, complement: bool = False, responses: Array | None = None
) -> float:
    """Post-hoc accuracy, section 4.2: the share of rows where argmax P_m(y | x̃_S) = argmax P_m(y | x).

    Parameters
    ----------
    model : the model that is explained, anything that `l2x.as_black_box` takes; a classifier
    X : the n rows that were explained
    explanation : what was selected in them. What removed features look like to the model is the choice of
        its view (`Columns(removal=...)`); without one, they are set to the column's mean
    complement : mask the selected features instead, and nothing else; a good explanation scores low there
    responses : (n, classes), the model's answers for X where they are known, which halves what it is asked

    Returns
    -------
    A share between 0 and 1. It can be gamed by a selection that encodes the answer: read it beside a judge
    (`fit_judge`), or make a report card.

    >>> def model(X):
    ...     return np.where(X[:, :1] > 0, [0.1, 0.9], [0.9, 0.1])
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> right = Explanation(np.tile([1.0, 0.0, 0.0], (100, 1)), k=1, feature_names=list("abc"))
    >>> posthoc_accuracy(model, X, right)
    1.0
    """
    whole, part = _answers(as_black_box(model), X, explanation, complement, responses)
    return float(same_class(part, whole).mean())


def posthoc_r2(
    model: Any, X: Any, explanation: Explanation, *, complement: bool = False, responses: Array | None = None
) -> float:
    """The same for regression: R² of the model's answers on the selection against its full answers.

    model, X, explanation, complement, responses : as for `posthoc_accuracy`, of a regression

    Returns
    -------
    1 is perfect, 0 as good as the mean answer, below 0 worse; NaN if the model's answers do not vary.

    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> right = Explanation(np.tile([1.0, 0.0, 0.0], (100, 1)), k=1, feature_names=list("abc"))
    >>> round(posthoc_r2(lambda X: 2 * X[:, 0], X, right), 3)
    1.0
    """
    whole, part = _answers(as_black_box(model), X, explanation, complement, responses)
    error, spread = squared_errors(part, whole)
    return float(r2(error.mean(), spread.mean()))


class Score(float):
    """A post-hoc accuracy or R² that prints with what random features, as many, and all others keep.

    >>> Score(0.96, chance=0.78, complement=0.91)
    0.960 (random features 0.780, all but these 0.910)
    """

    chance: float
    complement: float

    def __new__(cls, value: float, *, chance: float, complement: float) -> Self:
        score = super().__new__(cls, value)
        score.chance, score.complement = chance, complement
        return score

    def __repr__(self) -> str:
        return f"{self:.3f} (random features {self.chance:.3f}, all but these {self.complement:.3f})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _score, (float(self), self.chance, self.complement)


def _score(value: float, chance: float, complement: float) -> Score:
    return Score(value, chance=chance, complement=complement)


def scored(model: Any, X: Any, explanation: Explanation) -> Score:
    """The post-hoc accuracy of an explanation, or its R² for a model of means, with chance and complement
    beside it."""
    black_box, view = as_black_box(model), fitted_view(explanation.view, X)
    X = view.check(X)
    whole = query(black_box, view, X)
    predicted = removal_test(explanation.mask, selectable_units(view, X), seed=0).map(
        partial(masked_answers, black_box, view, X)
    )
    kept = predicted.map(lambda part: _kept(part, whole, black_box))
    return Score(kept.selection, chance=kept.random[0], complement=kept.complement)


def _kept(part: Array, whole: Array, black_box: BlackBox) -> float:
    if black_box.task != "regression":
        return float(same_class(part, whole).mean())
    error, spread = squared_errors(part, whole)
    return float(r2(error.mean(), spread.mean()))


def masked_answers(black_box: BlackBox, view: View, X: Any, mask: Array) -> Array:
    """P_m(y | x̃_S) of checked rows, (n, outputs), with what is not in the mask removed as the view says."""
    rng = np.random.default_rng(0)
    parts = [
        black_box(view.for_model(view.take(X, rows), mask[rows], rng=rng))
        for rows in batches(len(X), view.rows_at_once)
    ]
    return np.concatenate(parts)


def _answers(
    black_box: BlackBox, X: Any, explanation: Explanation, complement: bool, responses: Array | None
) -> tuple[Array, Array]:
    """The model's answers to whole rows and to masked ones."""
    view = fitted_view(explanation.view, X)
    X = view.check(X)
    if len(X) != len(explanation):
        raise InputError(f"X has {len(X)} rows, the explanation has {len(explanation)}.")
    mask = complement_of(explanation.mask) if complement else explanation.mask
    whole = query(black_box, view, X) if responses is None else np.asarray(responses)
    return whole.reshape(len(X), -1), masked_answers(black_box, view, X, mask)
