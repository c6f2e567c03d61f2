"""Is a fitted explainer still valid? Verified rows are compared with `fit`, new inputs with training inputs.

There are two questions, each with a small probability of a false alarm:

1. Do the selected features alone still give the model's predictions, as often as in `fit`? Both are counts of
   rows, compared by Fisher's exact test.
2. Do inputs, predictions and scores still look like those of training? Histograms are compared by their
   population stability index; see `_drift`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from l2x._base.arrays import Array
from l2x.errors import InputError, some
from l2x.features import View
from l2x.learning._agreement import Estimate, confirmed_rows, exact_interval, masked_predictions
from l2x.learning._drift import Drift, Key, Reference, prediction_measurements, selection_measurements
from l2x.learning._rows import Gaussian, Likelihood
from l2x.learning._self_check import SelfCheck
from l2x.model import BlackBox, query

Status = Literal["valid", "drifting", "stale"]

# The probability of a false alarm in one check, for each of the two questions.
ALARM = 0.001
# An explainer is drifting, or stale, if the share of confirmed rows falls by at least this much, and beyond
# chance. `fit` chooses weights on the rows that it checks, so that its own figure is a little too high.
DRIFTING, STALE = 0.02, 0.05
# Fewer rows than this allow no conclusion.
FEWEST_ROWS = 30
# What cannot be compared, by kind of view.
BLIND = {
    "text": "Texts were compared by length and share of unknown words, not by meaning.",
    "image": "Images were compared by brightness, contrast and sharpness, not by content.",
}


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts of verified rows and of measurements; tallies can be added. It holds no inputs.

    Attributes
    ----------
    rows, confirmed : int
        Verified rows, and those whose selected features alone confirm the prediction.
    counts : mapping
        The counts of each measurement; see `Reference.count`.
    """

    rows: int = 0
    confirmed: int = 0
    counts: Mapping[Key, Array] = field(default_factory=dict)

    def __add__(self, other: Tally) -> Tally:
        counts = dict(self.counts)
        for key, more in other.counts.items():
            counts[key] = counts[key] + more if key in counts else more
        return Tally(self.rows + other.rows, self.confirmed + other.confirmed, counts)


@dataclass(frozen=True)
class Expectation:
    """What `fit` found on held-out rows.

    Attributes
    ----------
    share : float or None
        The share of confirmed rows; None if the model was not queried.
    rows : int
        Held-out rows behind it; 0 if the share was given by the user, and is exact.
    tolerance : float or None
        The largest error of a confirmed row; None if the class must be the same.
    measurable : bool
        Whether rows can be confirmed: for regression only with a tolerance.
    """

    share: float | None
    rows: int
    tolerance: float | None
    measurable: bool

    @classmethod
    def of(cls, check: SelfCheck, likelihood: Likelihood, given: float | None = None) -> Self:
        """Return what the self-check measured by the model; a `given` share replaces its own."""
        if given is not None and (not isinstance(given, float | int) or not 0 < given <= 1):
            raise InputError(f"expected is {given!r}; give a share of rows between 0 and 1, such as 0.9.")
        found = check.by_model
        tolerance = None if found is None else found.tolerance
        measurable = tolerance is not None or not isinstance(likelihood, Gaussian)
        if given is not None or found is None:
            return cls(given, 0, tolerance, measurable)
        return cls(found.confirmed, check.rows, tolerance, measurable)


