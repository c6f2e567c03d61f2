"""Settings of files of earlier formats, as today's have them; files themselves are in tests/golden."""

from __future__ import annotations

from typing import Any

import pytest

from l2x.export._artifact import FORMAT, upgraded


def settings(view: str, **more: Any) -> dict[str, Any]:
    return {
        "view": {"name": view, "settings": {}},
        "selector": None,
        "predictor": None,
        "sees_answer": False,
    } | more


def test_todays_settings_stay_as_they_are() -> None:
    today = settings("Words", sizes=None)
    assert upgraded(today, FORMAT) == today


def test_the_likelihood_was_called_response() -> None:
    inside = {"columns": {"settings": {"bins": 8}}, "groups": {"a": [0, 1]}}
    first = settings("ColumnGroups", response={"name": "Categorical"})
    first["view"]["settings"] = inside
    new = upgraded(first, 1)
    assert new["likelihood"] == {"name": "Categorical"}
    assert new["view"]["settings"] == {"groups": {"a": [0, 1]}, "bins": 8}
    assert (new["answer"], new["sees_answer"], new["queries"]) == ("distribution", False, None)


@pytest.mark.parametrize(
    ("view", "version", "network", "option"),
    [
        ("Words", 2, "predictor", {"pooling": "window"}),
        ("Sentences", 3, "selector", {"alone": False}),
        ("Patches", 4, "selector", {"hidden": 0}),
        ("Words", 5, "selector", {"pooling": "window"}),
    ],
)
def test_networks_are_what_they_were(view: str, version: int, network: str, option: dict[str, Any]) -> None:
    assert upgraded(settings(view), version)[network] == option
    assert upgraded(settings(view), FORMAT)[network] is None
    assert upgraded(settings("Columns"), version)[network] is None
    # What was given then is given still, and somebody's own module is none of ours.
    given = dict.fromkeys(option, "given")
    assert upgraded(settings(view, **{network: given}), version)[network] == given
    assert upgraded(settings(view, **{network: "custom"}), version)[network] == "custom"


def test_sizes_of_before_are_forgotten() -> None:
    assert upgraded(settings("Columns", sizes={"cuts": [1.0]}), 5)["sizes"] is None


def test_sizes_of_format_6_had_a_price_alone() -> None:
    before = {"shares": [0.5, 0.9], "prices": [0.2, 0.1]}
    assert upgraded(settings("Columns", sizes=before), 6)["sizes"] == before | {"least": [1, 1], "asking": 0}
    assert upgraded(settings("Columns", sizes=None), 6)["sizes"] is None


def test_sizes_of_format_7_did_not_ask_q() -> None:
    before = {"shares": [0.5, 0.9], "prices": [0.2, 0.1], "least": [1, 2]}
    assert upgraded(settings("Columns", sizes=before), 7)["sizes"] == before | {"asking": 0}
