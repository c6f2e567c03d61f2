"""Agreement with the model: post-hoc accuracy, removal test, random selections, bootstrap intervals."""

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

T = TypeVar("T")
U = TypeVar("U")

# A random stream of its own: with `default_rng(seed)` alone, a random method with the same seed would make
# the same selections, or the opposite ones.
CHANCE = int.from_bytes(b"chance", "big")
# Rows are assigned at random to at most this many groups, which are resampled: memory does not grow with the
# rows, and the spread of a mean stays the same.
GROUPS = 2000
DRAWS = 1000
LEVEL = 0.95
# Random training rows that replace the unselected columns of a row, if masking is "resample"; the model's
# predictions are averaged over them.
RESAMPLED_ROWS = 20


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval.

    Attributes
    ----------
    value : float
        The number.
    low, high : float
        The ends of the interval; NaN if the spread is unknown.

    Examples
    --------
    >>> print(Estimate(0.5, 0.4, 0.6))
    0.500 [0.400, 0.600]
    """

    value: float
    low: float = float("nan")
    high: float = float("nan")

    def __str__(self) -> str:
        return self.text()

    def text(self, digits: int = 3) -> str:
        """Return it as printed with these digits: "0.500 [0.469, 0.532]", or "–" for NaN."""
        if np.isnan(self.value):
            return "–"
        value, low, high = (f"{x:,.{digits}f}" for x in (self.value, self.low, self.high))
        return value if np.isnan(self.low) else f"{value} [{low}, {high}]"

    def scaled(self, factor: float) -> Estimate:
        """Return it in other units, multiplied by a factor."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)

    def to_dict(self) -> dict[str, float | None]:
        """Return value, low and high for JSON: a number, or None if not finite."""
        return {name: float(x) if np.isfinite(x) else None for name, x in asdict(self).items()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, float | None]) -> Estimate:
        """Restore what `to_dict` saved; None becomes NaN. See `to_dict`.

        >>> Estimate.from_dict({"value": 0.5, "low": None, "high": None})
        Estimate(value=0.5, low=nan, high=nan)
        """
        return cls(**{name: float("nan") if x is None else x for name, x in saved.items()})