@dataclass(frozen=True)
class Examiner:
    """Verify rows by the model, and count what they are like.

    Attributes
    ----------
    view : View
    black_box : BlackBox
    likelihood : Likelihood
    reference : Reference or None
        The counts of training rows, if they are known.
    expectation : Expectation
    mask : callable
        Returns the selected features (n, d) of checked inputs, given the model's predictions.
    scores : callable
        Returns the selector's scores (n, d) for the same arguments.
    """

    view: View
    black_box: BlackBox
    likelihood: Likelihood
    reference: Reference | None
    expectation: Expectation
    mask: Callable[[Any, Array], Array]
    scores: Callable[[Any, Array], Array]

    def count(self, X: Any) -> Tally:
        """Count what checked inputs are like, without the model."""
        if self.reference is None:
            return Tally()
        return Tally(counts=self.reference.count({"input": self.view.measurements(X)}))

    def verify(self, X: Any) -> Tally:
        """Query the model for checked inputs, whole and masked; count predictions and scores as well."""
        whole = query(self.black_box, self.view, X)
        rows = confirmed = 0
        if self.expectation.measurable:
            part = masked_predictions(self.black_box, self.view, X, self.mask(X, whole))
            agreed = confirmed_rows(part, whole, self.expectation.tolerance)
            rows, confirmed = len(agreed), int(agreed.sum())
        if self.reference is None:
            return Tally(rows, confirmed)
        measured = self.reference.count(
            {
                "prediction": prediction_measurements(whole, self.likelihood),
                "selection": selection_measurements(self.view, X, self.scores(X, whole)),
            }
        )
        return Tally(rows, confirmed, measured)

    def conclude(self, tally: Tally, *, alarm: float = ALARM) -> Validity:
        """Compare the counts with those of `fit`; `alarm` is the probability of a false alarm."""
        expectation = self.expectation
        drifts = () if self.reference is None else self.reference.drifts(tally.counts, alarm)
        confirmed = exact_interval(tally.confirmed, tally.rows) if tally.rows else None
        expected, chance = None, None
        if expectation.share is not None and expectation.measurable:
            successes = round(expectation.share * expectation.rows)
            exact = Estimate(expectation.share)
            expected = exact_interval(successes, expectation.rows) if expectation.rows else exact
            chance = _chance(tally, expectation) if tally.rows else None
        return Validity(
            _status(confirmed, expected, chance, drifts, alarm),
            tally.rows,
            confirmed,
            expected,
            chance,
            expectation.tolerance,
            drifts,
            alarm,
            tuple(self._notes()),
        )

    def _notes(self) -> list[str]:
        """Return what was not compared, in sentences."""
        notes = []
        if not self.expectation.measurable:
            notes.append(
                "Rows were not verified: fit did not query the model for masked rows, so that there is no "
                "tolerance for the error of a regression."
            )
        elif self.expectation.share is None:
            notes.append(
                "The share of confirmed rows has nothing to be compared with: fit did not query the model "
                "for masked rows. Give the share to expect: expected=0.9."
            )
        if self.reference is None:
            notes.append("Inputs were not compared: the explainer has no counts of its training rows.")
        elif not any(histogram.role == "input" for histogram in self.reference.histograms):
            notes.append(
                f"Inputs were not compared: {type(self.view).__name__} defines no measurements. Predictions "
                "and scores were."
            )
        elif self.view.kind in BLIND:
            notes.append(BLIND[self.view.kind])
        return notes


def _chance(tally: Tally, expectation: Expectation) -> float:
    """Return the probability of so few confirmed rows, or fewer, if nothing has changed since `fit`."""
    from scipy.stats import binom, hypergeom

    assert expectation.share is not None
    if not expectation.rows:
        return float(binom.cdf(tally.confirmed, tally.rows, expectation.share))
    before = round(expectation.share * expectation.rows)
    both = tally.rows + expectation.rows
    return float(hypergeom.cdf(tally.confirmed, both, tally.confirmed + before, tally.rows))


def _status(
    confirmed: Estimate | None,
    expected: Estimate | None,
    chance: float | None,
    drifts: tuple[Drift, ...],
    alarm: float,
) -> Status:
    loss = 0.0
    if confirmed is not None and expected is not None and chance is not None and chance <= alarm:
        loss = expected.value - confirmed.value
    if loss >= STALE:
        return "stale"
    return "drifting" if loss >= DRIFTING or any(drift.changed for drift in drifts) else "valid"


