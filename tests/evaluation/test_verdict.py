"""Findings, and their sentences."""

from __future__ import annotations

import pytest

from l2x.evaluation import Estimate
from l2x.evaluation._verdict import UNTESTED, fidelity_verdict, leakage_verdict

LITTLE, MUCH = Estimate(0.01, 0.00, 0.02), Estimate(0.25, 0.20, 0.30)


@pytest.mark.parametrize(
    ("share", "proven", "missed", "rows", "found"),
    [
        (LITTLE, False, 0.1, 500, "none"),
        (MUCH, True, 0.1, 500, "leaks"),
        (MUCH, False, 0.1, 500, "inconclusive"),  # noise, or a weak evaluator, could do that
        (Estimate(0.02, 0.00, 0.05), True, 0.1, 500, "inconclusive"),  # too few rows to tell
        (LITTLE, True, 0.6, 500, "inconclusive"),  # too weak an evaluator for "none found"
        (Estimate(0.01, 0.01, 0.01), True, 0.1, 5, "inconclusive"),
        (Estimate(float("nan")), False, float("nan"), 500, "inconclusive"),  # no information at all
    ],
)
def test_findings(share: Estimate, proven: bool, missed: float, rows: int, found: str) -> None:
    assert leakage_verdict(share, proven=proven, missed=missed, rows=rows).finding == found


def test_the_sentences_have_the_numbers_and_advice() -> None:
    leaks = leakage_verdict(MUCH, proven=True, missed=0.1, rows=500).sentence
    assert leaks.startswith("LEAKS: ")
    assert "25.0% [20.0%, 30.0%] of the information about the prediction" in leaks
    assert "do not read these features as reasons" in leaks
    none = leakage_verdict(LITTLE, proven=False, missed=0.1, rows=500).sentence
    assert none == (
        "No leakage found: knowing which features were selected adds 1.0% [0.0%, 2.0%] of the information "
        "about the prediction to their values (limit 3%)."
    )


@pytest.mark.parametrize(
    ("share", "missed", "rows", "reason"),
    [
        (MUCH, 0.1, 20, "20 rows are too few to tell: measure on more."),
        (MUCH, 0.4, 500, "the evaluator misses 40.0% of the information even with all features"),
        (LITTLE, 0.4, 500, "the evaluator misses 40.0% of the information even with all features"),
        (Estimate(0.02, 0.00, 0.05), 0.1, 500, "neither exceeds the limit of 3% nor stays below it"),
        (Estimate(float("nan")), float("nan"), 500, "there is no information about them that features"),
    ],
)
def test_doubt_has_a_reason(share: Estimate, missed: float, rows: int, reason: str) -> None:
    sentence = leakage_verdict(share, proven=False, missed=missed, rows=rows).sentence
    assert sentence.startswith("INCONCLUSIVE: ")
    assert reason in sentence


def test_the_same_features_for_all_cannot_leak() -> None:
    """However weak the evaluator is."""
    for rows, found in ((500, "none"), (20, "inconclusive")):
        verdict = leakage_verdict(LITTLE, proven=False, missed=0.4, rows=rows, same_for_all=True)
        assert verdict.finding == found
    assert (
        "the same selected features"
        in leakage_verdict(MUCH, proven=True, missed=0, rows=99, same_for_all=True).sentence
    )


def test_a_brief_report_warns_that_post_hoc_accuracy_can_be_gamed() -> None:
    assert UNTESTED.finding == "untested"
    assert "post-hoc accuracy alone can be gamed" in UNTESTED.sentence


@pytest.mark.parametrize(
    ("advantage", "removal", "found", "sentence"),
    [
        (
            Estimate(0.2, 0.1, 0.3),
            0.6,
            "faithful",
            "Faithful: post-hoc accuracy is 0.900, versus 0.700 with random features. The difference is "
            "+0.200 [+0.100, +0.300]. With the selected features masked it is 0.600.",
        ),
        (Estimate(0.2, 0.1, 0.3), 0.95, "faithful", "masked it is 0.950, higher than with them alone."),
        (Estimate(-0.1, -0.2, 0.1), 0.6, "chance", "NO BETTER THAN CHANCE: post-hoc accuracy is 0.900"),
        (Estimate(0.1, -0.1, 0.2), 0.6, "undecided", "Fidelity is undecided: post-hoc accuracy is 0.900"),
        (Estimate(0.1, -0.1, 0.2), 0.6, "undecided", "Measure on more rows."),
        (Estimate(float("nan")), 0.6, "undecided", "predictions do not vary on these rows."),
    ],
)
def test_fidelity_has_sentences_of_its_own(
    advantage: Estimate, removal: float, found: str, sentence: str
) -> None:
    keyword, text = fidelity_verdict(advantage, selection=0.9, random=0.7, removal=removal)
    assert keyword == found
    assert sentence in text
