"""The verdict of a report: do the explanations leak the prediction, and are they better than chance?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from l2x.learning import Estimate

Finding = Literal["leaks", "none", "inconclusive", "untested"]
Fidelity = Literal["faithful", "chance", "undecided"]

# The largest share of I(X; Y) that the choice of features may carry alone. Chosen on development draws
# (docs/concepts/trust.md): our recipe was at 0.004, the weakest adversary at 0.096.
TOLERANCE = 0.03
# If the evaluator misses more than this share even with all features, or if there are fewer rows, the
# test is too weak to find no leakage.
MOST_MISSED = 0.25
FEWEST_ROWS = 30


@dataclass(frozen=True)
class Verdict:
    """The finding of the leakage test: a keyword for programs and a sentence for people."""

    finding: Finding
    sentence: str


UNTESTED = Verdict(
    "untested",
    "Leakage was not tested: post-hoc accuracy alone can be gamed by a selection that leaks the prediction. "
    "Compare it with the independent evaluator, which was fitted on random subsets, or make the full report, "
    "which tests for leakage.",
)


SAME_FOR_ALL = Verdict(
    "none",
    "No leakage found: every row has the same selected features, so the choice of features says nothing "
    "about the prediction.",
)


EXCLUDED = (
    "No leakage is possible by construction: features were selected one after the other, each by the values "
    "of those before it. The selected values determine which features are selected, so knowing which ones "
    "were selected adds nothing to their values."
)


NO_INFORMATION = Verdict(
    "inconclusive",
    "INCONCLUSIVE: the model's predictions hardly vary on these rows, so there is no information about them "
    "that features could carry. Measure on rows with different predictions.",
)


def leakage_verdict(
    share: Estimate,
    *,
    proven: bool,
    missed: float,
    rows: int,
    same_for_all: bool = False,
    excluded: bool = False,
) -> Verdict:
    """Return whether leakage is above the limit, below it, or neither with 95 % confidence.

    `share` is what the choice of features adds to their values, as a share of the information about the
    prediction. It is `proven` if fitting noise or a weak evaluator could not explain it. `missed` is the
    share that the evaluator misses even with all features. Leakage that is `excluded` by construction needs
    no test; what the test measured is reported as its error.
    """
    if excluded:
        known = not np.isnan(share.value)
        error = f" The test measured {share.value:+.1%}, which is its error." if known else ""
        return Verdict("none", EXCLUDED + error)
    if np.isnan(share.value):
        return NO_INFORMATION
    if same_for_all and rows >= FEWEST_ROWS:
        return SAME_FOR_ALL
    # A share cannot be negative, but fitting noise can make its estimate so.
    value, low, high = (max(0.0, number) for number in (share.value, share.low, share.high))
    amount = f"{value:.1%} [{low:.1%}, {high:.1%}] of the information about the prediction to their values"
    subject = "knowing which features were selected"
    if share.low > TOLERANCE and proven:
        advice = (
            "High post-hoc accuracy may come from this leakage: do not read these features as reasons. "
            "Try a larger k (l2x.choose_k), another objective, or longer training."
        )
        return Verdict("leaks", f"LEAKS: {subject} adds {amount}. {advice}")
    if share.high <= TOLERANCE and missed <= MOST_MISSED and rows >= FEWEST_ROWS:
        return Verdict("none", f"No leakage found: {subject} adds {amount} (limit {TOLERANCE:.0%}).")
    return Verdict(
        "inconclusive", f"INCONCLUSIVE: {subject} seems to add {amount}. {_doubt(share, missed, rows)}"
    )


def _doubt(share: Estimate, missed: float, rows: int) -> str:
    """Return why a finding is inconclusive, and what to do."""
    if rows < FEWEST_ROWS:
        return f"But {rows} rows are too few to tell: measure on more."
    if share.low > TOLERANCE or missed > MOST_MISSED:
        return (
            f"But the evaluator misses {missed:.1%} of the information even with all features: give it more "
            "rows (X_train) or a longer training= before you trust the explanation."
        )
    return (
        f"That neither exceeds the limit of {TOLERANCE:.0%} nor stays below it: measure on more rows, or "
        "fit the evaluator on more."
    )


def fidelity_verdict(
    advantage: Estimate, *, selection: float, random: float, removal: float, measure: str = "accuracy"
) -> tuple[Fidelity, str]:
    """Return whether the selected features beat random ones, as a keyword and as sentences.

    `advantage` is the difference in post-hoc accuracy (or R², the `measure`) between `selection` and
    `random`; `removal` is the post-hoc accuracy with the selected features masked.
    """
    if np.isnan(advantage.value):
        return "undecided", "Fidelity is undecided: the model's predictions do not vary on these rows."
    higher = ", higher than with them alone" if removal > selection else ""
    numbers = (
        f"post-hoc {measure} is {selection:.3f}, versus {random:.3f} with random features. The difference is "
        f"{advantage.value:+.3f} [{advantage.low:+.3f}, {advantage.high:+.3f}]. With the selected features "
        f"masked it is {removal:.3f}{higher}."
    )
    if advantage.low > 0:
        return "faithful", f"Faithful: {numbers}"
    if advantage.high <= 0 or advantage.value <= 0:
        return "chance", f"NO BETTER THAN CHANCE: {numbers}"
    return "undecided", f"Fidelity is undecided: {numbers} Measure on more rows."