class Bootstrap:
    """Percentile intervals for statistics of means over n rows.

    All intervals of one bootstrap share their draws, so that differences are paired.

    Parameters
    ----------
    n : int
        Number of rows.
    draws : int
        Number of resamples.
    seed : int

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
        """Estimate the mean of the (n,) rows."""
        return self.of_means(lambda mean: mean, rows)

    def of_means(self, statistic: Callable[..., Any], *rows: Array) -> Estimate:
        """Estimate `statistic(a, b, ...)` for the means a, b, ... of rows, (n,) arrays, such as their ratio.

        The statistic is called with numbers, and then with arrays of the means of all draws.
        """
        value = float(statistic(*(np.mean(values) for values in rows)))
        drawn = statistic(*(self._means(values) for values in rows))
        low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return Estimate(value, float(low), float(high))

    def _means(self, rows: Array) -> Array:
        """Return the mean of each draw, (draws,)."""
        sums = np.bincount(self.group, weights=np.asarray(rows, dtype=float), minlength=len(self.sizes))
        return np.asarray((self.counts @ sums) / (self.counts @ self.sizes))


def same_class(guesses: Array, predictions: Array) -> Array:
    """Return whether the most likely class, by probabilities or logits (n, classes), is the same, (n,)."""
    return np.asarray(guesses.argmax(axis=1) == predictions.argmax(axis=1))


def confirmed_rows(guesses: Array, predictions: Array, tolerance: float | None = None) -> Array:
    """Return whether predictions for masked rows confirm those for whole rows, (n,) booleans.

    They do if the class is the same; with a `tolerance`, if no output differs by more than that.
    """
    if tolerance is None:
        return same_class(guesses, predictions)
    return np.asarray(np.abs(guesses - predictions).max(axis=1) <= tolerance)


def exact_interval(successes: int, n: int, level: float = LEVEL) -> Estimate:
    """Return a share with its exact binomial interval (Clopper and Pearson, 1934); NaN without rows.

    >>> print(exact_interval(95, 100))
    0.950 [0.887, 0.984]
    """
    from scipy.stats import beta

    if not n:
        return Estimate(float("nan"))
    tail = (1 - level) / 2
    low = float(beta.ppf(tail, successes, n - successes + 1)) if successes else 0.0
    high = float(beta.isf(tail, successes + 1, n - successes)) if successes < n else 1.0
    return Estimate(successes / n, low, high)


def at_least(successes: int, n: int, level: float = LEVEL) -> float:
    """Return the lower end of the one-sided exact binomial interval of a share; NaN without rows.

    >>> round(at_least(95, 100), 3)
    0.898
    """
    from scipy.stats import beta

    if not n:
        return float("nan")
    return float(beta.ppf(1 - level, successes, n - successes + 1)) if successes else 0.0


def squared_errors(guesses: Array, predictions: Array) -> tuple[Array, Array]:
    """Return squared errors, and squared distances from the mean, (n,) each; `r2` of their means is R²."""
    error = np.square(guesses - predictions).sum(axis=1)
    return np.asarray(error), np.asarray(np.square(predictions - predictions.mean(axis=0)).sum(axis=1))


def losses(guesses: Array, predictions: Array, *, classes: bool) -> Array:
    """Return (n,) numbers whose mean is 1 - accuracy, or 1 - R²; NaN if predictions do not vary."""
    if classes:
        return 1.0 - same_class(guesses, predictions)
    error, spread = squared_errors(guesses, predictions)
    return np.asarray(1 - r2(error, spread.mean()))


def distances(guesses: Array, predictions: Array) -> Array:
    """Return the total variation, 0 to 1, between the probabilities of two (n, classes) arrays, (n,)."""
    return np.asarray(np.abs(guesses - predictions).sum(axis=1) / 2)


def r2(error: Any, spread: Any) -> Any:
    """Return 1 - error / spread, for numbers or arrays; NaN if the spread is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.greater(spread, 0), 1 - np.divide(error, spread), np.nan)


def agreement(guesses: Array, predictions: Array, boot: Bootstrap, *, classes: bool) -> Estimate:
    """Return the share of rows with the same class, or R², with its interval."""
    if classes:
        return boot.mean(same_class(guesses, predictions))
    return boot.of_means(r2, *squared_errors(guesses, predictions))


def random_selections(mask: Array, selectable: Array | None, *, seed: int) -> Array:
    """Draw (n, d) masks with as many features per row as `mask`, among the `selectable` ones; None for all.

    >>> mask = np.array([[True, True, False, False]] * 3)
    >>> random_selections(mask, None, seed=0).sum(axis=1).tolist()
    [2, 2, 2]
    """
    noise = np.asarray(np.random.default_rng((seed, CHANCE)).random(mask.shape))
    if selectable is not None:
        noise = np.where(selectable, noise, 2.0)
    ranks = noise.argsort(axis=1).argsort(axis=1)
    return np.asarray(ranks < mask.sum(axis=1, keepdims=True))


def complement_of(mask: Array) -> Array:
    """Return the masks of the removal test, in which exactly the selected features are masked.

    Features that can never be selected, such as stop words, stay.
    """
    return ~mask


@dataclass(frozen=True, eq=False)
class RemovalTest(Generic[T]):
    """Three kinds of masks, or what was measured under them: `masks.map(predict).map(measure)`.

    Attributes
    ----------
    selected : the selected features alone
    random : as many random features, one element per draw
    removal : all features but the selected ones
    """

    selected: T
    random: tuple[T, ...]
    removal: T

    def map(self, function: Callable[[T], U]) -> RemovalTest[U]:
        """Apply a function to each element, once."""
        return RemovalTest(function(self.selected), tuple(map(function, self.random)), function(self.removal))


