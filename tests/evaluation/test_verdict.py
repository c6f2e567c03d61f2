"""Findings, and the sentences that say them."""

from __future__ import annotations

import pytest

from l2x.evaluation import Estimate
from l2x.evaluation._verdict import UNCHECKED, fidelity_on, verdict_on

LITTLE, MUCH = Estimate(0.01, 0.00, 0.02), Estimate(0.25, 0.20, 0.30)


@pytest.mark.parametrize(
    ("share", "proven", "missed", "rows", "found"),
    [
        (LITTLE, False, 0.1, 500, "none"),
        (MUCH, True, 0.1, 500, "encodes"),
        (MUCH, False, 0.1, 500, "uncertain"),  # noise, or a weak judge, could do that
        (Estimate(0.02, 0.00, 0.05), True, 0.1, 500, "uncertain"),  # too few rows to tell
        (LITTLE, True, 0.6, 500, "uncertain"),  # too weak a judge for "none found"
        (Estimate(0.01, 0.01, 0.01), True, 0.1, 5, "uncertain"),
        (Estimate(float("nan")), False, float("nan"), 500, "uncertain"),  # no information at all
    ],
)
def test_findings(share: Estimate, proven: bool, missed: float, rows: int, found: str) -> None:
    assert verdict_on(share, proven=proven, missed=missed, rows=rows).finding == found


def test_the_sentences_say_what_was_found_and_what_to_do() -> None:
    encodes = verdict_on(MUCH, proven=True, missed=0.1, rows=500).sentence
    assert encodes.startswith(
        "ENCODES: the choice of features carries 25.0% [20.0%, 30.0%] of the information about the answer, "
        "beyond their values."
    )
    assert "do not read these features as reasons" in encodes
    none = verdict_on(LITTLE, proven=False, missed=0.1, rows=500).sentence
    assert none == (
        "No encoding found: the choice of features carries 1.0% [0.0%, 2.0%] of the information about the "
        "answer, beyond their values (limit 3%)."
    )


@pytest.mark.parametrize(
    ("share", "missed", "rows", "reason"),
    [
        (MUCH, 0.1, 20, "but 20 rows are too few to tell: measure on more."),
        (MUCH, 0.4, 500, "but the judge misses 40.0% of it even with everything selected"),
        (LITTLE, 0.4, 500, "but the judge misses 40.0% of it even with everything selected"),
        (Estimate(0.02, 0.00, 0.05), 0.1, 500, "neither exceeds the limit of 3% nor stays below it"),
        (Estimate(float("nan")), float("nan"), 500, "there is no information about it that features"),
    ],
)
def test_doubt_has_a_reason(share: Estimate, missed: float, rows: int, reason: str) -> None:
    sentence = verdict_on(share, proven=False, missed=missed, rows=rows).sentence
    assert sentence.startswith("UNCERTAIN: the ")
    assert reason in sentence


def test_the_same_features_for_all_cannot_be_a_code() -> None:
    """However weak the judge is."""
    for rows, found in ((500, "none"), (20, "uncertain")):
        verdict = verdict_on(LITTLE, proven=False, missed=0.4, rows=rows, same_for_all=True)
        assert verdict.finding == found
    assert "the same features" in verdict_on(MUCH, proven=True, missed=0, rows=99, same_for_all=True).sentence


def test_a_brief_card_says_that_fidelity_can_be_gamed() -> None:
    assert UNCHECKED.finding == "unchecked"
    assert "post-hoc accuracy alone can be gamed" in UNCHECKED.sentence


@pytest.mark.parametrize(
    ("advantage", "complement", "found", "sentence"),
    [
        (
            Estimate(0.2, 0.1, 0.3),
            0.6,
            "faithful",
            "Faithful: the model keeps more with it than with random features (0.900 against 0.700, by "
            "+0.200 [+0.100, +0.300]), and everything but the selection keeps 0.600.",
        ),
        (Estimate(0.2, 0.1, 0.3), 0.95, "faithful", "keeps 0.950: more than it does."),
        (Estimate(-0.1, -0.2, 0.1), 0.6, "chance", "NO BETTER THAN CHANCE: the model keeps no more with it"),
        (
            Estimate(0.1, -0.1, 0.2),
            0.6,
            "undecided",
            "undecided: on these rows it may be no better than random",
        ),
        (Estimate(0.1, -0.1, 0.2), 0.6, "undecided", "Measure on more rows."),
        (
            Estimate(float("nan")),
            0.6,
            "undecided",
            "undecided: the model's answers do not vary on these rows.",
        ),
    ],
)
def test_fidelity_is_a_sentence_of_its_own(
    advantage: Estimate, complement: float, found: str, sentence: str
) -> None:
    word, said = fidelity_on(advantage, 0.9, 0.7, complement)
    assert word == found
    assert sentence in said
