"""The verdict of a report card: does the choice of features leak the answer, and how to say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from l2x.learning import Estimate

Finding = Literal["encodes", "none", "uncertain", "unchecked"]
Fidelity = Literal["faithful", "chance", "undecided"]

# The largest share of I(X; Y) that the index set alone may carry. Chosen on development draws
# (docs/report-card.md): our recipe was at 0.004, the weakest cheater at 0.096.
TOLERANCE = 0.03
# A judge that misses more than this share even with everything selected, or a measurement on fewer rows, is
# too weak for a "none found" verdict.
MOST_MISSED = 0.25
FEWEST_ROWS = 30


@dataclass(frozen=True)
class Verdict:
    """What was found about encoding, as a word for programs and as a sentence for people."""

    finding: Finding
    sentence: str


UNCHECKED = Verdict(
    "unchecked",
    "Encoding was not checked: post-hoc accuracy alone can be gamed, by a selection that encodes the answer "
    "instead of explaining it. Read it beside the independent judge, a q(y | x_S) fitted on random subsets, "
    "or make the whole report card, which tests for encoding.",
)


SAME_FOR_ALL = Verdict(
    "none",
    "No encoding found: the same features are selected in every row, which tells nothing of the answer.",
)


NO_INFORMATION = Verdict(
    "uncertain",
    "UNCERTAIN: the model's answer hardly varies on these rows: there is no information about it that "
    "features could carry. Measure on rows with different answers.",
)


def verdict_on(
    share: Estimate, *, proven: bool, missed: float, rows: int, same_for_all: bool = False
) -> Verdict:
    """Above the limit, below it, or neither with 95 % confidence.

    Parameters
    ----------
    share : of the information about the answer that the choice of features carries beyond their values
    proven : it is more than fitting noise or a weak judge could explain
    missed : the share that the judge misses even with everything selected
    rows : how many rows it was measured on
    same_for_all : all of them have the same features selected
    """
    if np.isnan(share.value):
        return NO_INFORMATION
    if same_for_all and rows >= FEWEST_ROWS:
        return SAME_FOR_ALL
    # A share cannot be negative; fitting noise can make its estimate so.
    value, low, high = (max(0.0, number) for number in (share.value, share.low, share.high))
    interval = f"{value:.1%} [{low:.1%}, {high:.1%}]"
    amount = f"{interval} of the information about the answer, beyond their values"
    if share.low > TOLERANCE and proven:
        advice = (
            "High fidelity may come from this code; do not read these features as reasons. Try a larger k "
            "(l2x.choose_k), another value, or longer training."
        )
        return Verdict("encodes", f"ENCODES: the choice of features carries {amount}. {advice}")
    if share.high <= TOLERANCE and missed <= MOST_MISSED and rows >= FEWEST_ROWS:
        sentence = f"No encoding found: the choice of features carries {amount} (limit {TOLERANCE:.0%})."
        return Verdict("none", sentence)
    doubt = _doubt(share, missed, rows)
    return Verdict("uncertain", f"UNCERTAIN: the choice of features seems to carry {amount}{doubt}")


def _doubt(share: Estimate, missed: float, rows: int) -> str:
    """Why a finding is uncertain, and what to do: the end of the sentence."""
    if rows < FEWEST_ROWS:
        return f", but {rows} rows are too few to tell: measure on more."
    if share.low > TOLERANCE or missed > MOST_MISSED:
        return (
            f", but the judge misses {missed:.1%} of it even with everything selected: give report_card more "
            "rows for the judge (X_train), or a longer training=, before you trust the explanation."
        )
    return (
        f". That neither exceeds the limit of {TOLERANCE:.0%} nor stays below it: measure on more rows, or "
        "fit the judge on more."
    )


def fidelity_on(advantage: Estimate, kept: float, chance: float, complement: float) -> tuple[Fidelity, str]:
    """Whether the model keeps more answers with the selection than with random features: a word for programs,
    and a sentence for people.

    Parameters
    ----------
    advantage : of the selection over random features, in shares of answers (or of the answers' variance)
    kept, chance, complement : what the selection, random features and everything else keep
    """
    if np.isnan(advantage.value):
        return "undecided", "Fidelity is undecided: the model's answers do not vary on these rows."
    shown = f"by {advantage.value:+.3f} [{advantage.low:+.3f}, {advantage.high:+.3f}]"
    figures = f"{kept:.3f} against {chance:.3f}"
    rest = f", and everything but the selection keeps {complement:.3f}"
    rest += ": more than it does." if complement > kept else "."
    if advantage.low > 0:
        word = "Faithful: the model keeps more with it than with random features"
        return "faithful", f"{word} ({figures}, {shown}){rest}"
    if advantage.high <= 0 or advantage.value <= 0:
        word = "NO BETTER THAN CHANCE: the model keeps no more with it than with random features"
        return "chance", f"{word} ({figures}, {shown}){rest}"
    word = "Fidelity is undecided: on these rows it may be no better than random features"
    return "undecided", f"{word} ({figures}, {shown}){rest} Measure on more rows."
