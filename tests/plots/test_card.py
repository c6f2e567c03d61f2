"""The figure and the page of a report card, also of one that lacks parts."""

from __future__ import annotations

from dataclasses import replace

from l2x.display._card import card_page, plot_card
from l2x.evaluation import Estimate, ReportCard
from l2x.evaluation._card import Entry, Part
from l2x.evaluation._verdict import UNCHECKED

HALF = Estimate(0.5, 0.4, 0.6)
BRIEF = ReportCard(
    name="brief",
    task="classification",
    rows=100,
    features=3,
    k=1,
    finding=UNCHECKED.finding,
    fidelity="undecided",
    verdict=UNCHECKED.sentence,
    parts=[
        Part(
            "fidelity", "Fidelity", [Entry(key, key, HALF) for key in ("mean", "mean_complement", "random")]
        ),
        Part("judge", "Judge", [Entry("selection", "the selection", HALF)], about="About the judge."),
        Part(
            "information",
            "Information",
            [Entry("available", "available", Estimate(1.0)), Entry("share", "share", Estimate(float("nan")))],
        ),
    ],
    curve=[(1, HALF), (2, Estimate(0.8, 0.7, 0.9))],
)


def test_parts_that_were_not_measured_are_left_out() -> None:
    axes = plot_card(BRIEF).axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["model, mean", "model, all but these", "model, random", "judge"]


def test_the_page_says_what_was_found() -> None:
    page = card_page(BRIEF)
    assert "can be gamed" in page
    assert "About the judge." in page
    assert "50.0 %" in page
    assert "–" in page  # of NaN
    assert "Encoding: not checked." in page


def test_a_notebook_shows_the_verdict_and_every_number() -> None:
    table = BRIEF._repr_html_()
    assert UNCHECKED.sentence.replace("'", "&#x27;") in table
    assert table.count("<tr") == sum(1 + len(part.entries) for part in BRIEF.parts)
    assert "<style" not in table  # notebooks drop it
    assert "0.500 [0.400, 0.600]" in table


def test_a_share_below_zero_is_none() -> None:
    """The verdict says 0.0 % of it; how far noise put the estimate below is in the table."""
    encoding = Part("encoding", "Encoding", [Entry("share", "share", Estimate(-0.2, -0.4, -0.1))])
    page = card_page(replace(BRIEF, parts=[*BRIEF.parts, encoding]))
    assert "0.0 %" in page
    assert "-20.0 %" not in page
    assert "-0.200 [-0.400, -0.100]" in page