@dataclass(frozen=True)
class Validity:
    """Whether an explainer is still valid for new rows; it prints as sentences.

    Attributes
    ----------
    status : "valid", "drifting" or "stale"
        "stale" if the selected features alone give the model's predictions clearly less often than in `fit`:
        at least 5 percentage points, and beyond chance. "drifting" if they do so at least 2 points less
        often, or if inputs, predictions or scores have changed. Otherwise "valid".
    rows : int
        Rows that were verified by the model.
    confirmed : Estimate or None
        Share of these rows whose selected features alone confirm the prediction, with its exact 95 %
        interval. None if rows could not be verified.
    expected : Estimate or None
        The same on held-out rows of `fit`, or the share that was given; None if it is unknown.
    chance : float or None
        Probability of at most as many confirmed rows if nothing has changed.
    tolerance : float or None
        The largest error of a confirmed row of a regression; None if the class must be the same.
    drifts : tuple of Drift
        The population stability index of every measurement, the largest first.
    alarm : float
        Probability of a false alarm, for confirmed rows and for all drifts together.
    notes : tuple of str
        What was not compared.
    """

    status: Status
    rows: int
    confirmed: Estimate | None
    expected: Estimate | None
    chance: float | None
    tolerance: float | None
    drifts: tuple[Drift, ...]
    alarm: float
    notes: tuple[str, ...] = ()

    @property
    def changed(self) -> tuple[Drift, ...]:
        """Return the measurements whose distribution has changed."""
        return tuple(drift for drift in self.drifts if drift.changed)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns, or other measurements of inputs, that have changed."""
        return tuple(drift.name for drift in self.changed if drift.role == "input")

    @property
    def sentences(self) -> list[str]:
        """Return the result, a sentence for each comparison."""
        return [self._headline, *self._verified, *self._drifted, *self._certainty, *self.notes]

    @property
    def _headline(self) -> str:
        if self.status == "stale":
            return "stale: fit the explainer again"
        if self.status == "valid":
            return "valid"
        inputs = "the inputs" if self.columns else "predictions or selections"
        return f"drifting: {inputs} have changed" if self.changed else "drifting: fewer rows are confirmed"

    @property
    def _verified(self) -> list[str]:
        if self.confirmed is None:
            return []
        same = "the same class" if self.tolerance is None else f"the prediction within {self.tolerance:.3g}"
        share = _percent(self.confirmed)
        now = f"On {self.rows:,} new rows, the selected features alone give {same} for {share}"
        if self.expected is None:
            return [f"{now}."]
        return [f"{now}; in fit it was {_percent(self.expected)}."]

    @property
    def _drifted(self) -> list[str]:
        if not self.drifts:
            return []
        if not self.changed:
            most = self.drifts[0]
            return [f"No distribution has changed; the largest PSI is {most.psi:.2f} ({most.name})."]
        names = {"input": "Inputs", "prediction": "Predictions", "selection": "Selections"}
        return [
            f"{label} that have changed: {some(found)}."
            for role, label in names.items()
            if (found := [f"{d.name} (PSI {d.psi:.2f})" for d in self.changed if d.role == role])
        ]

    @property
    def _certainty(self) -> list[str]:
        differs = [drift for drift in self.drifts if drift.differs and not drift.changed]
        return [
            f"The {drift.name} differs from that of the training rows (PSI {drift.psi:.2f}), as it does if "
            "they also trained the model."
            for drift in differs
        ]

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python objects, for JSON."""
        return {
            "status": self.status,
            "rows": self.rows,
            "confirmed": None if self.confirmed is None else self.confirmed.to_dict(),
            "expected": None if self.expected is None else self.expected.to_dict(),
            "chance": self.chance,
            "tolerance": self.tolerance,
            "alarm": self.alarm,
            "columns": list(self.columns),
            "drifts": [drift.to_dict() for drift in self.drifts],
            "notes": list(self.notes),
        }


def examined(examiner: Examiner, X: Any, *, rows: int, most: int, seed: int) -> Tally:
    """Verify a random sample of `rows` checked inputs, and count at most `most` of them."""
    if len(X) < FEWEST_ROWS:
        raise InputError(
            f"X has {len(X)} row{'s' * (len(X) != 1)}; at least {FEWEST_ROWS} are needed for a conclusion."
        )
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < FEWEST_ROWS:
        raise InputError(f"rows is {rows!r}; give a whole number of at least {FEWEST_ROWS}.")
    order = np.random.default_rng(seed).permutation(len(X))
    view = examiner.view
    counted = examiner.count(view.take(X, np.sort(order[:most])))
    return counted + examiner.verify(view.take(X, np.sort(order[:rows])))


def _percent(share: Estimate) -> str:
    """Return "94.2 % [92.6, 95.6]"; without an interval "94.2 %"."""
    value, low, high = (f"{100 * number:.1f}" for number in (share.value, share.low, share.high))
    return f"{value} %" if np.isnan(share.low) else f"{value} % [{low}, {high}]"