def removal_test(mask: Array, selectable: Array | None, *, seed: int, draws: int = 1) -> RemovalTest[Array]:
    """Return the masks, (n, d) each, that compare a selection with random ones and with its removal.

    Parameters
    ----------
    mask : (n, d) boolean array
        The selection.
    selectable : (n, d) boolean array or None
        Features that random selections may have; None for all.
    seed : int
        Seed of the first random selection; the next draws have the next seeds.
    draws : int
        Number of random selections.

    Examples
    --------
    >>> masks = removal_test(np.array([[True, False, False]]), np.array([[True, True, False]]), seed=0)
    >>> masks.map(lambda mask: mask.astype(int).tolist()).removal
    [[0, 1, 1]]
    """
    random = (random_selections(mask, selectable, seed=seed + draw) for draw in range(draws))
    return RemovalTest(mask, tuple(random), complement_of(mask))


def posthoc_accuracy(
    model: Any,
    X: Any,
    explanation: Explanation,
    *,
    removal: bool = False,
    predictions: Array | None = None,
    masking: str | None = None,
) -> float:
    """Return the share of rows where argmax P_m(y | x̃_S) = argmax P_m(y | x) (section 4.2).

    ERASER calls it sufficiency. A selection that leaks the prediction can raise it: compare it
    with an evaluator's (`fit_evaluator`), or make a report.

    Parameters
    ----------
    model : anything that `l2x.as_black_box` accepts
        The explained classifier.
    X : inputs
        The n rows that were explained.
    explanation : Explanation
        Its view masks the unselected features (`Columns(masking=...)`); without a view they are set to the
        column mean.
    removal : bool
        Mask the selected features instead, and nothing else: the removal test, or comprehensiveness (ERASER).
        A good explanation then scores low.
    predictions : (n, classes) array, optional
        The model's predictions for X, if known; this halves the number of queries.
    masking : "mean", "median" or "resample", optional
        Replaces the masking of the view, for tables. "resample" averages the model's predictions over the
        values of 20 random training rows, which takes 20 queries per row.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> def model(X):
    ...     return np.where(X[:, :1] > 0, [0.1, 0.9], [0.9, 0.1])
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> right = Explanation(np.tile([1.0, 0.0, 0.0], (100, 1)), k=1, feature_names=list("abc"))
    >>> posthoc_accuracy(model, X, right)
    1.0
    """
    whole, part = _predictions(as_black_box(model), X, explanation, removal, predictions, masking)
    return _agreeing(part, whole, classes=True)


def posthoc_r2(
    model: Any,
    X: Any,
    explanation: Explanation,
    *,
    removal: bool = False,
    predictions: Array | None = None,
    masking: str | None = None,
) -> float:
    """Return the R² of the model's predictions for masked rows, compared with those for whole rows.

    This is `posthoc_accuracy` for regression.

    Parameters
    ----------
    model : anything that `l2x.as_black_box` accepts
        The explained regression.
    X : inputs
        The n rows that were explained.
    explanation : Explanation
        What was selected, as in `posthoc_accuracy`.
    removal : bool
        Mask the selected features instead.
    predictions : (n, outputs) array, optional
        The model's predictions for X, if known.
    masking : "mean", "median" or "resample", optional
        Replaces the masking of the view, as in `posthoc_accuracy`.

    Returns
    -------
    float
        1 is perfect, 0 is as good as the mean prediction, and below 0 is worse; NaN if predictions do not
        vary.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> right = Explanation(np.tile([1.0, 0.0, 0.0], (100, 1)), k=1, feature_names=list("abc"))
    >>> round(posthoc_r2(lambda X: 2 * X[:, 0], X, right), 3)
    1.0
    """
    whole, part = _predictions(as_black_box(model), X, explanation, removal, predictions, masking)
    return _agreeing(part, whole, classes=False)


