"""What files of earlier formats said otherwise: from one to the next, up to today's."""

from __future__ import annotations

from typing import Any

FORMAT = 8


def upgraded(settings: dict[str, Any], version: int) -> dict[str, Any]:
    """The settings of a file of that format as today's have them."""
    for older, upgrade in UPGRADES.items():
        settings = upgrade(settings) if version <= older else settings
    return settings


def _from_format_1(settings: dict[str, Any]) -> dict[str, Any]:
    """Before 0.1 the likelihood was called response, and groups of columns held their columns' options."""
    settings = settings | {"likelihood": settings["response"]}
    view = settings["view"]
    if view["name"] == "ColumnGroups":
        inside = view["settings"]["columns"]
        flat = {"groups": view["settings"]["groups"]} | (inside["settings"] if inside else {})
        settings["view"] = view | {"settings": flat}
    return settings


def _from_format_2(settings: dict[str, Any]) -> dict[str, Any]:
    """Before 0.1 selectors learned the whole distribution from the input alone, and asked without limit; a
    predictor of words looked at windows of them unless told otherwise."""
    if settings["view"]["name"] == "Words" and settings["predictor"] != "custom":
        settings = settings | {"predictor": {"pooling": "window"} | (settings["predictor"] or {})}
    new = {
        "answer": "distribution",
        "sees_answer": False,
        "queries": None,
    }
    return new | settings


def _from_format_3(settings: dict[str, Any]) -> dict[str, Any]:
    """Before 0.1 a selector of sentences did not read what each says by itself."""
    selector = settings["selector"] or {}
    if settings["view"]["name"] != "Sentences" or selector == "custom" or selector.get("paper"):
        return settings
    return settings | {"selector": {"alone": False} | selector}


def _from_format_4(settings: dict[str, Any]) -> dict[str, Any]:
    """Up to 0.1.0 a selector of patches had no hidden layer that sees the whole image."""
    selector = settings["selector"] or {}
    if settings["view"]["name"] != "Patches" or selector == "custom":
        return settings
    return settings | {"selector": {"hidden": 0} | selector}


def _from_format_5(settings: dict[str, Any]) -> dict[str, Any]:
    """Up to 0.1.0 a selector of words read windows of them alone, not their average beside it; sizes were
    learned in another way."""
    settings = settings | {"sizes": None}
    selector = settings["selector"] or {}
    options = selector == "custom" or selector.get("paper") or settings["sees_answer"]
    if settings["view"]["name"] != "Words" or options:
        return settings
    return settings | {"selector": {"pooling": "window"} | selector}


def _from_format_6(settings: dict[str, Any]) -> dict[str, Any]:
    """Up to 0.1.0 sizes had a price, and no least number of features."""
    sizes = settings["sizes"]
    return settings | {"sizes": sizes and {"least": [1] * len(sizes["shares"])} | sizes}


def _from_format_7(settings: dict[str, Any]) -> dict[str, Any]:
    """Up to 0.1.0 sizes were learned from the scores alone."""
    sizes = settings["sizes"]
    return settings | {"sizes": sizes and {"asking": 0} | sizes}


UPGRADES = {
    1: _from_format_1,
    2: _from_format_2,
    3: _from_format_3,
    4: _from_format_4,
    5: _from_format_5,
    6: _from_format_6,
    7: _from_format_7,
}
