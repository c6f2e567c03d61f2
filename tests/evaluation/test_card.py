"""A report card as it is read: by key, printed, as a page, as JSON. Nothing is trained here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from l2x.evaluation import Estimate, ReportCard
from l2x.evaluation._card import FINDING_NAMES, Entry, Part

NEW = Part(
    "novelty",
    "A part that nobody knew",
    [Entry("surprise", "surprise", Estimate(0.5, 0.4, 0.6), "high is high")],
    about="It says itself what it is about.",
)


def test_numbers_are_found_by_their_keys(card: ReportCard) -> None:
    assert card["judge"]["selection"] is card.parts[1].entries[0].estimate
    with pytest.raises(KeyError, match="'surprise'; part 'cost' has rows_asked"):
        card["cost"]["surprise"]
    with pytest.raises(KeyError, match="'novelty'; this card has fidelity"):
        card["novelty"]
    assert "novelty" not in card
    assert "truth" in card


def test_it_prints_saves_and_draws(card: ReportCard, tmp_path: Path) -> None:
    text = str(card)
    assert "Report card" in text
    assert "encode-meter" in text
    assert card.verdict[:40] in text
    assert json.loads(json.dumps(card.to_dict()))["parts"]["truth"]["exact"]["value"] > 0.95
    page = card.save(tmp_path / "card.html").read_text()
    assert "Independent judge" in page
    assert "<svg" in page
    card.plot(tmp_path / "card.png")
    assert (tmp_path / "card.png").stat().st_size > 10_000


def test_names_are_escaped(card: ReportCard) -> None:
    bad = "<script>alert(1)</script>"
    named = replace(card, name=bad)
    assert "<script" not in named.to_html()
    assert "&lt;script" in named.to_html()
    assert bad in str(named)  # not markup for the terminal either
    assert "[red]" in str(replace(card, name="[red]"))


def test_a_new_part_is_shown_everywhere(card: ReportCard) -> None:
    more = replace(card, parts=[*card.parts, NEW])
    assert more["novelty"]["surprise"].value == 0.5
    assert more.to_dict()["parts"]["novelty"]["surprise"] == {"value": 0.5, "low": 0.4, "high": 0.6}
    for shown in (str(more), more.to_html()):
        assert "A part that nobody knew" in shown
        assert "0.500 [0.400, 0.600]" in shown
    assert "It says itself what it is about." in more.to_html()


@pytest.mark.parametrize("finding", ["encodes", "none", "uncertain", "unchecked"])
def test_every_finding_can_be_shown(card: ReportCard, finding: str) -> None:
    shown = replace(card, finding=finding)
    assert shown.encodes == (finding == "encodes")
    assert card.verdict[:30] in str(shown)
    assert FINDING_NAMES[shown.finding] in shown.to_html()


def test_a_part_without_numbers_has_a_remark(card: ReportCard) -> None:
    empty = replace(card, parts=[*card.parts, Part("empty", "Empty", [], remark="nothing to report")])
    assert "nothing to report" in str(empty)
    assert "nothing to report" in empty.to_html()


def test_digits() -> None:
    assert Entry("rows", "rows", Estimate(1234567.0), digits=0).text == "1,234,567"
    assert Entry("rows", "rows", Estimate(float("nan"))).text == "–"
