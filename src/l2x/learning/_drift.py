"""Drift: what inputs, predictions and scores were like in training, as counts, and how far new ones differ.

Only counts are stored. The population stability index (PSI) of two histograms with the shares p and r is
Σ (p - r) ln(p / r), the symmetric Kullback-Leibler divergence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Self

import numpy as np

from l2x._base.arrays import Array
from l2x.features import Measurement, View
from l2x.learning._rows import Gaussian, Likelihood, TrainingRows

# What a measurement describes.
Role = Literal["input", "prediction", "selection"]
Measured = Mapping[Role, Sequence[Measurement]]
# A column may have the name of another measurement: counts are found by both.
Key = tuple[Role, str]

# Training rows that are counted, and those for which the selector is evaluated as well.
COUNTED_ROWS, SCORED_ROWS = 10_000, 1_000
# Numbers are counted between these quantiles.
SHARES = np.arange(1, 10) / 10
# A category with a smaller share of the training rows is counted together with other rare ones.
RARE = 0.01
# Shares are at least this in the PSI, so that a bin that was empty in training does not count infinitely.
LEAST_SHARE = 1e-3
# Values closer than this, relative to their size and spread, are the same: the precision may have changed.
ROUNDING = 1e-5
# From this PSI on, by convention, a distribution has changed.
CHANGED = 0.2
# This measurement is no evidence of a change: a model is more certain about the rows that it was trained on,
# and explainers are often fitted on these rows.
CERTAINTY: Key = ("prediction", "probability of the predicted class")


@dataclass(frozen=True)
class Drift:
    """How far one measurement differs from training.

    Attributes
    ----------
    name : str
        The column, or what was measured.
    role : "input", "prediction" or "selection"
        What it describes.
    psi : float
        Population stability index: below 0.1 is usual, from 0.2 on the distribution has changed.
    by_chance : float
        The PSI that samples of this size from the training distribution exceed with the given probability.
    rows : int
        New rows that were counted.
    """

    name: str
    role: Role
    psi: float
    by_chance: float
    rows: int

    @property
    def differs(self) -> bool:
        """Return whether the distribution differs from that of the training rows, and more than by chance."""
        return self.psi >= max(CHANGED, self.by_chance)

    @property
    def changed(self) -> bool:
        """Return whether the data or the model must have changed: see `CERTAINTY`."""
        return self.differs and (self.role, self.name) != CERTAINTY

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python objects, for JSON."""
        return vars(self) | {"changed": self.changed}


@dataclass(frozen=True)
class Histogram:
    """The counts of one measurement in training rows.

    Attributes
    ----------
    name : str
        The column, or what was measured.
    role : "input", "prediction" or "selection"
        What it describes.
    edges : tuple of float
        Upper ends of all bins of numbers but the last, which has none. Empty for categories.
    codes : tuple of int, or None
        Categories with their own bin; None for numbers. The next two bins hold rare and new categories.
    counts : tuple of int
        Training rows per bin; the last bin holds missing values.
    """

    name: str
    role: Role
    edges: tuple[float, ...]
    codes: tuple[int, ...] | None
    counts: tuple[int, ...]

    @classmethod
    def of(cls, measured: Measurement, role: Role) -> Self:
        """Choose bins for training values, and count them.

        >>> Histogram.of(Measurement("x", np.array([0.0] * 95 + [1.0] * 5)), "input").counts
        (0, 95, 5, 0)
        """
        values = measured.values[~np.isnan(measured.values)]
        if measured.is_category:
            found, number = np.unique(values[values >= 0].astype(np.int64), return_counts=True)
            empty = cls(measured.name, role, (), tuple(found[number >= RARE * len(values)].tolist()), ())
        else:
            empty = cls(measured.name, role, _edges(values), None, ())
        return cls(empty.name, role, empty.edges, empty.codes, tuple(empty.count(measured.values).tolist()))

    @property
    def key(self) -> Key:
        """Return what identifies the measurement."""
        return self.role, self.name

    @property
    def bins(self) -> int:
        """Return the number of bins."""
        return len(self.edges) + 2 if self.codes is None else len(self.codes) + 3

    def count(self, values: Array) -> Array:
        """Return the number of values in each bin, (bins,)."""
        missing = np.isnan(values)
        kept = values[~missing]
        if self.codes is None:
            bin_ = np.searchsorted(self.edges, kept, side="left")
        else:
            own, rare = np.asarray(self.codes, dtype=np.int64), len(self.codes)
            code = kept.astype(np.int64)
            place = np.searchsorted(own, code)
            known = np.zeros(len(code), dtype=bool)
            known[place < rare] = own[place[place < rare]] == code[place < rare]
            bin_ = np.where(known, place, np.where(code < 0, rare + 1, rare))
        counts = np.bincount(bin_, minlength=self.bins)
        counts[-1] = missing.sum()
        return np.asarray(counts)

    def drift(self, counts: Array, level: float) -> Drift:
        """Compare counts of new rows with those of training; `level` is a probability, as in `Drift`."""
        trained = np.asarray(self.counts)
        used = (trained + counts) > 0
        rows, bins = int(counts.sum()), int(used.sum())
        if not rows or bins < 2:
            return Drift(self.name, self.role, 0.0, 0.0, rows)
        # For two samples of one distribution, the PSI times n m / (n + m) is about chi-squared.
        spread = 1 / rows + 1 / max(1, int(trained.sum()))
        by_chance = _chi2_exceeded(level, bins - 1) * spread
        return Drift(self.name, self.role, _psi(trained[used], counts[used]), by_chance, rows)