class Score(float):
    """A post-hoc accuracy or R² that prints with those of random features and of the removal test.

    >>> Score(0.96, random=0.78, removal=0.91)
    0.960 (random features 0.780, all other features 0.910)
    """

    random: float
    removal: float

    def __new__(cls, value: float, *, random: float, removal: float) -> Self:
        score = super().__new__(cls, value)
        score.random, score.removal = random, removal
        return score

    def __repr__(self) -> str:
        return f"{self:.3f} (random features {self.random:.3f}, all other features {self.removal:.3f})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _score, (float(self), self.random, self.removal)


def _score(value: float, random: float, removal: float) -> Score:
    return Score(value, random=random, removal=removal)


def scored(model: Any, X: Any, explanation: Explanation) -> Score:
    """Return the post-hoc accuracy of an explanation, or its R² for regression, with both controls."""
    black_box, view = as_black_box(model), fitted_view(explanation.view, X)
    X = view.check(X)
    whole = query(black_box, view, X)
    predicted = removal_test(explanation.mask, selectable_units(view, X), seed=0).map(
        partial(masked_predictions, black_box, view, X)
    )
    agreeing = predicted.map(lambda part: _agreeing(part, whole, classes=black_box.task != "regression"))
    return Score(agreeing.selected, random=agreeing.random[0], removal=agreeing.removal)


def _agreeing(part: Array, whole: Array, *, classes: bool) -> float:
    """Return the share of rows with the same class, or R²."""
    if classes:
        return float(same_class(part, whole).mean())
    error, spread = squared_errors(part, whole)
    return float(r2(error.mean(), spread.mean()))


def masked_predictions(
    black_box: BlackBox, view: View, X: Any, mask: Array, *, masking: str | None = None
) -> Array:
    """Query the model for checked rows that the view masks: P_m(y | x̃_S), (n, outputs).

    Parameters
    ----------
    black_box : BlackBox
        The model.
    view : View
        A fitted view.
    X : inputs
        Rows that the view has checked.
    mask : (n, d) boolean array
        The features that stay.
    masking : str, optional
        One of `view.maskings()`, such as those in `view.reported_maskings()`; by default the view's own.
        With "resample", predictions are averaged over the values of 20 random training rows. By default, a
        view that draws replacements draws only once.
    """
    draws = 1
    if masking is not None:
        view = _with_masking(view, masking)
        draws = RESAMPLED_ROWS if view.draws_replacements else 1
    rng = np.random.default_rng(0)
    parts = []
    for rows in batches(len(X), view.rows_at_once):
        raw = view.take(X, rows)
        drawn = [black_box(view.for_model(raw, mask[rows], rng=rng)) for _ in range(draws)]
        parts.append(np.mean(drawn, axis=0) if draws > 1 else drawn[0])
    return np.concatenate(parts)


def _with_masking(view: View, masking: str) -> View:
    ways = view.maskings()
    if masking not in ways:
        choices = " or ".join(map(repr, ways))
        raise InputError(f"masking is {masking!r}, but {type(view).__name__} has {choices}.")
    return ways[masking]


def _predictions(
    black_box: BlackBox,
    X: Any,
    explanation: Explanation,
    removal: bool,
    predictions: Array | None,
    masking: str | None,
) -> tuple[Array, Array]:
    """Return the model's predictions for whole rows and for masked rows."""
    view = fitted_view(explanation.view, X)
    X = view.check(X)
    if len(X) != len(explanation):
        raise InputError(f"X has {len(X)} rows, the explanation has {len(explanation)}.")
    mask = complement_of(explanation.mask) if removal else explanation.mask
    whole = query(black_box, view, X) if predictions is None else np.asarray(predictions)
    return whole.reshape(len(X), -1), masked_predictions(black_box, view, X, mask, masking=masking)