@lru_cache(maxsize=1024)
def _chi2_exceeded(level: float, degrees: int) -> float:
    """Return the value that a chi-squared variable exceeds with probability `level`; scipy is slow."""
    from scipy.stats import chi2

    return float(chi2.isf(level, degrees))


def _psi(trained: Array, new: Array) -> float:
    """Return the population stability index of two arrays of counts, with half a row added to every bin."""
    p, r = ((counts + 0.5) / (counts.sum() + 0.5 * len(counts)) for counts in (new, trained))
    p, r = np.maximum(p, LEAST_SHARE), np.maximum(r, LEAST_SHARE)
    return float(((p - r) * np.log(p / r)).sum())


def _edges(values: Array) -> tuple[float, ...]:
    """Return the ends of bins of about equal counts; a value that is more frequent has its own bin."""
    if not len(values):
        return ()
    # These quantiles are values that occurred: interpolation would divide a frequent value by rounding.
    ends = np.quantile(values, SHARES, method="inverted_cdf")
    frequent = ends[1:] == ends[:-1]
    rounding = ROUNDING * np.maximum(np.abs(ends) + ends[-1] - ends[0], ROUNDING)
    lower = (ends - rounding)[1:][frequent]
    return tuple(np.unique(np.concatenate([ends + rounding, lower])).tolist())


@dataclass(frozen=True)
class Reference:
    """What training rows were like: one histogram per measurement."""

    histograms: tuple[Histogram, ...]

    @classmethod
    def of(cls, data: TrainingRows, scores: Callable[[Any, Array], Array]) -> Self:
        """Count the inputs, predictions and scores of training rows.

        `scores` maps inputs and their predictions to what `explain` ranks features by.
        """
        view, train = data.view, data.given
        order = np.random.default_rng(0).permutation(len(train))[:COUNTED_ROWS]
        raw, scored = train.raw(order), order[:SCORED_ROWS]
        target = train.target.cpu()
        outputs = data.likelihood.from_targets(target[order]).numpy()
        predictions = data.likelihood.predictions(outputs)
        few = train.raw(scored)
        measured: Measured = {
            "input": view.measurements(raw),
            "prediction": prediction_measurements(predictions, data.likelihood),
            "selection": selection_measurements(view, few, scores(few, predictions[:SCORED_ROWS])),
        }
        return cls(tuple(Histogram.of(each, role) for role, group in measured.items() for each in group))

    def count(self, measured: Measured) -> dict[Key, Array]:
        """Return the counts of measurements of new rows, except those that training rows did not have."""
        values = {(role, each.name): each.values for role, group in measured.items() for each in group}
        return {h.key: h.count(values[h.key]) for h in self.histograms if h.key in values}

    def drifts(self, counts: Mapping[Key, Array], level: float) -> tuple[Drift, ...]:
        """Return the drift of every measurement that was counted, the largest PSI first.

        `level` is the probability that any of them seems changed by chance.
        """
        each = level / max(1, len(counts))
        found = [h.drift(counts[h.key], each) for h in self.histograms if h.key in counts]
        return tuple(sorted(found, key=lambda drift: -drift.psi))

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python objects, for JSON."""
        return {"histograms": [vars(histogram) for histogram in self.histograms]}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """Invert `to_dict`."""
        return cls(tuple(_histogram(each) for each in saved["histograms"]))


def _histogram(saved: Mapping[str, Any]) -> Histogram:
    codes = saved["codes"]
    histogram = Histogram(
        str(saved["name"]),
        saved["role"],
        tuple(map(float, saved["edges"])),
        None if codes is None else tuple(map(int, codes)),
        tuple(map(int, saved["counts"])),
    )
    if len(histogram.counts) != histogram.bins:
        raise ValueError(f"{len(histogram.counts)} counts for {histogram.bins} bins of '{histogram.name}'")
    return histogram


def prediction_measurements(predictions: Array, likelihood: Likelihood) -> list[Measurement]:
    """Return the predicted class and its probability, or the predicted values, of (n, outputs)."""
    if not isinstance(likelihood, Gaussian):
        return [
            Measurement("predicted class", predictions.argmax(axis=1).astype(np.float64), is_category=True),
            Measurement(CERTAINTY[1], predictions.max(axis=1)),
        ]
    if predictions.shape[1] == 1:
        return [Measurement("prediction", predictions[:, 0])]
    return [Measurement(f"prediction {i + 1}", column) for i, column in enumerate(predictions.T)]


def selection_measurements(view: View, X: Any, scores: Array) -> list[Measurement]:
    """Return the best feature, if features have a meaning across rows, and its share of the softmax."""
    finite = np.where(np.isfinite(scores), scores, -np.inf)
    best = finite.argmax(axis=1)
    top = finite.max(axis=1)
    with np.errstate(invalid="ignore"):  # a text without any word to select
        share = 1 / np.exp(finite - top[:, None]).sum(axis=1)
    measured = [Measurement("weight of the best feature", np.where(np.isfinite(top), share, np.nan))]
    if view.names_in(view.take(X, slice(0, 1)), best[:1, None]) is None:
        measured.append(Measurement("best feature", best.astype(np.float64), is_category=True))
    return measured
